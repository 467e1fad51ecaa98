"""Invocations: three routes with a protocol of the app's own, for what the Responses API has no words for.

    POST v1/invocations                  the invoke handler
    GET  v1/invocations/{invocation_id}  the get handler
    POST v1/invocations/{invocation_id}/cancel

Names, paths, headers and the statuses without a handler are those of the published package. Nothing is stored here: a handler
keys its tasks and streams by the invocation id, which is as much as the caller's own scope, because it runs in that scope.
"""

import asyncio
import inspect
import json
import logging
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, fields
from typing import Any, cast

from hosting import telemetry
from hosting.identity import Caller
from hosting.responses import KEEP_ALIVE, ApiError
from hosting.server.caller import Callers
from hosting.server.channel import Channel
from hosting.server.http import SSE_HEADERS, ClientGone, Request, Response, json_response
from hosting.server.limit_body import check_json_size
from hosting.server.limit_leases import Lease
from hosting.server.limits import Limits
from hosting.server.parsed_body import parse_body
from hosting.settings import Settings
from hosting.storage import StorageUnavailable
from hosting.tasks import use_scope

__all__ = ["InvocationHandler", "InvocationRequest", "Invocations"]

_log = logging.getLogger(__name__)

INVOCATION_HEADER, SESSION_HEADER = "x-agent-invocation-id", "x-agent-session-id"
_SESSION_QUERY = "agent_session_id"
# The grammar of the published package, which is that of task ids too.
_ID = re.compile(r"[A-Za-z0-9\-_.:]{1,256}", re.ASCII)
_EVENT_STREAM = "text/event-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class InvocationRequest(Request):
    """A request to an invocation, whose caller is known."""

    invocation_id: str
    """Of the path, or of the header x-agent-invocation-id; a new one when that is absent or no id."""
    session_id: str
    """The query parameter agent_session_id, or the header x-agent-session-id, or a new one."""
    caller: Caller
    scope: str
    """What tasks and streams of the handler belong to (`hosting.tasks.current_scope()` says the same)."""
    longest_body: int

    async def body(self) -> bytes:
        """The body, which can be read once. Raises ApiError 413. Nothing that is read after it is refused: the work begins."""
        body = await self.read_body(self.longest_body)
        self.share.admit()
        return body

    async def json(self) -> Any:
        """The body as JSON. Raises ApiError 400 for anything else."""
        body = await self.body()
        check_json_size(body)
        return parse_body(body)


type InvocationHandler = Callable[[InvocationRequest], Awaitable[Any] | AsyncIterator[Any]]
"""An async function that gives a Response, a JSON value, or an async iterator of events (objects or bytes of frames); or an
async generator of events. None is 204. An ApiError that it raises is the answer; anything else is a 500 without its text."""


class Invocations:
    """The handlers of an app, and the endpoints in front of them. Register them while the app loads."""

    def __init__(self, settings: Settings, limits: Limits) -> None:
        self._settings, self._limits = settings, limits
        self._callers = Callers(settings)
        self._handlers: dict[str, InvocationHandler] = {}
        self.routes: Mapping[str, Mapping[str, Callable[[Request], Awaitable[Response]]]] = {
            "v1/invocations": {"POST": self._invoke},
            "v1/invocations/{invocation_id}": {"GET": self._get},
            "v1/invocations/{invocation_id}/cancel": {"POST": self._cancel},
        }
        """As `ResponsesServer.routes`, whose `handle` makes answers of the errors that these endpoints raise."""

    def register(self, kind: str, handler: InvocationHandler) -> None:
        """Take the handler for "invoke", "get" or "cancel". Raises TypeError unless it is async, ValueError for a second."""
        if not (inspect.iscoroutinefunction(handler) or inspect.isasyncgenfunction(handler)):
            raise TypeError(f"the {kind} handler must be an async function")
        if kind in self._handlers:
            raise ValueError(f"there is a {kind} handler already")
        self._handlers[kind] = handler

    async def _invoke(self, request: Request) -> Response:
        given = request.headers.get(INVOCATION_HEADER, "")
        return await self._answer("invoke", request, _id_or_new(given))

    async def _get(self, request: Request) -> Response:
        return await self._answer("get", request, request.path_params["invocation_id"])

    async def _cancel(self, request: Request) -> Response:
        return await self._answer("cancel", request, request.path_params["invocation_id"])

    async def _answer(self, kind: str, request: Request, invocation_id: str) -> Response:
        """Call a handler. Raises NotAuthenticated, ApiError, StorageUnavailable, ClientGone."""
        caller = self._callers.caller(request)
        scope = self._callers.scope_of(caller)
        session_id = _id_or_new((request.query.get(_SESSION_QUERY) or [request.headers.get(SESSION_HEADER, "")])[-1])
        handler = self._handlers.get(kind)
        if handler is None or _ID.fullmatch(invocation_id) is None:
            raise _no_handler(kind)
        headers = {INVOCATION_HEADER: invocation_id, SESSION_HEADER: session_id}
        guarded = self._limits.guarded(request, caller, json=False)
        invocation = InvocationRequest(
            **{item.name: getattr(guarded, item.name) for item in fields(Request)},
            invocation_id=invocation_id,
            session_id=session_id,
            caller=caller,
            scope=scope,
            longest_body=self._settings.max_request_bytes,
        )
        if kind == "invoke":
            admission = self._limits.admit(caller, scope)
        else:  # who has all its places must still be able to cancel
            admission = nullcontext(self._limits.follow(caller) if kind == "get" else Lease())
        try:
            async with admission as lease:
                with lease, use_scope(scope):
                    made = handler(invocation)
                    result = await made if inspect.isawaitable(made) else made
                    response = lease.answer(self._response(result, scope), request.share)
        except ApiError as error:
            error.headers.update(headers)
            raise
        except (StorageUnavailable, ClientGone):
            raise
        except Exception as error:
            _log.error("The %s handler failed in invocation %s: %s", kind, invocation_id, telemetry.describe(error))
            fault = ApiError.server_error()
            fault.headers.update(headers)
            raise fault from None
        response.headers.update(headers)
        return response

    def _response(self, result: Any, scope: str) -> Response:
        """What a handler returned, as a response. Raises TypeError for what can't be one."""
        if isinstance(result, Response):
            if isinstance(result.body, bytes):
                return result
            events = result.media_type.partition(";")[0].strip().lower() == _EVENT_STREAM
            result.body = self._stream(result.body, scope, events=events)
            return result
        if result is None:
            return Response(204)
        if hasattr(result, "__aiter__"):
            body = self._stream(cast("AsyncIterator[Any]", result), scope, events=True)
            return Response(200, body, dict(SSE_HEADERS), _EVENT_STREAM)
        return json_response(result)

    async def _stream(self, source: AsyncIterator[Any], scope: str, *, events: bool) -> AsyncIterator[bytes]:
        """The frames of a body, with comments for silence when it is one of events.

        The handler's iterator runs in a task of its own: it stays in the caller's scope there, whoever reads this one. When
        the client goes, this iterator is closed, and the other one is cancelled where it waits.
        """
        channel = Channel()
        with use_scope(scope):  # the task takes a copy of it along
            pump = asyncio.create_task(_pump(source, channel, events=events), name="invocation stream")

        def ended(done: asyncio.Task[None]) -> None:
            channel.close()
            if not done.cancelled():
                done.exception()  # seen, also when nobody reads any more

        pump.add_done_callback(ended)
        silence = self._settings.keep_alive_seconds
        try:
            async for frames in channel.read(silence):
                if frames:
                    yield b"".join(cast("list[bytes]", frames))
                elif events:
                    yield KEEP_ALIVE
            if not pump.cancelled() and (error := pump.exception()) is not None:
                _log.error("The stream of an invocation failed: %s", telemetry.describe(error))
                if not events:
                    raise error  # cuts the connection: the body must not look complete
                # The last event, whatever the numbers of the handler's own are.
                yield _frame({"type": "error", **ApiError.server_error().body()})
        finally:
            pump.cancel()


async def _pump(source: AsyncIterator[Any], channel: Channel, *, events: bool) -> None:
    try:
        async for item in source:
            frame = item if isinstance(item, bytes) or not events else _frame(item)
            await channel.put([cast("Any", frame)])
    finally:
        close = getattr(source, "aclose", None)
        if close is not None:
            await close()


def _frame(event: Any) -> bytes:
    """A frame for an event: its `type`, if it has one, as its name, and its `sequence_number` as its id (Last-Event-ID)."""
    data = json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    kind, number = _member(event, "type"), _member(event, "sequence_number")
    head = ""
    if type(number) is int:
        head += f"id: {number}\n"
    if isinstance(kind, str) and kind.isprintable():
        head += f"event: {kind}\n"
    return head.encode() + b"data: " + data + b"\n\n"


def _member(event: object, name: str) -> object:
    return cast("Mapping[str, object]", event).get(name) if isinstance(event, Mapping) else None


def _id_or_new(given: str) -> str:
    return given if _ID.fullmatch(given) else str(uuid.uuid4())


def _no_handler(kind: str) -> ApiError:
    if kind == "invoke":
        return ApiError("This app has no invoke handler.", status=501, code="not_implemented")
    message = "There is no such invocation."
    return ApiError(message, status=404, type="invalid_request_error", code="not_found", param="invocation_id")
