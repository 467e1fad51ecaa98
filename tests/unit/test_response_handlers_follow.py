"""Followers whose stream can't be read: what is durable is served, and then there is a clear end."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2 as httpx
import openai
import pytest

from hosting.responses import Event
from hosting.responses.builders import ResponseEventStream
from hosting.server import follow
from hosting.storage import MemoryAppendBlobs, MemoryBlobs, MemoryTables, StorageUnavailable, Store
from tests.contract.streaming_faults import FaultyBlobs
from tests.server_world import World, parsed, serve, until


class Talker:
    """Says a few things, then waits to be let on."""

    def __init__(self) -> None:
        self.waits, self.go = asyncio.Event(), asyncio.Event()
        self.ids: list[str] = []

    async def __call__(self, request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        self.ids.append(context.response_id)
        if context.is_recovery:
            stream = ResponseEventStream(response=context.persisted_response)
        else:
            stream = ResponseEventStream(response_id=context.response_id, request=request)
        yield stream.emit_created()
        yield stream.emit_in_progress()
        if not context.is_recovery:
            for number in range(3):
                for event in stream.output_item_message(f"message {number}"):
                    yield event
            yield stream.checkpoint()
            self.waits.set()
            await self.go.wait()
        yield stream.emit_completed()


def damage(world: World, number: int) -> None:
    """Make the line of one stored event unreadable."""
    for blob in world.blobs._blobs.values():
        at = bytes(blob.data).find(f'"sequence_number":{number},'.encode())
        if at >= 0:
            start = bytes(blob.data).rfind(b"\n", 0, at) + 1
            blob.data[start : start + 6] = b"######"
            return
    raise AssertionError(f"event {number} is not stored")


async def talked(world: World, talker: Talker, *, final: bool) -> str:
    """A response of which 20 events are stored; its process is dead, another one lives and runs nothing."""
    reader = await world.stream("hi", background=True)
    await talker.waits.wait()
    if final:
        talker.go.set()
        await reader.ends()
    await world.kill()
    await reader.hang_up()
    world.boot(drives=False)
    return talker.ids[0]


async def test_damage_in_the_events_of_a_running_response_is_an_error_event_and_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    talker = Talker()
    async with serve(talker, resilient_background=True) as world:
        identifier = await talked(world, talker, final=False)
        damage(world, 9)
        reader = await world.follow(identifier)
        events = await reader.ends()
        assert reader.numbers == [*range(9), 8]
        assert (events[-1]["type"], events[-1]["code"]) == ("error", "server_error")
        assert "starting_after=9" in events[-1]["message"]
        assert reader.ids[-1] is None  # it is none of the response's events: a client goes on from the one before
        assert reader.done
        assert "damaged" in caplog.text


async def test_a_client_can_go_on_behind_the_damage() -> None:
    talker = Talker()
    async with serve(talker, resilient_background=True) as world:
        identifier = await talked(world, talker, final=False)
        damage(world, 9)
        reader = await world.follow(identifier, 9)
        await until(lambda: len(reader.events) == 11)
        assert reader.numbers == list(range(10, 21))
        await world.advance(120)
        await world.kill()
        await reader.hang_up()
        await world.restart()
        await world.ended(identifier)
        assert (await (await world.follow(identifier, 9)).ends())[-1]["type"] == "response.completed"


async def test_damage_in_the_events_of_a_final_response_ends_with_its_terminal_event() -> None:
    talker = Talker()
    async with serve(talker) as world:
        identifier = await talked(world, talker, final=True)
        damage(world, 9)
        events = await (await world.follow(identifier)).ends()
        assert [event["sequence_number"] for event in events] == [*range(9), 21]
        assert events[-1] == {
            "type": "response.completed",
            "sequence_number": 21,
            "response": await world.get(identifier),
        }


async def test_a_response_with_damaged_events_is_run_again_all_the_same() -> None:
    talker = Talker()
    async with serve(talker, resilient_background=True) as world:
        identifier = await talked(world, talker, final=False)
        damage(world, 9)
        await world.kill()
        await world.restart()
        assert (await world.ended(identifier))["status"] == "completed"
        behind = await (await world.follow(identifier, 9)).ends()
        assert [event["sequence_number"] for event in behind] == list(range(10, 10 + len(behind)))


async def test_the_openai_package_takes_the_error_event_for_an_error() -> None:
    talker = Talker()
    async with serve(talker, resilient_background=True) as world:
        identifier = await talked(world, talker, final=False)
        damage(world, 9)
        response = await world.followed(identifier)
        assert not isinstance(response.body, bytes)
        text = b"".join([chunk async for chunk in response.body])
    answer = httpx.Response(200, headers={"content-type": "text/event-stream"}, content=text)
    transport = httpx.MockTransport(lambda request: answer)
    seen: list[int] = []
    with openai.OpenAI(
        api_key="any", base_url="http://app/v1", http_client=httpx.Client(transport=transport)
    ) as client:
        with pytest.raises(openai.APIError, match="starting_after=9"):
            for event in client.responses.retrieve(identifier, stream=True):
                seen.append(event.sequence_number)
    assert seen == [*range(9)]


# Storage that is away


async def test_storage_that_is_away_at_the_beginning_is_a_503() -> None:
    talker, blobs = Talker(), FaultyBlobs(MemoryAppendBlobs())
    async with serve(talker, blobs=blobs) as world:
        await world.stream("hi", background=True)
        await talker.waits.wait()
        await world.kill()
        world.boot(drives=False)
        blobs.down = True
        refused = parsed(await world.followed(talker.ids[0]), 503)
        assert refused["error"]["code"] == "service_unavailable"


async def test_streams_that_can_not_be_read_for_long_are_an_error_event_and_the_end() -> None:
    talker, blobs = Talker(), FaultyBlobs(MemoryAppendBlobs())
    async with serve(talker, blobs=blobs) as world:
        first = await world.stream("hi", background=True)
        await talker.waits.wait()
        await world.kill()
        await first.hang_up()
        world.boot(drives=False)
        reader = await world.follow(talker.ids[0])
        await until(lambda: len(reader.events) > 10)
        blobs.down = True
        events = await reader.ends()
        assert reader.done
        assert (events[-1]["type"], events[-1]["code"]) == ("error", "service_unavailable")
        assert events[-1]["sequence_number"] == events[-2]["sequence_number"]
        blobs.down = False
        again = await world.follow(talker.ids[0], events[-1]["sequence_number"])
        assert not again.done


async def test_a_response_row_that_can_not_be_read_for_a_moment_is_no_reason_to_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(follow, "_LOOK", 0.01)

    class Tables(MemoryTables):
        down = False
        refused = 0

        async def get(self, *args: Any, **options: Any) -> Any:
            if self.down:
                self.refused += 1
                raise StorageUnavailable("away")
            return await super().get(*args, **options)

    tables, talker = Tables(), Talker()
    async with serve(talker, store=Store(tables, MemoryBlobs())) as world:
        reader = await world.stream("hi", background=True)
        await talker.waits.wait()
        tables.down = True
        await until(lambda: tables.refused > 3)
        tables.down = False
        talker.go.set()
        assert (await reader.ends())[-1]["type"] == "response.completed"


async def test_a_response_row_that_can_not_be_read_for_long_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "_LOOK", 0.01)
    monkeypatch.setattr(follow, "_PATIENCE", 0.1)
    talker = Talker()
    async with serve(talker) as world:
        reader = await world.stream("hi", background=True)
        await talker.waits.wait()
        world.engine._line.cut = True  # pyright: ignore[reportPrivateUsage]
        events = await reader.ends()
        assert (events[-1]["type"], events[-1]["code"]) == ("error", "service_unavailable")
        assert reader.done
