"""The recovery scan by a process that serves requests: when it looks, and what it may not do."""

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Any

import pytest

from hosting.functions.recovery_watch import RecoveryWatch
from hosting.read_budget import charge, read_at_most
from hosting.testing import VirtualClock

OVERDUE = 300.0


class Process:
    """One that serves requests, and notes its looks."""

    def __init__(
        self,
        overdue: float = OVERDUE,
        *,
        clock: VirtualClock | None = None,
        between: Callable[[float, float], float] = lambda low, high: (low + high) / 2,
    ) -> None:
        self.clock = clock or VirtualClock()
        self.looks: list[float] = []
        self.busy = False
        self.act: Callable[[], Any] = lambda: None
        self._begin = self.clock.now()
        self.watch = RecoveryWatch(
            overdue, self._look, lambda: self.busy, now=self.clock.now, sleep=self.clock.sleep, between=between
        )

    async def _look(self) -> None:
        self.looks.append(round(self.clock.now() - self._begin))
        result = self.act()
        if asyncio.iscoroutine(result):
            await result

    async def serve(self, seconds: float, every: float = 10.0) -> None:
        """Requests for so long."""
        for _ in range(round(seconds / every)):
            self.watch.served()
            await self.clock.advance(every)


async def test_it_looks_soon_after_the_first_request_and_then_every_three_minutes() -> None:
    process = Process()
    await process.serve(700)
    assert process.looks == [33, 213, 393, 573]


async def test_an_hour_of_requests_costs_twenty_looks() -> None:
    process = Process()
    await process.serve(3600)
    assert len(process.looks) == 20


async def test_a_process_that_serves_nothing_never_looks() -> None:
    process = Process()
    await process.clock.advance(3600)
    assert process.looks == []


async def test_it_ends_when_no_requests_come_any_more() -> None:
    process = Process()
    await process.serve(60)
    await process.clock.advance(7200)
    assert process.looks == [33, 213, 393]


async def test_it_goes_on_while_something_is_served_that_began_long_ago() -> None:
    process = Process()
    process.busy = True
    process.watch.served()
    await process.clock.advance(3600)
    assert len(process.looks) == 20
    process.busy = False
    await process.clock.advance(3600)
    assert len(process.looks) == 21


async def test_requests_that_are_far_apart_each_bring_one_soon() -> None:
    process = Process()
    for _ in range(3):
        process.watch.served()
        await process.clock.advance(3600)
    assert [look % 3600 for look in process.looks if look % 3600 < 100] == [33, 33, 33]


async def test_a_burst_that_begins_just_after_a_look_brings_no_second_one_at_once() -> None:
    process = Process()
    process.watch.served()
    await process.clock.advance(394)
    assert process.looks == [33, 213, 393]  # the last one, and then it has ended
    process.watch.served()
    await process.clock.advance(170)
    assert process.looks[3:] == []
    await process.clock.advance(10)
    assert process.looks[3:] == [573]


@pytest.mark.parametrize("seed", range(5))
async def test_many_processes_do_not_look_all_at_once(seed: int) -> None:
    clock, rng = VirtualClock(), random.Random(seed)
    processes = [Process(clock=clock, between=rng.uniform) for _ in range(40)]
    for process in processes:
        process.watch.served()
    await clock.advance(70)
    firsts = sorted(process.looks[0] for process in processes)
    assert 6 <= firsts[0] <= firsts[-1] <= 60
    assert len(set(firsts)) > 15


async def test_0_switches_it_off() -> None:
    process = Process(0.0)
    await process.serve(3600)
    assert process.looks == []


async def test_a_request_does_not_wait_for_it() -> None:
    process = Process()
    process.act = lambda: asyncio.Event().wait()  # a scan that never ends
    await process.serve(40)
    assert process.looks == [33]
    process.watch.served()  # returns
    await process.watch.close()


async def test_what_it_reads_is_not_counted_for_the_request_that_brought_it() -> None:
    process = Process()
    process.act = lambda: charge(1_000_000)
    with read_at_most(10) as budget:
        process.watch.served()
        await process.clock.advance(60)
        assert (process.looks, budget.spent) == ([33], 0)


async def test_a_look_that_fails_is_logged_and_the_next_one_comes(caplog: pytest.LogCaptureFixture) -> None:
    process = Process()

    def fails() -> None:
        raise RuntimeError("no client")

    process.act = fails
    with caplog.at_level(logging.WARNING):
        await process.serve(400)
    assert process.looks == [33, 213, 393]
    assert caplog.text.count("the recovery watch could not look") == 3


async def test_a_stop_ends_it_in_the_middle_of_a_scan_and_for_good() -> None:
    process = Process()
    ended: list[str] = []

    async def scan() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("scan")

    process.act = scan
    await process.serve(60)
    await process.watch.close()
    assert ended == ["scan"]
    await process.serve(600)
    assert process.looks == [33]


async def test_a_stop_of_what_never_began_does_nothing() -> None:
    await Process().watch.close()
