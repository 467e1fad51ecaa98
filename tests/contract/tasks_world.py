"""The two twins that the task contract runs over: the engine in memory, and devhost with Azurite.

In the second one the tests are a process of their own beside the app, as the HTTP instances are on Flex Consumption: what
they start runs elsewhere, and all that they learn comes through the store.
"""

import asyncio
import time
import urllib.request
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from devhost.testing import DevHost
from hosting.functions.durable_client import DurableClientHolder
from hosting.functions.tasks import DurableDriver
from hosting.storage import Store, connect, memory_store
from hosting.tasks import TaskRun, _current
from hosting.tasks._engine import Engine
from hosting.tasks._options import TaskOptions
from hosting.testing import TestEngine, VirtualClock

__all__ = ["OPTIONS", "SETTINGS", "World", "devhost_world", "memory_world"]

SETTINGS = {
    "TASKS_LEASE_SECONDS": "3",
    "TASKS_SKEW_SECONDS": "0.2",
    "TASKS_CONTROL_SECONDS": "0.2",
    "TASKS_IDLE_SECONDS": "1",
    "TASKS_STALE_SECONDS": "5",
    "TASKS_LOST_GRACE_SECONDS": "0.5",
    "TASKS_POLL_LAST_SECONDS": "0.2",
    "TASKS_SHUTDOWN_GRACE_SECONDS": "3",
    "TASKS_RECOVERY_SCHEDULE": "* * * * * *",
}
OPTIONS = TaskOptions.from_environment(SETTINGS)
_PATIENCE = 40.0


class World:
    """A task engine, and time going by."""

    def __init__(
        self, engine: Engine, pass_time: Callable[[float], Awaitable[None]], others: Callable[[], Engine]
    ) -> None:
        self.engine, self._pass_time, self._others = engine, pass_time, others

    @property
    def store(self) -> Store:
        return self.engine.store

    def other_process(self) -> Engine:
        """A further engine on the same store, which has seen nothing."""
        return self._others()

    async def end[T](self, awaitable: Awaitable[T]) -> T:
        """Let time go by until `awaitable` has ended; its result. Fails after 40 s."""
        future = asyncio.ensure_future(awaitable)
        deadline = time.monotonic() + _PATIENCE
        while not future.done():
            if time.monotonic() > deadline:
                future.cancel()
                raise AssertionError("still waiting")
            await self._pass_time(0.05)
        return future.result()

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        """Let time go by until `condition` holds. Fails after 40 s."""
        deadline = time.monotonic() + _PATIENCE
        while not await condition():
            assert time.monotonic() < deadline, "waited in vain"
            await self._pass_time(0.05)

    async def entered(self, run: TaskRun[Any]) -> None:
        """Wait until the handler is in the turn of `run`."""

        async def condition() -> bool:
            await run.refresh()
            return run.metadata.get("entered") == run.input_id

        await self.until(condition)

    async def let(self, seconds: float) -> None:
        """Let this much time go by."""
        await self._pass_time(seconds)


@asynccontextmanager
async def memory_world() -> AsyncGenerator[World]:
    store, clock = memory_store(), VirtualClock()
    main = TestEngine(store, clock, OPTIONS)
    others: list[TestEngine] = []

    def other() -> Engine:
        others.append(TestEngine(store, clock, OPTIONS))
        return others[-1].engine

    undo = _current.swap_engine(main.engine)
    try:
        yield World(main.engine, lambda seconds: main.advance(timedelta(seconds=seconds)), other)
    finally:
        undo()
        for engine in (main, *others):
            await engine.close()
        await store.close()


@asynccontextmanager
async def devhost_world(host: DevHost, table: str) -> AsyncGenerator[World]:
    config = await asyncio.to_thread(lambda: urllib.request.urlopen(host.base_url + "/durable").read().decode())
    store = connect({"AzureWebJobsStorage": host.connection_string}, table=table)
    client = DurableClientHolder()
    client.learn(config)
    engine = Engine(store, DurableDriver(client), options=OPTIONS)
    undo = _current.swap_engine(engine)
    try:
        yield World(engine, asyncio.sleep, lambda: Engine(store, DurableDriver(client), options=OPTIONS))
    finally:
        undo()
        await client.close()
        await store.close()
