"""Store x background x stream (reference 7.1): what POST returns, what GET says during the run and after it, replay, delete."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hosting.responses import Event
from hosting.responses.builders import ResponseEventStream
from tests.server_world import World, parsed, serve, texts, until


class Gate:
    """A handler that says half of its text, waits to be let on, and says the rest."""

    def __init__(self) -> None:
        self.reached, self.open = asyncio.Event(), asyncio.Event()
        self.ids: list[str] = []

    async def __call__(self, request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        self.ids.append(context.response_id)
        stream = ResponseEventStream(response_id=context.response_id, request=request)
        yield stream.emit_created()

        async def text() -> AsyncIterator[str]:
            yield "half "
            self.reached.set()
            await self.open.wait()
            yield "done"

        async for event in stream.output_item_message(text()):
            yield event
        yield stream.emit_completed()


async def _start(world: World, gate: Gate, **body: Any) -> tuple[asyncio.Task[Any], str]:
    """Begin a request and wait until its handler is in the middle."""
    post = asyncio.create_task(world.post("hi", **body))
    await gate.reached.wait()
    return post, gate.ids[-1]


@pytest.fixture
def gate() -> Gate:
    return Gate()


async def test_stored_background_json_answers_at_once_and_is_there_during_the_run(gate: Gate) -> None:
    async with serve(gate) as world:
        made = await world.create("hi", background=True)
        assert (made["status"], gate.reached.is_set()) == ("queued", False)
        await gate.reached.wait()
        assert (await world.get(made["id"]))["status"] == "in_progress"
        gate.open.set()
        assert texts(await world.ended(made["id"])) == ["half done"]


async def test_stored_background_stream_is_there_during_the_run_and_can_be_replayed(gate: Gate) -> None:
    async with serve(gate) as world:
        first = await world.stream("hi", background=True)
        await first.until("output_text.delta")
        identifier = gate.ids[0]
        assert (await world.get(identifier))["status"] == "in_progress"
        second = await world.follow(identifier)
        late = await world.follow(identifier, 3)
        await second.until("output_text.delta")
        gate.open.set()
        events = await first.ends()
        assert await second.ends() == events
        assert await late.ends() == events[4:]
        assert await (await world.follow(identifier)).ends() == events
        assert await (await world.follow(identifier, len(events) - 1)).ends() == []


@pytest.mark.parametrize("stream", [False, True])
async def test_a_stored_foreground_response_is_there_when_it_is_final(gate: Gate, stream: bool) -> None:
    async with serve(gate) as world:
        post, identifier = await _start(world, gate, stream=stream)
        await world.get(identifier, status=404)
        await world.cancel(identifier, status=404)
        gate.open.set()
        response = await post
        if stream:
            async for _ in response.body:
                pass
        assert texts(await world.get(identifier)) == ["half done"]
        refused = parsed(await world.followed(identifier), 400)
        assert "background" in refused["error"]["message"]
        assert "synchronous" in (await world.cancel(identifier, status=400))["error"]["message"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_that_is_not_stored_never_is(gate: Gate, stream: bool) -> None:
    async with serve(gate) as world:
        post, identifier = await _start(world, gate, stream=stream, store=False)
        await world.get(identifier, status=404)
        gate.open.set()
        response = await post
        if stream:
            async for _ in response.body:
                pass
        else:
            assert texts(parsed(response)) == ["half done"]
        await world.get(identifier, status=404)
        parsed(await world.followed(identifier), 404)
        await world.cancel(identifier, status=404)
        await world.delete(identifier, status=404)


async def test_events_of_a_background_response_without_stream_are_not_kept(gate: Gate) -> None:
    async with serve(gate) as world:
        made = await world.create("hi", background=True)
        refused = parsed(await world.followed(made["id"]), 400)
        assert "stream=true" in refused["error"]["message"]
        gate.open.set()
        await world.ended(made["id"])
        parsed(await world.followed(made["id"]), 400)


async def test_a_follower_that_hangs_up_stops_nothing(gate: Gate) -> None:
    async with serve(gate) as world:
        first = await world.stream("hi", background=True)
        await first.until("output_text.delta")
        await first.hang_up()
        gate.open.set()
        assert texts(await world.ended(gate.ids[0])) == ["half done"]
        assert (await (await world.follow(gate.ids[0])).ends())[-1]["type"] == "response.completed"


async def test_a_running_response_can_not_be_deleted_and_a_deleted_one_is_nowhere(gate: Gate) -> None:
    async with serve(gate) as world:
        reader = await world.stream("hi", background=True)
        await reader.until("output_text.delta")
        await world.delete(gate.ids[0], status=400)
        gate.open.set()
        await reader.ends()
        assert (await world.delete(gate.ids[0]))["deleted"]
        await world.get(gate.ids[0], status=404)
        parsed(await world.followed(gate.ids[0]), 404)
        await world.cancel(gate.ids[0], status=404)


async def test_events_of_a_final_response_that_have_expired_are_a_400(gate: Gate) -> None:
    async with serve(gate) as world:
        gate.open.set()
        events = await (await world.stream("hi", background=True)).ends()
        identifier = events[0]["response"]["id"]

        async def closed() -> bool:
            return any(b'"end"' in bytes(blob.data) for blob in world.blobs._blobs.values())

        await until(closed)
        for blob in world.blobs._blobs.values():
            blob.modified -= 25 * 3600
        await world.kill()
        world.boot()
        refused = parsed(await world.followed(identifier, 3), 400)
        assert "expired" in refused["error"]["message"]
        assert texts(await world.get(identifier)) == ["half done"]
