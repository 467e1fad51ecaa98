"""What a stream does, whatever keeps it: one suite, all backings. What differs is asked of `capabilities`."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hosting.streaming import (
    EventStream,
    EventStreamClosedError,
    EventStreamNotFoundError,
    StreamCursorError,
    StreamFenced,
    StreamRegistry,
)
from tests.contract.streaming_kits import BACKINGS, TTL, Follower, Kit, collect, emit_all, events, open_kit


@pytest.fixture(params=BACKINGS)
async def kit(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Kit]:
    async with open_kit(request.param, request, tmp_path) as opened:
        yield opened


@pytest.fixture
def streams(kit: Kit) -> StreamRegistry:
    return kit.registry()


def only(streams: StreamRegistry, capability: str) -> None:
    if not getattr(streams.capabilities, capability):
        pytest.skip(
            f"this backing says in its capabilities that it has no {capability}: docs/streaming.md has the table of them"
        )


async def test_streams_are_event_streams(streams: StreamRegistry) -> None:
    assert isinstance(await streams.get_or_create("s"), EventStream)


async def test_get_of_an_unknown_id_raises(streams: StreamRegistry) -> None:
    with pytest.raises(EventStreamNotFoundError):
        await streams.get("s")


async def test_get_finds_a_stream_that_has_no_event_yet(streams: StreamRegistry) -> None:
    stream = await streams.get_or_create("s")
    assert await streams.get("s") is stream


async def test_all_that_ask_at_once_get_the_same_object(streams: StreamRegistry) -> None:
    first, *others = await asyncio.gather(*(streams.get_or_create("s") for _ in range(5)))
    assert all(other is first for other in others)


@pytest.mark.parametrize("id", ["a/b", "..", "A", "ü#?\\", "x" * 300, " "])
async def test_any_text_is_an_id_of_its_own(streams: StreamRegistry, id: str) -> None:
    await emit_all(await streams.get_or_create("a"), 1)
    stream = await streams.get_or_create(id)
    follower = await Follower(stream).attached()
    await emit_all(stream, 7, close=True)
    assert await follower.ends() == events(7)


async def test_an_empty_id_is_refused(streams: StreamRegistry) -> None:
    with pytest.raises(ValueError):
        await streams.get_or_create("")


async def test_a_subscriber_gets_events_in_order_and_ends_with_the_stream(streams: StreamRegistry) -> None:
    stream = await streams.get_or_create("s")
    follower = await Follower(stream).attached()
    await emit_all(stream, *range(10), close=True)
    assert await follower.ends() == events(*range(10))


async def test_a_late_subscriber_gets_history_with_replay_and_only_the_rest_without(streams: StreamRegistry) -> None:
    stream = await streams.get_or_create("s")
    await emit_all(stream, 0, 1)
    follower = await Follower(stream).attached()
    await emit_all(stream, 2, close=True)
    assert await follower.ends() == (events(0, 1, 2) if streams.capabilities.replay else events(2))


async def test_a_subscriber_after_close_gets_history_with_replay_and_ends(streams: StreamRegistry) -> None:
    stream = await streams.get_or_create("s")
    await emit_all(stream, 0, 1, close=True)
    assert await collect(stream) == (events(0, 1) if streams.capabilities.replay else [])


async def test_subscribing_attaches_when_iteration_starts(streams: StreamRegistry) -> None:
    stream = await streams.get_or_create("s")
    early = stream.subscribe()
    await emit_all(stream, 0, close=True)
    assert [event async for event in early] == (events(0) if streams.capabilities.replay else [])


async def test_each_subscriber_gets_everything(streams: StreamRegistry) -> None:
    stream = await streams.get_or_create("s")
    followers = [await Follower(stream).attached() for _ in range(4)]
    await emit_all(stream, *range(20), close=True)
    assert [await follower.ends() for follower in followers] == [events(*range(20))] * 4


async def test_a_subscriber_that_leaves_disturbs_nobody(streams: StreamRegistry) -> None:
    stream = await streams.get_or_create("s")
    stays, leaves = [await Follower(stream).attached() for _ in range(2)]
    await emit_all(stream, 0)
    await leaves.has(1)
    await leaves.stop()
    await emit_all(stream, 1, 2, close=True)
    assert await stays.ends() == events(0, 1, 2)


async def test_batches_hold_the_same_events_as_lists(streams: StreamRegistry) -> None:
    stream = await streams.get_or_create("s")
    batches: list[list[Any]] = []

    async def read() -> None:
        async for batch in stream.batches():
            batches.append(batch)

    reader = asyncio.create_task(read())
    await asyncio.sleep(0)
    await emit_all(stream, *range(50), close=True)
    async with asyncio.timeout(20):
        await reader
    assert all(batches)
    assert [event for batch in batches for event in batch] == events(*range(50))


async def test_after_is_strictly_greater(streams: StreamRegistry) -> None:
    only(streams, "replay")
    stream = await streams.get_or_create("s")
    await emit_all(stream, *range(5), close=True)
    assert await collect(stream, after=2) == events(3, 4)
    assert await collect(stream, after=4) == []
    assert await collect(stream, after=99) == []
    assert await collect(stream, after=-1) == events(*range(5))


async def test_after_filters_coming_events_too(streams: StreamRegistry) -> None:
    only(streams, "replay")
    stream = await streams.get_or_create("s")
    await emit_all(stream, 0)
    follower = await Follower(stream, after=2).attached()
    await emit_all(stream, 1, 2, 3, close=True)
    assert await follower.ends() == events(3)


async def test_cursors_may_have_gaps(streams: StreamRegistry) -> None:
    only(streams, "replay")
    stream = await streams.get_or_create("s")
    await emit_all(stream, 10, 20, 1000, close=True)
    assert await collect(stream, after=15) == events(20, 1000)
    assert await stream.last_cursor() == 1000


async def test_without_cursor_fn_after_is_ignored_and_there_is_no_last_cursor(kit: Kit) -> None:
    streams = kit.registry(cursor_fn=None)
    only(streams, "replay")
    stream = await streams.get_or_create("s")
    await emit_all(stream, 5, 3, close=True)
    assert await collect(stream, after=4) == events(5, 3)
    assert await stream.last_cursor() is None


async def test_last_cursor_is_none_at_first_then_that_of_what_was_emitted(streams: StreamRegistry) -> None:
    stream = await streams.get_or_create("s")
    assert await stream.last_cursor() is None
    await emit_all(stream, 0, 1)
    assert await stream.last_cursor() == (1 if streams.capabilities.replay else None)


async def test_emit_with_close_delivers_the_event_and_ends(streams: StreamRegistry) -> None:
    stream = await streams.get_or_create("s")
    follower = await Follower(stream).attached()
    await stream.emit({"n": 0}, close=True)
    assert await follower.ends() == [{"n": 0}]
    with pytest.raises(EventStreamClosedError):
        await stream.emit({"n": 1})


async def test_close_twice_is_once_and_emit_after_it_raises(streams: StreamRegistry) -> None:
    stream = await streams.get_or_create("s")
    await stream.close()
    await stream.close()
    with pytest.raises(EventStreamClosedError):
        await stream.emit({"n": 0})


async def test_a_closed_stream_without_events_ends_its_subscribers(streams: StreamRegistry) -> None:
    stream = await streams.get_or_create("s")
    follower = await Follower(stream).attached()
    await stream.close()
    assert await follower.ends() == []


async def test_flush_makes_emitted_events_visible(streams: StreamRegistry) -> None:
    stream = await streams.get_or_create("s")
    follower = await Follower(stream).attached()
    await emit_all(stream, 0, 1)
    await stream.flush()
    assert await follower.has(2) == events(0, 1)
    await follower.stop()


async def test_many_emits_at_once_are_all_delivered_once(streams: StreamRegistry) -> None:
    stream = await streams.get_or_create("s")
    follower = await Follower(stream).attached()
    await asyncio.gather(*(stream.emit(event) for event in events(*range(50))))
    await stream.close()
    assert await follower.ends() == events(*range(50))


async def test_a_slow_subscriber_loses_nothing_and_does_not_slow_the_writer(streams: StreamRegistry) -> None:
    stream = await streams.get_or_create("s")
    slow = stream.subscribe()
    first = asyncio.ensure_future(anext(slow))
    await asyncio.sleep(0)
    numbers = range(40) if streams.capabilities.emit_is_durable else range(3000)
    await emit_all(stream, *numbers, close=True)  # nobody reads meanwhile
    assert [await first] + [event async for event in slow] == events(*numbers)


async def test_delete_ends_subscribers_and_the_id_is_unknown(streams: StreamRegistry) -> None:
    stream = await streams.get_or_create("s")
    follower = await Follower(stream).attached()
    await emit_all(stream, 0)
    await stream.flush()
    await follower.has(1)
    await streams.delete("s")
    assert await follower.ends() == events(0)
    with pytest.raises(EventStreamNotFoundError):
        await streams.get("s")


async def test_delete_of_an_unknown_id_is_no_error(streams: StreamRegistry) -> None:
    await streams.delete("s")
    await streams.get_or_create("s")
    await streams.delete("s")
    await streams.delete("s")


async def test_a_deleted_stream_refuses_everything_but_close(streams: StreamRegistry) -> None:
    stream = await streams.get_or_create("s")
    await emit_all(stream, 0)
    await streams.delete("s")
    for call in (lambda: stream.emit({"n": 1}), stream.last_cursor, stream.flush):
        with pytest.raises(EventStreamNotFoundError):
            await call()
    with pytest.raises(EventStreamNotFoundError):
        stream.subscribe()
    await stream.close()


async def test_a_stream_made_after_delete_is_new_and_empty(streams: StreamRegistry) -> None:
    before = await streams.get_or_create("s")
    await emit_all(before, 0, 1, close=True)
    await streams.delete("s")
    stream = await streams.get_or_create("s")
    assert await stream.last_cursor() is None
    follower = await Follower(stream).attached()
    await emit_all(stream, 0, close=True)
    assert await follower.ends() == events(0)


async def test_a_closed_stream_expires_and_its_id_is_free_again(kit: Kit, streams: StreamRegistry) -> None:
    only(streams, "replay")
    await emit_all(await streams.get_or_create("s"), 0, 1, close=True)
    kit.age(TTL / 2)
    assert await streams.get("s") is not None
    kit.age(TTL)
    with pytest.raises(EventStreamNotFoundError):
        await streams.get("s")
    stream = await streams.get_or_create("s")
    await emit_all(stream, 0, close=True)
    assert await collect(stream) == events(0)


async def test_get_or_create_gives_no_expired_stream(kit: Kit, streams: StreamRegistry) -> None:
    only(streams, "replay")
    before = await streams.get_or_create("s")
    await emit_all(before, 0, close=True)
    kit.age(TTL * 2)
    stream = await streams.get_or_create("s")
    assert stream is not before
    await emit_all(stream, 5)
    assert await stream.last_cursor() == 5


async def test_an_open_stream_does_not_expire(kit: Kit, streams: StreamRegistry) -> None:
    stream = await streams.get_or_create("s")
    await emit_all(stream, 0)
    await stream.flush()
    kit.age(TTL * 2)
    assert await streams.get("s") is stream
    await emit_all(stream, 1)


async def test_events_expire_one_by_one_where_they_do(kit: Kit, streams: StreamRegistry) -> None:
    only(streams, "event_ttl")
    only(streams, "replay")
    stream = await streams.get_or_create("s")
    await emit_all(stream, 0)
    kit.age(TTL * 0.75)
    await emit_all(stream, 1)
    kit.age(TTL * 0.5)
    assert await stream.last_cursor() == 1
    await emit_all(stream, 2, close=True)
    assert await collect(stream) == events(1, 2)


async def test_last_cursor_counts_events_that_have_expired(kit: Kit, streams: StreamRegistry) -> None:
    only(streams, "replay")
    stream = await streams.get_or_create("s")
    await emit_all(stream, 0, 1)
    await stream.flush()
    kit.age(TTL * 2)
    assert await stream.last_cursor() == 1


async def test_an_error_in_cursor_fn_stores_nothing(streams: StreamRegistry) -> None:
    only(streams, "replay")
    stream = await streams.get_or_create("s")
    await emit_all(stream, 0)
    with pytest.raises(KeyError):
        await stream.emit({"no": "number"})
    await emit_all(stream, 1, close=True)
    assert await collect(stream) == events(0, 1)


async def test_cursors_out_of_order_are_kept_or_refused(streams: StreamRegistry) -> None:
    only(streams, "replay")
    stream = await streams.get_or_create("s")
    await emit_all(stream, 5)
    if streams.capabilities.any_cursor:
        await emit_all(stream, 3, 9, 4, close=True)
        assert await collect(stream) == events(5, 3, 9, 4)
        assert await collect(stream, after=4) == events(5, 9)
        assert await stream.last_cursor() == 9
        return
    for wrong in (5, 4, -1, 2**53, 6.0, "6", True, None):
        with pytest.raises(StreamCursorError):
            await stream.emit({"n": wrong})
    await emit_all(stream, 6, close=True)
    assert await collect(stream) == events(5, 6)


async def test_payloads_that_can_not_be_stored_are_refused_and_nothing_is_stored(streams: StreamRegistry) -> None:
    stream = await streams.get_or_create("s")
    follower = await Follower(stream).attached()
    refused: list[Any] = [lambda: None, float("nan"), b"bytes"] if not streams.capabilities.any_payload else []
    for value in refused:
        with pytest.raises((TypeError, ValueError)):
            await stream.emit({"n": 0, "value": value})
    await emit_all(stream, 0, close=True)
    assert await follower.ends() == events(0)


@dataclass
class Thing:
    n: int


async def test_payloads_are_any_object_where_they_can_be(kit: Kit) -> None:
    streams = kit.registry(cursor_fn=lambda thing: thing.n)
    only(streams, "any_payload")
    stream = await streams.get_or_create("s")
    follower = await Follower(stream).attached()
    await stream.emit(Thing(3), close=True)
    assert await follower.ends() == [Thing(3)]


async def test_payloads_are_not_shared(streams: StreamRegistry) -> None:
    stream = await streams.get_or_create("s")
    one, two = [await Follower(stream).attached() for _ in range(2)]
    payload: dict[str, Any] = {"n": 0, "list": [1]}
    await stream.emit(payload)
    payload["list"].append("by the writer")
    await stream.flush()
    (await one.has(1))[0]["list"].append("by a reader")
    await stream.close()
    assert await two.ends() == [{"n": 0, "list": [1]}]


@pytest.mark.parametrize(
    "text", ["line\nbreak\r\u2028", "😀 é 漢", "\ud83d half a pair", '{"seq":7,"event":1}', ' torn"}', "", "\x00"]
)
async def test_text_comes_back_as_it_was(streams: StreamRegistry, text: str) -> None:
    stream = await streams.get_or_create("s")
    follower = await Follower(stream).attached()
    await stream.emit({"n": 0, "text": text}, close=True)
    assert await follower.ends() == [{"n": 0, "text": text}]


async def test_an_event_of_five_megabytes(streams: StreamRegistry) -> None:
    stream = await streams.get_or_create("s")
    follower = await Follower(stream).attached()
    big = {"n": 1, "text": "0123456789" * 520_000}
    await emit_all(stream, 0)
    await stream.emit(big)
    await emit_all(stream, 2, close=True)
    got = await follower.ends()
    assert [event["n"] for event in got] == [0, 1, 2]
    assert got[1] == big


async def test_a_take_over_fences_the_writer_and_subscribers_notice_nothing(streams: StreamRegistry) -> None:
    before = await streams.get_or_create("s")
    follower = await Follower(before).attached()
    await emit_all(before, 0, 1)
    await before.flush()
    stream = await streams.take_over("s")
    assert await streams.get("s") is stream
    if streams.capabilities.replay:
        assert await stream.last_cursor() == 1
    for call in (lambda: before.emit({"n": 2}), before.flush, before.close):
        with pytest.raises(StreamFenced):
            await call()
    await emit_all(stream, 2, close=True)
    assert await follower.ends() == events(0, 1, 2)


async def test_a_take_over_of_nothing_makes_the_stream(streams: StreamRegistry) -> None:
    stream = await streams.take_over("s")
    follower = await Follower(stream).attached()
    await emit_all(stream, 0, close=True)
    assert await follower.ends() == events(0)


async def test_a_take_over_by_an_older_generation_is_refused_and_changes_nothing(streams: StreamRegistry) -> None:
    stream = await streams.take_over("s", generation=2)
    follower = await Follower(stream).attached()
    await emit_all(stream, 0)
    with pytest.raises(StreamFenced):
        await streams.take_over("s", generation=1)
    await emit_all(stream, 1)
    again = await streams.take_over("s", generation=2)
    await emit_all(again, 2, close=True)
    got = await follower.ends()
    assert [event["n"] for event in got][-1] == 2
    assert got == events(*sorted(event["n"] for event in got))


async def test_a_closed_stream_that_is_taken_over_stays_closed(streams: StreamRegistry) -> None:
    await emit_all(await streams.get_or_create("s"), 0, close=True)
    stream = await streams.take_over("s")
    with pytest.raises(EventStreamClosedError):
        await stream.emit({"n": 1})
    await stream.close()


async def test_streams_keep_their_backing_when_another_is_chosen(streams: StreamRegistry) -> None:
    stream = await streams.get_or_create("s")
    streams.use_in_memory_replay()
    assert await streams.get("s") is stream
    other = await streams.get_or_create("t")
    assert type(other) is not type(stream) or not streams.capabilities.event_ttl or other is not stream
    await emit_all(stream, 0, close=True)
    await streams.delete("s")
    with pytest.raises(EventStreamNotFoundError):
        await streams.get("s")


async def test_a_stream_is_there_after_a_restart(kit: Kit, streams: StreamRegistry) -> None:
    only(streams, "survives_restart")
    stream = await streams.get_or_create("s")
    await emit_all(stream, 0, 1)
    await streams.shutdown()
    later = kit.registry()
    found = await later.get("s")
    assert await found.last_cursor() == 1
    again = await later.get_or_create("s")
    await emit_all(again, 2, close=True)
    assert await collect(await kit.registry().get("s")) == events(0, 1, 2)


async def test_shutdown_stores_what_was_emitted(kit: Kit, streams: StreamRegistry) -> None:
    only(streams, "survives_restart")
    await emit_all(await streams.get_or_create("s"), *range(100))
    await streams.shutdown()
    assert await collect(await kit.registry().get("s"), limit=100) == events(*range(100))


async def test_a_subscriber_in_another_process_follows(kit: Kit, streams: StreamRegistry) -> None:
    only(streams, "across_processes")
    stream = await streams.get_or_create("s")
    follower = await Follower(await kit.registry().get("s")).attached()
    await emit_all(stream, 0)
    await stream.flush()
    await follower.has(1)
    await emit_all(stream, 1, 2, close=True)
    assert await follower.ends() == events(0, 1, 2)


async def test_a_subscriber_that_came_by_get_or_create_does_not_disturb_the_writer(
    kit: Kit, streams: StreamRegistry
) -> None:
    only(streams, "across_processes")
    reader = await kit.registry().get_or_create("s")
    follower = await Follower(reader).attached()
    stream = await streams.get_or_create("s")
    await emit_all(stream, 0)
    await follower.has(1)
    assert await reader.last_cursor() == 0
    await emit_all(stream, 1, close=True)
    assert await follower.ends() == events(0, 1)


async def test_a_writer_whose_stream_is_taken_over_elsewhere_stores_nothing_more(
    kit: Kit, streams: StreamRegistry
) -> None:
    only(streams, "across_processes")
    zombie = await streams.get_or_create("s")
    await emit_all(zombie, 0, 1)
    await zombie.flush()
    follower = await Follower(zombie).attached()
    stream = await kit.registry().take_over("s")
    assert await stream.last_cursor() == 1
    with pytest.raises(StreamFenced):
        await zombie.emit({"n": 2, "text": "zombie"})
        await zombie.flush()
    await emit_all(stream, 2, close=True)
    assert await follower.ends() == events(0, 1, 2)


async def test_a_stream_that_is_closed_elsewhere_is_closed_here(kit: Kit, streams: StreamRegistry) -> None:
    only(streams, "across_processes")
    await emit_all(await streams.get_or_create("s"), 0, close=True)
    late = await kit.registry().get_or_create("s")
    with pytest.raises(EventStreamClosedError):
        await late.emit({"n": 1})
    await late.close()


async def test_a_stream_that_is_deleted_elsewhere_ends_here(kit: Kit, streams: StreamRegistry) -> None:
    only(streams, "across_processes")
    stream = await streams.get_or_create("s")
    await emit_all(stream, 0)
    await stream.flush()
    follower = await Follower(await kit.registry().get("s")).attached()
    await follower.has(1)
    await kit.registry().delete("s")
    assert await follower.ends() == events(0)
    with pytest.raises(EventStreamNotFoundError):
        await stream.emit({"n": 1})
        await stream.flush()
