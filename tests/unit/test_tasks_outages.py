"""Storage that fails under a task: what is accepted and stored once, however long it was away.

The numbers (#n) are those of the defects of the published package in `reference/agentserver.md`: ours must not have them.
"""

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import pytest

from hosting.storage import (
    Insert,
    Put,
    StorageUnavailable,
)
from hosting.tasks._caller import current_scope
from hosting.tasks._rows import Key
from hosting.testing import TestEngine
from tests.unit.task_cluster import MINUTE, SECOND, Cluster, Point, index_rows, many, one, open_cluster, stage


@pytest.fixture
async def cluster() -> AsyncGenerator[Cluster]:
    async with open_cluster() as made:
        yield made


async def test_an_outcome_is_stored_when_storage_is_back_and_nobody_else_runs_meanwhile(cluster: Cluster):  # 16
    async with cluster.process() as first, cluster.process() as second:
        stage.script = ["hang"]
        first.install()
        run = await one.start(task_id="t", input=Point(1))
        await first.settle()
        first.engine.store.cut = True  # type: ignore[attr-defined]
        stage.go.set()
        await first.advance(30 * SECOND)
        await second.recover()
        first.engine.store.cut = False  # type: ignore[attr-defined]
        await first.advance(30 * SECOND)
        assert await run.result() == "t done"
        assert len(stage.entries) == 1


async def test_an_answer_lost_after_the_outcome_was_stored_does_not_make_a_second_one(cluster: Cluster):
    async with cluster.process() as engine:
        inner = engine.engine.store
        real = inner.commit
        lost: list[str] = []

        async def losing(partition: str, operations: Any, *, token: str | None = None) -> dict[str, str]:
            result = await real(partition, operations, token=token)
            if len(lost) < 3 and any("outcome" in operation.row for operation in operations):
                lost.append(partition)
                raise StorageUnavailable("the answer was lost")
            return result

        inner.commit = losing  # type: ignore[method-assign]
        run = await many.start(task_id="t", input="a")
        await engine.advance(MINUTE)
        assert await run.result() == f"{run.input_id} done"
        assert len(stage.entries) == 1
        assert lost


async def test_an_answer_lost_after_the_input_was_accepted_does_not_accept_it_twice(cluster: Cluster):
    async with cluster.process() as engine:
        inner = engine.engine.store
        real = inner.commit
        lost: list[str] = []

        async def losing(partition: str, operations: Any, *, token: str | None = None) -> dict[str, str]:
            result = await real(partition, operations, token=token)
            if not lost and any("task-input" in operation.row for operation in operations):
                lost.append(partition)
                raise StorageUnavailable("the answer was lost")
            return result

        inner.commit = losing  # type: ignore[method-assign]
        starting = asyncio.ensure_future(many.start(task_id="t", input="a"))
        await engine.advance(5 * SECOND)
        await (await starting).result()
        assert lost
        assert [ctx.input for ctx in stage.entries] == ["a"]


class Outage:
    """Storage that is away for some time from an operation on, and may have done that one. `matches` gets its partition."""

    def __init__(self, engine: TestEngine, seconds: float, before: str, *, done: bool) -> None:
        self.ends: float | None = None
        store = engine.engine.store

        def wrapped(real: Any, kind: str) -> Any:
            async def call(partition: str, *args: Any, **options: Any) -> Any:
                now = engine.clock.now()
                begins = self.ends is None and before == ("index" if partition.startswith("active-") else kind)
                if begins:
                    self.ends = now + seconds
                    if done:
                        await real(partition, *args, **options)
                if self.ends is not None and now < self.ends:
                    raise StorageUnavailable("away")
                return await real(partition, *args, **options)

            return call

        for name in ("get", "query", "commit"):
            setattr(store, name, wrapped(getattr(store, name), name))


OUTAGES = [("index", True), ("index", False), ("commit", True), ("commit", False), ("get", False)]


@pytest.mark.parametrize(("before", "done"), OUTAGES)
async def test_start_outlasts_an_outage_wherever_it_begins(cluster: Cluster, before: str, done: bool):
    async with cluster.process() as engine:
        outage = Outage(engine, 15, before, done=done)
        starting = asyncio.ensure_future(many.start(task_id="t", input="a"))
        await engine.advance(16 * SECOND)
        run = await starting
        assert outage.ends is not None
        await engine.advance(MINUTE)
        assert await run.result() == f"{run.input_id} done"
        assert [ctx.input for ctx in stage.entries] == ["a"]
        assert await index_rows(cluster.store) == []


@pytest.mark.parametrize(("before", "done"), OUTAGES)
async def test_start_gives_up_when_storage_is_away_for_longer_than_its_patience(
    cluster: Cluster, before: str, done: bool
):
    async with cluster.process() as engine:
        Outage(engine, 60, before, done=done)
        starting = asyncio.ensure_future(many.start(task_id="t", input="a"))
        await engine.advance(19 * SECOND)
        assert not starting.done()
        await engine.advance(2 * SECOND)
        with pytest.raises(StorageUnavailable):
            await starting


async def test_start_outlasts_an_outage_that_begins_when_another_writer_was_faster(cluster: Cluster):
    async with cluster.process() as engine:
        stage.script = ["hang"]
        await many.start(task_id="t", input="a")
        await engine.settle()
        inner, key = engine.engine.store, Key(current_scope(), "t")
        commit, get, ends = inner.commit, inner.get, 0.0

        async def late(partition: str, operations: Any, *, token: str | None = None) -> dict[str, str]:
            nonlocal ends
            if not ends and any("task-input" in operation.row for operation in operations):
                ends = engine.clock.now() + 5
                record = await cluster.store.get(key.partition, key.record_row)
                assert record is not None
                await cluster.store.commit(key.partition, [Put(key.record_row, record.fields)])
            return await commit(partition, operations, token=token)

        async def away(*args: Any, **options: Any) -> Any:
            if engine.clock.now() < ends:
                raise StorageUnavailable("away")
            return await get(*args, **options)

        inner.commit, inner.get = late, away  # type: ignore[method-assign]
        starting = asyncio.ensure_future(many.start(task_id="t", input="b"))
        await engine.advance(4 * SECOND)
        assert not starting.done()
        await engine.advance(2 * SECOND)
        assert (await starting).is_queued


async def test_the_index_keeps_no_row_of_what_ended_although_its_removal_failed(cluster: Cluster):
    async with cluster.process() as engine:
        inner = engine.engine.store
        real = inner.commit

        async def failing(partition: str, operations: Any, *, token: str | None = None) -> dict[str, str]:
            if partition.startswith("active-") and not isinstance(operations[0], Insert):
                raise StorageUnavailable("not now")
            return await real(partition, operations, token=token)

        inner.commit = failing  # type: ignore[method-assign]
        run = await one.start(task_id="t", input=Point(1))
        await engine.settle()
        assert await run.result() == "t done"
        assert len(await index_rows(cluster.store)) == 1
        inner.commit = real  # type: ignore[method-assign]
        assert (await engine.recover()).removed == 0
        await engine.advance(timedelta(minutes=11))
        assert (await engine.recover()).removed == 1
        assert await index_rows(cluster.store) == []
