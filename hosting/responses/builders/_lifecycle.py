"""A response from `created` to its terminal event."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

from hosting.responses.builders._growth import CHECKPOINT, Growth
from hosting.responses.builders._usage import whole_usage
from hosting.responses.create_request import CreateRequest, parse_create_request
from hosting.responses.envelope import AGENT_FAILED, failure, new_envelope
from hosting.responses.output import Event

__all__ = ["ResponseLifecycle"]

type Json = dict[str, Any]


class ResponseLifecycle:
    """The part of ResponseEventStream that is about the response itself; see there."""

    def __init__(
        self,
        *,
        response_id: str | None = None,
        model: str | None = None,
        agent_reference: Mapping[str, Any] | None = None,
        request: CreateRequest | Mapping[str, Any] | None = None,
        response: Mapping[str, Any] | None = None,
        keep_events: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Needs `response_id`, or a `response` that has one. ValueError without, and for both `request` and `response`.

        `request` is the body of the request, whose fields are echoed. `response` is a stored response, to go on from
        after a crash: its items stay and new ones follow them. `model` and `agent_reference` are shown as given.
        `events()` needs `keep_events`; without it a run of days does not hold on to every event. `clock` gives seconds
        since 1970.
        """
        if request is not None and response is not None:
            raise ValueError("give either the request of a new response or the response to go on with, not both")
        identifier = response_id or (response or {}).get("id")
        if not identifier:
            raise ValueError("a response needs an id: give response_id, or a response that has one")
        envelope: Json = dict(response) if response is not None else _envelope(request, identifier, int(clock()))
        envelope["id"] = identifier
        if model:
            envelope["model"] = model
        if agent_reference is not None:
            envelope["agent_reference"] = dict(agent_reference)
        self._clock = clock
        self._growth = Growth(envelope, persisted=response is not None, keep_events=keep_events)

    @property
    def response(self) -> Json:
        """The Response object as it stands. Change what you like before `created`, except its id and its output."""
        return self._growth.response

    @property
    def internal_metadata(self) -> Json:
        """Notes for a recovered run: stored with each checkpoint, never shown to a client.

        At most 512 characters of JSON; the next event with a snapshot raises ValueError when there is more.
        """
        return self._growth.notes

    def emit_created(self, *, status: Literal["in_progress", "queued"] = "in_progress") -> Event:
        """`response.created`, the first event. On recovery the server keeps it back: the client has seen it."""
        if status not in ("in_progress", "queued"):
            raise ValueError(f"a response begins as in_progress or queued, not as {status!r}")
        return self._announce("response.created", status)

    def emit_queued(self) -> Event:
        """`response.queued`: the run waits for its turn. Raises ValueError before `created`."""
        return self._announce("response.queued", "queued")

    def emit_in_progress(self) -> Event:
        """`response.in_progress`. After a recovery it tells clients to start over from the snapshot that it carries."""
        return self._announce("response.in_progress", "in_progress")

    def emit_completed(self, *, usage: Mapping[str, Any] | None = None) -> Event:
        """The response is complete. Items that are not done are not in the snapshot; the server adds them as
        incomplete."""
        self.response["completed_at"] = int(self._clock())
        return self._end("completed", usage)

    def emit_failed(
        self,
        *,
        code: str = "server_error",
        message: str = AGENT_FAILED,
        metadata: Mapping[str, str] | None = None,
        usage: Mapping[str, Any] | None = None,
    ) -> Event:
        """The response failed for a reason that the client may read: `code` and `message` reach it as they are.

        Codes that OpenAI does not know pass too; clients with a closed list of codes may refuse them.
        """
        self.response["error"] = failure(code, message) | {"code": code}
        if metadata:
            self.response["metadata"] = {**(self.response.get("metadata") or {}), **metadata}
        return self._end("failed", usage)

    def emit_incomplete(self, *, reason: str | None = None, usage: Mapping[str, Any] | None = None) -> Event:
        """The response ends before it is whole. OpenAI's reasons: max_output_tokens, content_filter, steered."""
        self.response["incomplete_details"] = {"reason": reason} if reason is not None else None
        return self._end("incomplete", usage)

    def checkpoint(self) -> Event:
        """Ask the server to store the response as it stands, for a recovered run to go on from.

        Yield it like any event; clients never see it. Where responses are not resilient it does nothing.
        """
        return self._growth.emit_snapshot(CHECKPOINT)

    def events(self) -> list[Event]:
        """Everything emitted so far, in order. Raises ValueError when the stream was made with keep_events=False."""
        if self._growth.events is None:
            raise ValueError("this stream was made with keep_events=False")
        return list(self._growth.events)

    def _announce(self, event_type: str, status: str) -> Event:
        self.response["status"] = status
        return self._growth.emit_snapshot(event_type)

    def _end(self, status: str, usage: Mapping[str, Any] | None) -> Event:
        if usage is not None:
            self.response["usage"] = whole_usage(usage)
        return self._announce(f"response.{status}", status)


def _envelope(request: CreateRequest | Mapping[str, Any] | None, response_id: str, created_at: int) -> Json:
    parsed, continuation = _echoed(request)
    envelope = new_envelope(parsed, response_id=response_id, model=parsed.model or "", created_at=created_at)
    return envelope | continuation


def _echoed(request: CreateRequest | Mapping[str, Any] | None) -> tuple[CreateRequest, Json]:
    """What a response echoes of its request.

    The input is no part of it and may be megabytes: it is not looked at. Ids of what the request continues pass
    whatever their form: apps that own their routes may have ids of their own.
    """
    if request is None or isinstance(request, CreateRequest):
        return request or CreateRequest(), {}
    unread = ("input", "previous_response_id", "conversation")
    fields = {name: value for name, value in request.items() if name not in unread} | {"input": "-"}
    continuation: Json = {"previous_response_id": request.get("previous_response_id")}
    conversation = request.get("conversation")
    if isinstance(conversation, Mapping):
        conversation = cast("Mapping[str, Any]", conversation).get("id")
    if isinstance(conversation, str):
        continuation["conversation"] = {"id": conversation}
    return parse_create_request(fields), continuation
