"""What a handler can look up and note down, through the whole server: history, input, chain metadata, internal metadata."""

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


# History and input


class Echo:
    """Notes what its context knows."""

    def __init__(self) -> None:
        self.contexts: list[Any] = []
        self.histories: list[list[str]] = []
        self.inputs: list[str] = []

    async def __call__(self, request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        self.contexts.append(context)
        self.inputs.append(await context.get_input_text())
        self.histories.append([item["content"][0]["text"] for item in await context.get_history()])
        stream = ResponseEventStream(response_id=context.response_id, request=request)
        yield stream.emit_created()
        for event in stream.output_item_message(f"re: {self.inputs[-1]}"):
            yield event
        yield stream.emit_completed()


@MODES
async def test_history_is_what_was_said_before(background: bool) -> None:
    echo = Echo()
    async with serve(echo) as world:
        one = await say(world, "one", background=background)
        two = await say(world, "two", background=background, previous_response_id=one["id"])
        await say(world, "three", background=background, previous_response_id=two["id"])
        await say(world, "fork", background=background, previous_response_id=one["id"])
        assert echo.histories == [
            [],
            ["one", "re: one"],
            ["one", "re: one", "two", "re: two"],
            ["one", "re: one"],
        ]
        chains = [context.conversation_chain_id for context in echo.contexts]
        assert chains[0] == chains[1] == chains[2] != chains[3]


@MODES
async def test_a_conversation_has_one_history_and_one_metadata(background: bool) -> None:
    contexts: list[Any] = []
    seen: list[tuple[list[str], int]] = []

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        contexts.append(context)
        history = [item["content"][0]["text"] for item in await context.get_history()]
        metadata = context.conversation_chain_metadata
        metadata["turns"] = metadata.get("turns", 0) + 1
        seen.append((history, metadata["turns"]))
        stream = ResponseEventStream(response_id=context.response_id, request=request)
        yield stream.emit_created()
        for event in stream.output_item_message("said"):
            yield event
        yield stream.emit_completed()

    async with serve(handler) as world:
        identifier = await world.conversation()
        await say(world, "one", background=background, conversation=identifier)
        await say(world, "two", background=not background, conversation={"id": identifier})
        assert seen == [([], 1), (["one", "said"], 2)]
        assert [context.conversation_id for context in contexts] == [identifier, identifier]
        assert contexts[0].conversation_chain_id == contexts[1].conversation_chain_id


async def test_history_has_the_newest_items_up_to_the_option() -> None:
    echo = Echo()
    async with serve(echo, default_fetch_history_count=3) as world:
        one = await world.create("one")
        two = await world.create("two", previous_response_id=one["id"])
        await world.create("three", previous_response_id=two["id"])
        assert echo.histories[-1] == ["re: one", "two", "re: two"]


async def test_history_of_a_response_that_is_not_stored_is_there_all_the_same() -> None:
    echo = Echo()
    async with serve(echo) as world:
        one = await world.create("one")
        await world.create("two", previous_response_id=one["id"], store=False)
        assert echo.histories[-1] == ["one", "re: one"]


@MODES
async def test_references_in_the_input_are_the_items_themselves(background: bool) -> None:
    echo = Echo()
    async with serve(echo) as world:
        one = await world.create("one")
        given = [
            {"type": "item_reference", "id": one["output"][0]["id"]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "two"}]},
        ]
        await say(world, given, background=background)
        items = await echo.contexts[-1].get_input_items()
        assert [item["content"][0]["text"] for item in items] == ["re: one", "two"]
        assert echo.inputs[-1] == "two"


async def test_mode_flags_are_those_of_the_request() -> None:
    echo = Echo()
    async with serve(echo) as world:
        await world.create("a", store=False)
        await (await world.stream("b", background=True)).ends()
        flags = [(c.mode_flags.store, c.mode_flags.stream, c.mode_flags.background) for c in echo.contexts]
        assert flags == [(False, False, False), (True, True, True)]


# Chain metadata


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


# Internal metadata


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
