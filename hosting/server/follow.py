"""Following a background response: its stored events, then the live ones, then the end; from any instance.

The first two events and the last one follow from the response row; what is between is in the stream. The end is where the
row says that the response is final and the stream has no more: the stream is closed then, or its writer has died before it
could, which is found out by looking at the row whenever the stream is silent.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import Any

from hosting.responses import DONE, encode_event
from hosting.server.answer import FIRST_STORED_EVENT
from hosting.server.http import SSE_HEADERS, Response
from hosting.state import StoredResponse, Turns
from hosting.streaming import EventStream, EventStreamNotFoundError, streams
from hosting.tasks import use_scope

__all__ = ["follow", "follow_response", "sse"]

type Event = dict[str, Any]

_LOOK = 2.0
"""Seconds of silence after which the response row is looked at."""

_STRAGGLERS = 1.0
"""Seconds of silence after which the stream of a run that has ended is asked whether it has more: it should be closed."""

_KEEP_ALIVE = b": keep-alive\n"
"""A comment without the blank line after it. openai-python keeps the last `id:` and takes a blank line after a comment for
an event without data, which it then fails to parse."""

_FINAL_PAUSE = 0.05
"""Seconds between two looks at the row while a closed stream's response is about to become final."""


async def follow_response(turns: Turns, stored: StoredResponse, after: int, keep_alive_seconds: float) -> Response:
    """The events after number `after`, as an answer. Raises StorageError."""
    with use_scope(turns.scope):
        stream = await streams.get_or_create(stored.response["id"])
    body = sse(follow(turns, stored, stream, after), keep_alive_seconds)
    return Response(200, body, dict(SSE_HEADERS), "text/event-stream")


async def follow(
    turns: Turns, stored: StoredResponse, stream: EventStream, after: int = -1
) -> AsyncIterator[list[Event]]:
    """The events with a number greater than `after`, in batches; an empty one now and then while there is silence.

    Ends with the terminal event, or without one when the response is deleted meanwhile.
    """
    identifier = stored.response["id"]
    opening = [event for event in _opening(stored.opening or stored.response) if event["sequence_number"] > after]
    if opening:
        yield opening
    last = max(after, FIRST_STORED_EVENT - 1)
    async for events in _stream_events(turns, identifier, stream, last):
        if events:
            last = events[-1]["sequence_number"]
        yield events
    final = await _final(turns, identifier)
    if final is None:
        return
    cursor = await _last_cursor(stream)
    number = max(FIRST_STORED_EVENT, cursor + 1)
    if number > after:
        yield [_terminal(final.response, number)]


async def sse(batches: AsyncIterator[list[Event]], keep_alive_seconds: float) -> AsyncIterator[bytes]:
    """Batches as server-sent events, with a comment for silence and the event's number as its id."""
    loop = asyncio.get_running_loop()
    spoken = loop.time()
    async for events in batches:
        if events:
            yield b"".join(encode_event(event, with_id=True) for event in events)
        elif loop.time() - spoken < keep_alive_seconds:
            continue
        else:
            yield _KEEP_ALIVE
        spoken = loop.time()
    yield DONE


def _opening(response: dict[str, Any]) -> list[Event]:
    """`response.created` and `response.queued`, as they were when the response was accepted."""
    queued: dict[str, Any] = {
        **response,
        "status": "queued",
        "output": [],
        "usage": None,
        "error": None,
        "incomplete_details": None,
        "completed_at": None,
    }
    return [
        {"type": f"response.{name}", "response": queued, "sequence_number": number}
        for number, name in enumerate(("created", "queued"))
    ]


def _terminal(response: dict[str, Any], number: int) -> Event:
    # There is no event for cancelled: `response.failed` with that status is what published servers send.
    status = "failed" if response["status"] == "cancelled" else response["status"]
    return {"type": f"response.{status}", "response": response, "sequence_number": number}


async def _stream_events(turns: Turns, identifier: str, stream: EventStream, after: int) -> AsyncGenerator[list[Event]]:
    batches, last = stream.batches(after=after), after
    coming: asyncio.Future[list[Event]] | None = None
    ended = False
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(batches))
            done, _ = await asyncio.wait({coming}, timeout=_STRAGGLERS if ended else _LOOK)
            if done:
                try:
                    events = coming.result()
                except (StopAsyncIteration, EventStreamNotFoundError):
                    return
                finally:
                    coming = None
                last = events[-1]["sequence_number"]
                yield events
                continue
            if ended and await _last_cursor(stream) <= last:
                return  # else they are stored and on their way: reading takes its time
            yield []
            found = await turns.response(identifier)
            ended = found is None or not found.running
    finally:
        if coming is not None:
            coming.cancel()
            with suppress(asyncio.CancelledError, StopAsyncIteration, Exception):
                await coming
        await batches.aclose()


async def _final(turns: Turns, identifier: str) -> StoredResponse | None:
    while True:
        found = await turns.response(identifier)
        if found is None or not found.running:
            return found
        await asyncio.sleep(_FINAL_PAUSE)


async def _last_cursor(stream: EventStream) -> int:
    try:
        last = await stream.last_cursor()
    except EventStreamNotFoundError:
        return -1
    return -1 if last is None else int(last)
