"""A process that is cut off at one of its writes to storage, and the one after it (see cut_client for who asks them).

Each write that a process makes passes its `Gate`: a table transaction, a blob put or deleted, an append, the start of a
driver. The gate counts them, and does something at the one that it is armed for:

    before    the process dies, and the write was not applied
    after     the process dies, and the write was applied
    lost      the write was applied, its answer is lost; the process lives on and sees a network error
    unknown   the same, and the storage layer's own repetition of a transaction fails too

All is in memory, and in virtual time: the clock of the machine, of the tasks and of the storage is one.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any, Literal

import pytest

from hosting.server.invocations import Invocations
from hosting.settings import load_settings
from hosting.state.conversation_turns import ConversationTurns
from hosting.state.conversations import Conversations
from hosting.storage import MemoryAppendBlobs, MemoryBlobs, MemoryTables, Meter, StorageError, StorageUnavailable, Store
from hosting.streaming import StreamTuning
from hosting.testing import VirtualClock
from tests.server_world import World, serve

__all__ = ["MODES", "Account", "Gate", "Mode", "Process", "one_clock", "process"]

_TUNING = StreamTuning(
    # Longer than a run takes to its end: what it does not flush is not stored by then.
    flush_interval=timedelta(milliseconds=60),
    poll_active=timedelta(milliseconds=2),
    poll_idle=timedelta(milliseconds=5),
    poll_local=timedelta(milliseconds=5),
    give_up_after=timedelta(milliseconds=300),
)

type Mode = Literal["before", "after", "lost", "unknown"]
MODES: tuple[Mode, ...] = ("before", "after", "lost", "unknown")


class Gate:
    """What one process can still do to storage."""

    def __init__(self) -> None:
        self.point, self.mode = 0, "before"
        self.writes = 0
        self.what = ""
        """The write that was cut."""
        self.died = asyncio.Event()
        self.buried = False
        self.at_death: list[Callable[[], None]] = []
        self._repeated: object = None

    def arm(self, point: int, mode: Mode) -> None:
        """Do something at the write with this number from now on, the first is 1."""
        self.point, self.mode, self.writes = point, mode, 0

    async def read[T](self, call: Callable[[], Awaitable[T]]) -> T:
        await self._alive()
        return await call()

    async def write[T](self, what: str, call: Callable[[], Awaitable[T]], batch: object = None) -> T:
        """`batch` is what a repetition of the write has in common with it."""
        await self._alive()
        if batch is not None and batch is self._repeated:
            self._repeated = None
            raise StorageUnavailable("storage is away")
        self.writes += self.mode != "unknown" or batch is not None
        if (self.mode == "unknown" and batch is None) or self.writes != self.point:
            return await call()
        self.what = what
        if self.mode == "before":
            await self._die()
        with suppress(StorageError):  # a refusal is not heard of either
            await call()
        if self.mode == "after":
            await self._die()
        self._repeated = batch if self.mode == "unknown" else None
        raise StorageUnavailable("the answer was lost")

    async def _alive(self) -> None:
        if self.buried:
            raise StorageUnavailable("this process has been killed")
        if self.died.is_set():  # nothing goes on from here, neither the work nor its clean-up
            await asyncio.get_running_loop().create_future()

    async def _die(self) -> None:
        self.died.set()
        for note in self.at_death:
            note()
        await self._alive()


class _Gated:
    """A seam of the storage as one process sees it: `writes` are names of methods."""

    def __init__(self, inner: Any, gate: Gate, kind: str, writes: tuple[str, ...]) -> None:
        self._inner, self._gate, self._kind, self._writes = inner, gate, kind, writes

    def __getattr__(self, name: str) -> Any:
        inner, gate = getattr(self._inner, name), self._gate

        async def call(*args: Any, **options: Any) -> Any:
            if name not in self._writes:
                return await gate.read(lambda: inner(*args, **options))
            batch = args[1] if name == "transact" else None
            return await gate.write(_described(self._kind, name, args), lambda: inner(*args, **options), batch)

        return call

    async def close(self) -> None:
        pass


def _described(kind: str, name: str, args: tuple[Any, ...]) -> str:
    if name != "transact":
        return f"{kind}.{name} {str(args[0])[:60]}"
    rows = " ".join(f"{operation.kind}:{operation.row.partition('.')[0]}" for operation in args[1])
    return f"{kind}.{name} {rows}"


class _GatedDriver:
    """The queue of orchestrations. Those of a dead process are found by the scan, as if the task hub were lost."""

    def __init__(self, inner: Any, gate: Gate) -> None:
        self._inner, self._gate = inner, gate

    async def ensure(self, *args: Any) -> None:
        await self._gate.write("driver.ensure", lambda: self._inner.ensure(*args))


class Account:
    """A storage account, and its clock."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.meter = Meter()
        self.tables = MemoryTables(self.meter, self.clock.now)
        self.blobs = MemoryBlobs(self.meter, self.clock.now)
        self.appends = MemoryAppendBlobs(self.meter, self.clock.now)

    def store(self, gate: Gate | None = None) -> Store:
        """As one process sees it; without a gate, as the test does."""
        if gate is None:
            return Store(self.tables, self.blobs, self.meter)
        tables = _Gated(self.tables, gate, "table", ("transact",))
        blobs = _Gated(self.blobs, gate, "blob", ("put", "delete"))
        return Store(tables, blobs, self.meter)  # type: ignore[arg-type]


class Process:
    """The process that is alive, one after the other."""

    def __init__(self, world: World, account: Account, invocations: Mapping[str, Any]) -> None:
        self.world, self.account, self._handlers = world, account, invocations
        self.gate = Gate()
        self._outside = asyncio.all_tasks()

    def boot(self) -> None:
        self.gate = gate = Gate()
        world, account = self.world, self.account
        world.store = account.store(gate)
        world.blobs = _Gated(account.appends, gate, "append", ("create", "append", "delete"))
        world.clock = account.clock
        world.boot()
        engine = world.engine.engine
        engine.driver = _GatedDriver(engine.driver, gate)  # type: ignore[assignment]
        if self._handlers:
            invocations = Invocations(
                load_settings({"AZURE_FUNCTIONS_ENVIRONMENT": "Development"}), world.server.limits
            )
            for kind, handler in self._handlers.items():
                invocations.register(kind, handler)
            world.server.routes = {**world.server.routes, **invocations.routes}

    async def bury(self) -> None:
        """End everything that is left of the process. Its storage is cut off, so that no clean-up writes anything."""
        self.gate.died.set()
        self.gate.buried = True
        for _ in range(20):
            left = asyncio.all_tasks() - self._outside
            if not left:
                break
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=1)
        assert not asyncio.all_tasks() - self._outside, "something of the process can't be ended"

    async def again(self) -> None:
        """The process has died, if it is not dead yet, and another one begins."""
        await self.bury()
        self.boot()

    async def let(self, seconds: float, *, scan: bool = True) -> None:
        """Time goes by, and the recovery timer fires."""
        await self.world.advance(seconds)
        if scan and not self.gate.died.is_set():
            scanning = asyncio.ensure_future(self.world.engine.recover())
            await asyncio.wait(
                {scanning, died := asyncio.ensure_future(self.gate.died.wait())}, return_when="FIRST_COMPLETED"
            )
            died.cancel()
            if scanning.done():
                failure = scanning.exception()
                assert failure is None or isinstance(failure, StorageUnavailable), failure
            else:
                scanning.cancel()
        await self.world.engine.settle()


@asynccontextmanager
async def process(
    handler: Any = None, *, hosted: Any = None, invocations: Mapping[str, Any] | None = None, **options: Any
) -> AsyncGenerator[Process]:
    """A process over an empty account. See `one_clock` for the time."""
    account = Account()
    async with serve(handler, hosted=hosted, tuning=_TUNING, **options) as world:
        await world.kill()
        made = Process(world, account, invocations or {})
        _now.append(account.clock.now)
        made.boot()
        try:
            yield made
        finally:
            await made.bury()
            _now.remove(account.clock.now)


_now: list[Callable[[], float]] = []
_machine = time.time


def now() -> float:
    """The time of the account in use: in place of `time.time`."""
    return _now[-1]() if _now else _machine()


def one_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases, holds and keys lapse in the time of the account; what has no answer is asked again at once."""
    monkeypatch.setattr(time, "time", now)
    for kind in (ConversationTurns, Conversations):
        monkeypatch.setattr(kind.__init__, "__defaults__", (now,))
    for name in (
        "storage._commit._PAUSE",
        "server.running_row._FIRST_PAUSE",
        "streaming._log._FIRST_RETRY",
        "server.follow._LOOK",
        "server.follow._STRAGGLERS",
    ):
        monkeypatch.setattr(f"hosting.{name}", 0.005)
    monkeypatch.setattr("hosting.testing._SETTLE_TURNS", 60)  # enough for a step of the server, and there are many
    monkeypatch.setattr("hosting.state.conversations._BATCH", 4)  # a deletion takes several transactions
