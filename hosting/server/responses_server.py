"""The Responses endpoints: who asks, what they ask for, and which part of the house answers.

`routes` is the whole surface; `handle` is the one way in. Whatever happens, the client gets the OpenAI error envelope,
and no text of an exception.
"""

import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from hosting.identity import Caller, Identity, NotAuthenticated
from hosting.responses import ApiError, CreateRequest, check_open_calls, parse_create_request, parse_json_body
from hosting.server.foreground import ForegroundTurn, finish_running, run_to_end, stream_events
from hosting.server.http import Request, Response, json_response
from hosting.server.input_items import list_input_items
from hosting.settings import Settings
from hosting.state import AgentState, PreviousResponseNotFound, Turns
from hosting.storage import StorageUnavailable, Store, keys

__all__ = ["ResponsesServer"]

_log = logging.getLogger(__name__)

# The platform's own grace is unknown and may be nothing; a laptop should not wait longer than this for Ctrl-C.
_CLOSE_SECONDS = 10.0

type Endpoint = Callable[[Request], Awaitable[Response]]


class ResponsesServer:
    """Serves one agent. `open_store` gives the store of the process, inside the running loop."""

    def __init__(self, state: AgentState[Any], settings: Settings, open_store: Callable[[], Store]) -> None:
        self._state = state
        self._settings = settings
        self._identity = Identity(settings)
        self._open_store = open_store
        self.routes: Mapping[str, Mapping[str, Endpoint]] = {
            "v1/responses": {"POST": self._create},
            "v1/responses/{response_id}": {"GET": self._retrieve, "DELETE": self._delete},
            "v1/responses/{response_id}/cancel": {"POST": self._cancel},
            "v1/responses/{response_id}/input_items": {"GET": self._input_items},
            "v1/models": {"GET": self._models},
            "readiness": {"GET": self._readiness},
        }
        """Path template (no leading slash, parameters in braces) to method to endpoint."""

    async def handle(self, route: str | None, request: Request) -> Response:
        """Answer a request for a route of `routes`; None is a path that no route has."""
        started = time.perf_counter()
        try:
            response = await self._endpoint(route, request)(request)
        except ApiError as error:
            response = json_response(error.body(), error.status, error.headers)
        except NotAuthenticated as error:
            fault = ApiError.invalid_api_key(error.hint) if error.presented else ApiError.missing_api_key(error.hint)
            response = json_response(fault.body(), fault.status, fault.headers)
        except StorageUnavailable:
            _log.exception("Storage is not available")
            fault = ApiError.unavailable()
            response = json_response(fault.body(), fault.status, fault.headers)
        except Exception:
            _log.exception("%s %s failed", request.method, route)
            fault = ApiError.server_error()
            response = json_response(fault.body(), fault.status, fault.headers)
        response.headers.setdefault("x-request-id", f"req_{uuid.uuid4().hex}")
        response.headers["openai-processing-ms"] = str(round((time.perf_counter() - started) * 1000))
        response.headers["openai-version"] = "2020-10-01"
        return response

    async def close(self) -> None:
        """Let running turns finish. The store is closed by whoever opened it."""
        await self.close_runs(_CLOSE_SECONDS)

    async def close_runs(self, seconds: float) -> None:
        """Wait for the runs of this process, at most so long."""
        await finish_running(seconds)

    def _endpoint(self, route: str | None, request: Request) -> Endpoint:
        methods = self.routes.get(route) if route is not None else None
        if methods is None:
            raise ApiError.unknown_route(request.method, request.path)
        method = "GET" if request.method == "HEAD" else request.method
        if method not in methods:
            raise ApiError.method_not_allowed(request.method, request.path, tuple(methods))
        return methods[method]

    def _turns(self, caller: Caller) -> Turns:
        user = caller.user if self._settings.isolation == "user" else None
        return Turns(self._open_store(), keys.scope(caller.tenant, user))

    async def _create(self, request: Request) -> Response:
        caller = self._identity.caller(request.headers)
        create = parse_create_request(parse_json_body(await self._body(request)))
        turn = await self._begin(caller, create)
        if create.stream:
            return Response(
                200,
                stream_events(turn, self._settings.keep_alive_seconds),
                {"cache-control": "no-cache", "x-accel-buffering": "no"},
                "text/event-stream",
            )
        response = await run_to_end(turn, request.disconnected)
        if response is None:
            _log.info("%s: the client went away, its run is cancelled", turn.turn.response_id)
            return Response(499)  # nobody reads it; the number tells the log
        return json_response(response)

    async def _begin(self, caller: Caller, create: CreateRequest) -> ForegroundTurn:
        if create.background:
            raise ApiError.unsupported("background", "Background mode is not supported by this server yet.")
        if create.conversation_id is not None:
            raise ApiError.unsupported("conversation", "Conversations are not supported by this server yet.")
        turns = self._turns(caller)
        target = await self._state.get_target()
        from hosting.state import uses_table_history  # imports agent-framework, which the agent has done by now

        try:
            turn = await turns.begin(create.previous_response_id, history=uses_table_history(target))
        except PreviousResponseNotFound:
            raise ApiError.previous_response_not_found(create.previous_response_id or "") from None
        check_open_calls(turn.open_calls, create)
        return ForegroundTurn(
            create, target, turn, turns, create.model or self._settings.default_model, store=create.store
        )

    async def _body(self, request: Request) -> bytes:
        return await request.read(self._settings.max_request_bytes) if request.read is not None else b""

    async def _retrieve(self, request: Request) -> Response:
        turns = self._turns(self._identity.caller(request.headers))
        identifier = request.path_params["response_id"]
        stored = await turns.response(_checked(identifier))
        if stored is None:
            raise ApiError.response_not_found(identifier)
        if request.query.get("stream", ["false"])[-1].lower() == "true":
            raise ApiError.not_streamable()
        return json_response(stored.response)

    async def _delete(self, request: Request) -> Response:
        turns = self._turns(self._identity.caller(request.headers))
        identifier = request.path_params["response_id"]
        if not await turns.delete(_checked(identifier)):
            raise ApiError.response_not_found(identifier)
        return json_response({"id": identifier, "object": "response", "deleted": True})

    async def _cancel(self, request: Request) -> Response:
        turns = self._turns(self._identity.caller(request.headers))
        identifier = request.path_params["response_id"]
        if await turns.response(_checked(identifier)) is None:
            raise ApiError.response_not_found(identifier)
        raise ApiError.not_cancellable()

    async def _input_items(self, request: Request) -> Response:
        turns = self._turns(self._identity.caller(request.headers))
        identifier = request.path_params["response_id"]
        stored = await turns.response(_checked(identifier))
        if stored is None:
            raise ApiError.response_not_found(identifier)
        return json_response(await list_input_items(turns, stored, request.query))

    async def _models(self, request: Request) -> Response:
        self._identity.caller(request.headers)
        model: dict[str, Any] = {"id": self._settings.default_model, "object": "model", "created": 0, "owned_by": "app"}
        return json_response({"object": "list", "data": [model]})

    async def _readiness(self, request: Request) -> Response:
        return json_response({"status": "healthy"})


def _checked(identifier: str) -> str:
    """The id itself, when it could be one of a response. Raises ApiError 400 for what could never be."""
    if not identifier.startswith("resp_"):
        raise ApiError.malformed_id("response_id", identifier)
    return identifier
