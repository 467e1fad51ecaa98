"""Processes side by side, and processes that stop, in virtual time.

The numbers (#n) are those of the defects of the published package in `reference/agentserver.md`: ours must not have them.
"""

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import pytest

from hosting.tasks import (
    TaskContext,
    TaskDeferred,
    TaskFailed,
    multi_turn_task,
    task,
)
from hosting.tasks._caller import current_scope
from hosting.tasks._rows import Key
from tests.unit.task_cluster import MINUTE, SECOND, Cluster, Point, many, one, open_cluster, stage


@pytest.fixture
async def cluster() -> AsyncGenerator[Cluster]:
    async with open_cluster() as made:
        yield made


# --- processes side by side --------------------------------------------------------------------------------------------


async def test_a_process_that_starts_takes_nothing_from_one_that_lives(cluster: Cluster):  # 2
    async with cluster.process() as first, cluster.process() as second:
        stage.script = ["hang"]
        first.install()
        await one.start(task_id="t", input=Point(1))
        for _ in range(9):
            await first.advance(MINUTE)
            assert (await second.recover()).driven == 0
        assert len(stage.entries) == 1
        assert not stage.entries[0].cancel.is_set()


async def test_who_was_cut_off_learns_it_stops_and_can_write_nothing(cluster: Cluster):  # 2
    async with cluster.process() as first, cluster.process() as second:
        stage.script = ["hang", "hang"]
        first.install()
        run = await many.start(task_id="t", input="a")
        await first.settle()
        first.engine.store.cut = True  # type: ignore[attr-defined]
        await second.advance(61 * SECOND)
        assert stage.entries[0].cancel_cause == "lease_lost"
        await second.advance(20 * SECOND)
        await second.recover()
        await second.settle()
        assert len(stage.entries) == 2
        first.engine.store.cut = False  # type: ignore[attr-defined]
        with pytest.raises(RuntimeError, match="lost its lease"):
            stage.entries[0].metadata["x"] = 1
            await stage.entries[0].metadata.flush()
        stage.go.set()
        await second.settle()
        assert await run.result() == f"{run.input_id} done"
        record = await second.engine.record(Key(current_scope(), "t"))
        assert record is not None
        assert (record.status, record.generation) == ("suspended", 2)


async def test_a_cancel_from_another_process_reaches_the_handler_at_its_next_look(cluster: Cluster):
    async with cluster.process() as first, cluster.process() as second:
        stage.script = ["hang till told"]
        first.install()
        await one.start(task_id="t", input=Point(1))
        await first.settle()
        second.install()
        found = await one.get_active_run("t")
        assert found is not None
        await found.cancel()
        await second.advance(3 * SECOND)
        assert stage.entries[0].cancel_cause == "cancel_requested"


async def test_an_input_from_another_process_reaches_the_handler_at_its_next_look(cluster: Cluster):
    async with cluster.process() as first, cluster.process() as second:
        stage.script = ["hang till told"]
        first.install()
        await many.start(task_id="t", input="a")
        await first.settle()
        second.install()
        run = await many.start(task_id="t", input="b")
        assert not stage.entries[0].cancel.is_set()
        await second.advance(3 * SECOND)
        assert (stage.entries[0].cancel_cause, stage.entries[0].pending_input_count) == ("newer_input", 1)
        assert await run.result() == f"{run.input_id} done"


async def test_in_the_same_process_cancel_and_steer_reach_the_handler_at_once(cluster: Cluster):
    async with cluster.process() as engine:
        stage.script = ["hang till told"]
        await many.start(task_id="t", input="a")
        await engine.settle()
        await many.start(task_id="t", input="b")
        assert (stage.entries[0].cancel_cause, stage.entries[0].pending_input_count) == ("newer_input", 1)


# --- graceful stops ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["hang", "swallow"])
async def test_a_stop_keeps_the_work_of_a_handler_that_does_not_cooperate(cluster: Cluster, step: str):  # 1
    async with cluster.process() as first, cluster.process() as second:
        stage.script = [step]
        first.install()
        run = await many.start(task_id="t", input="a")
        queued = await many.start(task_id="t", input="b")
        await first.settle()
        waiting = asyncio.ensure_future(run.result())
        await first.stop(timedelta(seconds=5))
        assert stage.entries[0].shutdown.is_set()
        with pytest.raises(TaskDeferred):
            await waiting
        record = await second.engine.record(Key(current_scope(), "t"))
        assert record is not None
        assert (record.status, record.lease_owner, len(record.queue)) == ("in_progress", None, 1)
        await second.advance(20 * SECOND)
        await second.recover()
        await second.settle()
        assert [(c.input, c.entry_mode) for c in stage.entries[1:]] == [("a", "recovered"), ("b", "resumed")]
        assert await run.result() == f"{run.input_id} done"
        assert await queued.result() == f"{queued.input_id} done"


async def test_an_attempt_whose_call_is_cancelled_gives_its_lease_back(cluster: Cluster):
    async with cluster.process() as first:
        stage.script = ["hang"]
        await many.start(task_id="t", input="a")
        await first.settle()
        await first.close()
    async with cluster.process() as second:
        record = await second.engine.record(Key(current_scope(), "t"))
        assert record is not None
        assert (record.status, record.lease_owner) == ("in_progress", None)
        await second.advance(20 * SECOND)
        await second.recover()
        await second.settle()
        assert [ctx.entry_mode for ctx in stage.entries] == ["fresh", "recovered"]


async def test_exit_for_recovery_hands_the_work_over(cluster: Cluster):
    async with cluster.process() as first, cluster.process() as second:
        stage.script = ["defer"]
        first.install()
        run = await one.start(task_id="t", input=Point(1))
        await first.settle()
        waiting = asyncio.ensure_future(run.result())
        await first.stop(timedelta(seconds=5))
        with pytest.raises(TaskDeferred):
            await waiting
        await second.advance(20 * SECOND)
        await second.recover()
        await second.settle()
        assert stage.entries[1].entry_mode == "recovered"
        assert await run.result() == "t done"


async def test_exit_for_recovery_is_an_error_while_nothing_shuts_down(cluster: Cluster):
    @task(name="too_soon")
    async def too_soon(ctx: TaskContext[int]) -> Any:
        return await ctx.exit_for_recovery()

    async with cluster.process() as engine:
        run = await too_soon.start(input=1)
        await engine.settle()
        with pytest.raises(TaskFailed, match=r"ctx\.shutdown is not set"):
            await run.result()


async def test_shutdown_does_not_set_cancel(cluster: Cluster):
    async with cluster.process() as engine:
        stage.script = ["hang"]
        await one.start(task_id="t", input=Point(1))
        await engine.settle()
        stopping = asyncio.ensure_future(engine.stop(timedelta(seconds=5)))
        await asyncio.wait_for(stage.entries[0].shutdown.wait(), 30)
        assert stage.entries[0].cancel_cause is None
        await stopping


async def test_a_stopped_turn_does_not_leave_half_of_its_metadata(cluster: Cluster):
    @multi_turn_task(name="appends")
    async def appends(ctx: TaskContext[str]) -> list[str]:
        ctx.metadata.append("turns", ctx.input)
        if ctx.entry_mode == "fresh":
            await asyncio.sleep(60)
        return ctx.metadata["turns"]

    async with cluster.process() as first, cluster.process() as second:
        first.install()
        run = await appends.start(task_id="t", input="a")
        await first.settle()
        await first.stop(timedelta(seconds=1))
        await second.advance(20 * SECOND)
        await second.recover()
        await second.settle()
        assert await run.result() == ["a"]


async def test_news_of_an_older_generation_do_not_stop_a_newer_attempt(cluster: Cluster):
    async with cluster.process() as engine:
        stage.script = ["hang"]
        key = Key(current_scope(), "t")
        await many.start(task_id="t", input="a")
        before = await engine.engine.record(key)
        await engine.settle()
        attempt = engine.engine.live(key, 1)
        assert attempt is not None
        assert before is not None
        attempt.keeper.observe(before)
        assert not stage.entries[0].cancel.is_set()
