"""From what an agent produces to the Response object and its events: one state machine for streams and for results.

    start -> feed ... -> finish | fail | cancel -> terminal

Both modes go through it, so a stream's last event, the JSON answer and what is stored can't differ. `finish` makes the
response final and returns the closing events; the terminal event is a step of its own, because a server must store the
response before it lets anybody see that it is complete.
"""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from hosting.responses.calls import ServerCalls
from hosting.responses.content_renderer import ContentRenderer
from hosting.responses.create_request import CreateRequest
from hosting.responses.envelope import AGENT_FAILED, failure, new_envelope
from hosting.responses.known_calls import KnownCall
from hosting.responses.output import Event, Item, Output
from hosting.responses.sse import event_frame
from hosting.responses.tool_pairs import open_calls
from hosting.responses.updates import Piece, model_of, pieces_of
from hosting.responses.usage import usage_from_details

__all__ = ["ResponseRenderer"]

type Json = dict[str, Any]

_CUT_OFF = {"length": "max_output_tokens", "content_filter": "content_filter"}


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
        self._contents = ContentRenderer(self._output, request.client_tools, server_tools, server_calls)
        self._contents.calls.remember(known_calls or {})
        self._clock = clock
        self._follow_model = follow_model
        self._created = False
        self._finish_reason: str | None = None

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
        self._contents.calls.add_server_tools(names)

    def remember(self, known: Mapping[str, KnownCall]) -> None:
        """What calls were that earlier runs of the conversation left to this one (see known_calls).

        Without it the result of such a call shows under the name "tool", without arguments.
        """
        self._contents.calls.remember(known)

    def feed(self, update: object) -> list[Event]:
        """Take in an update of a stream: an AgentResponseUpdate, or an event of a workflow."""
        if (part := self._contents.open_text) and (text := self._plain_text(update)):
            part.add(text)
        else:
            for piece in pieces_of(update):
                self._piece(piece)
        return self._output.take()

    def feed_frames(self, update: object) -> list[str]:
        """`feed` with the events as server-sent frames: cheaper, where nobody else looks at the events."""
        if (part := self._contents.open_text) and (text := self._plain_text(update)):
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
        if not len(self._output) and not self._contents.has_begun and result is not None:
            for piece in pieces_of(result):  # a stream without updates
                self._piece(piece)
        self._observe_model(result)
        reason = _text(getattr(result, "finish_reason", None)) or self._finish_reason
        details = {"reason": _CUT_OFF[reason]} if reason in _CUT_OFF else None
        if self._contents.error is not None:
            status = "failed"
        elif details is not None or getattr(result, "continuation_token", None) is not None:
            status = "incomplete"
        else:
            status = "completed"
            self.response["completed_at"] = int(self._clock())
        self._contents.close(completed=status == "completed")
        usage = usage_from_details(getattr(result, "usage_details", None)) or self._contents.usage.usage
        self._end(
            status,
            usage=usage,
            error=self._contents.error,
            incomplete_details=details if status == "incomplete" else None,
        )
        return self._output.take()

    def fail(self, *, code: str = "server_error", message: str | None = None) -> list[Event]:
        """End the run as failed. `message` is public; what an exception says must not go in here unread.

        Also after `finish`, when a step after it failed, such as storing the response.
        """
        self._contents.close(completed=False)
        self._end("failed", usage=self._contents.usage.usage, error=failure(code, message or AGENT_FAILED))
        return self._output.take()

    def cancel(self) -> list[Event]:
        """End the run as cancelled. What was said until then stays in the output, marked as incomplete."""
        self._contents.close(completed=False)
        self._end("cancelled", usage=self._contents.usage.usage)
        return self._output.take()

    def interrupt(self, reason: str) -> list[Event]:
        """End the run early because something else goes before it, `steered` for a newer input. What was said counts."""
        self._contents.close(completed=False)
        self._end("incomplete", usage=self._contents.usage.usage, incomplete_details={"reason": reason})
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

    def _plain_text(self, update: object) -> str | None:
        return self._contents.plain_text(update, wants_model=self._follow_model)

    def _piece(self, piece: Piece) -> None:
        self._observe_model(piece.source)
        if piece.finish_reason is not None:
            self._finish_reason = piece.finish_reason
        self._contents.piece(piece)

    def _observe_model(self, source: object) -> None:
        if self._follow_model and source is not None and (model := model_of(source)):
            self.response["model"] = model
            self._follow_model = False


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
