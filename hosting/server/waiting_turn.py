"""A foreground request whose turn waits behind one that runs: a task runs it, and it ends with its client all the same."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

from hosting import telemetry
from hosting.server.background import BackgroundResponses
from hosting.server.http import Request, Response, json_response
from hosting.state import StoredResponse, Turns
from hosting.tasks.engine import Key, current_engine

__all__ = ["cancelled_with_its_reader", "end_of", "wait_for_end"]

_log = logging.getLogger(__name__)

# Cancels that outlive their request: asyncio itself keeps only weak references.
_cancelling: set[asyncio.Task[Any]] = set()


async def wait_for_end(
    background: BackgroundResponses, turns: Turns, stored: StoredResponse, request: Request
) -> Response:
    """The final response, for a client that waits for one JSON answer; 499 when it went first."""
    final = await end_of(turns, stored, request)
    if final is None:
        await asyncio.shield(background.cancel(turns, stored.response["id"], foreground=True))
        return Response(499)
    return json_response(final.response)


async def end_of(turns: Turns, stored: StoredResponse, request: Request) -> StoredResponse | None:
    """A response that a task runs, when it has ended; None when the client of `request` went first."""
    identifier, task = stored.response["id"], stored.task
    assert task is not None
    ended = asyncio.ensure_future(current_engine().wait(Key(turns.scope, task.task_id), identifier, task.seq))
    gone = asyncio.ensure_future(request.disconnected())
    try:
        await asyncio.wait({ended, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            return None
        await ended
    finally:
        ended.cancel()
        gone.cancel()
    return await turns.response(identifier) or stored


async def cancelled_with_its_reader(
    body: AsyncIterator[bytes], background: BackgroundResponses, turns: Turns, identifier: str
) -> AsyncIterator[bytes]:
    """`body` to its end. When its reader goes before that, the response is cancelled, in a task of its own: the web framework
    cancels whatever the request still awaits. If the process dies in between, the turn goes on to its end."""
    try:
        async for chunk in body:
            yield chunk
    except (asyncio.CancelledError, GeneratorExit):
        cancelling = asyncio.create_task(_cancel(background, turns, identifier))
        _cancelling.add(cancelling)
        cancelling.add_done_callback(_cancelling.discard)
        raise
    finally:
        close = getattr(body, "aclose", None)
        if close is not None:
            await close()


async def _cancel(background: BackgroundResponses, turns: Turns, identifier: str) -> None:
    try:
        await background.cancel(turns, identifier, foreground=True)
    except Exception as error:
        _log.error("%s could not be cancelled when its client went: %s", identifier, telemetry.describe(error))
