"""Streams in blobs when storage fails, writers die, and several of them believe that the stream is theirs."""

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from hosting.storage import MemoryAppendBlobs
from hosting.streaming import EventStreamError, StreamFenced, StreamUnavailable
from hosting.streaming import _log as log_module
from tests.contract.streaming_faults import Account, FaultyBlobs, RandomFaults, open_account
from tests.contract.streaming_kits import FAST, Follower, collect, emit_all, events, slower, until


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "_FIRST_RETRY", 0.005)
    monkeypatch.setattr(log_module, "_LONGEST_RETRY", 0.02)


@pytest.fixture(params=["memory", "azurite"])
async def account(request: pytest.FixtureRequest) -> AsyncIterator[Account]:
    async with open_account(request.param, request) as opened:
        yield opened


@pytest.fixture
def id(request: pytest.FixtureRequest) -> str:
    return request.node.name


async def test_an_append_that_was_applied_and_timed_out_is_not_repeated(account: Account, id: str) -> None:
    faults = FaultyBlobs(account.blobs)
    stream = await account.process(faults).get_or_create(id)
    for n in range(6):
        faults.plan.append("lost")
        await emit_all(stream, n)
        await stream.flush()
    faults.plan.append("lost")
    await stream.close()
    assert await collect(await account.process().get(id)) == events(*range(6))


async def test_an_append_that_failed_before_is_repeated(account: Account, id: str) -> None:
    faults = FaultyBlobs(account.blobs)
    stream = await account.process(faults).get_or_create(id)
    faults.plan.extend(["refused", "refused", "ok", "refused", "lost", "refused", "twice"])
    for n in range(6):
        await emit_all(stream, n)
        await stream.flush()
    await stream.close()
    assert await collect(await account.process().get(id)) == events(*range(6))


async def test_an_append_that_something_repeats_is_recognised(account: Account, id: str) -> None:
    faults = FaultyBlobs(account.blobs)
    stream = await account.process(faults).get_or_create(id)
    faults.plan.extend(["twice", "twice"])
    await emit_all(stream, 0)
    await stream.flush()
    await emit_all(stream, 1, close=True)
    assert await collect(await account.process().get(id)) == events(0, 1)


async def test_events_of_an_append_whose_answer_is_lost_are_shown_once(account: Account, id: str) -> None:
    faults = FaultyBlobs(account.blobs)
    stream = await account.process(faults).get_or_create(id)
    here, there = Follower(stream), Follower(await account.process().get(id))
    for n in range(10):
        faults.plan.append("lost" if n % 2 else "ok")
        await emit_all(stream, n)
        await stream.flush()
    await stream.close()
    assert await here.ends() == await there.ends() == events(*range(10))


async def test_a_storage_that_stays_away_fails_the_writer_and_a_take_over_goes_on(account: Account, id: str) -> None:
    faults = FaultyBlobs(account.blobs)
    process = account.process(faults, slower(FAST, give_up_after=timedelta(milliseconds=60)))
    stream = await process.get_or_create(id)
    await emit_all(stream, 0)
    await stream.flush()
    faults.down = True
    await emit_all(stream, 1)
    with pytest.raises(StreamUnavailable):
        await stream.flush()
    with pytest.raises(StreamUnavailable):
        await stream.emit({"n": 2})
    with pytest.raises(StreamUnavailable):
        await process.get_or_create(id + "-other")
    faults.down = False
    again = await process.get_or_create(id)
    assert await again.last_cursor() == 0
    await emit_all(again, 1, close=True)
    assert await collect(again) == events(0, 1)


@pytest.mark.parametrize("why", ["taken over", "storage was away"])
async def test_a_writer_that_failed_while_it_closed_still_says_where_the_stream_ends(
    account: Account, id: str, why: str
) -> None:
    """A follower beside it asks, to number the terminal event of a response that was cancelled elsewhere."""
    faults = FaultyBlobs(account.blobs)
    process = account.process(faults, slower(FAST, give_up_after=timedelta(milliseconds=60)))
    stream = await process.get_or_create(id)
    await emit_all(stream, 0)
    await stream.flush()
    if why == "taken over":
        await (await account.process().take_over(id)).close()
    faults.down = why == "storage was away"
    await stream.emit({"n": 1, "text": "never stored"})
    with pytest.raises(EventStreamError):
        await stream.close()
    faults.down = False
    assert await stream.last_cursor() == 0


async def test_a_short_outage_is_only_a_delay(account: Account, id: str) -> None:
    faults = FaultyBlobs(account.blobs)
    patient = slower(FAST, give_up_after=timedelta(seconds=30))
    stream = await account.process(faults, patient).get_or_create(id)
    there = Follower(await account.process(faults, patient).get(id))
    await emit_all(stream, 0)
    await there.has(1)
    faults.down = True
    await emit_all(stream, 1, 2)
    await asyncio.sleep(0.05)
    faults.down = False
    await emit_all(stream, 3, close=True)
    assert await there.ends() == events(0, 1, 2, 3)


async def test_a_subscriber_gives_up_when_storage_stays_away(account: Account, id: str) -> None:
    await emit_all(await account.process().get_or_create(id), 0)
    faults = FaultyBlobs(account.blobs)
    tuning = slower(FAST, give_up_after=timedelta(milliseconds=50))
    follower = Follower(await account.process(faults, tuning).get(id))
    await follower.has(1)
    faults.down = True
    with pytest.raises(StreamUnavailable):
        await follower.ends()


async def test_nothing_is_shown_before_it_is_stored(account: Account, id: str) -> None:
    faults = FaultyBlobs(account.blobs)
    release = asyncio.Event()

    async def hold() -> None:
        await release.wait()

    faults.before_append = hold
    stream = await account.process(faults).get_or_create(id)
    here = await Follower(stream).attached()
    await emit_all(stream, 0)
    for _ in range(20):
        await asyncio.sleep(0.002)
    assert here.got == []
    release.set()
    assert await here.has(1) == events(0)
    await here.stop()


async def test_emit_waits_when_the_buffer_is_full(account: Account, id: str) -> None:
    faults = FaultyBlobs(account.blobs)
    release = asyncio.Event()

    async def hold() -> None:
        await release.wait()

    faults.before_append = hold
    stream = await account.process(faults, slower(FAST, buffer_bytes=2_000)).get_or_create(id)
    emitting = asyncio.create_task(emit_all(stream, *range(500), close=True))
    await asyncio.sleep(0.05)
    assert not emitting.done()
    release.set()
    await emitting
    assert await collect(stream) == events(*range(500))


async def test_a_process_killed_between_append_and_wake_loses_nothing(account: Account, id: str) -> None:
    faults = FaultyBlobs(account.blobs)

    async def die() -> None:
        raise asyncio.CancelledError  # the append is applied; this process does nothing any more

    dead = account.process(faults)
    stream = await dead.get_or_create(id)
    here = await Follower(stream).attached()
    await emit_all(stream, 0)
    await stream.flush()
    await here.has(1)
    faults.after_append = die
    await emit_all(stream, 1)
    await until(lambda: b'"n":1' in faults.appended[-1])
    recovered = await account.process().take_over(id)
    assert await recovered.last_cursor() == 1
    await emit_all(recovered, 2, close=True)
    assert await collect(recovered) == events(0, 1, 2)
    assert await here.ends() == events(0, 1, 2)


async def test_a_process_killed_before_the_append_leaves_its_numbers_free(account: Account, id: str) -> None:
    faults = FaultyBlobs(account.blobs)

    async def die() -> None:
        raise asyncio.CancelledError

    stream = await account.process(faults).get_or_create(id)
    await emit_all(stream, 0)
    await stream.flush()
    faults.before_append = die
    await stream.emit({"n": 1, "text": "never stored"})
    with pytest.raises(EventStreamError):
        await stream.flush()
    recovered = await account.process().get_or_create(id)
    assert await recovered.last_cursor() == 0
    await emit_all(recovered, 1, close=True)
    assert await collect(recovered) == events(0, 1)


async def test_a_zombie_with_an_append_under_way_is_fenced(account: Account, id: str) -> None:
    """The old writer's request is on its way when the stream is taken over, and arrives after."""
    faults = FaultyBlobs(account.blobs)
    under_way, release = asyncio.Event(), asyncio.Event()
    zombie = await account.process(faults).get_or_create(id)
    await emit_all(zombie, 0)
    await zombie.flush()

    async def travel() -> None:
        under_way.set()
        await release.wait()

    faults.before_append = travel
    await zombie.emit({"n": 1, "text": "from the zombie"})
    await under_way.wait()
    stream = await account.process().take_over(id)
    await emit_all(stream, 1)
    await stream.flush()
    release.set()
    with pytest.raises(StreamFenced):
        await zombie.flush()
    await emit_all(stream, 2, close=True)
    assert await collect(stream) == events(0, 1, 2)


async def test_a_zombie_faster_than_the_take_over_keeps_its_event(account: Account, id: str) -> None:
    """The claim meets an end that has moved: it looks again, and numbers go on behind the zombie's last event."""
    zombie = await account.process().get_or_create(id)
    await emit_all(zombie, 0)
    await zombie.flush()
    faults = FaultyBlobs(account.blobs)

    async def zombie_is_faster() -> None:
        faults.before_append = None
        await emit_all(zombie, 1)
        await zombie.flush()

    faults.before_append = zombie_is_faster
    stream = await account.process(faults).take_over(id)
    assert await stream.last_cursor() == 1
    with pytest.raises(StreamFenced):
        await emit_all(zombie, 2)
        await zombie.flush()
    await emit_all(stream, 2, close=True)
    assert await collect(stream) == events(0, 1, 2)


async def test_a_writer_that_wakes_up_late_does_not_take_the_stream_back(account: Account, id: str) -> None:
    """It had looked the stream up, but never emitted, when the run was recovered elsewhere."""
    await emit_all(await account.process().get_or_create(id), 0)
    await account.opened[-1].shutdown()
    late = await account.process().get_or_create(id)
    stream = await account.process().take_over(id)
    await emit_all(stream, 1)
    await stream.flush()
    with pytest.raises(StreamFenced):
        await late.emit({"n": 2, "text": "late"})
    await emit_all(stream, 2, close=True)
    assert await collect(stream) == events(0, 1, 2)


async def test_a_take_over_by_an_older_generation_elsewhere_is_refused(account: Account, id: str) -> None:
    stream = await account.process().take_over(id, generation=5)
    await emit_all(stream, 0)
    await stream.flush()
    with pytest.raises(StreamFenced):
        await account.process().take_over(id, generation=4)
    await emit_all(stream, 1)
    await stream.flush()
    newer = await account.process().take_over(id, generation=6)
    await emit_all(newer, 2, close=True)
    assert await collect(newer) == events(0, 1, 2)


@pytest.mark.parametrize("times", [1, 3])
async def test_a_writer_whose_claim_was_cancelled_when_it_was_stored_goes_on(
    account: Account, id: str, times: int
) -> None:
    first = await account.process().get_or_create(id)
    await emit_all(first, 0)
    await first.flush()
    faults, stored = FaultyBlobs(account.blobs), asyncio.Event()
    stream = await account.process(faults).get_or_create(id)

    async def never_answers() -> None:
        stored.set()
        await asyncio.Event().wait()

    faults.after_append = never_answers
    for _ in range(times):
        stored.clear()
        emitting = asyncio.create_task(emit_all(stream, 1))
        await stored.wait()
        emitting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await emitting
    faults.after_append = None
    await emit_all(stream, 1, close=True)
    assert await collect(await account.process().get(id)) == events(0, 1)


async def test_two_writers_that_fight_leave_one_sequence(account: Account, id: str) -> None:
    """Both take over again and again and go on at the stored end. Whatever a flush confirmed is there, once."""
    confirmed: dict[int, str] = {}
    goal = 60

    async def fight(who: str) -> None:
        process = account.process()
        while max(confirmed, default=-1) < goal:
            try:
                stream = await process.take_over(id)
                last = await stream.last_cursor()
                for n in range(0 if last is None else last + 1, goal + 1):
                    await stream.emit({"n": n, "by": who})
                    await stream.flush()
                    assert n not in confirmed
                    confirmed[n] = who
            except StreamFenced:
                await asyncio.sleep(0.003)

    async with asyncio.timeout(30):
        await asyncio.gather(fight("a"), fight("b"))
    await (await account.process().take_over(id)).close()
    got = await collect(await account.process().get(id))
    assert [event["n"] for event in got] == list(range(goal + 1))
    assert all(got[n]["by"] == who for n, who in confirmed.items())


@pytest.mark.parametrize("seed", range(8))
async def test_random_faults_change_nothing_that_was_confirmed(
    seed: int, id: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    account = Account(MemoryAppendBlobs())
    tuning = slower(FAST, segment_bytes=600, give_up_after=timedelta(seconds=30))
    faults = [RandomFaults(account.blobs, seed * 10 + n, 0.25) for n in range(3)]
    last = -1

    async def settle(action):  # a call that fails at once when the storage does
        while True:
            try:
                return await action()
            except StreamUnavailable:
                await asyncio.sleep(0.002)

    await settle(lambda: account.process(faults[0], tuning).get_or_create(id))
    follower = Follower(await settle(lambda: account.process(faults[2], tuning).get(id)))
    for generation in range(4):
        process = account.process(faults[generation % 2], tuning)
        stream = await settle(lambda process=process, g=generation: process.take_over(id, generation=g))
        found = await stream.last_cursor()
        assert found is None or found >= last
        start = -1 if found is None else found
        await emit_all(stream, *range(start + 1, start + 26))
        await stream.flush()
        last = start + 25
        if generation < 3:
            await emit_all(stream, *range(last + 1, last + 4))  # dies without a flush
    await stream.close()
    expected = events(*range(last + 1))
    assert await follower.ends() == expected
    assert await collect(await account.process(tuning=tuning).get(id)) == expected
