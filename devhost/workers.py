"""All worker processes of an app: how many, which group serves what, and a new one for each that dies."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from devhost.background import Background
from devhost.console import Console
from devhost.errors import AppLoadError
from devhost.functions import Function
from devhost.worker_process import WorkerOptions, WorkerProcess

__all__ = ["Workers"]

# A worker that lived this long in good order is restarted at once when it dies; else the pause doubles each time.
_STABLE_SECONDS = 10.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0


@dataclass(slots=True)
class _Slot:
    """The place of worker `number`; processes come and go in it."""

    number: int
    group: str
    worker: WorkerProcess | None = None
    supervisor: asyncio.Task[None] | None = None


class Workers:
    """The workers of an app, in one group that serves everything, or in two as on Flex Consumption.

    `flex` puts functions with an HTTP trigger in one group of `count` processes and durable and timer functions in
    another. Every process loads the whole app, as in Azure; the groups differ in what they are given to do.
    """

    def __init__(self, count: int, flex: bool, make_options: Callable[[], WorkerOptions], console: Console) -> None:
        groups = ("http", "background") if flex else ("all",)
        self._flex = flex
        self._slots = [
            _Slot(position * count + index + 1, group)
            for position, group in enumerate(groups)
            for index in range(count)
        ]
        self._make_options = make_options
        self._console = console
        self._changed = asyncio.Condition()
        # Whose turn it is, by kind of function.
        self._turn: Counter[str] = Counter()
        # The functions of the app. Empty before the start.
        self.functions: list[Function] = []
        self._stopping = False
        self._retiring = Background(console)

    @property
    def all(self) -> list[WorkerProcess]:
        """The current process of every slot that has one."""
        return [slot.worker for slot in self._slots if slot.worker]

    @property
    def numbers(self) -> list[int]:
        """The numbers of all workers, also of those that are being restarted."""
        return [slot.number for slot in self._slots]

    def group_for(self, kind: str) -> str:
        """The group that runs functions of this kind."""
        if not self._flex:
            return "all"
        return "http" if kind == "http" else "background"

    async def start(self) -> None:
        """Start all. Raises AppLoadError when the app does not load; then none is left running."""
        for slot, worker in zip(self._slots, await self._start_all(), strict=True):
            self._install(slot, worker)
        await self.notify()

    async def _start_all(self) -> list[WorkerProcess]:
        options = self._make_options()
        fresh = [WorkerProcess(slot.number, slot.group, options) for slot in self._slots]
        results = await asyncio.gather(*(worker.start() for worker in fresh), return_exceptions=True)
        failure = next((result for result in results if isinstance(result, BaseException)), None)
        if failure is not None:
            await asyncio.gather(*(worker.kill() for worker in fresh))
            raise failure
        return fresh

    def _install(self, slot: _Slot, worker: WorkerProcess) -> None:
        slot.worker = worker
        self.functions = worker.functions
        slot.supervisor = asyncio.create_task(self._supervise(slot, worker))

    async def replace(self, accept: Callable[[list[Function]], None]) -> None:
        """Start a new process for every slot, then let the old ones finish and end.

        Raises AppLoadError when the app does not load any more, and whatever `accept` raises about its functions; then
        the old ones go on.
        """
        fresh = await self._start_all()
        try:
            accept(fresh[0].functions)
        except BaseException:
            await asyncio.gather(*(worker.kill() for worker in fresh))
            raise
        for slot, worker in zip(self._slots, fresh, strict=True):
            old = slot.worker
            if slot.supervisor:
                slot.supervisor.cancel()
            self._install(slot, worker)
            if old:
                self._retiring.spawn(old.stop())
        await self.notify()

    async def _supervise(self, slot: _Slot, worker: WorkerProcess) -> None:
        """Put a new process in the slot when this one ends."""
        pause = 0.0
        while True:
            await worker.exited.wait()
            await self.notify()
            if self._stopping:
                return
            if worker.ready_since and time.monotonic() - worker.ready_since >= _STABLE_SECONDS:
                pause = 0.0
            self._console.error(
                f"worker {slot.number} ended with code {worker.exit_code}; starting a new one"
                + (f" in {pause:g} s" if pause else "")
            )
            await asyncio.sleep(pause)
            pause = min(max(pause * 2, _FIRST_PAUSE), _LONGEST_PAUSE)
            fresh = WorkerProcess(slot.number, slot.group, self._make_options())
            # In the slot before it is ready: a stop that comes now must find and end it.
            slot.worker = worker = fresh
            try:
                await fresh.start()
            except AppLoadError as error:
                self._console.error(str(error))
            except asyncio.CancelledError:
                await fresh.kill()
                raise
            else:
                self.functions = fresh.functions
                self._console.say(f"worker {slot.number} is ready again, pid {fresh.pid}")
            await self.notify()

    async def notify(self) -> None:
        """Wake those who wait for a worker: one became ready, died, or has room again."""
        async with self._changed:
            self._changed.notify_all()

    async def acquire(
        self,
        kind: str,
        *,
        limit: int | None = None,
        number: int | None = None,
        seconds: float | None = None,
    ) -> WorkerProcess:
        """A ready worker for a function of this kind, in turn; waits until there is one.

        `limit` is how many functions of the kind a worker may run at once; `number` asks for one worker. Raises
        TimeoutError after `seconds`.
        """

        def pick() -> WorkerProcess | None:
            fit = [
                worker
                for worker in self.all
                if worker.ready
                and worker.group == self.group_for(kind)
                and (number is None or worker.number == number)
                and (limit is None or worker.running[kind] < limit)
            ]
            if not fit:
                return None
            self._turn[kind] += 1
            if limit is not None:
                return min(fit, key=lambda w: (w.running[kind], (w.number - self._turn[kind]) % len(self._slots)))
            return fit[self._turn[kind] % len(fit)]

        async with asyncio.timeout(seconds), self._changed:
            while (worker := pick()) is None:
                await self._changed.wait()
        return worker

    async def stop(self) -> None:
        """Stop all, each with its grace."""
        self._stopping = True
        for slot in self._slots:
            if slot.supervisor:
                slot.supervisor.cancel()
        await asyncio.gather(
            *(slot.supervisor for slot in self._slots if slot.supervisor),
            *(worker.stop() for worker in self.all),
            self._retiring.wait(),
            return_exceptions=True,
        )
