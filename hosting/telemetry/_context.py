"""W3C trace context: from a request into this process, into the record of a task, and out of it in another process.

Of `traceparent` nothing but its four numbers is kept. `tracestate` and `baggage` are not: they hold what callers like.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanContext
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

__all__ = ["ambient", "detached", "extract", "traceparent"]

_propagator = TraceContextTextMapPropagator()


def traceparent() -> str | None:
    """The current span as a `traceparent`, to be stored with work that goes on elsewhere; None when there is none."""
    span = trace.get_current_span().get_span_context()
    if not span.is_valid:
        return None
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"


def extract(carrier: Mapping[str, str]) -> Context | None:
    """The context that the `traceparent` of `carrier` names; None without one, or with a malformed one."""
    given = carrier.get("traceparent")
    if not given:
        return None
    found = _propagator.extract({"traceparent": given}, Context())
    return found if trace.get_current_span(found).get_span_context().is_valid else None


def ambient() -> SpanContext | None:
    """The span that surrounds this code, if there is one: ours, or the host's that the worker has made current."""
    span = trace.get_current_span().get_span_context()
    return span if span.is_valid else None


@contextmanager
def detached() -> Generator[None]:
    """No span is current in here: for what goes on beside the work (heartbeats, polls), which would fill its trace."""
    token = context.attach(trace.set_span_in_context(trace.INVALID_SPAN))
    try:
        yield
    finally:
        context.detach(token)
