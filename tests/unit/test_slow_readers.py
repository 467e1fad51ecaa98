"""Clients that have asked for events and do not read them, and followers for which there is nothing to read."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hosting.responses import Event
from hosting.responses.builders import ResponseEventStream
from hosting.server import Response, follow, handler_answer
from hosting.server.foreground import _running  # pyright: ignore[reportPrivateUsage]
from hosting.server.transcript import INTERRUPTED
from hosting.state import Turns
from hosting.storage import keys
from tests.server_world import World, serve, until

MANY = 2_000
"""Events: more than are kept for a reader that does not read."""


async def talkative(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
    stream = ResponseEventStream(response_id=context.response_id, request=request)
    yield stream.emit_created()
    yield stream.emit_in_progress()
    message = stream.add_output_item_message()
    yield message.emit_added()
    text = message.add_text_content()
    yield text.emit_added()
    for _ in range(MANY):
        yield text.emit_delta("x")
        await asyncio.sleep(0)
    yield text.emit_text_done()
    yield text.emit_done()
    yield message.emit_done()
    yield stream.emit_completed()


async def stalled(world: World) -> tuple[str, Response]:
    """A streamed foreground turn of which one piece is read; its id, and the answer that must be kept."""
    answer = await world.post("hi", stream=True)
    assert not isinstance(answer.body, bytes)
    first = await anext(aiter(answer.body))
    return json.loads(first.split(b"data: ")[1].split(b"\n")[0])["response"]["id"], answer


def turns(world: World) -> Turns:
    return Turns(world.store, keys.scope("development", None))


async def test_a_run_whose_reader_stalls_ends_when_its_time_is_over() -> None:
    async with serve(talkative, env={"HOSTING_FOREGROUND_SECONDS": "0.2"}) as world:
        identifier, answer = await stalled(world)
        await until(lambda: not _running)
        assert await turns(world).status(identifier) == "failed"
        assert world.server.limits.seats["runs"] == 0
        del answer  # it was kept until here: else its body would be closed, which ends the run


async def test_a_run_whose_reader_stalls_is_stored_when_the_process_stops() -> None:
    async with serve(talkative) as world:
        identifier, answer = await stalled(world)
        await world.server.close(0.05)
        assert not _running
        found = await turns(world).response(identifier)
        assert found is not None
        assert found.response["error"]["message"] == INTERRUPTED
        del answer


async def test_a_reader_that_comes_back_gets_the_end_of_a_run_that_did_not_wait_for_it() -> None:
    async with serve(talkative, env={"HOSTING_FOREGROUND_SECONDS": "0.2"}) as world:
        _, answer = await stalled(world)
        await until(lambda: not _running)
        assert not isinstance(answer.body, bytes)
        rest = b"".join([piece async for piece in answer.body]).decode()
        assert rest.count("event: response.failed") == 1
        assert rest.endswith("data: [DONE]\n\n")


def slow_commits(monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, asyncio.Event]:
    """Turns whose commit has begun when the first event is set, and goes on when the second one is. Handlers end at once."""
    monkeypatch.setattr(handler_answer, "_WIND_DOWN", 0.01)
    committing, go_on = asyncio.Event(), asyncio.Event()
    commit = Turns.commit

    async def slow(self: Turns, *given: Any) -> None:
        committing.set()
        await go_on.wait()
        await commit(self, *given)

    monkeypatch.setattr(Turns, "commit", slow)
    return committing, go_on


async def test_a_turn_that_is_stored_as_cancelled_is_stored_also_when_the_process_stops_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entered: list[str] = []
    committing, go_on = slow_commits(monkeypatch)
    gone = asyncio.Event()

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        yield ResponseEventStream(response_id=context.response_id, request=request).emit_created()
        entered.append(context.response_id)
        await asyncio.Event().wait()

    async with serve(handler) as world:
        asked = asyncio.create_task(world.post("hi", disconnected=gone.wait))
        await until(lambda: bool(entered))
        gone.set()
        assert (await asked).status == 499
        await committing.wait()
        closing = asyncio.create_task(world.server.close(0))
        await asyncio.sleep(0.01)
        go_on.set()
        await closing
        assert await turns(world).status(entered[0]) == "cancelled"


async def test_a_complete_turn_is_stored_although_its_client_goes_and_then_the_process_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []
    committing, go_on = slow_commits(monkeypatch)
    gone = asyncio.Event()

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        made.append(context.response_id)
        stream = ResponseEventStream(response_id=context.response_id, request=request)
        yield stream.emit_created()
        yield stream.emit_completed()

    async with serve(handler) as world:
        asked = asyncio.create_task(world.post("hi", disconnected=gone.wait))
        await committing.wait()
        gone.set()
        assert (await asked).status == 499
        (run,) = _running
        await until(lambda: run.cancelling() == 1)
        closing = asyncio.create_task(world.server.close(0))
        await until(lambda: run.cancelling() == 2)
        await asyncio.sleep(0.01)
        assert not run.done()
        go_on.set()
        await closing
        assert await turns(world).status(made[0]) == "completed"


async def test_a_silent_follower_reads_no_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "_LOOK", 0.02)

    async def silent(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = ResponseEventStream(response_id=context.response_id, request=request)
        yield stream.emit_created()
        yield stream.emit_in_progress()
        await signal.wait()

    large = [{"type": "message", "role": "user", "content": "x" * 500_000}]
    async with serve(silent) as world:
        events = await world.stream(large, background=True)
        await events.until("in_progress")
        before = world.store.meter.copy()
        await until(lambda: (world.store.meter - before).table_reads >= 5)
        spent = world.store.meter - before
        assert (spent.blob_reads, spent.bytes_in < 1_000 * spent.table_reads) == (0, True)
        await events.hang_up()
