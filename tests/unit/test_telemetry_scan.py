"""What the recovery scan tells of work that does not get on. No attempt can: none starts, or each ends with its process."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from hosting.storage import Store, memory_store
from hosting.tasks import RetryPolicy, TaskContext, task
from hosting.tasks._caller import current_scope
from hosting.testing import TestEngine, VirtualClock, task_engine
from tests.telemetry_recorder import Recorder, recorder

__all__ = ["recorder"]

MINUTE = timedelta(minutes=1)
SCAN = "hosting.tasks"


@task(name="scan.hanging")
async def hanging(ctx: TaskContext[str]) -> None:
    await asyncio.Event().wait()


@task(name="scan.retried", retry=RetryPolicy(initial_delay=600, max_delay=600, jitter=False, max_attempts=3))
async def retried(ctx: TaskContext[str]) -> None:
    raise ValueError(ctx.input)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    made = memory_store()
    yield made
    await made.close()


def told(recorder: Recorder) -> tuple[float, int]:
    """Oldest waiting, most recoveries."""
    return recorder.point("hosting.task.oldest_waiting").value, recorder.point("hosting.task.most_crashes").value


def without_driver(engine: TestEngine) -> None:
    async def away(*_: Any) -> None:
        raise ConnectionError("the scheduler is away")

    engine.engine.driver.ensure = away  # type: ignore[method-assign]


async def die_of_it(store: Store, clock: VirtualClock, times: int) -> None:
    """Processes that take the work up, and are killed by it."""
    for _ in range(times):
        async with task_engine(store, clock=clock) as engine:
            await engine.recover()
            await engine.settle()
            await engine.kill()
        await clock.advance(MINUTE.total_seconds() + 5)


def warnings(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [vars(record) for record in caplog.records if "processes have died at it" in record.getMessage()]


async def test_a_task_waits_for_as_long_as_its_driver_is_down_though_nothing_starts(
    recorder: Recorder, store: Store, clock: VirtualClock
):
    async with task_engine(store, clock=clock) as engine:
        without_driver(engine)
        await hanging.start(input="x", task_id="t-1")
        for _ in range(5):
            await engine.advance(MINUTE)
            await engine.recover()
        assert told(recorder) == (300, 0)
        assert not recorder.points("hosting.task.queue_time")


async def test_a_driver_that_can_not_be_started_is_not_counted_as_one(
    recorder: Recorder, store: Store, clock: VirtualClock
):
    async with task_engine(store, clock=clock) as engine:
        without_driver(engine)
        await hanging.start(input="x", task_id="t-1")
        await engine.advance(MINUTE)
        assert (await engine.recover()).driven == 0
        assert not recorder.points("hosting.task.redriven")


async def test_nothing_waits_once_somebody_has_taken_the_work_up(recorder: Recorder, store: Store, clock: VirtualClock):
    async with task_engine(store, clock=clock) as down:
        without_driver(down)
        await hanging.start(input="x", task_id="t-1")
    async with task_engine(store, clock=clock) as up:
        await up.advance(3 * MINUTE)
        await up.recover()
        assert told(recorder) == (180, 0)
        await up.settle()
        await up.recover()
        assert told(recorder) == (0, 0)
        assert recorder.point("hosting.task.redriven").value == 1


async def test_a_process_that_dies_leaves_its_work_waiting_from_the_end_of_its_lease(
    recorder: Recorder, store: Store, clock: VirtualClock
):
    async with task_engine(store, clock=clock) as first:
        await hanging.start(input="x", task_id="t-1")
        await first.settle()
        await first.kill()
    async with task_engine(store, clock=clock) as second:
        without_driver(second)
        await second.advance(timedelta(seconds=60 + 2 + 100))
        await second.recover()
        assert told(recorder) == (100, 0)


async def test_a_back_off_is_not_a_wait(recorder: Recorder, store: Store, clock: VirtualClock):
    async with task_engine(store, clock=clock) as engine:
        await retried.start(input="x", task_id="t-1")
        await engine.advance(5 * MINUTE)
        await engine.recover()
        assert told(recorder) == (0, 0)


async def test_work_that_kills_its_process_shows_in_the_measurement_and_in_the_log(
    recorder: Recorder, store: Store, clock: VirtualClock, caplog: pytest.LogCaptureFixture
):
    async with task_engine(store, clock=clock) as engine:
        await hanging.start(input="SECRET", task_id="t-poison")
        await engine.kill()
    await clock.advance(MINUTE.total_seconds())
    await die_of_it(store, clock, 4)
    async with task_engine(store, clock=clock) as healthy:
        caplog.clear()
        await healthy.recover()
        (record,) = warnings(caplog)
        assert recorder.point("hosting.task.most_crashes").value == 3
        assert {name: record[name] for name in ("levelname", "name", "task", "task_name", "tenant", "crashes")} == {
            "levelname": "WARNING",
            "name": SCAN,
            "task": "t-poison",
            "task_name": "scan.hanging",
            "tenant": current_scope(),
            "crashes": 3,
        }
        assert "SECRET" not in caplog.text


async def test_work_that_was_recovered_twice_is_not_named_yet(
    recorder: Recorder, store: Store, clock: VirtualClock, caplog: pytest.LogCaptureFixture
):
    async with task_engine(store, clock=clock) as engine:
        await hanging.start(input="x", task_id="t-1")
        await engine.kill()
    await clock.advance(MINUTE.total_seconds())
    await die_of_it(store, clock, 3)
    async with task_engine(store, clock=clock) as healthy:
        await healthy.recover()
        assert recorder.point("hosting.task.most_crashes").value == 2
        assert warnings(caplog) == []


async def test_only_the_worst_of_many_are_named(
    store: Store, clock: VirtualClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("hosting.tasks._recovery._NAMED", 1)
    async with task_engine(store, clock=clock) as engine:
        await hanging.start(input="x", task_id="t-worst")
        await engine.kill()
    await clock.advance(MINUTE.total_seconds())
    await die_of_it(store, clock, 1)
    async with task_engine(store, clock=clock) as engine:
        await hanging.start(input="x", task_id="t-bad")
        await engine.kill()
    await clock.advance(MINUTE.total_seconds())
    await die_of_it(store, clock, 5)
    async with task_engine(store, clock=clock) as healthy:
        caplog.clear()
        report = await healthy.recover()
        assert len(report.often) == 2
        assert [record["task"] for record in warnings(caplog)] == ["t-worst"]


async def test_running_work_and_no_work_are_both_no_news(
    recorder: Recorder, store: Store, clock: VirtualClock, caplog: pytest.LogCaptureFixture
):
    async with task_engine(store, clock=clock) as engine:
        await engine.recover()
        assert told(recorder) == (0, 0)
        await hanging.start(input="x", task_id="t-1")
        await engine.advance(10 * MINUTE)
        await engine.recover()
        assert told(recorder) == (0, 0)
        assert recorder.point("hosting.task.backlog").value == 1
        assert warnings(caplog) == []
