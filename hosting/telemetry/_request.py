"""The span and the measurement of an HTTP request, until its answer begins."""

import asyncio
import time
from collections.abc import Mapping
from contextvars import Token
from types import TracebackType
from typing import Any, Self

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from hosting.telemetry._context import ambient, extract
from hosting.telemetry._describe import error_type
from hosting.telemetry._source import instruments, tracer, tracing

__all__ = ["RequestSpan", "request_span"]

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"})


def request_span(method: str, route: str | None, headers: Mapping[str, str]) -> "RequestSpan":
    """Around the handling of a request; `route` is its template, None for a path without one; names of `headers` are in
    lower case, and only `traceparent` is read.

    It is the child of the span that the worker has made current (the host's), else of the caller's.
    """
    return RequestSpan(method if method in _METHODS else "_OTHER", f"/{route}" if route is not None else None, headers)


class RequestSpan:
    """A context manager; `answered` says what the answer is."""

    __slots__ = ("_headers", "_method", "_route", "_span", "_started", "_status", "_token")

    def __init__(self, method: str, route: str | None, headers: Mapping[str, str]) -> None:
        self._method, self._route, self._headers = method, route, headers
        self._span: Span | None = None
        self._token: Token[Context] | None = None
        self._started = 0.0
        self._status = 500

    def __enter__(self) -> Self:
        self._started = time.perf_counter()
        if tracing():
            # The host has a server span of its own for the request; then this one is a step inside it.
            hosted = ambient() is not None
            parent = None if hosted else extract(self._headers)
            self._span = tracer().start_span(
                f"{self._method} {self._route}" if self._route else self._method,
                context=parent,
                kind=SpanKind.INTERNAL if hosted else SpanKind.SERVER,
                attributes=self._attributes(),
            )
            self._token = context.attach(trace.set_span_in_context(self._span, parent))
        return self

    def asked_by(self, tenant: str) -> None:
        """`tenant` is the digest that storage keys carry, of the caller that the request has turned out to have. On the span
        alone: a measurement would be one for each tenant."""
        if self._span is not None:
            self._span.set_attribute("hosting.tenant", tenant)

    def answered(self, status: int, request_id: str | None = None) -> None:
        """The answer has this status, and this `x-request-id`."""
        self._status = status
        if self._span is not None and request_id is not None:
            self._span.set_attribute("hosting.request_id", request_id)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        attributes = self._attributes()
        gone = isinstance(error, asyncio.CancelledError)
        attributes["http.response.status_code"] = 499 if gone else self._status
        if error is not None:
            attributes["error.type"] = error_type(error)
        elif self._status >= 500:
            attributes["error.type"] = str(self._status)
        instruments().request_duration.record(time.perf_counter() - self._started, attributes)
        if self._span is not None and self._token is not None:
            context.detach(self._token)
            self._span.set_attributes(attributes)
            if "error.type" in attributes and not gone:
                self._span.set_status(Status(StatusCode.ERROR))
            self._span.end()

    def _attributes(self) -> dict[str, Any]:
        attributes: dict[str, Any] = {"http.request.method": self._method}
        if self._route is not None:
            attributes["http.route"] = self._route
        return attributes
