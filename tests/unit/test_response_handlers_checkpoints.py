"""Checkpoints of a handler: what retrieve and replay say of them while it runs."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from hosting.responses import Event
from hosting.responses.builders import ResponseEventStream
from tests.server_world import serve, texts
from tests.unit.test_response_handlers_recovery import Research


async def test_the_announcement_stays_what_it_was_when_the_handler_changes_metadata() -> None:
    """Events 0 and 1 follow from the response row, which the handler changes."""
    checkpointed, go = asyncio.Event(), asyncio.Event()

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = ResponseEventStream(response_id=context.response_id, request=request)
        stream.response["metadata"]["topic"] = "crashes"
        yield stream.emit_created()
        yield stream.emit_in_progress()
        yield stream.checkpoint()
        checkpointed.set()
        await go.wait()
        yield stream.emit_completed()

    async with serve(handler, resilient_background=True) as world:
        reader = await world.stream("hi", background=True, metadata={"app": "tests"})
        await checkpointed.wait()
        identifier = reader.events[0]["response"]["id"]
        assert (await world.get(identifier))["metadata"] == {"app": "tests", "topic": "crashes"}
        during = await world.follow(identifier)
        await during.until("in_progress")
        assert during.events[:2] == reader.events[:2]
        go.set()
        events = await reader.ends()
        assert events[0]["response"]["metadata"] == {"app": "tests"}
        assert events[-1]["response"]["metadata"] == {"app": "tests", "topic": "crashes"}
        assert await (await world.follow(identifier)).ends() == events


async def test_the_announcement_stays_what_it_was_when_the_response_is_cancelled() -> None:
    checkpointed = asyncio.Event()

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = ResponseEventStream(response_id=context.response_id, request=request)
        stream.response["metadata"]["topic"] = "crashes"
        yield stream.emit_created()
        yield stream.emit_in_progress()
        yield stream.checkpoint()
        checkpointed.set()
        await signal.wait()

    async with serve(handler, resilient_background=True) as world:
        reader = await world.stream("hi", background=True)
        await checkpointed.wait()
        await reader.until("in_progress")
        await world.cancel(reader.events[0]["response"]["id"])
        events = await reader.ends()
        assert await (await world.follow(events[0]["response"]["id"])).ends() == events


async def test_a_checkpoint_without_the_option_is_ignored() -> None:
    handler = Research(hang_in=1)
    async with serve(handler) as world:
        made = await world.create("hi", background=True)
        await handler.hangs.wait()
        assert (await world.get(made["id"]))["output"] == []


async def test_a_checkpoint_shows_in_retrieve() -> None:
    handler = Research(hang_in=1)
    async with serve(handler, resilient_background=True) as world:
        made = await world.create("hi", background=True)
        await handler.hangs.wait()
        found = await world.get(made["id"])
        assert (found["status"], texts(found)) == ("in_progress", ["step 0"])
