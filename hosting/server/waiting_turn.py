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
        self._engine, self._loop = current_engine(), asyncio.get_running_loop()

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
        """The client has gone. May be called from anywhere, also when the process ends: then it is we who have hung up, and the
        turn goes on elsewhere."""
        if not self._loop.is_closed() and not self._engine.shutdown.is_set():
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
    """A response that a task runs, when it has ended; None when the client of `request` went first. Raises ApiError: 503 when
    this process stops first, 404 for one that was deleted meanwhile."""
    identifier, task = stored.response["id"], stored.task
    assert task is not None
    engine, key = current_engine(), Key(turns.scope, task.task_id)
    ended = asyncio.ensure_future(engine.wait(key, identifier, task.seq))
    gone = asyncio.ensure_future(request.disconnected())
    stopping = asyncio.ensure_future(engine.shutdown.wait())
    try:
        await asyncio.wait({ended, gone, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done() and not gone.done() and engine.live(key, task.seq) is not None:
            # It runs here, and has some time to come to its end; if it does not, it is deferred.
            await asyncio.wait({ended, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            if gone.done():
                return None
            raise _goes_on_elsewhere(identifier, request)
        await ended
    except TaskDeferred:
        raise _goes_on_elsewhere(identifier, request) from None
    finally:
        for waiting in (ended, gone, stopping):
            waiting.cancel()
    final = await turns.response(identifier)
    if final is None:
        raise ApiError.response_not_found(identifier)
    return final


def _goes_on_elsewhere(identifier: str, request: Request) -> ApiError:
    """503. Repeating the request would run the turn a second time, unless a key says that it is the same."""
    if request.headers.get("idempotency-key"):
        return ApiError.unavailable()
    message = f"The server stops. The response goes on at another one: retrieve '{identifier}'."
    return ApiError(message, status=503, code="service_unavailable", headers={"x-should-retry": "false"})


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
