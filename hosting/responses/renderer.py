"""From what an agent produces to the Response object and its events: one state machine for streams and for results.

    start -> feed ... -> finish | fail | cancel -> terminal

Both modes go through it, so a stream's last event, the JSON answer and what is stored can't differ. `finish` makes the
response final and returns the closing events; the terminal event is a step of its own, because a server must store the
response before it lets anybody see that it is complete.
"""

import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from hosting.responses.annotations import annotations_to_wire
from hosting.responses.calls import Call, Calls, ServerCalls
from hosting.responses.create_request import CreateRequest
from hosting.responses.envelope import failure, new_envelope
from hosting.responses.hosted_items import HostedItems
from hosting.responses.known_calls import KnownCall
from hosting.responses.logprobs import logprobs_to_wire
from hosting.responses.marks import is_refusal, raw_reasoning
from hosting.responses.message_scope import MessageScope
from hosting.responses.output import Event, Item, Output
from hosting.responses.sse import event_frame
from hosting.responses.text_items import (
    OUTPUT_TEXT,
    REASONING_TEXT,
    REFUSAL,
    SUMMARY_TEXT,
    OpenMessage,
    OpenPart,
    OpenReasoning,
    PartKind,
)
from hosting.responses.tool_pairs import open_calls
from hosting.responses.updates import Piece, model_of, pieces_of
from hosting.responses.usage import UsageCounter, usage_from_details

if TYPE_CHECKING:
    from agent_framework import Content

__all__ = ["AGENT_FAILED", "ResponseRenderer"]

type Json = dict[str, Any]

AGENT_FAILED = "The agent failed before it could complete this response."
"""What a client reads when nobody gave a public reason."""

_CUT_OFF = {"length": "max_output_tokens", "content_filter": "content_filter"}
_CALLS = ("function_call", "mcp_server_tool_call")
_RESULTS = ("function_result", "mcp_server_tool_result")


class ResponseRenderer:
    """One response in the making. Not for use from several tasks at once.

    `response` is the Response object: without output until `finish`, final afterwards. Events and items that were
    handed out never change.
    """

    def __init__(
        self,
        *,
        response_id: str,
        request: CreateRequest,
        model: str,
        created_at: int,
        conversation_id: str | None = None,
        server_tools: Collection[str] = (),
        server_calls: ServerCalls = "mcp_call",
        known_calls: Mapping[str, KnownCall] | None = None,
        follow_model: bool = False,
        first_sequence_number: int = 0,
        first_output_index: int = 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`created_at` and `clock` in seconds since 1970. A run that takes the place of an interrupted one goes on after its
        last number and its last output index: strict clients refuse an index that comes twice.

        `server_tools` names functions that the agent executes itself without asking: calls of these show while they
        run and are never the client's (see calls). `known_calls`: see `remember`. With `follow_model` the response
        carries the model that the run reports instead of `model`.
        """
        self.response = new_envelope(
            request,
            response_id=response_id,
            model=model,
            created_at=created_at,
            status="queued",
            conversation_id=conversation_id,
        )
        self._output = Output(response_id, first_sequence_number, first_output_index)
        self._calls = Calls(self._output, request.client_tools, server_tools, server_calls)
        self._calls.remember(known_calls or {})
        self._hosted = HostedItems(self._output)
        self._usage = UsageCounter()
        self._clock = clock
        self._follow_model = follow_model
        self._created = False
        self._message: OpenMessage | None = None
        self._reasoning: OpenReasoning | None = None
        self._reasoning_ids: set[str] = set()
        self._reasoning_run: str | None = None
        self._scope = MessageScope()
        self._finish_reason: str | None = None
        self._error: Json | None = None

    # Lifecycle

    def enqueue(self) -> list[Event]:
        """Announce a response that waits for its turn: `response.created` and `response.queued`."""
        self._lifecycle("created")
        self._lifecycle("queued")
        return self._output.take()

    def start(self) -> list[Event]:
        """The run begins: `response.created`, unless it was queued before, and `response.in_progress`."""
        self.response["status"] = "in_progress"
        if not self._created:
            self._lifecycle("created")
        self._lifecycle("in_progress")
        return self._output.take()

    def add_server_tools(self, names: Collection[str]) -> None:
        """More `server_tools`, for a server that has its agent only now. See agent_tools.executable_tools."""
        self._calls.add_server_tools(names)

    def remember(self, known: Mapping[str, KnownCall]) -> None:
        """What calls were that earlier runs of the conversation left to this one (see known_calls).

        Without it the result of such a call shows under the name "tool", without arguments.
        """
        self._calls.remember(known)

    def feed(self, update: object) -> list[Event]:
        """Take in an update of a stream: an AgentResponseUpdate, or an event of a workflow."""
        if (part := self._open_text()) and (text := self._plain_text(update)):
            part.add(text)
        else:
            for piece in pieces_of(update):
                self._piece(piece)
        return self._output.take()

    def feed_frames(self, update: object) -> list[str]:
        """`feed` with the events as server-sent frames: cheaper, where nobody else looks at the events."""
        if (part := self._open_text()) and (text := self._plain_text(update)):
            return [part.frame(text)]
        return [event_frame(event) for event in self.feed(update)]

    def feed_result(self, result: object) -> list[Event]:
        """Take in a result that came in one piece: an AgentResponse, a workflow's result, a message, a text."""
        return self.feed(result)

    def finish(self, result: object = None) -> list[Event]:
        """End the run. `result` is its AgentResponse, for usage and the reason why it ended; None keeps what was fed.

        The response becomes completed; incomplete, when the model was cut off or the run left a continuation token; or
        failed, when the agent produced error content.
        """
        if not len(self._output) and self._scope.number == 0 and result is not None:
            for piece in pieces_of(result):  # a stream without updates
                self._piece(piece)
        self._observe_model(result)
        reason = _text(getattr(result, "finish_reason", None)) or self._finish_reason
        details = {"reason": _CUT_OFF[reason]} if reason in _CUT_OFF else None
        if self._error is not None:
            status = "failed"
        elif details is not None or getattr(result, "continuation_token", None) is not None:
            status = "incomplete"
        else:
            status = "completed"
            self.response["completed_at"] = int(self._clock())
        self._close(completed=status == "completed")
        usage = usage_from_details(getattr(result, "usage_details", None)) or self._usage.usage
        self._end(
            status, usage=usage, error=self._error, incomplete_details=details if status == "incomplete" else None
        )
        return self._output.take()

    def fail(self, *, code: str = "server_error", message: str | None = None) -> list[Event]:
        """End the run as failed. `message` is public; what an exception says must not go in here unread.

        Also after `finish`, when a step after it failed, such as storing the response.
        """
        self._close(completed=False)
        self._end("failed", usage=self._usage.usage, error=failure(code, message or AGENT_FAILED))
        return self._output.take()

    def cancel(self) -> list[Event]:
        """End the run as cancelled. What was said until then stays in the output, marked as incomplete."""
        self._close(completed=False)
        self._end("cancelled", usage=self._usage.usage)
        return self._output.take()

    def interrupt(self, reason: str) -> list[Event]:
        """End the run early because something else goes before it, `steered` for a newer input. What was said counts."""
        self._close(completed=False)
        self._end("incomplete", usage=self._usage.usage, incomplete_details={"reason": reason})
        return self._output.take()

    def terminal(self) -> Event:
        """The last event. A cancelled response ends with `response.failed`: the API has no event of its own for it."""
        status = self.response["status"]
        self._output.emit(f"response.{'failed' if status == 'cancelled' else status}", response=dict(self.response))
        return self._output.take()[-1]

    @property
    def output_items(self) -> list[Item]:
        """The items that are done so far."""
        return self._output.items

    @property
    def open_calls(self) -> list[str]:
        """call_ids that the client has to answer in its next turn; none after a failure, from which no turn goes on."""
        return [] if self.response["status"] in ("failed", "cancelled") else open_calls(self._output.items)

    @property
    def next_sequence_number(self) -> int:
        """The number of the next event."""
        return self._output.next_sequence_number

    def _lifecycle(self, name: str) -> None:
        self._created = True
        self._output.emit(f"response.{name}", response=self.response | {"output": []})

    def _end(self, status: str, *, usage: Json | None, error: Json | None = None, **fields: Any) -> None:
        if status != "completed":
            self.response["completed_at"] = None
        if usage is not None:
            self.response["usage"] = usage
        ended: Json = {"status": status, "error": error, "incomplete_details": None, "output": self._output.items}
        self.response |= ended | fields

    def _close(self, *, completed: bool) -> None:
        self._close_text("completed" if completed else "incomplete")
        self._hosted.finish(completed=completed)
        self._calls.finish(completed=completed)

    # Content

    def _plain_text(self, update: object) -> str | None:
        text = self._scope.plain_text(update, wants_model=self._follow_model)
        if text is not None:
            self._calls.other_content()
        return text

    def _open_text(self) -> OpenPart | None:
        return self._message.open_text if self._message is not None else None

    def _piece(self, piece: Piece) -> None:
        self._observe_model(piece.source)
        if piece.finish_reason is not None:
            self._finish_reason = piece.finish_reason
        self._scope.enter(piece)
        replace = piece.replace and not self._scope.is_empty and self._can_replace()
        spare = piece.logprobs
        for content in piece.contents:
            is_text = content.type == "text"
            self._content(content, whole=piece.whole, replace=replace and is_text, logprobs=spare if is_text else [])
            if is_text:
                replace, spare = False, []

    def _begin_message(self) -> None:
        """What the message before left open ends with the first content of this one: an empty message ends nothing."""
        self._scope.is_empty = False
        self._close_text("completed")
        self._hosted.end_of_message()
        self._calls.other_content()
        self._scope.first_index = len(self._output)

    def _can_replace(self) -> bool:
        """Whether the whole message so far is one text, so that another one can take its place."""
        in_message = len(self._output) - self._scope.first_index
        return in_message == 1 and self._message is not None and self._message.has_one_open_part

    def _content(self, content: "Content", *, whole: bool, replace: bool, logprobs: list[Json]) -> None:
        kind = content.type
        if kind == "usage":
            self._usage.add(content.usage_details, replace=content.merge_mode == "replace")
            return
        call = self._calls.known(content, self._scope.number) if kind in _CALLS else None
        if self._scope.is_empty and (call is None or kind != "function_call"):  # a fragment goes to its call's message
            self._begin_message()
        if kind == "text":
            self._text(content, whole=whole, replace=replace or content.merge_mode == "replace", logprobs=logprobs)
        elif kind in _CALLS:
            self._call(content, call)
        elif kind == "text_reasoning":
            self._reason(content, whole=whole)
        else:
            self._break_part()
            self._calls.other_content()
            self._other(content)

    def _text(self, content: "Content", *, whole: bool, replace: bool, logprobs: list[Json]) -> None:
        self._calls.other_content()
        kind = REFUSAL if is_refusal(content) else OUTPUT_TEXT
        annotations = annotations_to_wire(content.annotations) if content.annotations else []
        if not (content.text or annotations):
            if self._message is not None:
                self._message.break_part(unless=kind)
            if self._reasoning is not None:
                self._reasoning.break_part()
            return
        if content.additional_properties:
            logprobs = logprobs_to_wire(content.additional_properties) or logprobs
        self._write(content.text or "", kind, annotations, logprobs, replace=replace)
        if whole:
            self._break_part()

    def _write(
        self,
        text: str,
        kind: PartKind = OUTPUT_TEXT,
        annotations: list[Json] | None = None,
        logprobs: list[Json] | None = None,
        *,
        replace: bool = False,
    ) -> None:
        if self._message is None:
            self._close_text("completed")
            self._message = OpenMessage(self._output)
        self._message.add(kind, text, annotations, logprobs, replace=replace)

    def _reason(self, content: "Content", *, whole: bool) -> None:
        self._calls.other_content()
        self._break_message()
        identifier = content.id or None
        if identifier and self._reasoning_run and identifier != self._reasoning_run:
            self._close_reasoning("completed")
            self._reasoning_run = None
        self._reasoning_run = self._reasoning_run or identifier
        raw = raw_reasoning(content)
        texts = [
            (SUMMARY_TEXT, content.text if raw is not True else None),
            (REASONING_TEXT, content.text if raw is True else raw or None),
        ]
        if not (content.protected_data or any(text for _, text in texts)):
            return
        if self._message is not None:
            self._close_text("completed")
            self._reasoning_run = identifier
        if self._reasoning is None:
            own = identifier if identifier and identifier.startswith("rs_") else None
            self._reasoning = OpenReasoning(self._output, None if own in self._reasoning_ids else own)
            self._reasoning_ids.add(self._reasoning.id)
        for kind, text in texts:
            if text:
                self._reasoning.add(kind, text, replace=content.merge_mode == "replace")
        if content.protected_data:
            self._reasoning.encrypted_content = content.protected_data
        if whole:
            self._reasoning.break_part()

    def _call(self, content: "Content", call: Call | None) -> None:
        if call is None:
            self._close_text("completed")
        elif call.scope != self._scope.number or content.type != "function_call":
            self._break_part()
        self._calls.fragment(content, call, self._scope.number)

    def _other(self, content: "Content") -> None:
        kind = content.type
        if kind in _RESULTS:
            self._close_text("completed")
            self._calls.result(content)
        elif kind == "function_approval_request":
            self._close_text("completed")
            self._calls.approval_request(content)
        elif kind in HostedItems.types:
            if not self._hosted.continues(content):
                self._close_text("completed")
            self._hosted.content(content)
        elif kind == "error":
            if self._error is None:
                self._error = failure(content.error_code or "server_error", content.message or AGENT_FAILED)
        elif kind in ("data", "uri") and content.uri:
            self._file(content)
        elif kind == "hosted_file" and content.file_id:
            # A file that the model's service keeps has no text of its own: it is a citation in the answer.
            self._write("", annotations=[{"type": "file_path", "file_id": content.file_id, "index": 0}])
            self._break_part()
        elif kind == "oauth_consent_request" and content.consent_link:
            self._write(f"Sign-in is needed to continue: {content.consent_link}")
            self._break_part()
        elif kind == "hosted_vector_store" and content.vector_store_id:
            self._write(f"[vector store {content.vector_store_id}]")
            self._break_part()
        # Types of later versions have no form in the protocol.

    def _file(self, content: "Content") -> None:
        uri = content.uri or ""
        if (content.media_type or "").startswith("image/"):
            self._close_text("completed")
            self._hosted.image(uri)
        else:
            self._write(f"[{content.name or content.media_type or 'file'}]({uri})")
            self._break_part()

    def _break_part(self) -> None:
        """What comes next does not belong to the text before it, though the item may go on."""
        self._break_message()
        if self._reasoning is not None:
            self._reasoning.break_part()

    def _break_message(self) -> None:
        if self._message is not None:
            self._message.break_part()

    def _close_text(self, status: str) -> None:
        if self._message is not None:
            self._message.close(status)
            self._message = None
        self._close_reasoning(status)
        self._reasoning_run = None

    def _close_reasoning(self, status: str) -> None:
        if self._reasoning is not None:
            self._reasoning.close(status)
            self._reasoning = None

    def _observe_model(self, source: object) -> None:
        if self._follow_model and source is not None and (model := model_of(source)):
            self.response["model"] = model
            self._follow_model = False


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
