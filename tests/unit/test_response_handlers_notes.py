"""Internal metadata: what a handler notes for its own next run, and no client ever sees or sets."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hosting.responses import Event
from hosting.responses.builders import ResponseEventStream
from tests.server_world import Json, World, serve, texts

MODES = pytest.mark.parametrize("background", [False, True], ids=["foreground", "background"])


async def say(world: World, text: Any, *, background: bool, **body: Any) -> Json:
    """A turn in the foreground or the background, to its end."""
    made = await world.create(text, background=background, **body)
    return await world.ended(made["id"]) if background else made


class Secretive:
    """Keeps a note to itself, and shows in which phase it is only by where it waits."""

    def __init__(self) -> None:
        self.noted, self.go = asyncio.Event(), asyncio.Event()
        self.found: list[Any] = []
        self.requests: list[Any] = []

    async def __call__(self, request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        self.requests.append(dict(request))
        if context.is_recovery:
            stream = ResponseEventStream(response=context.persisted_response)
        else:
            stream = ResponseEventStream(response_id=context.response_id, request=request)
        self.found.append(stream.internal_metadata.get("phase"))
        stream.internal_metadata["phase"] = "hunter2"
        yield stream.emit_created()
        yield stream.emit_in_progress()
        yield stream.checkpoint()
        self.noted.set()
        if not context.is_recovery:
            await self.go.wait()
        for event in stream.output_item_message("done"):
            yield event
        yield stream.emit_completed()


def hidden(value: Any) -> bool:
    text = json.dumps(value)
    return "hunter2" not in text and "_internal_metadata" not in text


async def test_notes_of_a_handler_show_on_no_route() -> None:
    secretive = Secretive()
    async with serve(secretive, resilient_background=True) as world:
        reader = await world.stream("hi", background=True, metadata={"app": "tests"})
        await secretive.noted.wait()
        await reader.until("in_progress")
        identifier = reader.events[0]["response"]["id"]
        during = await world.get(identifier)
        assert hidden(during)
        assert during["metadata"] == {"app": "tests"}
        replay = await world.follow(identifier)
        await replay.until("in_progress")
        secretive.go.set()
        assert hidden(await reader.ends())
        assert hidden(await replay.ends())
        assert hidden(await world.get(identifier))
        assert hidden(await world.input_items(identifier))


async def test_notes_do_not_show_when_the_response_is_cancelled() -> None:
    secretive = Secretive()
    async with serve(secretive, resilient_background=True) as world:
        made = await world.create("hi", background=True)
        await secretive.noted.wait()
        assert hidden(await world.cancel(made["id"]))
        assert hidden(await world.get(made["id"]))


@pytest.mark.parametrize("stream", [False, True])
async def test_notes_do_not_show_in_the_foreground(stream: bool) -> None:
    secretive = Secretive()
    secretive.go.set()
    async with serve(secretive) as world:
        made = await (await world.stream("hi")).ends() if stream else await world.create("hi")
        assert hidden(made)


async def test_notes_are_there_after_a_crash() -> None:
    secretive = Secretive()
    async with serve(secretive, resilient_background=True) as world:
        made = await world.create("hi", background=True)
        await secretive.noted.wait()
        await world.kill()
        await world.restart()
        done = await world.ended(made["id"])
        assert secretive.found == [None, "hunter2"]
        assert texts(done) == ["done"]
        assert hidden(done)


@MODES
async def test_a_client_can_not_set_notes(background: bool) -> None:
    secretive = Secretive()
    secretive.go.set()
    async with serve(secretive, resilient_background=True) as world:
        given = {"app": "tests", "_internal_metadata": json.dumps({"phase": "forged"})}
        made = await say(world, "hi", background=background, metadata=given)
        assert secretive.found == [None]
        assert secretive.requests[0]["metadata"] == {"app": "tests"}
        assert made["metadata"] == {"app": "tests"}
