"""What is measured of streams."""

import asyncio
from datetime import timedelta

from hosting.storage import MemoryAppendBlobs
from hosting.streaming import StreamRegistry, StreamTuning
from tests.telemetry_recorder import Recorder, recorder

__all__ = ["recorder"]

TUNING = StreamTuning(
    flush_interval=timedelta(milliseconds=20),
    poll_active=timedelta(milliseconds=5),
    poll_idle=timedelta(milliseconds=20),
    poll_local=timedelta(seconds=5),
)


def process(blobs: MemoryAppendBlobs) -> StreamRegistry:
    registry = StreamRegistry()
    registry.use_blob_replay(lambda: blobs, cursor_fn=lambda event: event["n"], tuning=TUNING)
    return registry


async def test_an_append_tells_how_many_events_it_stored_and_how_long_the_oldest_waited(recorder: Recorder):
    stream = await process(MemoryAppendBlobs()).get_or_create("s")
    await stream.emit({"n": 0})
    await stream.flush()
    for number in range(1, 4):
        await stream.emit({"n": number})
    await asyncio.sleep(0.05)
    await stream.close()
    events, delay = recorder.point("hosting.stream.append.events"), recorder.point("hosting.stream.append.delay")
    assert (events.count, events.sum, events.max) == (2, 4, 3)
    assert delay.count == 2
    assert 0.001 < delay.max < 5  # they waited for the interval to end


async def test_an_append_without_events_is_not_one_of_events(recorder: Recorder):
    stream = await process(MemoryAppendBlobs()).get_or_create("s")
    await stream.close()
    assert not recorder.points("hosting.stream.append.events")


async def test_a_follower_in_another_process_tells_how_old_its_news_may_be(recorder: Recorder):
    blobs = MemoryAppendBlobs()
    stream = await process(blobs).get_or_create("s")
    await stream.emit({"n": 0})
    await stream.flush()
    following = (await process(blobs).get("s")).subscribe()
    assert await anext(following) == {"n": 0}
    coming = asyncio.ensure_future(anext(following))
    await asyncio.sleep(0.05)
    await stream.emit({"n": 1})
    assert await coming == {"n": 1}
    lag = recorder.point("hosting.stream.lag")
    assert lag.count == 1
    assert 0 < lag.max < 5
    await following.aclose()


async def test_a_follower_in_the_process_of_the_writer_has_no_lag_to_tell(recorder: Recorder):
    stream = await process(MemoryAppendBlobs()).get_or_create("s")
    await stream.emit({"n": 0})
    await stream.flush()
    following = stream.subscribe(after=0)
    coming = asyncio.ensure_future(anext(following))
    await asyncio.sleep(0)
    await stream.emit({"n": 1})
    assert await coming == {"n": 1}
    assert not recorder.points("hosting.stream.lag")
    await following.aclose()


async def test_appends_and_polls_make_no_spans(recorder: Recorder):
    with recorder.tracers.get_tracer("test").start_as_current_span("around"):
        stream = await process(MemoryAppendBlobs()).get_or_create("s")
        await stream.emit({"n": 0})
        await stream.close()
    assert [span.name for span in recorder.spans] == ["around"]
