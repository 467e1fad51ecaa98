"""Bytes that requests and runs have in hand: who is refused, who waits, and what is given back."""

import asyncio

import pytest

from hosting.read_budget import charge, charging
from hosting.server.working_memory import MemoryFull, Share, WorkingMemory


def test_a_tenant_that_has_its_part_is_told_to_come_again() -> None:
    memory = WorkingMemory(1000, 100)
    with memory.share("a") as first, memory.share("a") as second:
        first.take(60)
        with pytest.raises(MemoryFull) as caught:
            second.take(41)
        assert (caught.value.status, caught.value.code) == (429, "rate_limit_exceeded")
        assert caught.value.headers["retry-after"] == "1"
        second.take(40)


def test_another_tenant_still_has_its_own() -> None:
    memory = WorkingMemory(1000, 100)
    with memory.share("a") as first, memory.share("b") as other:
        first.take(100)
        other.take(100)
        assert memory.in_use == 200


def test_a_full_process_is_overloaded_for_everybody() -> None:
    memory = WorkingMemory(150, 100)
    with memory.share("a") as first, memory.share("b") as other:
        first.take(100)
        with pytest.raises(MemoryFull) as caught:
            other.take(51)
        assert (caught.value.status, caught.value.code) == (503, "server_is_overloaded")


def test_who_is_alone_gets_more_than_the_limit() -> None:
    memory = WorkingMemory(150, 100)
    with memory.share("a") as share:
        share.take(80)
        share.take(500)
        assert memory.in_use == 580


def test_zero_is_no_limit() -> None:
    memory = WorkingMemory(0, 0)
    with memory.share("a") as first, memory.share("a") as second:
        first.take(1 << 40)
        second.take(1 << 40)


def test_it_is_given_back_when_the_last_holder_leaves() -> None:
    memory = WorkingMemory(150, 100)
    share = memory.share("a")
    with share:
        share.take(80)
        run = share.__enter__()
    assert memory.in_use == 80
    run.__exit__(None, None, None)
    assert memory.in_use == 0


def test_a_forgotten_share_is_given_back() -> None:
    memory = WorkingMemory(150, 100)
    memory.share("a").__enter__().take(80)
    assert memory.in_use == 0


def test_a_task_that_outlives_its_request_counts_for_nobody() -> None:
    memory = WorkingMemory(150, 100)
    with memory.share("a") as share:
        pass
    share.take(80)
    assert memory.in_use == 0


def test_no_more_is_given_back_than_was_taken() -> None:
    memory = WorkingMemory(150, 100)
    with memory.share("a") as share, memory.share("a") as other:
        other.take(10)
        share.take(-50)
        assert memory.in_use == 10


def test_what_has_begun_is_counted_and_not_refused() -> None:
    memory = WorkingMemory(150, 100)
    with memory.share("a") as first, memory.share("a") as running:
        first.take(100)
        running.admit()
        running.take(100)
        assert memory.in_use == 200


def test_a_share_of_nothing_takes_all() -> None:
    with Share() as share:
        share.take(1 << 60)


async def test_a_run_waits_until_there_is_room_and_begins_again() -> None:
    memory = WorkingMemory(100, 100)
    begun = 0
    again = asyncio.Event()

    async def work() -> str:
        nonlocal begun
        begun += 1
        if begun == 2:
            again.set()
        charge(30)
        charge(30)
        share.admit()
        return "done"

    with memory.share("a") as share, charging(share.take):
        with memory.share("a") as other:
            other.take(60)
            waiting = asyncio.create_task(share.when_there_is_room(work))
            await asyncio.wait_for(again.wait(), 30)
            await asyncio.sleep(0)
            assert memory.in_use == 60  # what waits has nothing
        assert await asyncio.wait_for(waiting, 30) == "done"
        assert memory.in_use == 60
    assert memory.in_use == 0


async def test_of_many_that_wait_one_at_a_time_reads() -> None:
    memory = WorkingMemory(100, 100)
    reading: list[int] = []
    most = 0
    gate = asyncio.Event()

    async def run(number: int) -> None:
        nonlocal most

        async def work() -> None:
            nonlocal most
            charge(60)
            reading.append(number)
            most = max(most, len(reading))
            await asyncio.sleep(0.01)
            share.admit()
            await gate.wait()
            reading.remove(number)

        with memory.share("a") as share, charging(share.take):
            await share.when_there_is_room(work)

    runs = [asyncio.create_task(run(number)) for number in range(5)]
    await asyncio.sleep(0.3)
    assert len(reading) == 1
    gate.set()
    await asyncio.wait_for(asyncio.gather(*runs), 20)
    assert most == 1
    assert memory.in_use == 0


async def test_a_run_that_is_cancelled_while_it_waits_lets_the_next_one_try() -> None:
    memory = WorkingMemory(100, 100)

    async def wants_all(share: Share) -> str:
        share.take(100)
        share.admit()
        return "done"

    with memory.share("a") as other, memory.share("a") as first, memory.share("a") as second:
        other.take(100)
        waiting = asyncio.create_task(first.when_there_is_room(lambda: wants_all(first)))
        await asyncio.sleep(0.05)
        behind = asyncio.create_task(second.when_there_is_room(lambda: wants_all(second)))
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.wait({waiting})
        other.take(-100)
        assert await asyncio.wait_for(behind, 30) == "done"
