"""The span and the measurements of one attempt at a task.

Its parent is the request that started the task, days later and in any process: the whole story of a task is one trace, with
the sampling decision of its request. What called the attempt (the Functions host, for Durable) is linked.
"""

import time
from collections.abc import Mapping
from contextvars import Token
from typing import Any, Literal

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, Status, StatusCode

from hosting.telemetry._context import ambient, extract
from hosting.telemetry._log_fields import fields, reset_fields, set_fields
from hosting.telemetry._source import instruments, tracer, tracing

__all__ = ["AttemptSpan"]

type Result = Literal["completed", "failed", "cancelled", "retry", "deferred", "released", "lease_lost"]


class AttemptSpan:
    """Made when the lease is taken; `begin` and `end` in the same asyncio task. `task` is the declared name, `tenant` the
    digest that storage keys carry."""

    def __init__(self, task: str, task_id: str, tenant: str, *, generation: int, recoveries: int, retries: int) -> None:
        self._task, self._about = task, fields(task=task_id, task_name=task, tenant=tenant)
        self._attributes: dict[str, Any] = {
            "hosting.task.name": task,
            "hosting.task.id": task_id,
            "hosting.tenant": tenant,
            "hosting.task.generation": generation,
            "hosting.task.recoveries": recoveries,
            "hosting.task.retries": retries,
        }
        self._measured: dict[str, Any] = {"hosting.task.name": task}
        self._started, self._time = time.perf_counter(), time.time_ns()
        self._first = not recoveries and not retries
        self._begun = False
        self._result: Result = "released"
        self._error: str | None = None
        self._span: Span | None = None
        self._token: Token[Context] | None = None
        self._fields: Token[Mapping[str, str]] | None = None
        instruments().attempts_active.add(1, self._measured)
        if recoveries:
            instruments().recoveries.add(1, self._measured)

    def begin(self, traceparent: object, waited: float | None) -> None:
        """The input is there: with it `traceparent` as it was stored, and for how many seconds it has waited."""
        if self._first and waited is not None:
            instruments().queue_time.record(max(0.0, waited), self._measured)
        self._begun = True
        self._fields = set_fields(self._about)
        if not tracing():
            return
        caller = ambient()
        parent = extract({"traceparent": traceparent}) if isinstance(traceparent, str) else None
        origin = trace.get_current_span(parent).get_span_context() if parent is not None else None
        links = (
            [Link(caller)] if caller is not None and origin is not None and caller.span_id != origin.span_id else None
        )
        self._span = tracer().start_span(
            f"task {self._task}", context=parent, attributes=self._attributes, links=links, start_time=self._time
        )
        self._token = context.attach(trace.set_span_in_context(self._span, parent))

    def result(self, result: Result, error: str | None = None) -> None:
        """How it ended; `error` is the name of an exception's class. The last call counts."""
        self._result, self._error = result, error

    def end(self) -> None:
        """Calls after the first do nothing."""
        if self._started < 0:
            return
        instruments().attempts_active.add(-1, {"hosting.task.name": self._task})
        if self._result == "lease_lost":
            instruments().lease_losses.add(1, {"hosting.task.name": self._task})
        measured = {**self._measured, "hosting.task.result": self._result}
        if self._error is not None:
            measured["error.type"] = self._error
        instruments().attempt_duration.record(time.perf_counter() - self._started, measured)
        self._started = -1.0
        if self._span is not None and self._token is not None:
            context.detach(self._token)
            self._span.set_attributes(measured)
            if self._result in ("failed", "lease_lost"):
                self._span.set_status(Status(StatusCode.ERROR))
            self._span.end()
        if self._fields is not None:
            reset_fields(self._fields)
