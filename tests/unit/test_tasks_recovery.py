"""Crashes in virtual time: what another process enters again, and when.

The numbers (#n) are those of the defects of the published package in `reference/agentserver.md`: ours must not have them.
"""

from collections.abc import AsyncGenerator

import pytest

from hosting.tasks._rows import Key
from tests.unit.task_cluster import MINUTE, SECOND, Cluster, Point, index_rows, many, one, open_cluster, stage


@pytest.fixture
async def cluster() -> AsyncGenerator[Cluster]:
    async with open_cluster() as made:
        yield made


async def test_another_process_enters_again_after_the_lease_and_no_earlier(cluster: Cluster):  # 2
    async with cluster.process() as first, cluster.process() as second:
        stage.script = ["hang"]
        first.install()
        run = await one.start(task_id="t", input=Point(1))
        await first.settle()
        await first.kill()
        await second.advance(59 * SECOND)
        await second.recover()
        await second.settle()
        assert len(stage.entries) == 1
        await second.advance(20 * SECOND)
        await second.recover()
        await second.settle()
        assert [ctx.entry_mode for ctx in stage.entries] == ["fresh", "recovered"]
        assert stage.entries[1].recovery_count == 1
        second.install()
        found = await one.get_run(run.task_id)
        assert found is not None
        assert await found.result() == "t done"


async def test_a_recovered_run_has_its_retry_policy_and_its_input_type(cluster: Cluster):  # 8
    async with cluster.process() as first, cluster.process() as second:
        stage.script = ["hang", ValueError("once")]
        first.install()
        await one.start(task_id="t", input=Point(7))
        await first.settle()
        await first.kill()
        await second.advance(2 * MINUTE)
        await second.recover()
        await second.advance(MINUTE)
        assert [(ctx.input, ctx.retry_attempt) for ctx in stage.entries] == [
            (Point(7), 0),
            (Point(7), 0),
            (Point(7), 1),
        ]
        assert [ctx.entry_mode for ctx in stage.entries] == ["fresh", "recovered", "recovered"]


async def test_a_fresh_input_is_a_copy_too(cluster: Cluster):
    async with cluster.process() as engine:
        given = Point(1)
        await one.start(task_id="t", input=given)
        given.x = 2
        await engine.settle()
        assert stage.entries[0].input == Point(1)


async def test_a_crash_in_a_steered_turn_enters_it_again_with_its_input(cluster: Cluster):  # 3
    async with cluster.process() as first, cluster.process() as second:
        stage.script = ["hang till told", "hang"]
        first.install()
        await many.start(task_id="t", input="a")
        await first.settle()
        await many.start(task_id="t", input="b", input_id="two")
        await first.settle()
        await first.kill()
        await second.advance(2 * MINUTE)
        await second.recover()
        await second.settle()
        last = stage.entries[-1]
        assert (last.input, last.input_id, last.is_steered_turn, last.entry_mode) == ("b", "two", True, "recovered")
        assert last.metadata["entries"] == 3


async def test_a_crash_with_inputs_waiting_enters_the_active_one_and_then_the_queue(cluster: Cluster):  # 3, 11
    async with cluster.process() as first, cluster.process() as second:
        stage.script = ["hang"]
        first.install()
        for text in "abc":
            await many.start(task_id="t", input=text, input_id=text)
            await first.settle()
        await first.kill()
        await second.advance(2 * MINUTE)
        await second.recover()
        await second.settle()
        seen = [(c.input_id, c.entry_mode, c.is_steered_turn, c.cancel_cause) for c in stage.entries[1:]]
        assert seen == [
            ("a", "recovered", False, "newer_input"),
            ("b", "resumed", True, "newer_input"),
            ("c", "resumed", True, None),
        ]


async def test_a_crash_during_a_back_off_keeps_the_count_and_the_wait(cluster: Cluster):  # 19
    async with cluster.process() as first, cluster.process() as second:
        stage.script = [ValueError("x")]
        first.install()
        await one.start(task_id="t", input=Point(1))
        await first.settle()
        await first.kill()
        await second.advance(5 * SECOND)
        await second.recover()
        await second.settle()
        assert len(stage.entries) == 1
        await second.advance(25 * SECOND)
        await second.recover()
        await second.settle()
        assert (stage.entries[1].retry_attempt, stage.entries[1].entry_mode) == (1, "fresh")


async def test_the_clock_of_a_timeout_goes_on_over_a_crash(cluster: Cluster):
    async with cluster.process() as first, cluster.process() as second:
        stage.script = ["hang", "hang till told"]
        first.install()
        run = await one.start(task_id="t", input=Point(1))
        await first.advance(5 * MINUTE)
        await first.kill()
        await second.advance(2 * MINUTE)
        await second.recover()
        await second.advance(2 * MINUTE)
        assert not stage.entries[1].cancel.is_set()
        await second.advance(2 * MINUTE)
        assert stage.entries[1].cancel_cause == "timeout"
        second.install()
        assert await (await one.get_run(run.task_id)).result() == "t done"  # type: ignore[union-attr]


async def test_more_orphans_than_fit_on_any_page_are_all_recovered(cluster: Cluster):  # 4
    async with cluster.process() as first, cluster.process() as second:
        stage.script = ["hang"] * 60
        first.install()
        for n in range(60):
            await one.start(task_id=f"t{n}", input=Point(n))
        await first.settle()
        await first.kill()
        await second.advance(2 * MINUTE)
        report = await second.recover()
        await second.advance(SECOND)
        assert (report.rows, report.driven) == (60, 60)
        assert len(stage.entries) == 120
        assert await index_rows(cluster.store) == []


async def test_an_accepted_input_runs_although_no_driver_could_be_started(cluster: Cluster):
    async with cluster.process() as first, cluster.process() as second:

        class NoDriver:
            async def ensure(self, key: Key, activation: int, generation: int) -> None:
                raise ConnectionError("Durable is away")

        first.engine.driver = NoDriver()
        first.install()
        run = await one.start(task_id="t", input=Point(1))
        await first.settle()
        assert stage.entries == []
        await second.advance(20 * SECOND)
        await second.recover()
        await second.settle()
        assert await run.result() == "t done"
        assert stage.entries[0].entry_mode == "fresh"
