"""A pass in pieces: limits, the cursor, errors, and two timers at once."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from hosting.state.retention import Retention, Sweep, TickLimits
from hosting.storage import StorageDenied, StorageError, StorageUnavailable, Store, memory_store
from hosting.testing import VirtualClock
from tests.unit.retention_world import World


class Pages:
    """A sweep of some pages, each of which removes one thing."""

    def __init__(self, name: str, count: int) -> None:
        self.name, self.count = name, count
        self.done: list[int] = []
        self.fails: dict[int, Exception] = {}
        self.before: Callable[[int], Any] = lambda number: None

    async def page(self, token: str | None) -> tuple[str | None, int]:
        number = int(token or "0")
        await asyncio.sleep(0)
        self.before(number)
        if number in self.fails:
            raise self.fails.pop(number)
        self.done.append(number)
        return (str(number + 1) if number + 1 < self.count else None), 1

    @property
    def sweep(self) -> Sweep:
        return Sweep(self.name, self.page)


class Stage:
    def __init__(self, *sweeps: Pages, store: Store | None = None) -> None:
        self.clock, self.sweeps = VirtualClock(), sweeps
        self.store = store or memory_store()
        self.elapsed = 0.0

    def retention(self, **limits: Any) -> Retention:
        return Retention(
            self.store,
            lambda _: [pages.sweep for pages in self.sweeps],
            limits=TickLimits(**limits),
            clock=self.clock.now,
            elapsed=lambda: self.elapsed,
        )


async def test_a_pass_goes_through_all_sweeps_to_their_ends() -> None:
    rows, blobs = Pages("rows", 3), Pages("blobs", 2)
    report = await Stage(rows, blobs).retention().run()
    assert (rows.done, blobs.done) == ([0, 1, 2], [0, 1])
    assert (report.removed, report.pages, report.finished) == ({"rows": 3, "blobs": 2}, 5, True)


async def test_what_one_invocation_leaves_the_next_one_does() -> None:
    rows, blobs = Pages("rows", 3), Pages("blobs", 2)
    stage = Stage(rows, blobs)
    reports = [await stage.retention(removals=2).run() for _ in range(3)]
    assert (rows.done, blobs.done) == ([0, 1, 2], [0, 1])
    assert [(report.pages, report.finished) for report in reports] == [(2, False), (2, False), (1, True)]


async def test_an_invocation_ends_when_its_time_is_up() -> None:
    rows = Pages("rows", 10)
    stage = Stage(rows)

    def slow(number: int) -> None:
        stage.elapsed += 30

    rows.before = slow
    assert (await stage.retention(seconds=100.0).run()).pages == 4
    assert (await stage.retention(seconds=100.0).run()).pages == 4
    assert rows.done == list(range(8))


async def test_the_next_pass_begins_some_hours_after_the_last_one_began() -> None:
    rows = Pages("rows", 2)
    stage = Stage(rows)
    await stage.retention(between_passes=3600.0).run()
    await stage.clock.advance(3599)
    assert (await stage.retention(between_passes=3600.0).run()).pages == 0
    await stage.clock.advance(1)
    assert (await stage.retention(between_passes=3600.0).run()).finished
    assert rows.done == [0, 1, 0, 1]


async def test_waiting_for_the_next_pass_costs_one_read() -> None:
    stage = Stage(Pages("rows", 1))
    await stage.retention().run()
    before = stage.store.meter.copy()
    await stage.retention().run()
    assert (stage.store.meter - before).operations == 1


async def test_an_outage_ends_the_invocation_and_the_next_one_does_the_page_again() -> None:
    rows = Pages("rows", 3)
    rows.fails = {1: StorageUnavailable("away")}
    stage = Stage(rows)
    assert not (await stage.retention().run()).finished
    assert (await stage.retention().run()).finished
    assert rows.done == [0, 1, 2]


async def test_a_page_that_can_not_be_done_does_not_keep_the_sweeps_behind_it() -> None:
    rows, blobs = Pages("rows", 3), Pages("blobs", 1)
    rows.fails = {1: StorageError("what token is this?")}
    report = await Stage(rows, blobs).retention().run()
    assert (rows.done, blobs.done, report.finished) == ([0], [0], True)


async def test_no_permission_is_an_error_and_the_pass_stands_where_it_was() -> None:
    rows = Pages("rows", 3)
    rows.fails = {1: StorageDenied("no")}
    stage = Stage(rows)
    with pytest.raises(StorageDenied):
        await stage.retention().run()
    assert (await stage.retention().run()).finished
    assert rows.done == [0, 1, 2]


async def test_a_crash_costs_the_page_and_no_more() -> None:
    rows = Pages("rows", 4)

    def dies(number: int) -> None:
        if number == 2 and 2 not in died:
            died.append(2)
            raise KeyboardInterrupt

    died: list[int] = []
    rows.before = dies
    stage = Stage(rows)
    with pytest.raises(KeyboardInterrupt):
        await stage.retention().run()
    assert (await stage.retention().run()).finished
    assert rows.done == [0, 1, 2, 3]


async def test_of_two_timers_at_once_one_goes_on() -> None:
    rows = Pages("rows", 20)
    stage = Stage(rows)
    reports = await asyncio.gather(*(stage.retention().run() for _ in range(2)))
    assert sorted(report.finished for report in reports) == [False, True]
    assert sorted(set(rows.done)) == list(range(20))
    assert len(rows.done) == 21, "the other one stops at its first page"


async def test_a_cursor_of_another_version_of_the_app_starts_the_pass_anew() -> None:
    store = memory_store()
    await Stage(Pages("older", 5), store=store).retention(removals=2).run()
    rows = Pages("rows", 2)
    assert (await Stage(rows, store=store).retention().run()).finished
    assert rows.done == [0, 1]


async def test_two_real_timers_at_once_remove_everything_once() -> None:
    world = World()
    for n in range(60):
        await world.say(f"chain {n} " + "x" * (400_000 if n % 20 == 0 else 10))
    await world.days(31)
    limits = TickLimits(between_passes=0.0)
    reports = await asyncio.gather(*(world.retention(limits=limits).run() for _ in range(2)))
    assert sum(report.removed.get("rows", 0) for report in reports) == 120
    await world.retain()
    assert (world.rows(), world.values()) == ([], [])


async def test_a_pass_in_small_pieces_removes_what_one_in_one_piece_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hosting.storage._memory._PAGE", 7)
    world = World()
    for n in range(30):
        await world.say(f"chain {n}")
    await world.days(31)
    young = await world.say("young")
    invocations = 0
    while not (await world.retention(limits=TickLimits(removals=4)).run()).finished:
        invocations += 1
    assert invocations > 5
    assert len(world.rows()) == 2
    assert await world.exists(young)
