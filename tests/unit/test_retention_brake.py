"""A lifetime that became shorter, perhaps by mistake, removes nothing for some days."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hosting.settings import load_settings
from hosting.state.retention import TickLimits
from hosting.state.retention_brake import Lifetime, braked, decode_lifetimes, encode_lifetimes
from hosting.storage import Store
from tests.unit.retention_world import HOUR, World

DAYS, CONVERSATIONS = "HOSTING_RETENTION_DAYS", "HOSTING_CONVERSATION_DAYS"
WAIT = 72 * HOUR


# ---- the rule


def rule(known: Lifetime | None, wanted: float, now: float, wait: float = 100.0) -> Lifetime:
    return braked({} if known is None else {"x": known}, {"x": wanted}, now, wait)["x"]


@pytest.mark.parametrize(
    ("known", "wanted", "now", "used"),
    [
        (None, 30, 0, Lifetime(30)),
        (Lifetime(30), 30, 0, Lifetime(30)),
        (Lifetime(30), 365, 0, Lifetime(365)),
        (Lifetime(30), 0, 0, Lifetime(0)),
        (Lifetime(365), 30, 7, Lifetime(365, 30, 7)),
        (Lifetime(0), 36_500, 7, Lifetime(0, 36_500, 7)),
        (Lifetime(365, 30, 7), 30, 106, Lifetime(365, 30, 7)),
        (Lifetime(365, 30, 7), 30, 107, Lifetime(30)),
        (Lifetime(365, 30, 7), 365, 106, Lifetime(365)),
        (Lifetime(365, 30, 7), 500, 106, Lifetime(500)),
        (Lifetime(365, 30, 7), 7, 106, Lifetime(365, 7, 106)),
        (Lifetime(365, 30, 7), 60, 106, Lifetime(365, 60, 106)),
    ],
    ids=str,
)
def test_what_is_used(known: Lifetime | None, wanted: float, now: float, used: Lifetime) -> None:
    assert rule(known, wanted, now) == used


def test_without_a_wait_a_shorter_one_holds_at_once() -> None:
    assert rule(Lifetime(365), 30, 7, wait=0) == Lifetime(30)


def test_what_is_kept_is_read_as_it_was() -> None:
    lifetimes = {DAYS: Lifetime(365, 30, 1_893_456_000.5), CONVERSATIONS: Lifetime(0)}
    assert decode_lifetimes(encode_lifetimes(lifetimes), {}) == lifetimes


HUGE = '{"x": [1' + "0" * 400 + ", null, 0]}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"x": 1}',
        '{"x": [1]}',
        '{"x": ["a", null, 0]}',
        "7",
        HUGE,
        '{"x": [NaN, null, 0]}',
        '{"x": [-1, null, 0]}',
    ],
)
def test_what_can_not_be_read_was_for_ever(text: str) -> None:
    assert decode_lifetimes(text, {"x": 30}) == {"x": Lifetime(0)}


# ---- the timer


def set_to(world: World, **env: str) -> None:
    """What a deployment does."""
    world.settings = load_settings(env)


async def tick(world: World, store: Store | None = None) -> None:
    await world.retention(store).run()


async def hours(world: World, count: int) -> None:
    """Let the hours go by, with a tick after each."""
    for _ in range(count):
        await world.clock.advance(HOUR)
        await tick(world)


async def year_then(days: str, conversations: str = "365") -> tuple[World, str]:
    """An app that has kept chains for a year, with one that is 40 days old, and then a deployment."""
    world = World(HOSTING_RETENTION_DAYS="365", HOSTING_CONVERSATION_DAYS="365")
    old = await world.say("old")
    await world.days(40)
    await tick(world)
    set_to(world, HOSTING_RETENTION_DAYS=days, HOSTING_CONVERSATION_DAYS=conversations)
    return world, old


async def test_a_shorter_lifetime_removes_nothing_for_72_hours() -> None:
    world, old = await year_then("30")
    await hours(world, 72)
    assert await world.exists(old)
    await hours(world, 1 + 6)
    assert not await world.exists(old)


async def test_from_for_ever_to_anything_is_shorter() -> None:
    world = World(HOSTING_RETENTION_DAYS="0", HOSTING_CONVERSATION_DAYS="0")
    old = await world.say("old")
    await world.days(400)
    await tick(world)
    set_to(world, HOSTING_RETENTION_DAYS="365", HOSTING_CONVERSATION_DAYS="365")
    await hours(world, 72)
    assert await world.exists(old)
    await hours(world, 7)
    assert not await world.exists(old)


async def test_setting_it_back_cancels_it_and_the_next_mistake_has_its_own_time() -> None:
    world, old = await year_then("30")
    await hours(world, 70)
    set_to(world, HOSTING_RETENTION_DAYS="365", HOSTING_CONVERSATION_DAYS="365")
    await hours(world, 24)
    assert await world.exists(old)
    set_to(world, HOSTING_RETENTION_DAYS="30", HOSTING_CONVERSATION_DAYS="365")
    await hours(world, 72)
    assert await world.exists(old)
    await hours(world, 7)
    assert not await world.exists(old)


async def test_a_longer_lifetime_holds_at_once() -> None:
    world = World(HOSTING_RETENTION_DAYS="30")
    await tick(world)
    old = await world.say("old")
    await world.days(31)
    set_to(world, HOSTING_RETENTION_DAYS="365")
    await tick(world)
    assert await world.exists(old)


async def test_the_first_pass_of_all_takes_it_as_it_is_set() -> None:
    world = World(HOSTING_RETENTION_DAYS="30")
    old = await world.say("old")
    await world.days(31)
    await tick(world)
    assert not await world.exists(old)


async def test_a_row_of_an_app_that_knew_no_brake_takes_it_as_it_is_set() -> None:
    world = World(HOSTING_RETENTION_DAYS="30")
    old = await world.say("old")
    await world.days(31)
    await world.put("retention", "cursor", {"began": 0.0, "sweep": "", "token": ""})
    await tick(world)
    assert not await world.exists(old)


async def test_a_row_that_can_not_be_read_removes_nothing_for_72_hours() -> None:
    world = World(HOSTING_RETENTION_DAYS="30")
    old = await world.say("old")
    await world.days(31)
    await world.put("retention", "cursor", {"began": 0.0, "sweep": "", "token": "", "lifetimes": "{"})
    await hours(world, 72)
    assert await world.exists(old)
    await hours(world, 7)
    assert not await world.exists(old)


async def test_the_wait_is_a_setting_and_0_is_none() -> None:
    world, old = await year_then("30")
    set_to(world, HOSTING_RETENTION_DAYS="30", HOSTING_RETENTION_SHRINK_HOURS="0")
    await world.clock.advance(6 * HOUR)
    await tick(world)
    assert not await world.exists(old)


async def test_conversations_have_a_wait_of_their_own() -> None:
    world, old = await year_then("365", conversations="30")
    await hours(world, 48)
    set_to(world, HOSTING_RETENTION_DAYS="30", HOSTING_CONVERSATION_DAYS="30")
    await hours(world, 30)
    assert await world.exists(old)  # it is no Conversation, and only their 72 hours are over
    await hours(world, 49)
    assert not await world.exists(old)


async def test_streams_are_not_on_the_brake() -> None:
    world = World(HOSTING_STREAM_HOURS="700")
    await world.stream(await world.say("said"))
    await world.days(2)
    await tick(world)
    assert len(world.streams()) == 1
    set_to(world, HOSTING_STREAM_HOURS="24")
    await world.clock.advance(6 * HOUR)
    await tick(world)
    assert world.streams() == set()


async def test_a_stream_that_was_never_closed_lives_as_long_as_chains_do() -> None:
    world, _ = await year_then("30")
    await world.stream("of-the-app", close=False)
    await hours(world, 24 * 31)  # the shorter one holds by now
    assert world.streams() == set()


# ---- what it says


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]


async def test_each_pass_says_once_what_waits_and_until_when(caplog: pytest.LogCaptureFixture) -> None:
    world, _ = await year_then("30")
    await world.clock.advance(5 * HOUR)
    await tick(world)  # no pass is due, and it is seen all the same
    [first] = errors(caplog)
    assert "HOSTING_RETENTION_DAYS is 30 and was 365" in first
    assert "365 holds until 2030-02-13T05:00Z" in first
    await hours(world, 12)
    assert errors(caplog) == [first] * 3, "two passes have begun since"


async def test_for_ever_is_named_so(caplog: pytest.LogCaptureFixture) -> None:
    world, _ = await year_then("0")
    await hours(world, 6)
    assert errors(caplog) == []
    set_to(world, HOSTING_RETENTION_DAYS="30", HOSTING_CONVERSATION_DAYS="365")
    await tick(world)
    [said] = errors(caplog)
    assert "is 30 and was 0 (for ever)" in said


async def test_when_it_takes_effect_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    world, _ = await year_then("30")
    await hours(world, 74)
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert said == ["HOSTING_RETENTION_DAYS: 30 holds from now on, after 365"]


# ---- what it costs, and what holds when a process ends or is not alone


async def test_seeing_it_costs_one_write_and_waiting_none() -> None:
    world, _ = await year_then("30")
    costs: list[tuple[int, int]] = []
    for _ in range(2):
        before = world.meter.copy()
        await tick(world)
        used = world.meter - before
        costs.append((used.table_reads, used.table_writes))
    assert costs == [(1, 1), (1, 0)]


class Killed(BaseException):
    """The process is dead."""


async def killed_at(world: World, point: int, *, applied: bool, act: Callable[[], Awaitable[None]]) -> bool:
    """Do something in a process that dies at its write number `point`, before or after that is applied; whether it did."""
    inner, writes, dead = world.tables.transact, 0, False

    async def transact(*given: Any) -> Any:
        nonlocal writes, dead
        writes += 1
        if dead or writes == point:
            if applied and not dead:
                await inner(*given)
            dead = True
            raise Killed
        return await inner(*given)

    world.tables.transact = transact  # type: ignore[method-assign]
    try:
        await act()
    except Killed:
        pass
    finally:
        world.tables.transact = inner  # type: ignore[method-assign]
    return dead


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("point", range(1, 6))
async def test_a_process_that_dies_when_it_has_seen_it_makes_nobody_remove_anything(point: int, applied: bool) -> None:
    world, old = await year_then("30")
    await world.clock.advance(6 * HOUR)
    died = await killed_at(world, point, applied=applied, act=lambda: tick(world))
    assert died == (point <= 4), "one write for what it has seen, and one a page"
    await hours(world, 71)
    assert await world.exists(old)
    await hours(world, 8)
    assert not await world.exists(old)


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("point", range(1, 6))
async def test_a_process_that_dies_when_it_is_set_back_makes_nobody_remove_anything(point: int, applied: bool) -> None:
    world, old = await year_then("30")
    await hours(world, 71)
    set_to(world, HOSTING_RETENTION_DAYS="365", HOSTING_CONVERSATION_DAYS="365")
    await world.clock.advance(6 * HOUR)
    await killed_at(world, point, applied=applied, act=lambda: tick(world))
    await hours(world, 24)
    assert await world.exists(old)


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("point", range(1, 7))
async def test_a_process_that_dies_when_it_takes_effect_is_followed_by_one_that_ends_it(
    point: int, applied: bool
) -> None:
    world, old = await year_then("30")
    await hours(world, 72)
    await world.clock.advance(HOUR)
    await killed_at(world, point, applied=applied, act=lambda: tick(world))
    await hours(world, 7)
    assert not await world.exists(old)


async def test_of_two_processes_with_two_settings_the_longer_one_holds() -> None:
    """A deployment that replaces instances one by one, for as long as it likes."""
    world, old = await year_then("30")
    short, long = world.settings, load_settings({DAYS: "365", CONVERSATIONS: "365"})
    for _ in range(100):
        await world.clock.advance(HOUR)
        ticks: list[Awaitable[Any]] = []
        for settings in (short, long):
            world.settings = settings
            ticks.append(world.retention(limits=TickLimits(between_passes=0.0)).run())
        await asyncio.gather(*ticks)
    assert await world.exists(old)


async def test_of_two_processes_that_see_it_at_once_one_notes_it() -> None:
    world, _ = await year_then("30")
    await world.clock.advance(HOUR)
    before = world.meter.copy()
    await asyncio.gather(tick(world), tick(world))
    row = await world.store.get("retention", "cursor")
    assert row is not None
    assert decode_lifetimes(str(row.fields["lifetimes"]), {})[DAYS] == Lifetime(365, 30, world.clock.now())
    assert (world.meter - before).table_writes == 2, "the second one is refused"


async def test_one_that_removes_by_the_shorter_one_stops_at_the_page_in_which_another_one_sees_it_set_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hosting.storage._memory._PAGE", 2)  # the two rows of a chain
    world, _ = await year_then("30")
    chains = [await world.say("as old") for _ in range(3)]
    await hours(world, 73)
    await world.days(40)
    both = TickLimits(between_passes=0.0)
    short = world.retention(limits=both)
    set_to(world, HOSTING_RETENTION_DAYS="365", HOSTING_CONVERSATION_DAYS="365")
    long, inner = world.retention(limits=both), world.tables.scan

    async def scan(*given: Any, **more: Any) -> Any:
        world.tables.scan = inner  # type: ignore[method-assign]
        await long.run()
        return await inner(*given, **more)

    world.tables.scan = scan  # type: ignore[method-assign]
    report = await short.run()
    assert (report.pages, report.finished) == (1, False)
    assert sum([await world.exists(chain) for chain in chains]) >= 2
