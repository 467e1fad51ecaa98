"""A two-hour run in a few seconds: 60,000 events on one stream (eight a second), resumed from anywhere at the same cost."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from hosting.responses import Event
from hosting.responses.builders import ResponseEventStream
from tests.server_world import Json, World, serve, until

EVENTS = 60_000
SEGMENT = 128 * 1024
_AROUND = 9  # events before and after the deltas


async def talker(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
    stream = ResponseEventStream(response_id=context.response_id, request=request, keep_events=False)
    yield stream.emit_created()
    yield stream.emit_in_progress()
    message = stream.add_output_item_message()
    yield message.emit_added()
    text = message.add_text_content()
    yield text.emit_added()
    for number in range(EVENTS - _AROUND):
        yield text.emit_delta(f"{number} ")
        if number % 500 == 0:
            await asyncio.sleep(0)
    yield text.emit_text_done()
    yield text.emit_done()
    yield message.emit_done()
    yield stream.emit_completed()


async def first_event(world: World, identifier: str, after: int) -> tuple[Json | None, Any, Any, float]:
    """What a client gets first after number `after` (of what is stored), and what that cost a process that knows nothing."""
    await world.kill()
    world.boot(drives=False)
    tables, blobs, started = world.store.meter.copy(), world.blobs.meter.copy(), time.perf_counter()
    reader = await world.follow(identifier, after if after >= 0 else None)
    await until(lambda: reader.done or any(number > max(after, 1) for number in reader.numbers))
    seconds = time.perf_counter() - started
    cost = world.store.meter - tables, world.blobs.meter - blobs, seconds
    await reader.hang_up()
    return next((event for event in reader.events if event["sequence_number"] > max(after, 1)), None), *cost


async def test_a_stream_of_sixty_thousand_events_is_resumed_from_anywhere_at_the_same_cost() -> None:
    async with serve(talker) as world:
        world.tuning = replace(world.tuning, segment_bytes=SEGMENT)
        await world.kill()
        world.boot()
        reader = await world.stream("hi", background=True)
        started = time.perf_counter()
        await until(lambda: reader.done, 60)
        run_seconds = time.perf_counter() - started
        assert reader.numbers == list(range(EVENTS))
        identifier, last = reader.events[0]["response"]["id"], EVENTS - 1
        final = reader.events[-1]
        assert (final["type"], final["sequence_number"]) == ("response.completed", last)
        assert len(final["response"]["output"][0]["content"][0]["text"].split()) == EVENTS - _AROUND
        segments = len(world.blobs._blobs)
        assert segments > 50

        costs: dict[int, tuple[Any, Any, float]] = {}
        # Not just before the end: the last four events have all of the text in them.
        for after in (-1, 2, EVENTS // 2 - 1, EVENTS - 2_000, last):
            event, *cost = await first_event(world, identifier, after)
            if after == last:
                assert event is None
            else:
                assert event is not None
                assert event["sequence_number"] == max(after, 1) + 1
            costs[after] = (cost[0], cost[1], cost[2])
        print(f"\n{EVENTS} events, {segments} segments, written and followed in {run_seconds:.1f} s")
        for after, (tables, blobs, seconds) in costs.items():
            print(
                f"starting_after={after:6}: {tables.table_reads} table reads, {blobs.blob_reads} blob reads, "
                f"{blobs.bytes_in / 1024:.0f} KiB, {1000 * seconds:.1f} ms to the first event"
            )
        for tables, blobs, _ in costs.values():
            assert tables.table_reads <= 6
            assert blobs.blob_reads <= 6
            assert blobs.bytes_in <= 6 * SEGMENT  # of 54: it reads ahead until this test has seen the first event
            assert (tables.table_writes, blobs.blob_writes) == (0, 0)
