"""The span and the measurements of a turn: one run of an agent, with what is read and stored for it."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from contextvars import Token
from types import TracebackType
from typing import Any, Literal, Self

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, Status, StatusCode

from hosting.telemetry._describe import error_type
from hosting.telemetry._hook import HookedSpan, SpanHook, create_tags
from hosting.telemetry._log_fields import fields, reset_fields, set_fields
from hosting.telemetry._source import instruments, tracer, tracing

__all__ = ["AGENT_FRAMEWORK", "Turn", "turn"]

AGENT_FRAMEWORK = "microsoft.agent_framework"
"""The provider of an agent-framework agent, as its own spans name it."""

_ANNOUNCEMENTS = frozenset({"response.created", "response.queued", "response.in_progress"})

type Mode = Literal["foreground", "background"]


def turn(
    *,
    response_id: str,
    agent: str,
    mode: Mode,
    provider: str = AGENT_FRAMEWORK,
    model: str | None = None,
    conversation: str | None = None,
    tenant: str | None = None,
    stream: bool = False,
    instrumented: bool = True,
    hook: SpanHook | None = None,
) -> "Turn":
    """Make it where the turn is accepted: the span that is current there is its parent, and time to first event counts from
    there. Enter it in the task that runs the turn.

    - `model` is the one the request names; `tenant` is the digest that storage keys carry.
    - `instrumented`: the agent makes a span `invoke_agent` of its own, as those of agent-framework do. This one is then
      `turn <agent>` around it; else it is `invoke_agent <agent>` itself, with the GenAI measurements.
    - `hook` is told of the beginning and the end (see HookedSpan).
    """
    tags = create_tags(response_id=response_id, agent=agent, provider=provider, model=model, conversation=conversation)
    about = fields(response_id=response_id, conversation=conversation, tenant=tenant, agent=agent)
    return Turn(agent, mode, tags, about, HookedSpan(hook, agent, tags), stream=stream, instrumented=instrumented)


class Turn:
    """A context manager, used once. Without `ended` the turn counts as failed when it is left with an exception, as cancelled
    with a CancelledError, and else as `left`: given back, to be run again by somebody."""

    def __init__(
        self,
        agent: str,
        mode: Mode,
        tags: dict[str, Any],
        about: Mapping[str, str],
        hooked: HookedSpan,
        *,
        stream: bool,
        instrumented: bool,
    ) -> None:
        self._agent, self._mode, self._tags, self._about = agent, mode, tags, about
        self._hooked, self._stream, self._instrumented = hooked, stream, instrumented
        self._parent = context.get_current()
        self._made = self._started = time.perf_counter()
        self._first: float | None = None
        self._status: str | None = None
        self._error: BaseException | None = None
        self._usage: Mapping[str, Any] | None = None
        self._span: Span | None = None
        self._token: Token[Context] | None = None
        self._fields: Token[Mapping[str, str]] | None = None

    def __enter__(self) -> Self:
        self._started = time.perf_counter()
        self._fields = set_fields(self._about)
        if tracing():
            attributes = {**self._tags, "hosting.turn.mode": self._mode, "hosting.turn.stream": self._stream}
            if self._instrumented:  # one span per run says invoke_agent, so that they can be counted and added up
                del attributes["gen_ai.operation.name"]
            if tenant := self._about.get("tenant"):
                attributes["hosting.tenant"] = tenant
            name = f"turn {self._agent}" if self._instrumented else f"invoke_agent {self._agent}"
            self._span = tracer().start_span(name, context=self._parent, attributes=attributes)
            self._token = context.attach(trace.set_span_in_context(self._span, self._parent))
        instruments().turns_active.add(1, {"hosting.turn.mode": self._mode})
        self._hooked.__enter__()
        return self

    def first_event(self) -> None:
        """The agent has said something. Calls after the first do nothing."""
        if self._first is None:
            self._first = time.perf_counter() - self._made
            instruments().first_event.record(self._first, {"hosting.turn.mode": self._mode})

    def emitted(self, events: Iterable[Mapping[str, Any]]) -> None:
        """These events were put on the wire. The first that is not an announcement of ours is the agent's first."""
        if self._first is None and any(event["type"] not in _ANNOUNCEMENTS for event in events):
            self.first_event()

    def ended(self, status: str, usage: Mapping[str, Any] | None = None, *, error: BaseException | None = None) -> None:
        """How it ended: the response's status, its `usage` object, and what went wrong. The last call counts; an error is
        kept."""
        self._status, self._usage = status, usage
        self._error = error or self._error

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        measured = {"hosting.turn.mode": self._mode}
        instruments().turns_active.add(-1, measured)
        status, self._error = self._outcome(error)
        measured["hosting.turn.status"] = status
        failed = status == "failed"
        if failed:
            measured["error.type"] = "_OTHER" if self._error is None else error_type(self._error)
        seconds = time.perf_counter() - self._started
        instruments().turn_duration.record(seconds, measured)
        usage = _tokens(self._usage)
        if not self._instrumented:
            self._measure_agent(seconds, measured.get("error.type"), usage)
        if self._span is not None and self._token is not None:
            context.detach(self._token)
            attributes: dict[str, Any] = {**measured, **usage}
            if self._first is not None:
                attributes["hosting.turn.time_to_first_event"] = self._first
            self._span.set_attributes(attributes)
            if failed:
                self._span.set_status(Status(StatusCode.ERROR))
            self._span.end()
        self._hooked.tags.update(usage)
        self._hooked.end(self._error)
        if self._fields is not None:
            reset_fields(self._fields)

    def _outcome(self, raised: BaseException | None) -> tuple[str, BaseException | None]:
        if self._status is not None:
            return self._status, self._error if self._status == "failed" else None
        if raised is None:
            return "left", None
        return "cancelled" if isinstance(raised, asyncio.CancelledError) else "failed", raised

    def _measure_agent(self, seconds: float, error: str | None, usage: Mapping[str, int]) -> None:
        names = ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.agent.name")
        attributes = {name: self._tags[name] for name in names}  # not the model: a caller chooses it
        for name, count in usage.items():
            kind = name.removeprefix("gen_ai.usage.").removesuffix("_tokens")
            instruments().tokens.record(count, {**attributes, "gen_ai.token.type": kind})
        if error is not None:
            attributes["error.type"] = error
        instruments().operation_duration.record(seconds, attributes)


def _tokens(usage: Mapping[str, Any] | None) -> dict[str, int]:
    found = {name: (usage or {}).get(name) for name in ("input_tokens", "output_tokens")}
    return {f"gen_ai.usage.{name}": count for name, count in found.items() if isinstance(count, int)}
