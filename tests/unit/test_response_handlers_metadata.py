"""Metadata of a conversation chain, through the whole server: what outlives the turn, and what does not."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hosting.responses import Event
from hosting.responses.builders import ResponseEventStream
from tests.server_world import Json, World, serve

MODES = pytest.mark.parametrize("background", [False, True], ids=["foreground", "background"])


async def say(world: World, text: Any, *, background: bool, **body: Any) -> Json:
    """A turn in the foreground or the background, to its end."""
    made = await world.create(text, background=background, **body)
    return await world.ended(made["id"]) if background else made


class Counter:
    """Counts the turns of its conversation."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.billed: list[int] = []

    async def __call__(self, request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        metadata = context.conversation_chain_metadata
        metadata["turns"] = metadata.get("turns", 0) + 1
        metadata("billing")["cents"] = metadata("billing").get("cents", 0) + 5
        self.counts.append(metadata["turns"])
        self.billed.append(metadata("billing")["cents"])
        stream = ResponseEventStream(response_id=context.response_id, request=request)
        yield stream.emit_created()
        if await context.get_input_text() == "fail":
            raise RuntimeError
        yield stream.emit_completed()


@MODES
async def test_turns_of_a_conversation_share_their_metadata(background: bool) -> None:
    counter = Counter()
    async with serve(counter) as world:
        previous: str | None = None
        for _ in range(3):
            previous = (await say(world, "hi", background=background, previous_response_id=previous))["id"]
            await world.kill()  # it is stored with the turn
            world.boot()
        await say(world, "hi", background=background)
        assert (counter.counts, counter.billed) == ([1, 2, 3, 1], [5, 10, 15, 5])


@MODES
async def test_metadata_of_a_turn_that_failed_is_kept(background: bool) -> None:
    counter = Counter()
    async with serve(counter) as world:
        one = await say(world, "fail", background=background)
        assert one["status"] == "failed"
        await say(world, "hi", background=background, previous_response_id=one["id"])
        assert counter.counts == [1, 2]


async def test_metadata_of_a_response_that_is_not_stored_ends_with_it() -> None:
    counter = Counter()
    async with serve(counter) as world:
        one = await world.create("hi")
        await world.create("hi", store=False, previous_response_id=one["id"])
        await world.create("hi", previous_response_id=one["id"])
        assert counter.counts == [1, 1, 2]


@MODES
async def test_metadata_that_is_flushed_survives_the_process(background: bool) -> None:
    found: list[dict[str, Any]] = []
    flushed = asyncio.Event()
    ids: list[str] = []

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        ids.append(context.response_id)
        metadata = context.conversation_chain_metadata
        found.append(dict(metadata))
        stream = ResponseEventStream(response_id=context.response_id)
        yield stream.emit_created()
        if await context.get_input_text() == "first":
            metadata["seen"] = 1
            await metadata.flush()
            metadata["lost"] = 1
            if not context.is_recovery:
                flushed.set()
                await asyncio.Event().wait()
        yield stream.emit_completed()

    async with serve(handler, resilient_background=True) as world:
        start = await world.create("start")
        post = asyncio.create_task(world.create("first", background=background, previous_response_id=start["id"]))
        await flushed.wait()
        await world.kill()
        await asyncio.gather(post, return_exceptions=True)
        await world.restart()
        if background:
            await world.ended(ids[1])
        else:
            await world.create("second", previous_response_id=start["id"])
        assert found[-1] == {"seen": 1}


async def test_metadata_of_a_handler_that_leaves_for_recovery_goes_along() -> None:
    found: list[dict[str, Any]] = []
    waits = asyncio.Event()

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        found.append(dict(context.conversation_chain_metadata))
        stream = ResponseEventStream(response_id=context.response_id)
        yield stream.emit_created()
        if not context.is_recovery:
            waits.set()
            await signal.wait()
            context.conversation_chain_metadata["watermark"] = 7
            await context.exit_for_recovery()
        yield stream.emit_completed()

    async with serve(handler, resilient_background=True) as world:
        made = await world.create("hi", background=True)
        await waits.wait()
        await world.stop(1.0)
        await world.restart()
        await world.ended(made["id"])
        assert found == [{}, {"watermark": 7}]


async def test_metadata_of_a_cancelled_turn_is_kept() -> None:
    found: list[dict[str, Any]] = []
    started = asyncio.Event()

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        metadata = context.conversation_chain_metadata
        found.append(dict(metadata))
        metadata["turns"] = metadata.get("turns", 0) + 1
        stream = ResponseEventStream(response_id=context.response_id)
        yield stream.emit_created()
        if len(found) == 1:
            started.set()
            await signal.wait()
        yield stream.emit_completed()

    async with serve(handler) as world:
        made = await world.create("hi", background=True)
        await started.wait()
        await world.cancel(made["id"])
        await world.at_rest(made["id"])
        await world.create("hi", previous_response_id=made["id"])
        assert found == [{}, {"turns": 1}]


@MODES
async def test_metadata_that_is_no_json_fails_the_turn_and_not_the_conversation(background: bool) -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        if await context.get_input_text() == "bad":
            context.conversation_chain_metadata["bad"] = {1, 2}
        stream = ResponseEventStream(response_id=context.response_id)
        yield stream.emit_created()
        yield stream.emit_completed()

    async with serve(handler) as world:
        one = await say(world, "good", background=background)
        bad = await say(world, "bad", background=background, previous_response_id=one["id"])
        assert (bad["status"], bad["error"]["message"]) == ("failed", "The response could not be stored.")
        two = await say(world, "good", background=background, previous_response_id=one["id"])
        assert two["status"] == "completed"


async def test_names_of_the_servers_own_are_refused() -> None:
    errors: list[type[Exception]] = []

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        metadata = context.conversation_chain_metadata
        for attempt in (lambda: metadata("_own"), lambda: metadata.__setitem__("_own", 1), lambda: metadata(7)):
            try:
                attempt()
            except (ValueError, TypeError) as error:
                errors.append(type(error))
        stream = ResponseEventStream(response_id=context.response_id)
        yield stream.emit_created()
        yield stream.emit_completed()

    async with serve(handler) as world:
        await world.create("hi")
        assert errors == [ValueError, ValueError, TypeError]
