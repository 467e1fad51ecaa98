"""The row that says when the recovery scan was done, over both twins: of many processes one takes over what is overdue."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hosting.functions.durable_client import DurableApp
from hosting.functions.shutdown import Shutdown
from hosting.functions.tasks import TIMER, recover_if_overdue, recovery_is_off, register_tasks
from hosting.storage import StorageUnavailable, Store, keys
from hosting.tasks import TaskContext, task
from hosting.tasks._current import swap_engine
from hosting.tasks._engine import Engine
from hosting.tasks._options import TaskOptions
from hosting.tasks._rows import Key
from hosting.tasks._scan_mark import PARTITION, ROW
from hosting.tasks.engine import StartRequest
from hosting.tasks.host import mark_scanned, set_engine, take_overdue_scan
from hosting.telemetry import backlog
from hosting.testing import VirtualClock
from tests.contract.storage_twins import TWINS, fresh, open_twin
from tests.telemetry_recorder import Recorder, recorder

__all__ = ["recorder"]

OVERDUE = 300.0
SCOPE = keys.scope("key:one", None)


@task(name="tests.overdue.job")
async def job(ctx: TaskContext[str]) -> str:
    return ctx.input


@pytest.fixture(params=TWINS)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    async with open_twin(request.param, request, fresh("overdue")) as twin:
        yield twin.store


class Started:
    """A driver that notes what it is to start."""

    def __init__(self) -> None:
        self.keys: list[Key] = []

    async def ensure(self, key: Key, activation: int, generation: int) -> None:
        self.keys.append(key)


class Process:
    def __init__(self, store: Store, clock: VirtualClock) -> None:
        self.clock, self.driver = clock, Started()
        self.engine = Engine(store, self.driver, options=TaskOptions(), clock=clock)

    async def look(self) -> None:
        undo = swap_engine(self.engine)
        try:
            await recover_if_overdue(OVERDUE)
        finally:
            undo()


async def orphan(store: Store, clock: VirtualClock, name: str = "orphan") -> Key:
    """Work that was accepted, and that nothing drives."""
    process, key = Process(store, clock), Key(SCOPE, name)
    await process.engine.start(StartRequest(job.declared, key, "input-1", "input", known_new=True))
    return key


# ---- the row


async def test_a_scan_that_has_ended_lately_is_nobody_s_to_take(store: Store) -> None:
    await mark_scanned(store, 1000.0)
    assert await take_overdue_scan(store, 1299.0, OVERDUE) is None


async def test_an_overdue_one_is_taken_once_in_its_time(store: Store) -> None:
    await mark_scanned(store, 1000.0)
    assert await take_overdue_scan(store, 1300.0, OVERDUE) == 300.0
    assert await take_overdue_scan(store, 1599.0, OVERDUE) is None
    assert await take_overdue_scan(store, 1600.0, OVERDUE) == 600.0, "who took it has died"


async def test_one_that_has_ended_meanwhile_is_not_overdue(store: Store) -> None:
    await mark_scanned(store, 1000.0)
    await take_overdue_scan(store, 1300.0, OVERDUE)
    await mark_scanned(store, 1310.0)
    assert await take_overdue_scan(store, 1609.0, OVERDUE) is None
    assert await take_overdue_scan(store, 1610.0, OVERDUE) == 300.0


async def test_where_none_was_ever_made_the_first_one_takes_it(store: Store) -> None:
    assert await take_overdue_scan(store, 1000.0, OVERDUE) == float("inf")
    assert await take_overdue_scan(store, 1001.0, OVERDUE) is None


async def test_a_clock_that_was_years_ahead_keeps_nobody_away(store: Store) -> None:
    await mark_scanned(store, 1e9)
    assert await take_overdue_scan(store, 1000.0, OVERDUE) is not None


@pytest.mark.parametrize("known", [False, True])
async def test_of_many_that_look_at_once_one_takes_it(store: Store, known: bool) -> None:
    if known:
        await mark_scanned(store, 1000.0)
    taken = await asyncio.gather(*(take_overdue_scan(store, 2000.0, OVERDUE) for _ in range(10)))
    assert sum(one is not None for one in taken) == 1


async def test_what_it_costs(store: Store) -> None:
    async def cost(act: Any) -> tuple[int, int]:
        before = store.meter.copy()
        await act
        used = store.meter - before
        return used.table_reads, used.table_writes

    await mark_scanned(store, 0.0)
    assert await cost(mark_scanned(store, 1000.0)) == (1, 1)
    assert await cost(take_overdue_scan(store, 1001.0, OVERDUE)) == (1, 0)
    assert await cost(take_overdue_scan(store, 2000.0, OVERDUE)) == (1, 1)


# ---- the scan


async def test_work_that_nothing_drives_is_started_by_one_process_when_the_timer_is_silent(store: Store) -> None:
    clock = VirtualClock()
    await mark_scanned(store, clock.now())
    key = await orphan(store, clock)
    processes = [Process(store, clock) for _ in range(3)]
    await clock.advance(OVERDUE - 1)
    for process in processes:
        await process.look()
    assert [process.driver.keys for process in processes] == [[], [], []]
    await clock.advance(1)
    for process in processes:
        await process.look()
    assert [process.driver.keys for process in processes] == [[key], [], []]


async def test_a_scan_of_such_a_process_counts_for_the_others(store: Store) -> None:
    clock = VirtualClock()
    await Process(store, clock).look()
    row = await store.get(PARTITION, ROW)
    assert row is not None
    assert row.fields == {"ended": clock.now(), "taken": 0.0}


async def test_a_process_that_dies_in_its_scan_is_followed_by_another_one(store: Store) -> None:
    clock = VirtualClock()
    await mark_scanned(store, clock.now())
    key = await orphan(store, clock)
    await clock.advance(OVERDUE)
    assert await take_overdue_scan(store, clock.now(), OVERDUE) is not None  # and nothing more
    other = Process(store, clock)
    await other.look()
    assert other.driver.keys == []
    await clock.advance(OVERDUE)
    await other.look()
    assert other.driver.keys == [key]


async def test_it_says_that_timers_do_not_fire(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    with caplog.at_level(logging.ERROR):
        await Process(store, clock).look()
        assert caplog.records == [], "a new app has none to be late"
        await clock.advance(400)
        await Process(store, clock).look()
    [record] = caplog.records
    assert "no recovery scan has come to its end for 400 s" in record.getMessage()


async def test_it_does_not_hide_from_the_alert_that_timers_do_not_fire(
    store: Store, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "_found", None)  # of the process: another test may have scanned
    clock = VirtualClock()
    await orphan(store, clock)
    await clock.advance(60)
    await Process(store, clock).look()
    assert recorder.points("hosting.task.backlog") == []


# ---- the timer


def timer_of(store: Store, *, marked: bool) -> Any:
    app = DurableApp()
    register_tasks(app, lambda: store, Shutdown(), marked=marked)
    [function] = [function for function in app.get_functions() if function.get_function_name() == TIMER]
    return function.get_user_function()


@pytest.mark.parametrize("marked", [False, True])
async def test_the_timer_notes_the_end_of_its_scan_if_it_is_told_to(store: Store, marked: bool) -> None:
    undo = swap_engine(None)
    try:
        await timer_of(store, marked=marked)(timer=None, durable_client_of_this_process="{}")
        assert (await store.get(PARTITION, ROW) is not None) == marked
    finally:
        set_engine(None)
        undo()


async def test_a_scan_that_fails_is_not_noted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*given: Any, **more: Any) -> Any:
        raise StorageUnavailable("away")

    undo = swap_engine(None)
    try:
        tick = timer_of(store, marked=True)
        with monkeypatch.context() as patched:
            patched.setattr(store, "query_fields", away)
            await tick(timer=None, durable_client_of_this_process="{}")
        assert await store.get(PARTITION, ROW) is None
    finally:
        set_engine(None)
        undo()


@pytest.mark.parametrize(
    ("env", "off"),
    [
        ({}, False),
        ({"AzureWebJobs.task_recovery.Disabled": "false"}, False),
        ({"AzureWebJobs.task_recovery.Disabled": "true"}, True),
        ({"AzureWebJobs__task_recovery__Disabled": "1"}, True),
        ({"AzureWebJobs.retention.Disabled": "true"}, False),
    ],
    ids=str,
)
def test_whoever_switches_the_timer_off_has_switched_recovery_off(env: dict[str, str], off: bool) -> None:
    assert recovery_is_off(env) == off
