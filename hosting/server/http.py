"""A request and a response, free of any web framework: the server reads one and returns the other.

The triggers in `hosting/functions` translate; tests need no HTTP at all.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hosting.responses import ApiError
from hosting.server.working_memory import Share

__all__ = ["SSE_HEADERS", "ClientGone", "Endpoint", "Request", "Response", "json_response"]

SSE_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}
"""Of a stream of server-sent events: no front end may keep or gather it."""


async def _never_gone() -> None:
    await asyncio.Event().wait()


class ClientGone(Exception):
    """The client hung up while its request was being read. Nobody waits for an answer."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request. Header names are in lower case; `query` keeps every value of a repeated name, `headers` joins those of a
    repeated header by commas, as HTTP says."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    query: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    path_params: Mapping[str, str] = field(default_factory=dict[str, str])
    read: Callable[[int], Awaitable[bytes]] | None = None
    """Reads the body; given the limit in bytes, raises ApiError 413 when the body is longer, and ClientGone. Charges for its
    bytes as they come (hosting.read_budget)."""
    disconnected: Callable[[], Awaitable[None]] = _never_gone
    """Returns when the client has gone. Call it only after the body was read."""
    share: Share = field(default_factory=Share)
    """What is read for the request counts here. A run that outlives it enters this, too."""
    repeated: frozenset[str] = frozenset()
    """Names of the headers that came more than once. Most may; see single_headers."""

    async def read_body(self, limit: int) -> bytes:
        """The body, which can be read once. Raises ApiError 413 and 415, and ClientGone."""
        if self.headers.get("content-encoding", "identity").lower() != "identity":
            raise ApiError(
                "Compressed request bodies are not supported: send it without content-encoding.",
                status=415,
                type="invalid_request_error",
                code="unsupported_content_encoding",
            )
        return await self.read(limit) if self.read is not None else b""


@dataclass(slots=True)
class Response:
    """One response; an iterator as body is a stream and is closed when the client goes. Unless `headers` say otherwise, no
    cache may keep it."""

    status: int
    body: bytes | AsyncIterator[bytes] = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    media_type: str = "application/json"

    def __post_init__(self) -> None:
        # It is one caller's. Shared caches leave alone what was asked for with `authorization`, but not with `api-key` or a
        # cookie. And a browser that is led here must not take a user's text for a page.
        given = {name.lower(): value for name, value in self.headers.items()}
        self.headers = {"cache-control": "no-store", "x-content-type-options": "nosniff", **given}


type Endpoint = Callable[[Request], Awaitable[Response]]
"""Answers a request; the server makes answers of what it raises."""


def json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON body, compact and UTF-8."""
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return Response(status, body, dict(headers or {}))
