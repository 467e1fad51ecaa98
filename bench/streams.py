"""Streams in blobs on Azurite: what they cost, how late a follower is, and how fast a resume finds its place.

Writer and followers are registries of their own with connections of their own, in one process: what is CPU of the stream
code and what is a request is measured as it is between instances. Azurite runs on the same cores; Azure does not.
"""

import asyncio
import statistics
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench.table import show
from devhost.azurite import run_azurite
from hosting.storage import AppendBlobs, MemoryAppendBlobs, Meter, connect_append_blobs
from hosting.streaming import EventStream, StreamRegistry, StreamTuning

_SECONDS = 10.0
_RATE = 50
_LONG = 60_000
_DELTA = {"type": "response.output_text.delta", "item_id": "msg_" + "0" * 50, "output_index": 0, "content_index": 0}

type Open = Callable[[Meter], AppendBlobs]


def main() -> None:
    """All tables."""
    asyncio.run(_run())


async def _run() -> None:
    async with run_azurite(Path.cwd()) as azurite:
        env = {"AzureWebJobsStorage": azurite.connection_string}

        def open_blobs(meter: Meter) -> AppendBlobs:
            return connect_append_blobs(env, container="bench", meter=meter)

        await _warm(open_blobs)
        await _a_streamed_minute(open_blobs)
        await _long_stream(open_blobs)
        await _one_call(env)
    await _cpu()


def _registry(blobs: Callable[[], AppendBlobs], tuning: StreamTuning | None = None) -> StreamRegistry:
    registry = StreamRegistry()
    registry.use_blob_replay(blobs, cursor_fn=lambda event: event["sequence_number"], tuning=tuning)
    return registry


@asynccontextmanager
async def _process(open_blobs: Open) -> AsyncGenerator[tuple[StreamRegistry, Meter]]:
    meter = Meter()
    registry = _registry(lambda: open_blobs(meter))
    try:
        yield registry, meter
    finally:
        await registry.shutdown()


async def _warm(open_blobs: Open) -> None:
    async with _process(open_blobs) as (streams, _):
        await (await streams.get_or_create("warm")).emit(_event(0), close=True)


def _event(number: int) -> dict[str, Any]:
    return {**_DELTA, "sequence_number": number, "delta": "a few letters", "sent": time.perf_counter()}


async def _a_streamed_minute(open_blobs: Open) -> None:
    """Tokens at a steady rate, a follower in the writer's process and one elsewhere."""
    async with _process(open_blobs) as (here, written), _process(open_blobs) as (there, read):
        stream = await here.get_or_create("minute")
        lags: dict[str, list[float]] = {"same process": [], "another process": []}
        followers = [
            asyncio.create_task(_lag(stream, lags["same process"])),
            asyncio.create_task(_lag(await there.get("minute"), lags["another process"])),
        ]
        await asyncio.sleep(0.3)
        before = written.copy(), read.copy()
        started = time.perf_counter()
        number = 0
        while (elapsed := time.perf_counter() - started) < _SECONDS:
            await stream.emit(_event(number))
            number += 1
            await asyncio.sleep(max(0.0, number / _RATE - elapsed))
        seconds = time.perf_counter() - started
        minute = 60 / seconds
        writer, reader = written - before[0], read - before[1]
        await stream.close()
        await asyncio.gather(*followers)
    tuning = StreamTuning()
    show(
        f"A streamed minute at {_RATE} events/s and the default tuning (flush {tuning.flush_interval.total_seconds():.1f} s),"
        f" from {seconds:.0f} s",
        ["who", "appends", "reads"],
        [
            [
                "writer, and a follower in its process",
                f"{writer.blob_writes * minute:.0f}",
                f"{writer.blob_reads * minute:.0f}",
            ],
            ["a follower in another process", "0", f"{reader.blob_reads * minute:.0f}"],
        ],
    )
    show(
        "From emit to the follower, ms (an event waits for the flush interval, half of it on average)",
        ["follower", "median", "95 %", "first event"],
        [[who, *(f"{value * 1000:.0f}" for value in _spread(values))] for who, values in lags.items()],
    )


def _spread(values: list[float]) -> tuple[float, float, float]:
    return statistics.median(values), statistics.quantiles(values, n=20)[-1], values[0]


async def _lag(stream: EventStream, lags: list[float]) -> None:
    async for event in stream.subscribe():
        lags.append(time.perf_counter() - event["sent"])  # noqa: PERF401, when it arrives is what is measured


async def _long_stream(open_blobs: Open) -> None:
    """Two hours of streaming: written as fast as it goes, read whole, resumed from several places."""
    async with _process(open_blobs) as (streams, written):
        stream = await streams.get_or_create("long")
        started = time.perf_counter()
        for number in range(_LONG):
            await stream.emit(_event(number))
        await stream.close()
        emitted = time.perf_counter() - started
        segments, size = written.blob_writes, written.bytes_out
    async with _process(open_blobs) as (streams, read):
        started = time.perf_counter()
        got = 0
        async for batch in (await streams.get("long")).batches():
            got += len(batch)
        replayed = time.perf_counter() - started
        operations = read.operations
    assert got == _LONG
    show(
        f"One stream of {_LONG:,} events, {size / 2**20:.0f} MiB",
        ["", "events/s", "storage operations"],
        [
            ["emitted as fast as it goes", f"{_LONG / emitted:,.0f}", segments],
            ["replayed from the start", f"{_LONG / replayed:,.0f}", operations],
        ],
    )
    rows: list[list[object]] = []
    for after in (None, 10_000, 30_000, 59_000, _LONG - 2):
        async with _process(open_blobs) as (streams, meter):
            await streams.get("long")  # the connection is made
            times: list[float] = []
            before = meter.copy()
            for _ in range(5):
                started = time.perf_counter()
                events = (await streams.get("long")).subscribe(after=after)
                assert (await anext(events))["sequence_number"] == (0 if after is None else after + 1)
                times.append(time.perf_counter() - started)
                await events.aclose()
            used = meter - before
            rows.append(
                [
                    "start" if after is None else f"{after:,}",
                    f"{statistics.median(times) * 1000:.0f}",
                    f"{used.operations / 5:.1f}",
                ]
            )
    show("Reconnect to first event, by where it resumes", ["after", "ms", "storage operations"], rows)


async def _one_call(env: dict[str, str]) -> None:
    """The hot calls, beside the SDK's own."""
    from hosting.storage._azure_append_blobs import AzureAppendBlobs

    meter = Meter()
    blobs = connect_append_blobs(env, container="bench", meter=meter)
    assert isinstance(blobs, AzureAppendBlobs)
    await blobs.create("calls/1")
    sdk = blobs._connection.container().get_blob_client("calls/1")  # pyright: ignore[reportPrivateUsage]
    position = 0

    async def append() -> None:
        nonlocal position
        await blobs.append("calls/1", b"x" * 300, position)
        position += 300

    async def sdk_append() -> None:
        nonlocal position
        await sdk.append_block(b"x" * 300, 300, appendpos_condition=position)
        position += 300

    async def poll() -> None:
        await blobs.read("calls/1", position, 4 * 1024 * 1024)

    async def sdk_poll() -> None:
        await (await sdk.download_blob(position - 1, 4 * 1024 * 1024)).readall()

    rows: list[list[object]] = []
    for name, ours, theirs in (("append", append, sdk_append), ("poll", poll, sdk_poll)):
        spent = [await _cpu_of(call, 200) for call in (ours, theirs, ours, theirs)]
        rows.append([name, f"{min(spent[0::2]) * 1000:.2f}", f"{min(spent[1::2]) * 1000:.2f}"])
    await blobs.close()
    show("CPU of one request, ms", ["call", "hosting.storage", "azure-storage-blob"], rows)


async def _cpu_of(call: Callable[[], Any], count: int) -> float:
    await call()
    started = time.process_time()
    for _ in range(count):
        await call()
    return (time.process_time() - started) / count


async def _cpu() -> None:
    """The stream code alone: a storage in memory costs next to nothing."""
    count = 20_000
    shared = MemoryAppendBlobs()
    streams = _registry(lambda: shared)
    stream = await streams.get_or_create("cpu")
    started = time.process_time()
    for number in range(count):
        await stream.emit(_event(number))
    await stream.close()
    emitted = time.process_time() - started
    started = time.process_time()
    async for _ in (await _registry(lambda: shared).get("cpu")).subscribe():
        pass
    read = time.process_time() - started
    show(
        "CPU of the stream code, without requests",
        ["", "microseconds per event"],
        [["emit, to stored", f"{emitted / count * 1e6:.1f}"], ["subscribe, from stored", f"{read / count * 1e6:.1f}"]],
    )


if __name__ == "__main__":
    main()
