"""Run tasks in unit tests: the real engine in memory, without Functions, Durable Functions or a storage account.

    async with task_engine() as engine:
        run = await summarize.start(input="...")
        await engine.advance(timedelta(minutes=2))      # retries, timeouts and leases see two minutes go by
        assert await run.result() == "..."

Time is virtual: it stands still until the test lets it go by, so that a back-off of an hour takes no time. What a handler
awaits of its own (`asyncio.sleep`, an HTTP call) takes the time that it takes.
"""

import asyncio
import heapq
import itertools
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

from hosting.storage import Entity, Operation, StorageUnavailable, Store, memory_store
from hosting.tasks.host import Engine, ScanReport, TaskOptions, scan, set_engine, swap_engine
from hosting.tasks.local import LocalDriver

__all__ = ["TestEngine", "VirtualClock", "task_engine"]

_SETTLE_TURNS = 200
"""Turns of the event loop in which whatever can go on without time going by does. An engine step in memory takes a dozen."""


class VirtualClock:
    """A clock that goes when it is told to. Its epoch is 2030-01-01, UTC."""

    def __init__(self, start: float = 1_893_456_000.0) -> None:
        self._now = start
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Sleep until the clock has been told to go so far. Time stands still meanwhile: who awaits this in the test itself,
        with nothing beside it that calls `advance`, waits for ever. 0 or less takes a turn of the event loop."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._numbers), future))
        await future

    async def advance(self, seconds: float) -> None:
        """Let time go by, waking each sleeper at its moment, and everything it does before the next one."""
        end = self._now + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, future = heapq.heappop(self._sleepers)
            if future.done():
                continue
            self._now = max(self._now, due)
            future.set_result(None)
            await self.settle()
        self._now = end
        await self.settle()

    @staticmethod
    async def settle() -> None:
        """Let everything run that is ready to."""
        for _ in range(_SETTLE_TURNS):
            await asyncio.sleep(0)


class _Line(Store):
    """The connection of one process to a store that others use too."""

    def __init__(self, inner: Store) -> None:
        self._inner, self.cut = inner, False
        self.meter = inner.meter

    def _store(self) -> Store:
        if self.cut:
            raise StorageUnavailable("this process has been killed")
        return self._inner

    async def get(self, partition: str, row: str, *, documents: Collection[str] | None = None) -> Entity | None:
        return await self._store().get(partition, row, documents=documents)

    async def query(
        self,
        partition: str,
        first: str,
        last: str,
        *,
        documents: Collection[str] | None = None,
        limit: int | None = None,
    ) -> list[Entity]:
        return await self._store().query(partition, first, last, documents=documents, limit=limit)

    async def query_fields(self, partition: str, first: str, last: str, *, limit: int | None = None) -> list[Entity]:
        return await self._store().query_fields(partition, first, last, limit=limit)

    async def commit(
        self, partition: str, operations: Sequence[Operation], *, token: str | None = None
    ) -> dict[str, str]:
        return await self._store().commit(partition, operations, token=token)

    async def close(self) -> None:
        self.cut = True


class TestEngine:
    """A task engine in memory, and its clock. Several on one `store` behave as several processes on one account do."""

    __test__ = False  # not a test class, pytest

    def __init__(self, store: Store, clock: VirtualClock, options: TaskOptions) -> None:
        self._line, self.clock = _Line(store), clock
        self._driver = LocalDriver()
        self.engine = Engine(self._line, self._driver, options=options, clock=clock)
        self._driver.bind(self.engine)

    async def advance(self, time: timedelta) -> None:
        """Let this much time go by."""
        await self.clock.advance(time.total_seconds())

    async def settle(self) -> None:
        """Let everything run that needs no time to go by."""
        await self.clock.settle()

    async def recover(self) -> ScanReport:
        """Do what the recovery timer does."""
        return await scan(self.engine)

    async def stop(self, grace: timedelta = timedelta(0)) -> None:
        """Stop gracefully, as on scale-in. Time goes by for it."""
        stopping = asyncio.ensure_future(self.engine.stop(grace.total_seconds()))
        while not stopping.done():
            await self.clock.advance(0.1)
        await stopping

    async def kill(self) -> None:
        """End everything at once: what was running writes nothing any more, as after a kill -9."""
        self._line.cut = True
        await self._driver.close()

    def install(self) -> None:
        """Make this the engine that `start` and `run` use."""
        set_engine(self.engine)

    async def close(self) -> None:
        await self._driver.close()


@asynccontextmanager
async def task_engine(
    store: Store | None = None, *, clock: VirtualClock | None = None, options: TaskOptions | None = None
) -> AsyncGenerator[TestEngine]:
    """Run the block with a task engine in memory. Give `store` and `clock` to let it go on with what another one left."""
    owned = store is None
    used = memory_store() if store is None else store
    engine = TestEngine(used, clock or VirtualClock(), options or TaskOptions())
    undo = swap_engine(engine.engine)
    try:
        yield engine
    finally:
        undo()
        await engine.close()
        if owned:
            await used.close()
