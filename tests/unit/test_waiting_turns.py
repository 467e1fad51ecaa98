"""Foreground requests whose turn waits behind a running one: the turn ends with its client, however that one goes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from hosting.responses import Event
from hosting.responses.builders import ResponseEventStream
from hosting.state.conversation_turns import ConversationTurns
from hosting.storage import StorageUnavailable
from tests.server_world import World, parsed, serve, until


class Busy:
    """A handler whose first turn goes on until it is let go."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.let_go = asyncio.Event()

    async def __call__(self, request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        self.begun.append(context.response_id)
        stream = ResponseEventStream(response_id=context.response_id, request=request)
        yield stream.emit_created()
        if len(self.begun) == 1:
            await self.let_go.wait()
        yield stream.emit_completed()


def responses(world: World) -> list[str]:
    """The ids of all stored responses."""
    partitions = world.store._tables._partitions.values()  # type: ignore[attr-defined]
    return [row.partition(".")[2] for held in partitions for row in held.rows if row.startswith("response.")]


async def hang_up_on_json(world: World, first: str, accepted: Callable[[], bool]) -> None:
    gone = asyncio.Event()
    asking = asyncio.create_task(world.post("two", previous_response_id=first, disconnected=gone.wait))
    await until(accepted)
    gone.set()
    assert (await asking).status == 499


async def cancel_the_json_request(world: World, first: str, accepted: Callable[[], bool]) -> None:
    asking = asyncio.create_task(world.post("two", previous_response_id=first))
    await until(accepted)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)


async def close_the_stream(world: World, first: str, accepted: Callable[[], bool]) -> None:
    answer: Any = await world.post("two", previous_response_id=first, stream=True)
    await anext(answer.body)
    await answer.body.aclose()


async def close_the_stream_unread(world: World, first: str, accepted: Callable[[], bool]) -> None:
    answer: Any = await world.post("two", previous_response_id=first, stream=True)
    await answer.body.aclose()


async def drop_the_stream_unread(world: World, first: str, accepted: Callable[[], bool]) -> None:
    answer: Any = await world.post("two", previous_response_id=first, stream=True)
    del answer


@pytest.mark.parametrize(
    "leave",
    [hang_up_on_json, cancel_the_json_request, close_the_stream, close_the_stream_unread, drop_the_stream_unread],
)
async def test_a_waiting_turn_is_cancelled_when_its_client_goes(
    leave: Callable[[World, str, Callable[[], bool]], Awaitable[None]],
) -> None:
    handler = Busy()
    async with serve(handler, steerable_conversations=True) as world:
        first = (await world.create("one", background=True))["id"]
        await until(lambda: len(handler.begun) == 1)
        await leave(world, first, lambda: len(responses(world)) == 2)
        (second,) = set(responses(world)) - {first}

        async def cancelled() -> bool:
            return (await world.get(second))["status"] == "cancelled"

        await until(cancelled)
        handler.let_go.set()
        assert (await world.ended(first))["status"] == "completed"
        assert handler.begun == [first]


async def test_a_stream_that_was_read_to_its_end_cancels_nothing() -> None:
    handler = Busy()
    async with serve(handler, steerable_conversations=True) as world:
        first = (await world.create("one", background=True))["id"]
        await until(lambda: len(handler.begun) == 1)
        reading = await world.stream("two", previous_response_id=first)
        await reading.until("queued")
        handler.let_go.set()
        second = (await reading.ends())[-1]["response"]["id"]
        await world.engine.settle()
        assert (await world.get(second))["status"] == "completed"


async def test_a_process_that_stops_sends_a_waiting_client_elsewhere() -> None:
    """503, which clients repeat; with their Idempotency-Key they get the end of the same turn."""
    begun: list[str] = []
    let_go = asyncio.Event()

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        begun.append(context.response_id)
        stream = ResponseEventStream(response_id=context.response_id, request=request)
        yield stream.emit_created()
        if len(begun) == 1:
            await let_go.wait()
        elif len(begun) == 2:
            await context.shutdown.wait()
            await context.exit_for_recovery()
        yield stream.emit_completed()

    key = {"idempotency-key": "k"}
    async with serve(handler, steerable_conversations=True, resilient_background=True) as world:
        first = (await world.create("one", background=True))["id"]
        await until(lambda: len(begun) == 1)
        asking = asyncio.create_task(world.post("two", previous_response_id=first, headers=key))
        await until(lambda: len(responses(world)) == 2)
        let_go.set()
        await until(lambda: len(begun) == 2)
        await world.stop(1)
        answer = await asking
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        await world.restart()
        again = await world.create("two", previous_response_id=first, headers=key)
        assert (again["id"], again["status"]) == (begun[1], "completed")


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_turn_that_waits_in_the_queue_goes_on_elsewhere_when_the_process_stops(key: str | None) -> None:
    """Without a key the client is told not to ask again: it would run a second time."""
    handler = Busy()
    headers = {} if key is None else {"idempotency-key": key}
    async with serve(handler, steerable_conversations=True, resilient_background=True) as world:
        first = (await world.create("one", background=True))["id"]
        await until(lambda: len(handler.begun) == 1)
        asking = asyncio.create_task(world.post("two", previous_response_id=first, headers=headers))
        await until(lambda: len(responses(world)) == 2)
        (second,) = set(responses(world)) - {first}
        await world.stop()
        answer = await asking
        assert answer.status == 503
        assert answer.headers.get("x-should-retry") == (None if key else "false")
        assert (second in str(answer.body)) == (key is None)
        handler.let_go.set()
        await world.restart()
        assert (await world.ended(second))["status"] == "completed"


async def test_a_request_that_is_cancelled_by_a_process_that_stops_cancels_no_turn() -> None:
    handler = Busy()
    async with serve(handler, steerable_conversations=True, resilient_background=True) as world:
        first = (await world.create("one", background=True))["id"]
        await until(lambda: len(handler.begun) == 1)
        answer: Any = await world.post("two", previous_response_id=first, stream=True)
        (second,) = set(responses(world)) - {first}
        await world.stop()
        await answer.body.aclose()
        handler.let_go.set()
        await world.restart()
        assert (await world.ended(second))["status"] == "completed"


async def test_a_foreground_turn_that_could_not_begin_gives_its_key_back(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = Busy()
    handler.let_go.set()
    key = {"idempotency-key": "k"}
    async with serve(handler) as world:
        conversation = await world.conversation()

        async def away(*given: Any) -> Any:
            raise StorageUnavailable("away")

        with monkeypatch.context() as patch:
            patch.setattr(ConversationTurns, "hold", away)
            parsed(await world.post("hi", conversation=conversation, headers=key), 503)
        made = await world.create("hi", conversation=conversation, headers=key)
        assert (made["status"], handler.begun) == ("completed", [made["id"]])
