"""What a handler can look up, through the whole server: history, input, flags."""

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
