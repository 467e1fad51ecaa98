"""The Responses endpoints: who asks, what they ask for, and which part of the house answers.

`routes` is the whole surface; `handle` is the one way in. Whatever happens, the client gets the OpenAI error envelope,
and no text of an exception.
"""

import logging
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hosting.identity import Identity, NotAuthenticated
from hosting.responses import (
    DONE,
    ApiError,
    CreateRequest,
    check_open_calls,
    encode_event,
    item_references,
    parse_create_request,
    parse_json_body,
    resolve_references,
)
from hosting.responses.replay import replay_events
from hosting.server.background import BackgroundResponses, Submission
from hosting.server.follow import follow, sse
from hosting.server.foreground import ForegroundTurn, finish_running, run_to_end, stream_events
from hosting.server.http import ClientGone, Request, Response, json_response
from hosting.server.idempotency import earlier_response
from hosting.server.input_items import list_input_items
from hosting.server.options import ResponsesServerOptions
from hosting.settings import Settings
from hosting.state import (
    AgentState,
    PreviousResponseNotFound,
    PreviousResponseUnfinished,
    StoredResponse,
    Turn,
    Turns,
)
from hosting.state.idempotency import IdempotencyKeys
from hosting.state.items import find_items
from hosting.storage import StorageUnavailable, Store, keys
from hosting.streaming import streams
from hosting.tasks import use_scope
from hosting.tasks.engine import Key, current_engine

__all__ = ["ResponsesServer"]

_log = logging.getLogger(__name__)

# The platform's own grace is unknown and may be nothing; a laptop should not wait longer than this for Ctrl-C.
_CLOSE_SECONDS = 10.0

_SSE_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}

type Endpoint = Callable[[Request], Awaitable[Response]]


class ResponsesServer:
    """Serves one agent. `open_store` gives the store of the process, inside the running loop."""

    def __init__(
        self,
        state: AgentState[Any],
        settings: Settings,
        open_store: Callable[[], Store],
        options: ResponsesServerOptions | None = None,
    ) -> None:
        self._options = options = options or ResponsesServerOptions()
        self._keep_alive = options.sse_keep_alive_interval_seconds or settings.keep_alive_seconds
        self._default_model = options.default_model or settings.default_model
        self._background = BackgroundResponses(state, self._options, open_store)
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
            "v1/models/{model}": {"GET": self._model_of_name},
            "readiness": {"GET": self._readiness},
        }
        """Path template (no leading slash, parameters in braces) to method to endpoint."""

    async def handle(self, route: str | None, request: Request) -> Response:
        """Answer a request for a route of `routes`; None is a path that no route has."""
        started = time.perf_counter()
        try:
            response = await self._endpoint(route, request)(request)
        except ClientGone:
            response = Response(499)
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

    def _scope(self, request: Request) -> str:
        """Whose ids the request is about. Raises NotAuthenticated."""
        caller = self._identity.caller(request.headers)
        return keys.scope(caller.tenant, caller.user if self._settings.isolation == "user" else None)

    def _turns(self, scope: str) -> Turns:
        return Turns(self._open_store(), scope)

    async def _create(self, request: Request) -> Response:
        scope = self._scope(request)
        body = await self._body(request)
        create = parse_create_request(parse_json_body(body))
        turns = self._turns(scope)
        create = await _with_referenced_items(turns, create)
        turn = await self._begin(turns, create)
        claims = IdempotencyKeys(self._open_store(), scope)
        if (earlier := await earlier_response(claims, request, body, turn)) is not None:
            return await self._repeat(turns, scope, create, earlier)
        if create.background or turn.after_unfinished:
            return await self._submit(Submission(create, turn, turns, scope, self._model(create), int(time.time())))
        target = await self._state.get_target()
        run = ForegroundTurn(
            create, target, turn, turns, self._model(create), create.store, scope, self._settings.foreground_seconds
        )
        if create.stream:
            return Response(
                200,
                stream_events(run, self._keep_alive),
                dict(_SSE_HEADERS),
                "text/event-stream",
            )
        response = await run_to_end(run, request.disconnected)
        if response is None:
            _log.info("%s: the client went away, its run is cancelled", turn.response_id)
            return Response(499)  # nobody reads it; the number tells the log
        return json_response(response)

    async def _begin(self, turns: Turns, create: CreateRequest) -> Turn:
        if create.conversation_id is not None:
            raise ApiError.unsupported("conversation", "Conversations are not supported by this server yet.")
        target = await self._state.get_target()
        from hosting.state import uses_table_history  # imports agent-framework, which the agent has done by now

        try:
            turn = await turns.begin(
                create.previous_response_id,
                history=uses_table_history(target) and not create.background,
                unfinished=self._options.steerable_conversations and create.store,
            )
        except PreviousResponseNotFound:
            raise ApiError.previous_response_not_found(create.previous_response_id or "") from None
        except PreviousResponseUnfinished:
            raise ApiError.invalid_value(
                "previous_response_id", "The previous response is still running. Wait until it has ended."
            ) from None
        if not turn.after_unfinished:
            check_open_calls(turn.open_calls, create)
        return turn

    async def _submit(self, submission: Submission) -> Response:
        """Accept a response that a task runs, and answer with its first state, its events, or its end."""
        stored = await self._background.accept(submission)
        create, turns = submission.request, submission.turns
        if create.stream:
            return await self._follow(turns, submission.scope, stored, -1)
        if create.background:
            return json_response(stored.response)
        # A foreground request behind a running turn: it waits for its own.
        key = Key(submission.scope, stored.task.task_id) if stored.task else None
        if key is not None and stored.task is not None:
            await current_engine().wait(key, stored.response["id"], stored.task.seq)
        final = await turns.response(stored.response["id"])
        return json_response(final.response if final is not None else stored.response)

    async def _repeat(self, turns: Turns, scope: str, create: CreateRequest, earlier: str) -> Response:
        """Answer a repeated request with what the first one made."""
        stored = await turns.response(earlier)
        if stored is None:
            message = "The first request with this Idempotency-Key has not ended, or its response was not stored."
            raise ApiError.conflict(message, code="idempotency_key_in_use", retry=create.store)
        if not create.stream:
            return json_response(stored.response)
        if stored.task is not None:
            return await self._follow(turns, scope, stored, -1)
        chunks = [encode_event(event) for event in replay_events(stored.response)]
        return Response(200, _pieces([*chunks, DONE]), dict(_SSE_HEADERS), "text/event-stream")

    async def _follow(self, turns: Turns, scope: str, stored: StoredResponse, after: int) -> Response:
        with use_scope(scope):
            stream = await streams.get_or_create(stored.response["id"])
        batches = follow(turns, stored, stream, after)
        body = sse(batches, self._keep_alive)
        return Response(200, body, dict(_SSE_HEADERS), "text/event-stream")

    def _model(self, create: CreateRequest) -> str:
        return create.model or self._default_model

    async def _body(self, request: Request) -> bytes:
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise ApiError(
                "Compressed request bodies are not supported: send it without content-encoding.",
                status=415,
                type="invalid_request_error",
                code="unsupported_content_encoding",
            )
        return await request.read(self._settings.max_request_bytes) if request.read is not None else b""

    async def _retrieve(self, request: Request) -> Response:
        scope = self._scope(request)
        turns, identifier = self._turns(scope), _identifier(request)
        stored = await turns.response(identifier)
        if stored is None:
            raise ApiError.response_not_found(identifier)
        if request.query.get("stream", ["false"])[-1].lower() != "true":
            return json_response(stored.response)
        if stored.task is None or not stored.response["background"]:
            raise ApiError.not_streamable()
        if not stored.task.stream:
            raise ApiError.not_streamable("not_streamed")
        return await self._follow(turns, scope, stored, _starting_after(request))

    async def _delete(self, request: Request) -> Response:
        scope = self._scope(request)
        turns, identifier = self._turns(scope), _identifier(request)
        stored = await turns.response(identifier)
        if stored is not None and stored.running:
            raise ApiError.in_flight()
        if stored is None or not await turns.delete(identifier):
            raise ApiError.response_not_found(identifier)
        if stored.task is not None and stored.task.stream:
            with use_scope(scope):
                await streams.delete(identifier)
        return json_response({"id": identifier, "object": "response", "deleted": True})

    async def _cancel(self, request: Request) -> Response:
        scope = self._scope(request)
        return json_response(await self._background.cancel(self._turns(scope), scope, _identifier(request)))

    async def _input_items(self, request: Request) -> Response:
        turns, identifier = self._turns(self._scope(request)), _identifier(request)
        stored = await turns.response(identifier)
        if stored is None:
            raise ApiError.response_not_found(identifier)
        return json_response(await list_input_items(turns, stored, request.query))

    async def _models(self, request: Request) -> Response:
        self._identity.caller(request.headers)
        return json_response({"object": "list", "data": [self._model_object()]})

    async def _model_of_name(self, request: Request) -> Response:
        self._identity.caller(request.headers)
        if request.path_params["model"] != self._default_model:
            fault = ApiError.model_not_found(request.path_params["model"])
            return json_response(fault.body(), 404)
        return json_response(self._model_object())

    def _model_object(self) -> dict[str, Any]:
        return {"id": self._default_model, "object": "model", "created": 0, "owned_by": "app"}

    async def _readiness(self, request: Request) -> Response:
        return json_response({"status": "healthy"})


async def _with_referenced_items(turns: Turns, create: CreateRequest) -> CreateRequest:
    """Put the items themselves in the place of references. Raises ApiError 400 for one that is not found."""
    wanted = item_references(create.input_items)
    if not wanted:
        return create
    found = await find_items(turns, wanted)
    for identifier in wanted:
        if identifier not in found:
            raise ApiError.reference_not_found(identifier)
    return replace(create, input_items=tuple(resolve_references(create.input_items, found)))


async def _pieces(chunks: Sequence[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def _identifier(request: Request) -> str:
    """The response id of the path. Raises ApiError 400 for what could never be one."""
    identifier = request.path_params["response_id"]
    if not identifier.startswith("resp_"):
        raise ApiError.malformed_id("response_id", identifier)
    return identifier


def _starting_after(request: Request) -> int:
    """The number that the client has seen last: `starting_after` (OpenAI), else the `Last-Event-ID` of SSE; -1 for none."""
    given = request.query.get("starting_after", [""])[-1] or request.headers.get("last-event-id", "")
    if not given:
        return -1
    if not (given.isascii() and given.isdigit() and len(given) <= 12):
        raise ApiError.invalid_value("starting_after", "Invalid 'starting_after': expected an integer of at least 0.")
    return int(given)
