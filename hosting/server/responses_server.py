"""The Responses server: its routes, and the one way in.

`routes` is the whole surface; `handle` answers a request for one of them. Whatever happens, the client gets the OpenAI error
envelope, and no text of an exception.
"""

import logging
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from hosting import telemetry
from hosting.identity import NotAuthenticated
from hosting.read_budget import charging
from hosting.responses import ApiError
from hosting.revision import revision
from hosting.server.background import BackgroundResponses
from hosting.server.caller import Callers
from hosting.server.conversations import ConversationRoutes
from hosting.server.create_response import CreateResponse
from hosting.server.effective_input import EffectiveInput
from hosting.server.foreground import finish_running
from hosting.server.http import ClientGone, Endpoint, Request, Response, json_response
from hosting.server.limits import Limits
from hosting.server.openapi import OpenApi
from hosting.server.options import ResponsesServerOptions
from hosting.server.single_headers import check_single_headers
from hosting.server.stored_input import history_limit
from hosting.server.stored_responses import StoredResponses
from hosting.server.suspensions import Suspensions
from hosting.server.targets import Hosted, Targets
from hosting.settings import Settings
from hosting.storage import StorageUnavailable, Store
from hosting.streaming import StreamUnavailable

__all__ = ["ResponsesServer"]

_log = logging.getLogger(__name__)

_READINESS = "readiness"
_PRODUCT = "azure-functions-agents/1"

_LARGEST_TURN = 64 * 1024 * 1024
"""What a request may read besides what the settings say, in bytes: no setting limits an answer, and it has to be deletable."""


class ResponsesServer:
    """Serves what an app hosts (see Targets). `open_store` gives the store of the process, inside the running loop."""

    def __init__(
        self,
        hosted: Hosted | Mapping[str, Hosted] | None,
        settings: Settings,
        open_store: Callable[[], Store],
        options: ResponsesServerOptions | None = None,
        *,
        suspensions: Suspensions | None = None,
    ) -> None:
        self._suspensions = suspensions
        self._options = options = options or ResponsesServerOptions()
        keep_alive = options.sse_keep_alive_interval_seconds or settings.keep_alive_seconds
        self.targets = Targets(hosted, options, options.default_model or settings.default_model)
        self._callers = callers = Callers(settings)
        self.limits = limits = Limits(settings, open_store)
        background = BackgroundResponses(self.targets, options, settings, open_store, limits.memory)
        create = CreateResponse(self.targets, callers, background, limits, settings, options, open_store, keep_alive)
        stored = StoredResponses(callers, background, limits, open_store, keep_alive)
        self._closing = False
        # A body, up to four times as much once it is parsed, and what it refers to; the history, twice as much of it where it
        # is to be made shorter; a turn to be read, whatever its agent has said.
        self._most = 5 * settings.max_request_bytes + 3 * settings.max_history_bytes + _LARGEST_TURN
        self._document = OpenApi(
            lambda: [(path, method) for path, methods in self.routes.items() for method in methods],
            secured=bool(settings.api_keys) or not settings.development,
        )
        self._platform = ", ".join(filter(None, (_PRODUCT, options.additional_server_version)))
        self.routes: Mapping[str, Mapping[str, Endpoint]] = {
            "v1/responses": {"POST": create},
            **EffectiveInput(callers, limits, settings, open_store).routes,
            "v1/responses/{response_id}": {"GET": stored.retrieve, "DELETE": stored.delete},
            "v1/responses/{response_id}/cancel": {"POST": stored.cancel},
            "v1/responses/{response_id}/input_items": {"GET": stored.input_items},
            **ConversationRoutes(callers, limits, settings, open_store).routes,
            "v1/models": {"GET": self._models},
            "v1/models/{model}": {"GET": self._model_of_name},
            "v1/openapi.json": {"GET": self._openapi},
            _READINESS: {"GET": self._readiness},
        }
        """Path template (no leading slash, parameters in braces) to method to endpoint."""

    async def handle(self, route: str | None, request: Request) -> Response:
        """Answer a request for a route of `routes`; None is a path that no route has."""
        started = time.perf_counter()
        with telemetry.request_span(request.method, route, request.headers) as span:
            try:
                if self._closing:
                    raise ApiError.unavailable()  # another process takes it
                check_single_headers(request)
                endpoint = self._endpoint(route, request)
                share = self.limits.memory.share(self._tenant(route, request, span))
                with share, charging(share.take), history_limit(self._most) as most:
                    with share.when_admitted(most.end):  # a run may read little at a time, and much before it ends
                        response = await endpoint(replace(request, share=share))
            except ClientGone:
                response = Response(499)
            except Exception as error:
                fault = _fault(error)
                if fault is not error and fault.status >= 500 and not self._closing:
                    _log.error("A request for %s failed: %s", route, telemetry.describe(error))
                response = json_response(fault.body(), fault.status, fault.headers)
            response.headers.setdefault("x-request-id", f"req_{uuid.uuid4().hex}")
            span.answered(response.status, response.headers["x-request-id"])
        response.headers["openai-processing-ms"] = str(round((time.perf_counter() - started) * 1000))
        response.headers["openai-version"] = "2020-10-01"
        response.headers["x-platform-server"] = self._platform
        return response

    async def close(self, seconds: float | None = None) -> None:
        """Take no more requests and let running turns finish: so long, or as long as the options say. The store is closed by
        whoever opened it."""
        self._closing = True
        if self._suspensions is not None:
            await self._suspensions.close()
        await finish_running(self._options.shutdown_grace_period_seconds if seconds is None else seconds)

    def _tenant(self, route: str | None, request: Request, span: telemetry.RequestSpan) -> str:
        """Whose share of the memory a request has. One without a caller has nothing read but its headers. Raises ApiError 403
        for one who is suspended."""
        try:
            caller = self._callers.caller(request)
        except NotAuthenticated:
            return ""
        scope = self._callers.scope_of(caller)
        span.asked_by(scope)
        if self._suspensions is not None and route != _READINESS:  # which is about the process, not the caller
            self._suspensions.check(caller, scope)
        return caller.tenant

    def _endpoint(self, route: str | None, request: Request) -> Endpoint:
        methods = self.routes.get(route) if route is not None else None
        if methods is None:
            raise ApiError.unknown_route(request.method, request.path)
        method = "GET" if request.method == "HEAD" else request.method
        if method not in methods:
            raise ApiError.method_not_allowed(request.method, request.path, tuple(methods))
        return methods[method]

    async def _models(self, request: Request) -> Response:
        self._callers.caller(request)
        return json_response({"object": "list", "data": [_model(name) for name in self.targets.names]})

    async def _model_of_name(self, request: Request) -> Response:
        self._callers.caller(request)
        name = request.path_params["model"]
        if name not in self.targets.names:
            fault = ApiError.model_not_found(name)
            return json_response(fault.body(), 404)
        return json_response(_model(name))

    async def _openapi(self, request: Request) -> Response:
        self._callers.caller(request)
        return await self._document(request)

    async def _readiness(self, request: Request) -> Response:
        known = revision()
        return json_response({"status": "healthy"} | ({} if known is None else {"revision": known}))


def _fault(error: Exception) -> ApiError:
    """What a client may know of an exception."""
    match error:
        case ApiError():
            return error
        case NotAuthenticated():
            return (ApiError.invalid_api_key if error.presented else ApiError.missing_api_key)(error.hint)
        case StorageUnavailable() | StreamUnavailable():
            return ApiError.unavailable()
        case _:
            return ApiError.server_error()


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "app"}
