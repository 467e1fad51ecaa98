"""Turns that queue behind a running one, with handlers (reference 8.2)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hosting.responses import Event
from hosting.responses.builders import ResponseEventStream
from tests.server_world import serve, texts, until


class Chat:
    """Says its input. A text that begins with "long" goes on until the signal, and then ends as `ending` says."""

    def __init__(self, ending: str = "completed") -> None:
        self.ending = ending
        self.contexts: list[Any] = []
        self.at_signal: list[tuple[bool, bool, int]] = []
        self.histories: list[list[str]] = []

    async def __call__(self, request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        self.contexts.append(context)
        said = await context.get_input_text()
        self.histories.append([item["content"][0]["text"] for item in await context.get_history()])
        stream = ResponseEventStream(response_id=context.response_id, request=request)
        yield stream.emit_created()
        for event in stream.output_item_message(f"re: {said}"):
            yield event
        if said.startswith("long"):
            await signal.wait()
            self.at_signal.append((context.client_cancelled, context.shutdown.is_set(), context.pending_input_count))
            if self.ending == "incomplete":
                yield stream.emit_incomplete(reason="steered")
                return
        yield stream.emit_completed()


async def running(chat: Chat, count: int = 1) -> None:
    await until(lambda: len(chat.histories) == count)


@pytest.mark.parametrize("ending", ["completed", "incomplete"])
async def test_a_newer_turn_sets_the_signal_and_the_handler_says_how_its_turn_ends(ending: str) -> None:
    chat = Chat(ending)
    async with serve(chat, steerable_conversations=True) as world:
        first = await world.create("long one", background=True)
        await running(chat)
        second = await world.create("two", background=True, previous_response_id=first["id"])
        assert (second["status"], second["previous_response_id"]) == ("queued", first["id"])
        ended = await world.ended(second["id"])
        assert chat.at_signal == [(False, False, 1)]
        assert (await world.get(first["id"]))["status"] == ending
        assert texts(ended) == ["re: two"]
        assert [context.is_steered_turn for context in chat.contexts] == [False, True]
        assert chat.histories[1] == ["long one", "re: long one"]


async def test_a_turn_that_waits_is_queued_for_everybody() -> None:
    chat = Chat()
    async with serve(chat, steerable_conversations=True) as world:
        world.boot(drives=False)
        first = await world.create("long one", background=True)
        second = await world.create("two", background=True, previous_response_id=first["id"])
        assert (await world.get(second["id"]))["status"] == "queued"


async def test_a_waiting_turn_knows_how_many_wait_behind_it() -> None:
    chat = Chat()
    async with serve(chat, steerable_conversations=True) as world:
        world.boot(drives=False)
        previous = await world.create("long 0", background=True)
        for number in (1, 2):
            previous = await world.create(f"long {number}", background=True, previous_response_id=previous["id"])
        previous = await world.create("last", background=True, previous_response_id=previous["id"])
        await world.kill()
        await world.restart()
        assert (await world.ended(previous["id"]))["status"] == "completed"
        assert [pending for _, _, pending in chat.at_signal] == [3, 2, 1]
        assert chat.histories[-1] == ["long 0", "re: long 0", "long 1", "re: long 1", "long 2", "re: long 2"]


async def test_a_streamed_turn_that_waits_is_followed_through() -> None:
    chat = Chat()
    async with serve(chat, steerable_conversations=True) as world:
        first = await world.stream("long one", background=True)
        await running(chat)
        previous = first.events[0]["response"]["id"]
        second = await world.stream("two", background=True, previous_response_id=previous)
        assert (await second.ends())[-1]["type"] == "response.completed"
        assert second.types[:3] == ["created", "queued", "in_progress"]
        assert (await first.ends())[-1]["type"] == "response.completed"


async def test_a_foreground_turn_behind_a_running_one_waits_for_its_own() -> None:
    chat = Chat()
    async with serve(chat, steerable_conversations=True) as world:
        first = await world.create("long one", background=True)
        await running(chat)
        second = await world.create("two", previous_response_id=first["id"])
        assert (second["status"], texts(second)) == ("completed", ["re: two"])


async def test_the_acceptor_says_what_a_waiting_turn_is_answered_with() -> None:
    chat = Chat()

    def acceptor(request: Any, response: Any) -> dict[str, Any]:
        return {"id": response["id"], "status": response["status"], "position": 1, "asked": request["input"]}

    async with serve(chat, steerable_conversations=True, acceptor=acceptor) as world:
        first = await world.create("long one", background=True)
        assert "position" not in first
        await running(chat)
        second = await world.create("two", background=True, previous_response_id=first["id"])
        assert (second["status"], second["position"]) == ("queued", 1)
        assert "position" not in await world.get(second["id"])


async def test_an_acceptor_that_fails_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    chat = Chat()

    def acceptor(request: Any, response: Any) -> dict[str, Any]:
        raise RuntimeError("secret")

    async with serve(chat, steerable_conversations=True, acceptor=acceptor) as world:
        first = await world.create("long one", background=True)
        await running(chat)
        second = await world.create("two", background=True, previous_response_id=first["id"])
        assert (second["object"], second["status"]) == ("response", "queued")
        assert "acceptor failed" in caplog.text
        assert texts(await world.ended(second["id"])) == ["re: two"]


@pytest.mark.parametrize("stream", [False, True])
async def test_when_nine_turns_wait_the_tenth_is_a_429(stream: bool) -> None:
    chat = Chat()
    async with serve(chat, steerable_conversations=True) as world:
        world.boot(drives=False)
        previous = await world.create("long", background=True)
        for number in range(9):
            previous = await world.create(f"{number}", background=True, previous_response_id=previous["id"])
        refused = await world.create(
            "too many", background=True, stream=stream, previous_response_id=previous["id"], status=429
        )
        assert refused["error"]["code"] == "rate_limit_exceeded"
        await world.kill()
        await world.restart()
        assert (await world.ended(previous["id"]))["status"] == "completed"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_fork_of_a_running_chain_is_a_409_before_any_event(stream: bool) -> None:
    chat = Chat()
    async with serve(chat, steerable_conversations=True) as world:
        world.boot(drives=False)
        first = await world.create("long one", background=True)
        await world.create("two", background=True, previous_response_id=first["id"])
        refused = await world.create(
            "another", background=True, stream=stream, previous_response_id=first["id"], status=409
        )
        assert refused["error"]["code"] == "conversation_fork_not_supported"
        assert refused["error"]["param"] == "previous_response_id"


async def test_without_the_option_a_running_response_can_not_be_continued() -> None:
    chat = Chat()
    async with serve(chat) as world:
        first = await world.create("long one", background=True)
        await running(chat)
        refused = await world.create("two", background=True, previous_response_id=first["id"], status=400)
        assert refused["error"]["param"] == "previous_response_id"


async def test_a_cancelled_turn_that_waited_is_cancelled_for_everybody_and_skipped() -> None:
    chat = Chat()
    async with serve(chat, steerable_conversations=True) as world:
        world.boot(drives=False)
        first = await world.create("long one", background=True)
        second = await world.create("two", background=True, previous_response_id=first["id"])
        third = await world.create("three", background=True, previous_response_id=second["id"])
        cancelled = await world.cancel(second["id"])
        assert (cancelled["status"], await world.get(second["id"])) == ("cancelled", cancelled)
        await world.kill()
        await world.restart()
        assert texts(await world.ended(third["id"])) == ["re: three"]
        assert await world.get(second["id"]) == cancelled
        assert len(chat.contexts) == 2
        assert chat.histories[1] == ["long one", "re: long one"]  # and not nothing


async def test_after_a_cancelled_steered_turn_the_conversation_stands_where_it_was() -> None:
    chat = Chat()
    async with serve(chat, steerable_conversations=True) as world:
        first = await world.create("long one", background=True)
        await running(chat)
        second = await world.create("long two", background=True, previous_response_id=first["id"])
        await running(chat, 2)
        await world.cancel(second["id"])
        third = await world.create("three", background=True, previous_response_id=second["id"])
        assert texts(await world.ended(third["id"])) == ["re: three"]
        assert chat.histories[2] == ["long one", "re: long one"]


async def test_a_steered_turn_whose_process_dies_is_run_again_as_steered() -> None:
    chat = Chat()
    async with serve(chat, steerable_conversations=True, resilient_background=True) as world:
        first = await world.create("long one", background=True)
        await running(chat)
        second = await world.create("long two", background=True, previous_response_id=first["id"])
        await running(chat, 2)
        await world.kill()
        await world.restart()
        await running(chat, 3)
        again = chat.contexts[2]
        assert (again.response_id, again.is_recovery, again.is_steered_turn) == (second["id"], True, True)
        assert await again.get_input_text() == "long two"
        assert chat.histories[2] == ["long one", "re: long one"]


async def test_cancel_reaches_a_turn_that_was_steered_before() -> None:
    seen: list[tuple[bool, bool]] = []

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = ResponseEventStream(response_id=context.response_id)
        yield stream.emit_created()
        await signal.wait()
        steered = context.client_cancelled
        await until(lambda: context.client_cancelled)  # it does not want to be steered
        seen.append((steered, context.client_cancelled))

    async with serve(handler, steerable_conversations=True) as world:
        first = await world.create("one", background=True)
        await until(lambda: world.engine.engine._attempts != {})
        await world.create("two", background=True, previous_response_id=first["id"])
        await asyncio.sleep(0.05)
        await world.cancel(first["id"])
        await until(lambda: len(seen) == 1)
        assert seen == [(False, True)]
