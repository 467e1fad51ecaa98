"""Crashes, stops and outages in virtual time: several engines on one store in memory are the processes of an app.

The numbers (#n) are those of the defects of the published package in `reference/agentserver.md`: ours must not have them.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from hosting.storage import (
    CorruptValue,
    Insert,
    MemoryBlobs,
    MemoryTables,
    Put,
    RawOperation,
    RowConflict,
    StorageUnavailable,
    Store,
    memory_store,
)
from hosting.tasks import (
    RetryPolicy,
    TaskCancelled,
    TaskContext,
    TaskDeferred,
    TaskFailed,
    multi_turn_task,
    task,
)
from hosting.tasks._caller import current_scope
from hosting.tasks._codec import JSONValue
from hosting.tasks._current import current_engine
from hosting.tasks._outcome import Outcome
from hosting.tasks._rows import INDEX_PARTITIONS, INDEX_RANGE, Key
from hosting.testing import TestEngine, VirtualClock, task_engine

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


@dataclass
class Point:
    x: int


class Stage:
    """What handlers do and what they saw; one per test."""

    def __init__(self) -> None:
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


@pytest.fixture(autouse=True)
def fresh_stage() -> None:
    global stage
    stage = Stage()


class Cluster:
    """Processes on one store with one clock."""

    def __init__(self, store: Store) -> None:
        self.store, self.clock = store, VirtualClock()

    @asynccontextmanager
    async def process(self) -> AsyncGenerator[TestEngine]:
        async with task_engine(self.store, clock=self.clock) as engine:
            yield engine


@pytest.fixture
async def cluster() -> AsyncGenerator[Cluster]:
    store = memory_store()
    yield Cluster(store)
    await store.close()


async def index_rows(store: Store) -> list[str]:
    return [row.row for partition in INDEX_PARTITIONS for row in await store.query(partition, *INDEX_RANGE)]


# --- kills -----------------------------------------------------------------------------------------------------------


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


# --- rows that can't be read --------------------------------------------------------------------------------------------


class NobodyDrives:
    async def ensure(self, key: Key, activation: int, generation: int) -> None:
        pass


async def accepted(engine: TestEngine, count: int) -> list[Key]:
    """Tasks that nobody drives, in the order in which a scan comes to them."""
    driver, engine.engine.driver = engine.engine.driver, NobodyDrives()
    for n in range(count):
        await one.start(task_id=f"t{n}", input=Point(n))
    engine.engine.driver = driver
    return sorted((Key(current_scope(), f"t{n}") for n in range(count)), key=lambda key: key.index_partition)


BROKEN_RECORDS = [{"fields": "{"}, {"fields": '{"status": "in_progress"}'}]
BROKEN_ENTRIES = [{"fields": "{"}, {"fields": "{}"}, {"fields": '{"scope": 7, "task_id": "t", "nonce": "n"}'}]


@pytest.mark.parametrize("broken", BROKEN_RECORDS, ids=str)
async def test_a_record_that_can_not_be_read_keeps_the_scan_from_no_other(
    broken: dict[str, str], caplog: pytest.LogCaptureFixture
):
    tables = MemoryTables()
    async with task_engine(Store(tables, MemoryBlobs())) as engine:
        first, *others = await accepted(engine, 40)
        await tables.transact(first.partition, [RawOperation("put", first.record_row, broken)])
        await engine.advance(MINUTE)
        report = await engine.recover()
        await engine.settle()
        assert report.driven == 39
        assert {ctx.task_id for ctx in stage.entries} == {key.task_id for key in others}
        assert f"task {first.task_id}: not looked after by this scan" in caplog.text
        # It is found again when somebody has mended the record.
        await engine.advance(timedelta(minutes=30))
        await engine.recover()
        assert len(await index_rows(engine.engine.store)) == 1


@pytest.mark.parametrize("broken", BROKEN_ENTRIES, ids=str)
async def test_an_index_row_that_can_not_be_read_keeps_the_scan_from_no_other_and_stays(
    broken: dict[str, str], caplog: pytest.LogCaptureFixture
):
    tables = MemoryTables()
    async with task_engine(Store(tables, MemoryBlobs())) as engine:
        await accepted(engine, 40)
        await tables.transact(INDEX_PARTITIONS[0], [RawOperation("put", "0broken", broken)])
        await engine.advance(timedelta(minutes=30))
        report = await engine.recover()
        assert (report.rows, report.driven) == (41, 40)
        assert "0broken" in caplog.text
        assert [row.row for row in await engine.engine.store.query_fields(INDEX_PARTITIONS[0], "0b", "0c")] == [
            "0broken"
        ]


async def test_an_attempt_at_a_record_that_can_not_be_read_is_not_made_in_a_hurry(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
):
    async with cluster.process() as engine:
        (key,) = await accepted(engine, 1)
        await cluster.store.commit(key.partition, [Put(key.record_row, {"status": "in_progress"})])
        verdict = await engine.engine.attempt(key, 1)
        assert (verdict.next, verdict.seconds) == ("again", engine.engine.options.unknown_task.total_seconds())
        assert f"task {key.task_id}: its record can't be read" in caplog.text


@pytest.mark.parametrize("broken", BROKEN_RECORDS, ids=str)
async def test_a_record_that_can_not_be_read_refuses_an_input_and_leaves_no_index_row(broken: dict[str, str]):
    tables, key = MemoryTables(), Key(current_scope(), "t")
    async with task_engine(Store(tables, MemoryBlobs())) as engine:
        await tables.transact(key.partition, [RawOperation("put", key.record_row, broken)])
        with pytest.raises(CorruptValue):
            await one.start(task_id="t", input=Point(1))
        assert await index_rows(engine.engine.store) == []


async def test_an_input_that_may_be_accepted_stays_in_the_index_although_its_record_can_not_be_read(cluster: Cluster):
    key = Key(current_scope(), "t")
    async with cluster.process() as engine:
        inner = engine.engine.store
        real = inner.commit

        async def damaging(partition: str, operations: Any, *, token: str | None = None) -> dict[str, str]:
            result = await real(partition, operations, token=token)
            if any("task-input" in operation.row for operation in operations):
                await cluster.store.commit(key.partition, [Put(key.record_row, {"status": "in_progress"})])
                raise StorageUnavailable("the answer was lost")
            return result

        inner.commit = damaging  # type: ignore[method-assign]
        starting = asyncio.ensure_future(one.start(task_id="t", input=Point(1)))
        await engine.advance(5 * SECOND)
        with pytest.raises(CorruptValue):
            await starting
        assert len(await index_rows(cluster.store)) == 1


@pytest.mark.parametrize("damage", [{}, {"kind": "SECRET"}, {"kind": 5}], ids=str)
async def test_an_outcome_that_can_not_be_read_is_a_corrupt_value_for_whoever_waits(
    cluster: Cluster, damage: dict[str, Any]
):
    async with cluster.process() as engine:
        run = await one.start(task_id="t", input=Point(1))
        await engine.settle()
        key = Key(current_scope(), "t")
        await cluster.store.commit(key.partition, [Put(key.outcome_row(run.input_id, 1), damage)])
        with pytest.raises(CorruptValue, match="outcome") as caught:
            await run.result()
        assert "SECRET" not in str(caught.value)


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


# --- metadata of what has ended ----------------------------------------------------------------------------------------


@task(name="remembers", retry=RetryPolicy(initial_delay=300, max_delay=300, jitter=False))
async def remembers(ctx: TaskContext[int]) -> None:
    for n in range(ctx.input):
        ctx.metadata(f"space {n}")["text"] = "a secret"
        await ctx.metadata(f"space {n}").flush()
    if stage.script:
        raise stage.script.pop(0)


async def metadata_rows(store: Store) -> list[str]:
    partition = Key(current_scope(), "t").partition
    return [row.row for row in await store.query(partition, "task-metadata.", "task-metadata/", documents=())]


MANY = 120  # more than one transaction takes


@pytest.mark.parametrize("spaces", [1, MANY])
async def test_a_one_shot_that_is_cancelled_in_its_back_off_leaves_no_metadata(cluster: Cluster, spaces: int):
    async with cluster.process() as engine:
        stage.script = [ValueError("x")]
        run = await remembers.start(task_id="t", input=spaces)
        await engine.settle()
        await engine.advance(SECOND)
        assert len(await metadata_rows(cluster.store)) == spaces
        await run.cancel()
        with pytest.raises(TaskCancelled):
            await run.result()
        assert await metadata_rows(cluster.store) == []


@pytest.mark.parametrize("spaces", [1, MANY])
async def test_a_one_shot_that_ends_leaves_no_metadata(cluster: Cluster, spaces: int):
    async with cluster.process() as engine:
        run = await remembers.start(task_id="t", input=spaces)
        await engine.advance(MINUTE)
        assert await run.result() is None
        assert await metadata_rows(cluster.store) == []


async def test_a_failed_try_with_more_metadata_than_can_be_stored_at_once_is_a_failure(cluster: Cluster):
    @task(name="remembers_all", retry=RetryPolicy(initial_delay=1, max_delay=1, jitter=False))
    async def remembers_all(ctx: TaskContext[int]) -> None:
        for n in range(ctx.input):
            ctx.metadata(f"space {n}")["n"] = n
        raise ValueError("again")

    async with cluster.process() as engine:
        run = await remembers_all.start(task_id="t", input=MANY)
        await engine.advance(MINUTE)
        with pytest.raises(TaskFailed, match="operations in one transaction"):
            await run.result()


# --- storage that fails ------------------------------------------------------------------------------------------------


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


# --- rows that move together -----------------------------------------------------------------------------------------


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
