"""Calls to storage: how long they take, and a span where they are part of something that has one."""

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable
from types import CoroutineType
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from hosting.telemetry._describe import error_type
from hosting.telemetry._source import instruments, tracer

__all__ = ["observed"]


def observed[**P, R](
    operation: str, *, answers: tuple[type[BaseException], ...] = (), span: bool = True
) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, CoroutineType[Any, Any, R]]]:
    """Measure an async method as `operation` ("table.get").

    Exceptions in `answers` are what storage answers in the normal course (a row has changed): they are told apart in the
    measurement, and are no failure of the span. `span=False` for what happens several times a second.
    """

    def decorate(method: Callable[P, Awaitable[R]]) -> Callable[P, CoroutineType[Any, Any, R]]:
        @functools.wraps(method)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            attributes: dict[str, Any] = {"hosting.storage.operation": operation}
            # Only below a span of this process: a poll that belongs to nothing would be a trace of its own.
            traced = span and trace.get_current_span().is_recording()
            current = (
                tracer().start_span(f"storage {operation}", kind=SpanKind.CLIENT, attributes=attributes)
                if traced
                else None
            )
            started = time.perf_counter()
            try:
                return await method(*args, **kwargs)
            except BaseException as error:
                attributes["error.type"] = error_type(error)
                if current is not None:
                    _fail(current, error, expected=isinstance(error, (*answers, asyncio.CancelledError)))
                raise
            finally:
                instruments().storage_duration.record(time.perf_counter() - started, attributes)
                if current is not None:
                    current.end()

        return call

    return decorate


def _fail(span: Span, error: BaseException, *, expected: bool) -> None:
    span.set_attribute("error.type", error_type(error))
    if not expected:
        span.set_status(Status(StatusCode.ERROR))
