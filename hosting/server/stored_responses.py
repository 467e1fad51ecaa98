"""The endpoints of responses that exist: retrieve, follow, cancel, delete, and the items they were made from."""

from collections.abc import Callable

from hosting.responses import ApiError
from hosting.server.background import BackgroundResponses
from hosting.server.caller import Callers
from hosting.server.follow import follow_response
from hosting.server.http import Request, Response, json_response
from hosting.server.input_items import list_input_items
from hosting.server.limits import Limits
from hosting.server.query import check_query_include, query_flag
from hosting.state import StoredResponse, Turns
from hosting.storage import Store
from hosting.streaming import streams
from hosting.tasks import use_scope
from hosting.tasks.retention import forget_outcome

__all__ = ["StoredResponses"]


class StoredResponses:
    """Each method is an endpoint. They raise ApiError, NotAuthenticated and StorageError."""

    def __init__(
        self,
        callers: Callers,
        background: BackgroundResponses,
        limits: Limits,
        open_store: Callable[[], Store],
        keep_alive: float,
    ) -> None:
        self._callers, self._background = callers, background
        self._limits, self._open_store, self._keep_alive = limits, open_store, keep_alive

    async def retrieve(self, request: Request) -> Response:
        """The response, or with `stream=true` its events after `starting_after`."""
        turns, identifier = self._named(request)
        stream, after = _events_wanted(request)
        stored = await self._found(turns, identifier)
        if not stream:
            return json_response(stored.response)
        if stored.task is None or not stored.response["background"]:
            raise ApiError.not_streamable()
        if not stored.task.stream:
            raise ApiError.not_streamable("not_streamed")
        with self._limits.follow(self._callers.caller(request)) as lease:
            return lease.answer(await follow_response(turns, stored, after, self._keep_alive))

    async def delete(self, request: Request) -> Response:
        """Delete the response with its items and its events."""
        turns, identifier = self._named(request)
        stored = await self._found(turns, identifier)
        identifier, task = stored.response["id"], stored.task
        if stored.running:
            raise ApiError.in_flight()
        if task is not None:
            # Before the response itself, so that a request which fails in between can be sent again.
            if task.stream:
                with use_scope(turns.scope):
                    await streams.delete(identifier)
            await forget_outcome(turns.store, turns.scope, task.task_id, identifier, task.seq)
        if not await turns.delete(identifier):
            raise ApiError.response_not_found(identifier)
        return json_response({"id": identifier, "object": "response", "deleted": True})

    async def cancel(self, request: Request) -> Response:
        """Cancel the response, if it runs in the background."""
        return json_response(await self._background.cancel(*self._named(request)))

    async def input_items(self, request: Request) -> Response:
        """A page of the items that the response was made from."""
        turns, identifier = self._named(request)
        check_query_include(request.query)
        stored = await self._found(turns, identifier)
        return json_response(await list_input_items(turns, stored, request.query))

    def _named(self, request: Request) -> tuple[Turns, str]:
        """The caller's turns, and the id in the path. Raises ApiError 400 for what could never be one."""
        turns = Turns(self._open_store(), self._callers.scope(request))
        identifier = request.path_params["response_id"]
        if not identifier.startswith("resp_"):
            raise ApiError.malformed_id("response_id", identifier)
        return turns, identifier

    async def _found(self, turns: Turns, identifier: str) -> StoredResponse:
        stored = await turns.response(identifier)
        if stored is None:
            raise ApiError.response_not_found(identifier)
        return stored


def _events_wanted(request: Request) -> tuple[bool, int]:
    """Whether a retrieval is for events, and the number that the client has seen last: `starting_after` (OpenAI), else the
    `Last-Event-ID` of SSE; -1 for none. Raises ApiError 400 for a query that could never be answered."""
    query = request.query
    check_query_include(query)
    query_flag(query, "include_obfuscation")  # deltas are never padded
    stream = query_flag(query, "stream")
    after = _number(query["starting_after"][-1], "starting_after") if "starting_after" in query else None
    if after is None and stream and (header := request.headers.get("last-event-id")):  # else it belongs to nothing
        after = _number(header, "Last-Event-ID")
    return stream, -1 if after is None else after


def _number(given: str, name: str) -> int:
    if not (given.isascii() and given.isdigit() and len(given) <= 12):
        raise ApiError.invalid_value(name, f"Invalid '{name}': expected an integer from 0 to 999999999999.")
    return int(given)
