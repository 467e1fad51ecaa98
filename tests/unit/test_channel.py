import asyncio
from typing import Any

from hosting.server.channel import Channel


def event(number: int) -> dict[str, Any]:
    return {"sequence_number": number}


async def test_events_arrive_in_order_and_then_the_reading_ends() -> None:
    channel = Channel()
    await channel.put([event(0), event(1)])
    await channel.put([event(2)])
    channel.close()
    assert [batch async for batch in channel.read(1)] == [[event(0), event(1), event(2)]]


async def test_silence_gives_empty_batches() -> None:
    channel = Channel()
    reading = channel.read(0.01)
    assert await anext(reading) == []
    await channel.put([event(0)])
    assert await anext(reading) == [event(0)]


async def test_a_reader_that_waits_is_woken_by_an_event() -> None:
    channel = Channel()
    waiting = asyncio.ensure_future(anext(channel.read(60)))
    await asyncio.sleep(0)
    await channel.put([event(0)])
    assert await asyncio.wait_for(waiting, 30) == [event(0)]


async def test_a_reader_that_waits_is_woken_by_the_end() -> None:
    channel = Channel()

    async def read() -> list[list[dict[str, Any]]]:
        return [batch async for batch in channel.read(60)]

    waiting = asyncio.create_task(read())
    await asyncio.sleep(0)
    channel.close()
    assert await asyncio.wait_for(waiting, 30) == []


async def test_a_writer_waits_for_a_reader_that_is_far_behind() -> None:
    channel = Channel()
    written = 0

    async def write() -> None:
        nonlocal written
        for number in range(10_000):
            await channel.put([event(number)])
            written += 1

    writer = asyncio.create_task(write())
    await asyncio.sleep(0.01)
    assert written < 1000
    reading = channel.read(1)
    while written < 10_000:
        await anext(reading)
        await asyncio.sleep(0)
    await writer
