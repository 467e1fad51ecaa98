"""Following a background response: its stored events, then the live ones, then the end; from any instance.

The first two events and the last one follow from the response row; what is between is in the stream. The end is where the
row says that the response is final and the stream has no more: the stream is closed then, or its writer has died before it
could, which is found out by looking at the row whenever the stream is silent.

When the stream can't be read on, because stored events are damaged or storage is away for long, a final response still ends
with its terminal event. For one that runs there is an `error` event, and then the end. It has the number of the last event
before it, so that a client that asks again with `starting_after` misses nothing.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from typing import Any

from hosting.responses import DONE, ApiError, encode_event, error_event
from hosting.server.answer import FIRST_STORED_EVENT
from hosting.server.http import SSE_HEADERS, Response
from hosting.state import StoredResponse, Turns
from hosting.state.response_row import RUNNING
from hosting.storage import StorageError, StorageUnavailable
from hosting.streaming import (
    EventStream,
    EventStreamError,
    EventStreamNotFoundError,
    StreamCorrupt,
    StreamUnavailable,
    streams,
)
from hosting.tasks import use_scope
from hosting.tasks.engine import current_engine

__all__ = ["follow", "follow_accepted", "follow_response", "sse"]

_log = logging.getLogger(__name__)

type Event = dict[str, Any]

_LOOK = 2.0
"""Seconds of silence after which the response row is looked at."""

_STRAGGLERS = 1.0
"""Seconds of silence after which the stream of a run that has ended is asked whether it has more: it should be closed."""

_KEEP_ALIVE = b": keep-alive\n"
"""A comment without the blank line after it. openai-python keeps the last `id:` and takes a blank line after a comment for
an event without data, which it then fails to parse."""

_FINAL_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
"""Seconds between two looks at the row while a closed stream's response is about to become final."""

_PATIENCE = 60.0
"""Seconds for which the response row may be unreadable, as for the stream itself (StreamTuning.give_up_after)."""


async def follow_response(turns: Turns, stored: StoredResponse, after: int, keep_alive_seconds: float) -> Response:
    """The events after number `after`, as an answer. Raises ApiError when they have expired, and when storage is away."""
    stream = await _stream_of(turns, stored)
    return _events(follow(turns, stored, stream, after), keep_alive_seconds)


async def follow_accepted(turns: Turns, stored: StoredResponse, keep_alive_seconds: float) -> Response:
    """All events of a response that has just been accepted, as an answer. It runs whatever becomes of its stream: so a client
    is not told to ask again, which would run it twice, but is kept waiting for the stream."""
    try:
        stream = await _stream_of(turns, stored)
    except ApiError:
        return _events(_follow_later(turns, stored), keep_alive_seconds)
    return _events(follow(turns, stored, stream), keep_alive_seconds)


def _events(batches: AsyncIterator[list[Event]], keep_alive_seconds: float) -> Response:
    return Response(200, sse(batches, keep_alive_seconds), dict(SSE_HEADERS), "text/event-stream")


async def _follow_later(turns: Turns, stored: StoredResponse) -> AsyncIterator[list[Event]]:
    opening = _opening(stored.response)
    yield opening
    loop = asyncio.get_running_loop()
    give_up, last, pause = loop.time() + _PATIENCE, opening[-1]["sequence_number"], _FINAL_PAUSE
    while True:
        try:
            stream = await _stream_of(turns, stored)
        except ApiError as error:
            if loop.time() > give_up or current_engine().shutdown.is_set():
                yield [error_event(error, sequence_number=last)]
                return
            yield []
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)
            continue
        async with aclosing(follow(turns, stored, stream, last)) as events:
            async for batch in events:
                yield batch
        return


async def _stream_of(turns: Turns, stored: StoredResponse) -> EventStream | None:
    """The stream; None when the response ended without one. Raises ApiError."""
    identifier = stored.response["id"]
    try:
        with use_scope(turns.scope):
            if stored.running:  # it may not have begun
                return await streams.get_or_create(identifier)
            return await streams.get(identifier)
    except EventStreamNotFoundError:
        if stored.response["status"] in ("completed", "incomplete"):
            raise ApiError.not_streamable("expired") from None
        return None
    except StreamUnavailable:
        raise ApiError.unavailable() from None


async def follow(
    turns: Turns, stored: StoredResponse, stream: EventStream | None, after: int = -1
) -> AsyncGenerator[list[Event]]:
    """The events with a number greater than `after`, in batches; an empty one now and then while there is silence.

    Ends with the terminal event; with an `error` event when the events of a running response can't be read; or without
    either when the response is deleted meanwhile.
    """
    identifier = stored.response["id"]
    opening = [event for event in _opening(stored.opening or stored.response) if event["sequence_number"] > after]
    if opening:
        yield opening
    last = max(after, FIRST_STORED_EVENT - 1)
    try:
        if stream is not None:
            async with aclosing(_stream_events(turns, identifier, stream, last)) as stored_events:
                async for events in stored_events:
                    if events:
                        last = events[-1]["sequence_number"]
                    yield events
        row, pause = _Row(turns, identifier), _FINAL_PAUSE
        ended = await row.ended(likely=True)
        while not ended:
            yield []
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)
            ended = await row.ended()
        ending = None if row.found is None else await _ending(stream, row.found)
    except (EventStreamError, StorageError) as error:
        stopping = current_engine().shutdown.is_set()  # then nothing is wrong: the client goes on at another process
        _log.log(
            logging.INFO if stopping else logging.ERROR,
            "The events of %s after %d can't be read: %r",
            identifier,
            last,
            error,
        )
        ending = await _broken(turns, identifier, stream, last, error)
    if ending is not None and (ending["type"] == "error" or ending["sequence_number"] > after):
        yield [ending]


async def sse(batches: AsyncIterator[list[Event]], keep_alive_seconds: float) -> AsyncIterator[bytes]:
    """Batches as server-sent events, with a comment for silence and the event's number as its id."""
    loop = asyncio.get_running_loop()
    spoken = loop.time()
    async for events in batches:
        if events:
            # An error is not one of the response's events: it has no id to go on from.
            yield b"".join(encode_event(event, with_id=event["type"] != "error") for event in events)
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
    """Raises StreamCorrupt, StreamUnavailable; StorageError when the response row can't be read for long."""
    batches, last = stream.batches(after=after), after
    coming: asyncio.Future[list[Event]] | None = None
    ended = False
    row = _Row(turns, identifier)
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
            ended = await row.ended()
    finally:
        if coming is not None:
            coming.cancel()
            with suppress(asyncio.CancelledError, StopAsyncIteration, Exception):
                await coming
        await batches.aclose()


class _Row:
    """Looks at the response row; not being able to for a while is no reason to end.

    While the response runs, a look is for its status alone: its input may be megabytes.
    """

    def __init__(self, turns: Turns, identifier: str) -> None:
        self._turns, self._identifier = turns, identifier
        self._silent_since: float | None = None
        self.found: StoredResponse | None = None

    async def ended(self, *, likely: bool = False) -> bool:
        """Whether the response is final or deleted; `found` is it then. Where that is `likely`, it is read whole at once.
        Raises StorageError."""
        now = asyncio.get_running_loop().time()
        try:
            running = not likely and await self._turns.status(self._identifier) in RUNNING
            self.found = None if running else await self._turns.response(self._identifier)
        except StorageUnavailable:
            self._silent_since = now if self._silent_since is None else self._silent_since
            if now - self._silent_since > _PATIENCE:
                raise
            return False
        self._silent_since = None
        return not running and (self.found is None or not self.found.running)


async def _ending(stream: EventStream | None, final: StoredResponse) -> Event:
    cursor = -1 if stream is None else await _last_cursor(stream)
    return _terminal(final.response, max(FIRST_STORED_EVENT, cursor + 1))


async def _broken(
    turns: Turns, identifier: str, stream: EventStream | None, last: int, error: EventStreamError | StorageError
) -> Event | None:
    """How the events end that can't be read on."""
    with suppress(EventStreamError, StorageError):
        found = await turns.response(identifier)
        if found is None:
            return None
        if not found.running:
            return await _ending(stream, found)
    if isinstance(error, StreamCorrupt):
        behind = max(error.resume_after, last + 1)
        message = (
            f"Events {last + 1} to {behind} of this response are damaged and can't be read. Follow on with "
            f"starting_after={behind}, or retrieve the response when it has ended."
        )
        fault = ApiError(message, status=500, code="server_error")
    else:
        fault = ApiError.unavailable()
    return error_event(fault, sequence_number=last)


async def _last_cursor(stream: EventStream) -> int:
    try:
        last = await stream.last_cursor()
    except EventStreamNotFoundError:
        return -1
    return -1 if last is None else int(last)
