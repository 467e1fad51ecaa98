"""Rows that move with the end of a task, and what whoever waits for it gets."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from hosting.storage import (
    Insert,
    RowConflict,
)
from hosting.tasks import (
    TaskCancelled,
    TaskContext,
    TaskFailed,
    multi_turn_task,
    task,
)
from hosting.tasks._caller import current_scope
from hosting.tasks._codec import JSONValue
from hosting.tasks._current import current_engine
from hosting.tasks._outcome import Outcome
from hosting.tasks._rows import Key
from tests.unit.task_cluster import MINUTE, Cluster, open_cluster


@pytest.fixture
async def cluster() -> AsyncGenerator[Cluster]:
    async with open_cluster() as made:
        yield made


async def test_rows_of_a_caller_are_written_with_the_outcome(cluster: Cluster):
    @task(name="with_rows")
    async def with_rows(ctx: TaskContext[int]) -> str:
        def rows(outcome: Outcome, conflict: RowConflict | None) -> list[Insert]:
            name = "taken" if conflict is None else "free"
            return [Insert(name, {"kind": outcome.kind})]

        current_engine().commit_with_outcome(ctx, rows)
        return "ok"

    async with cluster.process() as engine:
        key = Key(current_scope(), "t")
        await cluster.store.commit(key.partition, [Insert("taken", {})])
        run = await with_rows.start(task_id="t", input=1)
        await engine.settle()
        assert await run.result() == "ok"
        row = await cluster.store.get(key.partition, "free")
        assert row is not None
        assert row.fields["kind"] == "completed"


async def test_rows_of_a_caller_that_cannot_be_written_make_the_task_fail(cluster: Cluster):
    @task(name="bad_rows")
    async def bad_rows(ctx: TaskContext[int]) -> str:
        def rows(outcome: Outcome, conflict: RowConflict | None) -> list[Insert]:
            return [Insert("mine", {"kind": outcome.kind if outcome.kind == "failed" else object()})]  # type: ignore[dict-item]

        current_engine().commit_with_outcome(ctx, rows)
        return "ok"

    async with cluster.process() as engine:
        run = await bad_rows.start(task_id="t", input=1)
        await engine.settle()
        with pytest.raises(TaskFailed, match="kind is a object"):
            await run.result()
        row = await cluster.store.get(Key(current_scope(), "t").partition, "mine")
        assert row is not None
        assert row.fields["kind"] == "failed"


async def test_an_attempt_that_lost_its_lease_writes_no_rows_of_a_caller_either(cluster: Cluster):
    @multi_turn_task(name="loses")
    async def loses(ctx: TaskContext[int]) -> str:
        current_engine().commit_with_outcome(ctx, lambda outcome, conflict: [Insert("mine", {})])
        await loses.delete(ctx.task_id)
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            return "still here"
        return "not stopped"

    async with cluster.process() as engine:
        run = await loses.start(task_id="t", input=1)
        await engine.settle()
        with pytest.raises(TaskCancelled):
            await run.result()
        assert await cluster.store.get(Key(current_scope(), "t").partition, "mine") is None


async def test_what_a_store_keeps_of_a_result_is_what_the_waiter_gets_without_sharing(cluster: Cluster):
    shared: list[JSONValue] = [1]

    @task(name="shares")
    async def shares(ctx: TaskContext[int]) -> list[JSONValue]:
        return shared

    async with cluster.process() as engine:
        run = await shares.start(input=1)
        await engine.settle()
        first = await run.result()
        first.append(2)
        assert await run.result() == [1]
        assert shared == [1]


async def test_a_task_that_is_not_declared_here_waits_for_a_process_that_declares_it(cluster: Cluster):
    from hosting.tasks import _registry

    async with cluster.process() as engine:

        @task(name="only_in_the_new_version")
        async def later(ctx: TaskContext[int]) -> str:
            return "ran"

        declared = _registry._declared.pop("only_in_the_new_version")
        run = await later.start(input=1)
        await engine.advance(MINUTE)
        record = await engine.engine.record(Key(current_scope(), run.task_id))
        assert record is not None
        assert (record.status, record.generation) == ("in_progress", 0)
        _registry.declare(declared)
        await engine.advance(MINUTE)
        assert await run.result() == "ran"
