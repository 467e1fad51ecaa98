"""Bytes that may be read on somebody's behalf: limits inside each other, and what they forget."""

import asyncio

import pytest

from hosting.read_budget import ReadTooLarge, charge, charging, read_at_most


def test_outside_of_any_budget_nobody_counts() -> None:
    charge(1 << 60)


def test_what_exceeds_a_limit_is_refused_and_not_counted() -> None:
    with read_at_most(10) as budget:
        charge(7)
        with pytest.raises(ReadTooLarge):
            charge(4)
        charge(3)
        assert budget.spent == 10


def test_the_exception_names_the_limit_that_was_exceeded() -> None:
    with read_at_most(10) as outer, read_at_most(100) as inner:
        with pytest.raises(ReadTooLarge) as caught:
            charge(11)
        assert caught.value.budget is outer
        assert caught.value.budget is not inner


def test_an_inner_limit_counts_for_the_outer_one() -> None:
    with read_at_most(10) as outer:
        with read_at_most(10):
            charge(6)
        assert outer.spent == 6


def test_what_was_read_in_vain_is_not_counted_outside() -> None:
    counted: list[int] = []
    with charging(counted.append):
        with pytest.raises(ReadTooLarge), read_at_most(10):
            charge(8)
            charge(8)
        assert sum(counted) == 0


def test_what_is_dropped_is_given_back() -> None:
    with read_at_most(10) as outer:
        for _ in range(5):
            with read_at_most(10) as block:
                charge(9)
                block.refund()
        assert outer.spent == 0


async def test_it_holds_in_tasks_that_are_made_inside() -> None:
    async def reader() -> None:
        charge(11)

    with pytest.raises(ReadTooLarge), read_at_most(10):
        await asyncio.create_task(reader())


async def test_a_task_that_outlives_the_limit_is_not_stopped_by_it() -> None:
    """One that polls for hours, say, and was made by the first request."""
    ended = asyncio.Event()

    async def poller() -> str:
        charge(8)
        await ended.wait()
        charge(8)
        return "goes on"

    with read_at_most(10):
        polling = asyncio.create_task(poller())
        await asyncio.sleep(0)
    ended.set()
    assert await polling == "goes on"


async def test_a_task_that_outlives_a_request_that_failed_is_not_stopped_either() -> None:
    ended = asyncio.Event()

    async def poller() -> str:
        await ended.wait()
        charge(80)
        return "goes on"

    with pytest.raises(ReadTooLarge), read_at_most(10):
        polling = asyncio.create_task(poller())
        await asyncio.sleep(0)
        charge(11)
    ended.set()
    assert await polling == "goes on"
