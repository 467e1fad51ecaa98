"""Streams in blobs: how they roll from segment to segment, what a resume and a poll cost, and what damage does."""

import asyncio
import gc
import json
import random
import time
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from hosting.storage import MemoryAppendBlobs
from hosting.streaming import EventStreamNotFoundError, StreamCorrupt, StreamFenced, StreamTuning
from hosting.streaming._segments import segment_name
from tests.contract.streaming_faults import Account, FaultyBlobs, open_account
from tests.contract.streaming_kits import FAST, Follower, collect, emit_all, events, slower, until

SMALL = slower(FAST, segment_bytes=400)
CALM = StreamTuning(  # the defaults, in tenths
    flush_interval=timedelta(milliseconds=20),
    poll_active=timedelta(milliseconds=3),
    poll_idle=timedelta(milliseconds=100),
    poll_local=timedelta(milliseconds=500),
)


@pytest.fixture(params=["memory", "azurite"])
async def account(request: pytest.FixtureRequest) -> AsyncIterator[Account]:
    async with open_account(request.param, request) as opened:
        yield opened


@pytest.fixture
async def memory(request: pytest.FixtureRequest) -> AsyncIterator[Account]:
    async with open_account("memory", request) as opened:
        yield opened


@pytest.fixture
def id(request: pytest.FixtureRequest) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in request.node.name)


async def fill(account: Account, id: str, count: int, *, close: bool = True) -> None:
    """Small segments, several events each."""
    process = account.process(tuning=SMALL)
    stream = await process.get_or_create(id)
    for n in range(count):
        await emit_all(stream, n)
        if n % 3 == 2:
            await stream.flush()
    if close:
        await stream.close()
    await process.shutdown()


async def segments(account: Account, id: str) -> list[str]:
    return [info.name for info in await account.blobs.list(f"streams/{id}/")]


async def test_a_stream_rolls_and_reads_as_one(account: Account, id: str) -> None:
    await fill(account, id, 60)
    assert len(await segments(account, id)) > 5
    assert await collect(await account.process().get(id)) == events(*range(60))


async def test_a_segment_is_named_by_its_first_event_and_full_when_the_setting_says(account: Account, id: str) -> None:
    await fill(account, id, 60)
    for name in await segments(account, id):
        chunk = await account.blobs.read(name, 0, 10_000)
        assert chunk is not None
        lines = [json.loads(line) for line in chunk.data.splitlines()]
        numbers = [line["seq"] for line in lines if "seq" in line]
        assert name == segment_name(f"streams/{id}/", numbers[0] if numbers else 60)
        assert "writer" in lines[0]
        assert "next" in lines[-1] or "end" in lines[-1]


async def test_a_segment_takes_only_so_many_appends(memory: Account, id: str) -> None:
    process = memory.process(tuning=slower(FAST, segment_appends=4, flush_interval=timedelta(0)))
    stream = await process.get_or_create(id)
    for n in range(40):
        await emit_all(stream, n)
        await stream.flush()
    assert len(await segments(memory, id)) == 11  # the eleventh is made and empty
    assert await collect(stream, limit=40) == events(*range(40))


async def test_a_resume_from_any_event_gives_the_rest(account: Account, id: str) -> None:
    await fill(account, id, 60)
    stream = await account.process().get(id)
    for after in (-1, 0, *range(4, 56, 7), 55, 56, 57, 58, 59, 60):
        assert await collect(stream, after=after) == events(*range(after + 1, 60))


async def test_a_follower_goes_on_through_a_roll(account: Account, id: str) -> None:
    stream = await account.process(tuning=SMALL).get_or_create(id)
    there = Follower(await account.process(tuning=SMALL).get(id))
    here = Follower(stream)
    for n in range(40):
        await emit_all(stream, n)
        await stream.flush()
        if n % 10 == 0:
            await there.has(n + 1)
    await stream.close()
    assert await there.ends() == await here.ends() == events(*range(40))


async def test_a_writer_that_dies_before_it_makes_the_next_segment_is_followed_by_another(
    account: Account, id: str
) -> None:
    class Dies(FaultyBlobs):
        async def create(self, name: str) -> bool:
            if not name.endswith(f"{0:016}.jsonl"):
                raise asyncio.CancelledError
            return await super().create(name)

    stream = await account.process(Dies(account.blobs), SMALL).get_or_create(id)
    there = Follower(await account.process(tuning=SMALL).get(id))
    await emit_all(stream, *range(20))
    await until(lambda: stream.writer.broken)  # pyright: ignore
    assert len(await segments(account, id)) == 1
    last = await (await account.process().get(id)).last_cursor()
    assert 0 < last < 19
    await there.has(last + 1)
    recovered = await account.process(tuning=SMALL).take_over(id)
    assert await recovered.last_cursor() == last
    await emit_all(recovered, last + 1, close=True)
    assert await there.ends() == events(*range(last + 2))
    assert await collect(await account.process().get(id), after=last - 1) == events(last, last + 1)


async def test_a_writer_that_dies_before_it_writes_to_the_next_segment_keeps_its_generation(
    account: Account, id: str
) -> None:
    process = account.process(tuning=slower(FAST, segment_appends=1))
    stream = await process.take_over(id, generation=7)
    await emit_all(stream, *range(20))
    await stream.flush()
    await process.shutdown()
    infos = await account.blobs.list(f"streams/{id}/")
    if infos[-1].size:
        await account.blobs.create(segment_name(f"streams/{id}/", 20))  # where it would have gone on
    with pytest.raises(StreamFenced):
        await account.process().take_over(id, generation=6)
    recovered = await account.process().take_over(id, generation=8)
    assert await recovered.last_cursor() == 19


async def test_a_torn_event_is_dropped_and_its_number_used_again(account: Account, id: str) -> None:
    """An event of several blocks whose writer died after the first one."""

    class DiesAfterOneBlock(FaultyBlobs):
        async def append(self, name: str, data: bytes, position: int) -> int:
            if data.startswith(b"B"):
                raise asyncio.CancelledError
            return await super().append(name, data, position)

    stream = await account.process(DiesAfterOneBlock(account.blobs)).get_or_create(id)
    there = Follower(await account.process().get(id))
    await emit_all(stream, 0)
    await there.has(1)
    await stream.emit({"n": 1, "text": "A" * (4 * 1024 * 1024 - 1000) + "B" * 5000})
    await until(lambda: stream.writer.broken)  # pyright: ignore
    recovered = await account.process().take_over(id)
    assert await recovered.last_cursor() == 0
    await emit_all(recovered, 1, 2, close=True)
    assert await there.ends() == events(0, 1, 2)
    assert await collect(await account.process().get(id)) == events(0, 1, 2)


async def test_a_line_that_lacks_only_its_newline_is_torn_too(memory: Account, id: str) -> None:
    await fill(memory, id, 1, close=False)
    [name] = await segments(memory, id)
    size = (await memory.blobs.list(name))[0].size
    await memory.blobs.append(name, b'{"seq":1,"event":{"n":1,"text":"not complete"}}', size)
    recovered = await memory.process().take_over(id)
    assert await recovered.last_cursor() == 0
    await emit_all(recovered, 1, close=True)
    assert await collect(await memory.process().get(id)) == events(0, 1)


async def damage(account: Account, name: str, old: bytes, new: bytes) -> None:
    chunk = await account.blobs.read(name, 0, 10**6)
    assert chunk is not None
    assert chunk.data.count(old) == 1
    await account.blobs.delete(name)
    await account.blobs.create(name)
    await account.blobs.append(name, chunk.data.replace(old, new), 0)


async def read_over_damage(account: Account, id: str, **options: object) -> tuple[list[int], list[int]]:
    """The numbers that can be read, and after which number reading went on each time."""
    got: list[int] = []
    resumed: list[int] = []
    after: int | None = None
    while True:
        stream = await account.process(**options).get(id)
        try:
            async for event in stream.subscribe(after=after):
                got.append(event["n"])
        except StreamCorrupt as error:
            after = error.resume_after
            resumed.append(after)
        else:
            return got, resumed


async def test_a_damaged_line_is_reported_and_the_rest_is_readable(
    account: Account, id: str, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(account, id, 30)
    name = (await segments(account, id))[1]
    await damage(account, name, b'{"seq":9,', b'{"s\x00q":9,')
    assert await read_over_damage(account, id) == ([n for n in range(30) if n != 9], [9])
    assert "damaged" in caplog.text


async def test_a_line_with_damage_inside_the_payload_is_reported(memory: Account, id: str) -> None:
    await fill(memory, id, 30)
    await damage(memory, (await segments(memory, id))[1], b'"event 9"', b'"event 9')
    assert await read_over_damage(memory, id) == ([n for n in range(30) if n != 9], [9])


async def test_a_lost_segment_is_reported_and_the_rest_is_readable(account: Account, id: str) -> None:
    await fill(account, id, 30)
    names = await segments(account, id)
    first, last = (int(name[-22:-6]) for name in names[1:3])
    await account.blobs.delete(names[1])
    numbers = [n for n in range(30) if not first <= n < last]
    assert await read_over_damage(account, id) == (numbers, [last - 1])


async def test_lost_first_segments_are_reported_and_the_rest_is_readable(account: Account, id: str) -> None:
    await fill(account, id, 30)
    names = await segments(account, id)
    for name in names[:3]:
        await account.blobs.delete(name)
    first = int(names[3][-22:-6])
    assert await read_over_damage(account, id) == (list(range(first, 30)), [first - 1])
    assert await collect(await account.process().get(id), after=first + 1) == events(*range(first + 2, 30))


async def test_a_stream_deleted_and_made_anew_elsewhere_is_the_new_one_here(account: Account, id: str) -> None:
    await fill(account, id, 30)
    reader = account.process()
    assert await collect(await reader.get(id)) == events(*range(30))
    other = account.process()
    await other.delete(id)
    with pytest.raises(EventStreamNotFoundError):
        await reader.get(id)
    stream = await other.get_or_create(id)
    await emit_all(stream, 0, close=True)
    assert await collect(await reader.get(id)) == events(0)


async def test_a_stream_made_anew_elsewhere_is_not_taken_for_the_one_that_is_known_here(
    account: Account, id: str
) -> None:
    await fill(account, id, 30)
    reader = account.process()
    held = await reader.get(id)
    assert await collect(held) == events(*range(30))
    other = account.process()
    await other.delete(id)
    await emit_all(await other.get_or_create(id), 0, close=True)
    assert await collect(await reader.get(id)) == events(0)


async def test_a_follower_of_a_stream_that_was_made_anew_ends_with_the_old_one(account: Account, id: str) -> None:
    await emit_all(await account.process().get_or_create(id), 0)
    faults = FaultyBlobs(account.blobs)
    follower = Follower(await account.process(faults).get(id))
    await follower.has(1)
    faults.down = True  # it does not look meanwhile
    other = account.process()
    await other.delete(id)
    if account.blobs.__class__ is not MemoryAppendBlobs:
        await asyncio.sleep(1.1)  # Azure tells blobs of one name apart by the second of their birth
    await emit_all(await other.get_or_create(id), *range(50), close=True)
    faults.down = False
    assert await follower.ends() == events(0)


async def test_a_subscriber_that_comes_in_the_middle_of_a_deletion_ends(memory: Account, id: str) -> None:
    await fill(memory, id, 30)
    half_way, release = asyncio.Event(), asyncio.Event()

    class Slow(FaultyBlobs):
        async def delete(self, name: str) -> bool:
            if len(await segments(memory, id)) < 4:
                half_way.set()
                await release.wait()
            return await super().delete(name)

    deleting = asyncio.create_task(memory.process(Slow(memory.blobs)).delete(id))
    await half_way.wait()
    process = memory.process(tuning=slower(FAST, poll_idle=timedelta(milliseconds=400)))
    follower = await Follower(await process.get(id)).attached()
    await asyncio.sleep(0.02)
    release.set()
    await deleting
    assert await follower.ends() == []


async def test_a_follower_in_the_process_of_the_former_writer_keeps_pace_with_the_new_one(
    memory: Account, id: str
) -> None:
    before = await memory.process(tuning=slower(FAST, poll_local=timedelta(seconds=3))).get_or_create(id)
    follower = Follower(before)
    await emit_all(before, 0)
    await follower.has(1)
    writer = await memory.process().take_over(id)
    await emit_all(writer, 1)
    await follower.has(2)  # noticed by the slow look
    noticed = time.monotonic()
    for n in range(2, 6):
        await emit_all(writer, n)
        await until(lambda n=n: len(follower.got) == n + 1)
    assert time.monotonic() - noticed < 8  # by slow looks, one for each, it would take 12 s
    await follower.stop()


async def test_a_follower_in_the_process_of_a_fenced_writer_looks_as_often_as_others(memory: Account, id: str) -> None:
    before = await memory.process(tuning=slower(FAST, poll_local=timedelta(seconds=30))).get_or_create(id)
    follower = Follower(before)
    await emit_all(before, 0)
    await follower.has(1)
    writer = await memory.process().take_over(id)
    with pytest.raises(StreamFenced):
        await emit_all(before, 1)
        await before.flush()
    await emit_all(writer, 1)
    await until(lambda: len(follower.got) == 2, seconds=2)
    await follower.stop()


async def test_delete_leaves_no_segment(account: Account, id: str) -> None:
    await fill(account, id, 60)
    await account.process().delete(id)
    assert await segments(account, id) == []


async def test_scopes_do_not_see_each_other(account: Account, id: str) -> None:
    scope = ["tenant-a"]
    process = account.process(scope=lambda: scope[0])
    await emit_all(await process.get_or_create(id), 0, close=True)
    scope[0] = "tenant-b"
    with pytest.raises(EventStreamNotFoundError):
        await process.get(id)
    await process.delete(id)
    assert await (await process.get_or_create(id)).last_cursor() is None
    scope[0] = "tenant-a"
    assert await collect(await process.get(id)) == events(0)
    assert await account.blobs.list(f"streams/tenant-a/{id}/")


# What it costs.


async def test_a_new_stream_costs_a_listing_a_create_and_one_write_for_all_that_comes_at_once(
    account: Account, id: str
) -> None:
    await fill(account, id + "-warm", 1)
    before = account.meter.copy()
    stream = await account.process().get_or_create(id)
    await emit_all(stream, *range(100), close=True)
    used = account.meter - before
    assert (used.blob_reads, used.blob_writes, used.blob_deletes) == (1, 2, 0)


async def test_a_follower_of_a_stream_that_its_process_made_costs_looks_only(memory: Account, id: str) -> None:
    stream = await memory.process().get_or_create(id)
    before = memory.meter.copy()
    follower = Follower(stream)
    writer = await memory.process().take_over(id)
    await emit_all(writer, 0)
    await follower.has(1)
    assert (memory.meter - before).blob_writes == 2  # the claim and the event
    await follower.stop()


async def test_a_stream_that_nobody_holds_keeps_its_writer_while_an_append_is_under_way(
    memory: Account, id: str
) -> None:
    faults = FaultyBlobs(memory.blobs)
    under_way, release = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        under_way.set()
        await release.wait()

    process = memory.process(faults)
    await emit_all(await process.get_or_create(id), 0)
    faults.before_append = hold
    await under_way.wait()
    for n in range(200):  # more than the registry keeps
        await process.get_or_create(f"{id}-{n}")
    gc.collect()
    assert len(process._backings[0]) < 200  # pyright: ignore
    stream = await process.get_or_create(id)
    await emit_all(stream, 1)
    release.set()
    await stream.close()
    assert await collect(await memory.process().get(id)) == events(0, 1)


async def test_the_first_event_does_not_wait_and_the_next_ones_gather(memory: Account, id: str) -> None:
    tuning = slower(CALM, flush_interval=timedelta(minutes=5))
    stream = await memory.process(tuning=tuning).get_or_create(id)
    here = await Follower(stream).attached()
    await emit_all(stream, 0)
    await here.has(1)  # long before the interval is over
    before = memory.meter.copy()
    for n in range(1, 100):
        await emit_all(stream, n)
        await asyncio.sleep(0.001)
    assert (memory.meter - before).blob_writes == 0
    await stream.close()
    assert await here.ends() == events(*range(100))
    assert (memory.meter - before).blob_reads == 0  # the writer's own process reads nothing


async def test_events_are_appended_once_an_interval(memory: Account, id: str) -> None:
    interval = 0.2
    tuning = slower(CALM, flush_interval=timedelta(seconds=interval))
    stream = await memory.process(tuning=tuning).get_or_create(id)
    here = await Follower(stream).attached()
    await emit_all(stream, 0)
    await here.has(1)
    before, started, n = memory.meter.copy(), time.monotonic(), 1
    while (written := (memory.meter - before).blob_writes) < 3:
        await emit_all(stream, n)
        n += 1
        await asyncio.sleep(0.001)
        assert n < 20_000, "they are not appended"
    assert written <= (time.monotonic() - started) / interval + 1.5
    await stream.close()
    assert await here.ends() == events(*range(n))


async def test_an_idle_follower_elsewhere_looks_ever_less_often(memory: Account, id: str) -> None:
    await fill(memory, id, 1, close=False)
    follower = Follower(await memory.process(tuning=CALM).get(id))
    await follower.has(1)
    await asyncio.sleep(0.6)
    before, began = memory.meter.copy(), time.monotonic()
    await asyncio.sleep(0.5)
    assert (memory.meter - before).blob_reads <= (time.monotonic() - began) / 0.1 + 1
    await until(lambda: (memory.meter - before).blob_reads >= 2)  # and it goes on
    await follower.stop()


async def test_followers_of_one_process_look_together(memory: Account, id: str) -> None:
    await fill(memory, id, 1, close=False)
    process = memory.process(tuning=CALM)
    followers = [Follower(await process.get(id)) for _ in range(10)]
    for follower in followers:
        await follower.has(1)
    await asyncio.sleep(0.6)
    before, began = memory.meter.copy(), time.monotonic()
    await asyncio.sleep(0.5)
    assert (memory.meter - before).blob_reads <= (time.monotonic() - began) / 0.1 + 3  # ten by themselves: 50
    writer = await memory.process().take_over(id)
    await emit_all(writer, 1, close=True)
    for follower in followers:
        assert await follower.ends() == events(0, 1)


async def test_a_follower_that_does_not_read_does_not_look(memory: Account, id: str) -> None:
    await fill(memory, id, 1, close=False)
    iterator = (await memory.process().get(id)).subscribe()
    assert await anext(iterator) == events(0)[0]
    before = memory.meter.copy()
    await asyncio.sleep(0.2)
    assert (memory.meter - before).operations == 0
    await iterator.aclose()


async def test_sixty_thousand_events_and_a_resume_from_anywhere_in_constant_operations() -> None:
    """Two hours of streaming. Each resume: one listing and one read until its first event."""
    account = Account(MemoryAppendBlobs())
    account.meter = account.blobs.meter  # type: ignore[attr-defined]
    count = 60_000  # a burst of twenty an append, which is what a quick model makes of it
    tuning = slower(FAST, flush_interval=timedelta(0), segment_appends=10_000)
    stream = await account.process(tuning=tuning).get_or_create("long")
    text = "a delta of about this many letters, which is a lot for one; " * 3
    for n in range(count):
        await stream.emit({"n": n, "text": text})
        if n % 20 == 0:
            await stream.flush()
    await stream.close()
    names = await segments(account, "long")
    assert len(names) > 10
    rng = random.Random(1)
    reader = account.process()
    for after in [-1, 0, count - 2, count - 1, *(rng.randrange(count) for _ in range(40))]:
        fresh = await account.process().get("long")
        before = account.meter.copy()
        got = await collect(fresh, after=after, limit=1)
        assert (account.meter - before).operations <= 1  # `get` has done the listing
        assert [event["n"] for event in got] == ([after + 1] if after + 1 < count else [])
    before = account.meter.copy()
    got = await collect(await reader.get("long"))
    assert [event["n"] for event in got] == list(range(count))
    assert (account.meter - before).operations <= len(names) + 3


async def test_a_long_stream_in_azurite_resumes_from_anywhere_in_constant_operations(
    request: pytest.FixtureRequest, id: str
) -> None:
    async with open_account("azurite", request) as account:
        count = 3_000
        stream = await account.process(tuning=slower(FAST, segment_bytes=8_000)).get_or_create(id)
        await emit_all(stream, *range(count), close=True)
        assert len(await segments(account, id)) >= 5
        for after in range(-1, count, 371):
            fresh = await account.process().get(id)
            before = account.meter.copy()
            assert await collect(fresh, after=after, limit=1) == events(after + 1)
            assert (account.meter - before).operations <= 1


async def test_memory_stays_bounded_behind_a_slow_subscriber(memory: Account, id: str) -> None:
    stream = await memory.process(tuning=slower(FAST, window_bytes=10_000)).get_or_create(id)
    slow = stream.subscribe()
    first = asyncio.ensure_future(anext(slow))
    await emit_all(stream, *range(5_000), close=True)
    window = stream.log.recent  # pyright: ignore
    assert sum(len(item.data) for item in window.after(-1)) <= 10_000
    assert [(await first)["n"]] + [event["n"] async for event in slow] == list(range(5_000))
