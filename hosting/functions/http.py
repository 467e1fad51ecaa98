"""HTTP triggers: one function a route, and one for every path that no route has.

Each function takes every verb, so that a wrong one gets the OpenAI envelope instead of the platform's empty 404. The
FastAPI extension is app-wide: all HTTP functions of an app take its Request and return its responses.
"""

import re
from collections.abc import Callable

import azure.functions as func
from azurefunctions.extensions.http import fastapi  # pyright: ignore[reportMissingTypeStubs]
from starlette.requests import ClientDisconnect

from hosting.functions.durable_client import DurableApp
from hosting.read_budget import charge
from hosting.responses import ApiError
from hosting.server import ClientGone, Request, Response, ResponsesServer

__all__ = ["register_http"]

_VERBS = [func.HttpMethod(verb) for verb in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")]


def register_http(app: DurableApp, server: ResponsesServer, served: Callable[[], None] = lambda: None) -> None:
    """Add a function for each route of `server` to `app`, and one for all other paths. `served` is called at each request."""

    def add(name: str, path: str, route: str | None) -> None:
        async def endpoint(req: fastapi.Request) -> fastapi.Response:
            served()
            return _to_http(await server.handle(route, _from_http(req)))

        # The worker reads the annotations; the name is what the portal and the logs show.
        endpoint.__name__ = name
        app.function_name(name)(
            app.route(route=path, methods=_VERBS, auth_level=func.AuthLevel.ANONYMOUS, trigger_arg_name="req")(endpoint)
        )

    for route in server.routes:
        add(_function_name(route), route, route)
    add("unknown_route", "{*path}", None)


def _function_name(route: str) -> str:
    return re.sub(r"[^a-z]+", "_", route.removeprefix("v1/")).strip("_")


def _from_http(request: fastapi.Request) -> Request:
    query: dict[str, list[str]] = {}
    for name, value in request.query_params.multi_items():
        query.setdefault(name, []).append(value)

    headers: dict[str, str] = {}
    repeated: set[str] = set()
    for name, value in request.headers.items():
        name = name.lower()
        if name in headers:
            repeated.add(name)
            value = f"{headers[name]}, {value}"
        headers[name] = value

    async def read(limit: int) -> bytes:
        chunks: list[bytes] = []
        size, refused = 0, None
        try:
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise ApiError.request_too_large(limit)
                if refused is not None:
                    continue
                try:
                    charge(len(chunk))
                    chunks.append(chunk)
                except ApiError as error:
                    # The rest is read and dropped: a client that is cut off while it sends does not see why.
                    refused = error
                    charge(-sum(map(len, chunks)))
                    chunks.clear()
        except ClientDisconnect:
            raise ClientGone from None
        if refused is not None:
            raise refused
        return b"".join(chunks)

    async def disconnected() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    return Request(
        method=request.method,
        path=request.url.path,
        headers=headers,
        query=query,
        path_params={name: str(value) for name, value in request.path_params.items()},
        read=read,
        repeated=frozenset(repeated),
        disconnected=disconnected,
    )


def _to_http(response: Response) -> fastapi.Response:
    if isinstance(response.body, bytes):
        return fastapi.Response(response.body, response.status, response.headers, response.media_type)
    return fastapi.StreamingResponse(response.body, response.status, response.headers, response.media_type)
