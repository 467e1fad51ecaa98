"""Storage that fails at random, under processes that are killed at random, in virtual time: the same invariants.

Every raw storage call may fail before it is applied, fail although it was applied, or conflict because a row was touched
by nobody. `TASKS_CRASH_SCALE=5` does five times as much; the seed of a failed run is in its name.
"""

import asyncio
import contextlib
import os
import random
import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from hosting.storage import (
    MemoryBlobs,
    MemoryTables,
    Meter,
    RawEntity,
    RawOperation,
    RowChanged,
    RowExists,
    StorageError,
    StorageUnavailable,
    Store,
)
from hosting.tasks import RetryPolicy, SteeringQueueFull, TaskConflictError, TaskContext, TaskRun, multi_turn_task, task
from hosting.tasks._options import TaskOptions
from hosting.tasks._rows import Key
from hosting.testing import TestEngine, VirtualClock
from tests.crash.ledger import Ledger, Promise

SCALE = float(os.environ.get("TASKS_CRASH_SCALE", "1"))
OPTIONS = TaskOptions(stale=timedelta(minutes=2), accept_patience=timedelta(seconds=5))
POLICY = RetryPolicy(initial_delay=3, max_delay=20, max_attempts=4)

entries: dict[tuple[Any, ...], int] = {}


class FaultyTables:
    """Tables that fail, as often as `rate` says."""

    def __init__(self, inner: MemoryTables, rng: random.Random) -> None:
        self._inner, self._rng, self.rate, self.faults = inner, rng, 0.0, 0

    def _unlucky(self) -> bool:
        unlucky = self._rng.random() < self.rate
        self.faults += unlucky
        return unlucky

    async def get(self, partition: str, row: str, select: Sequence[str] | None = None) -> RawEntity | None:
        if self._unlucky():
            raise StorageUnavailable("503")
        return await self._inner.get(partition, row, select)

    async def query(
        self, partition: str, first: str, last: str, select: Sequence[str] | None = None, limit: int | None = None
    ) -> list[RawEntity]:
        if self._unlucky():
            raise StorageUnavailable("503")
        return await self._inner.query(partition, first, last, select, limit)

    async def transact(self, partition: str, operations: Sequence[RawOperation]) -> list[str]:
        if not self._unlucky():
            return await self._inner.transact(partition, operations)
        kind = self._rng.choice(["before", "before", "after", "after", "412", "409"])
        if kind == "after":
            await self._inner.transact(partition, operations)
        if kind == "412" and any(operation.kind == "replace" for operation in operations):
            raise RowChanged(next(operation.row for operation in operations if operation.kind == "replace"))
        if kind == "409" and any(operation.kind == "insert" for operation in operations):
            raise RowExists(next(operation.row for operation in operations if operation.kind == "insert"))
        raise StorageUnavailable(kind)

    async def close(self) -> None:
        await self._inner.close()


async def act(ctx: TaskContext[dict[str, Any]]) -> Any:
    me = (ctx.task_id, ctx.input_id, ctx.input["n"], ctx.recovery_count, ctx.retry_attempt)
    entries[me] = entries.get(me, 0) + 1
    for _ in range(ctx.input["steps"]):
        await asyncio.sleep(0)
        if ctx.input["flush"]:
            ctx.metadata.increment("steps")
            with contextlib.suppress(StorageError):
                await ctx.metadata.flush()
    if ctx.retry_attempt < ctx.input["failures"]:
        raise ConnectionError("fails")
    ctx.metadata.append("turns", ctx.input["n"])
    return {"n": ctx.input["n"], "turns": list(ctx.metadata["turns"])}


@task(name="fault_one", retry=POLICY)
async def fault_one(ctx: TaskContext[dict[str, Any]]) -> Any:
    return await act(ctx)


@multi_turn_task(name="fault_chain", steerable=True, retry=POLICY)
async def fault_chain(ctx: TaskContext[dict[str, Any]]) -> Any:
    return await act(ctx)


class Weather:
    """Processes that come and go on a store that fails."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        meter = Meter()
        tables = MemoryTables(meter)
        self.tables = FaultyTables(tables, self.rng)
        self.store = Store(self.tables, MemoryBlobs(meter), meter)
        self.calm = Store(tables, MemoryBlobs(meter), meter)
        self.clock = VirtualClock()
        self.processes: list[TestEngine] = []
        self.ledger = Ledger(self.calm)
        self.unsure: list[Key] = []
        self.kills = 0

    def open(self) -> TestEngine:
        engine = TestEngine(self.store, self.clock, OPTIONS)
        self.processes.append(engine)
        return engine

    async def start(self, name: str, task_id: str, n: int) -> None:
        engine = self.rng.choice(self.processes)
        engine.install()
        given = {
            "n": n,
            "steps": self.rng.choice([0, 3, 20]),
            "flush": self.rng.random() < 0.3,
            "failures": self.rng.choice([0, 0, 1, 2]),
        }
        started = {"fault_one": fault_one, "fault_chain": fault_chain}[name]
        try:
            run: TaskRun[Any] = await started.start(task_id=task_id, input=given)
        except (SteeringQueueFull, TaskConflictError):
            return
        except StorageError:
            self.unsure.append(Key(self.scope, task_id))  # it may have been accepted
            return
        self.ledger.promises.append(Promise(name, run._key, run.input_id, run._seq, n))

    @property
    def scope(self) -> str:
        from hosting.tasks import current_scope

        return current_scope()

    async def storm(self, tasks: int) -> None:
        self.tables.rate = 0.08
        for n in range(tasks):
            name = self.rng.choice(["fault_one", "fault_chain"])
            task_id = f"chain-{self.rng.randrange(8)}" if name == "fault_chain" else secrets.token_hex(6)
            starting = asyncio.ensure_future(self.start(name, task_id, n))
            while not starting.done():
                await self.clock.advance(self.rng.random() * 0.5)
            starting.result()
            dice = self.rng.random()
            if dice < 0.03:
                victim = self.rng.choice(self.processes)
                self.processes.remove(victim)
                await victim.kill()
                self.kills += 1
                self.open()
            elif dice < 0.1:
                await self.scan()
        self.tables.rate = 0.0

    async def scan(self) -> None:
        scanning = asyncio.ensure_future(self.rng.choice(self.processes).recover())
        while not scanning.done():
            await self.clock.advance(0.2)
        if not isinstance(scanning.exception(), StorageError | None):
            scanning.result()

    async def calm_down(self) -> None:
        for _ in range(20):
            await self.clock.advance(40)
            await self.scan()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store's own pause between tries is real time."""
    from hosting.storage import _commit

    monkeypatch.setattr(_commit, "_PAUSE", 0.0)
    entries.clear()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(round(6 * SCALE)))
async def test_every_accepted_input_ends_exactly_once_whatever_storage_does(seed: int):
    weather = Weather(seed)
    for _ in range(3):
        weather.open()
    try:
        await weather.storm(70)
        await weather.calm_down()
        await check(weather)
    finally:
        for engine in weather.processes:
            await engine.close()


async def check(weather: Weather) -> None:
    assert weather.tables.faults > 50
    await adopt_unsure(weather)
    await weather.ledger.wait(30)
    assert await weather.ledger.check_store() == len(weather.ledger.promises)
    await weather.ledger.check_index(30)
    for promise in weather.ledger.promises:
        kind, value = await weather.ledger.value(promise)
        assert (kind, value["n"]) == ("completed", promise.n)
    # Attempts are numbered by what the record counts: none of them was entered twice.
    assert all(count == 1 for count in entries.values()), {me: n for me, n in entries.items() if n > 1}
    await check_chains(weather)


async def adopt_unsure(weather: Weather) -> None:
    """A `start` that raised StorageUnavailable accepted its input or it did not. If it did, the promises hold for it."""
    known = {(promise.key, promise.seq) for promise in weather.ledger.promises}
    for key in set(weather.unsure):
        for row in await weather.ledger.outcomes(key):
            seq, input_id = int(str(row.fields["seq"])), str(row.fields["input_id"])
            own = row.row == key.outcome_row(input_id, seq)
            if own and (key, seq) not in known:
                known.add((key, seq))
                value: Any = row.documents["value"]
                weather.ledger.promises.append(Promise("?", key, input_id, seq, value["n"]))


async def check_chains(weather: Weather) -> None:
    """Metadata moved together with the outcomes: each turn of a chain is in it once, in the order of acceptance."""
    by_key: dict[Key, list[Promise]] = {}
    for promise in weather.ledger.promises:
        if promise.name != "fault_one" and promise.key.task_id.startswith("chain"):
            by_key.setdefault(promise.key, []).append(promise)
    for promises in by_key.values():
        promises.sort(key=lambda promise: promise.seq)
        _, value = await weather.ledger.value(promises[-1])
        assert value["turns"] == [promise.n for promise in promises]
