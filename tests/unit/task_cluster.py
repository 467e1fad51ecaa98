"""The processes of an app in virtual time: several engines on one store in memory, and two tasks that do what a script says."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from hosting.storage import (
    Store,
    memory_store,
)
from hosting.tasks import (
    RetryPolicy,
    TaskContext,
    multi_turn_task,
    task,
)
from hosting.tasks._rows import INDEX_PARTITIONS, INDEX_RANGE
from hosting.testing import TestEngine, VirtualClock, task_engine

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


@dataclass
class Point:
    x: int


class Stage:
    """What handlers do and what they saw; one per test."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.entries: list[TaskContext[Any]] = []
        self.script: list[Any] = []
        self.go = asyncio.Event()


stage = Stage()


async def act(ctx: TaskContext[Any]) -> Any:
    stage.entries.append(ctx)
    step = stage.script.pop(0) if stage.script else "return"
    if step == "hang":
        await stage.go.wait()
    if step == "hang till told":
        await ctx.cancel.wait()
    if step == "defer":
        await ctx.shutdown.wait()
        return await ctx.exit_for_recovery()
    if step == "swallow":
        try:
            await stage.go.wait()
        except asyncio.CancelledError:
            return "half done"
    if isinstance(step, Exception):
        raise step
    return f"{ctx.input_id} done"


@task(name="one", retry=RetryPolicy(initial_delay=10, max_delay=10, jitter=False), timeout=timedelta(minutes=10))
async def one(ctx: TaskContext[Point]) -> Any:
    assert isinstance(ctx.input, Point)
    return await act(ctx)


@multi_turn_task(name="many", steerable=True, timeout=timedelta(minutes=10))
async def many(ctx: TaskContext[str]) -> Any:
    ctx.metadata.increment("entries")
    await ctx.metadata.flush()
    return await act(ctx)


class Cluster:
    """Processes on one store with one clock."""

    def __init__(self, store: Store) -> None:
        self.store, self.clock = store, VirtualClock()

    @asynccontextmanager
    async def process(self) -> AsyncGenerator[TestEngine]:
        async with task_engine(self.store, clock=self.clock) as engine:
            yield engine


@asynccontextmanager
async def open_cluster() -> AsyncGenerator[Cluster]:
    """A new one, before a stage on which nothing has happened."""
    stage.reset()
    store = memory_store()
    yield Cluster(store)
    await store.close()


async def index_rows(store: Store) -> list[str]:
    return [row.row for partition in INDEX_PARTITIONS for row in await store.query(partition, *INDEX_RANGE)]
