"""Runs response handlers as a server does, and collects what comes of it."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from openai._types import omit
from openai.lib.streaming.responses._responses import ResponseStreamState

from hosting.ids import response_id
from hosting.responses import CreateRequest, Event, new_envelope, parse_create_request
from hosting.server.context import ResponseContext
from hosting.server.handler import Ending, run_handler
from hosting.server.transcript import Transcript
from tests.unit.responses_checks import check_event, check_response

type Json = dict[str, Any]

BODY: Json = {"input": "hi", "model": "m", "temperature": 0.5, "metadata": {"app": "tests"}}
NOW = 1_700_000_009


def base_of(body: Mapping[str, Any] = BODY, identifier: str | None = None) -> Json:
    """The envelope that a server makes of a request."""
    request: CreateRequest = parse_create_request(dict(body))
    return new_envelope(
        request, response_id=identifier or response_id(), model=request.model or "agent", created_at=1_700_000_000
    )


class Run:
    """One run of a handler; `wire` has the terminal event as well."""

    def __init__(self, handler: Any, *, body: Mapping[str, Any] = BODY, base: Json | None = None, **given: Any) -> None:
        self.base = base or base_of(body)
        transcript = {
            name: given.pop(name)
            for name in ("first_sequence_number", "announced", "persisted", "earlier")
            if name in given
        }
        self.options = {name: given.pop(name) for name in ("checkpoint", "after_terminal_seconds") if name in given}
        self.handler = handler
        self.signal = asyncio.Event()
        persisted = transcript.get("persisted")
        self.context = ResponseContext(
            response_id=self.base["id"],
            request=dict(body),
            is_recovery=persisted is not None,
            persisted_response=persisted,
            **given,
        )
        self.transcript = Transcript(self.base, clock=lambda: NOW + 0.5, **transcript)
        self.wire: list[Event] = []
        self.saved: list[Json] = []
        self.ending: Ending | None = None

    async def emit(self, events: Sequence[Event]) -> None:
        self.wire += events

    async def save(self, snapshot: Json) -> None:
        self.saved.append(snapshot)

    async def go(self) -> "Run":
        options = {"checkpoint": self.save} | self.options
        self.ending = await run_handler(
            self.handler, self.context.request, self.context, self.signal, self.emit, self.transcript, **options
        )
        if self.ending != "deferred":
            await self.emit([self.transcript.terminal()])
        return self

    @property
    def types(self) -> list[str]:
        return [event["type"].removeprefix("response.") for event in self.wire]

    @property
    def response(self) -> Json:
        return self.transcript.response


async def run(handler: Any, **given: Any) -> Run:
    """Run a handler to its end."""
    return await Run(handler, **given).go()


def check_wire(events: Sequence[Event], first: int = 0) -> None:
    """The events have contiguous numbers, the openai package's strict types take each, and its accumulator all of them."""
    assert [event["sequence_number"] for event in events] == list(range(first, first + len(events)))
    state = ResponseStreamState(text_format=omit, input_tools=omit)
    for event in events:
        state.handle_event(check_event(event))
    check_response(events[-1]["response"])


def raw(kind: str, **fields: Any) -> Event:
    """An event as a handler without builders makes it."""
    return {"type": f"response.{kind}", **fields}


def message(identifier: str, text: str | None = None) -> Json:
    """A message as an item, without content when it has just begun."""
    content = [] if text is None else [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
    status = "in_progress" if text is None else "completed"
    return {"id": identifier, "type": "message", "status": status, "role": "assistant", "content": content}
