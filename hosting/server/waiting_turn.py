"""A foreground request whose turn waits behind one that runs: a task runs it, and it ends with its client all the same."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any, Self

from hosting import telemetry
from hosting.responses import ApiError
from hosting.server.background import BackgroundResponses
from hosting.server.http import Request, Response, json_response
from hosting.state import StoredResponse, Turns
from hosting.tasks import TaskDeferred
from hosting.tasks.engine import Key, current_engine

__all__ = ["CancelledWithItsReader", "WaitingTurn", "end_of"]

_log = logging.getLogger(__name__)

# Cancels that outlive their request: asyncio itself keeps only weak references.
_cancelling: set[asyncio.Task[Any]] = set()


class WaitingTurn:
    """A turn that ends with its client. When that one goes, the turn is cancelled in a task of its own: the web framework
    cancels whatever the request still awaits. If the process dies in between, the turn goes on to its end."""

    def __init__(self, background: BackgroundResponses, turns: Turns, stored: StoredResponse) -> None:
        self._background, self._turns, self._stored = background, turns, stored
        self._loop = asyncio.get_running_loop()

    async def end(self, request: Request) -> Response:
        """The final response, for a client that waits for one JSON answer; 499 when it went first. Raises ApiError 503 when
        this process stops: the turn goes on in another one."""
        try:
            final = await end_of(self._turns, self._stored, request)
        except asyncio.CancelledError:
            self.leave()
            raise
        if final is None:
            self.leave()
            return Response(499)
        return json_response(final.response)

    def leave(self) -> None:
        """The client has gone. May be called from anywhere, also when the process ends."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._begin_to_cancel)

    def _begin_to_cancel(self) -> None:
        cancelling = self._loop.create_task(self._cancel())
        _cancelling.add(cancelling)
        cancelling.add_done_callback(_cancelling.discard)

    async def _cancel(self) -> None:
        identifier = self._stored.response["id"]
        try:
            await self._background.cancel(self._turns, identifier, foreground=True)
        except Exception as error:
            _log.error("%s could not be cancelled when its client went: %s", identifier, telemetry.describe(error))


async def end_of(turns: Turns, stored: StoredResponse, request: Request) -> StoredResponse | None:
    """A response that a task runs, when it has ended; None when the client of `request` went first. Raises ApiError 503 when
    this process stops first."""
    identifier, task = stored.response["id"], stored.task
    assert task is not None
    ended = asyncio.ensure_future(current_engine().wait(Key(turns.scope, task.task_id), identifier, task.seq))
    gone = asyncio.ensure_future(request.disconnected())
    try:
        await asyncio.wait({ended, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            return None
        await ended
    except TaskDeferred:
        raise ApiError.unavailable() from None
    finally:
        ended.cancel()
        gone.cancel()
    return await turns.response(identifier) or stored


class CancelledWithItsReader(AsyncIterator[bytes]):
    """`body` to its end. When its reader goes before that, `turn` is told, whether or not the reader has ever begun.

    No generator: the `finally` of one that never began does not run.
    """

    def __init__(self, body: AsyncIterator[bytes], turn: WaitingTurn) -> None:
        self._body = body
        self._turn: WaitingTurn | None = turn

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            return await anext(self._body)
        except asyncio.CancelledError:
            self._leave()
            raise
        except BaseException:  # its end, or a failure that the client is told of
            self._turn = None
            raise

    async def aclose(self) -> None:
        self._leave()
        close = getattr(self._body, "aclose", None)
        if close is not None:
            await close()

    def __del__(self) -> None:
        self._leave()

    def _leave(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.leave()
