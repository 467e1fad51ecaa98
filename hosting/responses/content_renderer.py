"""Contents to items: which message a content belongs to, which item it goes into, and what ends with it."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from hosting.responses.call_item import Call
from hosting.responses.calls import Calls, ServerCalls
from hosting.responses.envelope import AGENT_FAILED, failure
from hosting.responses.hosted_items import HostedItems
from hosting.responses.message_scope import MessageScope
from hosting.responses.open_texts import OpenTexts
from hosting.responses.output import Output
from hosting.responses.text_items import OpenPart
from hosting.responses.updates import Piece
from hosting.responses.usage import UsageCounter

if TYPE_CHECKING:
    from agent_framework import Content

__all__ = ["ContentRenderer"]

type Json = dict[str, Any]

_CALLS = ("function_call", "mcp_server_tool_call")
_RESULTS = ("function_result", "mcp_server_tool_result")


class ContentRenderer:
    """The contents of one run, put into `output`. What they say of the run itself is in `usage` and `error`."""

    def __init__(
        self, output: Output, client_tools: Collection[str], server_tools: Collection[str], show: ServerCalls
    ) -> None:
        self._output = output
        self.calls = Calls(output, client_tools, server_tools, show)
        self.usage = UsageCounter()
        self.error: Json | None = None
        """The first error content, as the response's `error`."""
        self._hosted = HostedItems(output)
        self._texts = OpenTexts(output)
        self._scope = MessageScope()

    @property
    def has_begun(self) -> bool:
        """Whether any piece has come."""
        return self._scope.number > 0

    @property
    def open_text(self) -> OpenPart | None:
        """The answer's text that is open, for what `plain_text` gives."""
        return self._texts.open_text

    def plain_text(self, update: object, *, wants_model: bool) -> str | None:
        """The text of an update that only adds to the text that is open; None for everything else, which is for `piece`."""
        text = self._scope.plain_text(update, wants_model=wants_model)
        if text is not None:
            self.calls.other_content()
        return text

    def piece(self, piece: Piece) -> None:
        """A message, or an update that adds to one."""
        self._scope.enter(piece)
        replace = piece.replace and not self._scope.is_empty and self._can_replace()
        spare = piece.logprobs
        for content in piece.contents:
            is_text = content.type == "text"
            self._content(content, whole=piece.whole, replace=replace and is_text, logprobs=spare if is_text else [])
            if is_text:
                replace, spare = False, []

    def close(self, *, completed: bool) -> None:
        """The run is over: end what is open."""
        self._texts.close("completed" if completed else "incomplete")
        self._hosted.finish(completed=completed)
        self.calls.finish(completed=completed)

    def _begin_message(self) -> None:
        """What the message before left open ends with the first content of this one: an empty message ends nothing."""
        self._scope.is_empty = False
        self._texts.close("completed")
        self._hosted.end_of_message()
        self.calls.other_content()
        self._scope.first_index = len(self._output)

    def _can_replace(self) -> bool:
        """Whether the whole message so far is one text, so that another one can take its place."""
        return len(self._output) - self._scope.first_index == 1 and self._texts.is_one_part

    def _content(self, content: "Content", *, whole: bool, replace: bool, logprobs: list[Json]) -> None:
        kind = content.type
        if kind == "usage":
            self.usage.add(content.usage_details, replace=content.merge_mode == "replace")
            return
        call = self.calls.known(content, self._scope.number) if kind in _CALLS else None
        if self._scope.is_empty and (call is None or kind != "function_call"):  # a fragment goes to its call's message
            self._begin_message()
        if kind in _CALLS:
            self._call(content, call)
            return
        self.calls.other_content()
        if kind == "text":
            replace = replace or content.merge_mode == "replace"
            self._texts.text(content, whole=whole, replace=replace, logprobs=logprobs)
        elif kind == "text_reasoning":
            self._texts.reasoning(content, whole=whole)
        else:
            self._texts.break_part()
            self._other(content)

    def _call(self, content: "Content", call: Call | None) -> None:
        if call is None:
            self._texts.close("completed")
        elif call.scope != self._scope.number or content.type != "function_call":
            self._texts.break_part()
        self.calls.fragment(content, call, self._scope.number)

    def _other(self, content: "Content") -> None:
        kind = content.type
        if kind in _RESULTS:
            self._texts.close("completed")
            self.calls.result(content)
        elif kind == "function_approval_request":
            self._texts.close("completed")
            self.calls.approval_request(content)
        elif (render := self._hosted.renderer(kind)) is not None:
            if not self._hosted.continues(content):
                self._texts.close("completed")
            render(content)
        elif kind == "error":
            if self.error is None:
                self.error = failure(content.error_code or "server_error", content.message or AGENT_FAILED)
        elif kind in ("data", "uri") and content.uri:
            self._file(content, content.uri)
        elif kind == "hosted_file" and content.file_id:
            # A file that the model's service keeps has no text of its own: it is a citation in the answer.
            self._texts.note("", [{"type": "file_path", "file_id": content.file_id, "index": 0}])
        elif kind == "oauth_consent_request" and content.consent_link:
            self._texts.note(f"Sign-in is needed to continue: {content.consent_link}")
        elif kind == "hosted_vector_store" and content.vector_store_id:
            self._texts.note(f"[vector store {content.vector_store_id}]")
        # Types of later versions have no form in the protocol.

    def _file(self, content: "Content", uri: str) -> None:
        if (content.media_type or "").startswith("image/"):
            self._texts.close("completed")
            self._hosted.image(uri)
        else:
            self._texts.note(f"[{content.name or content.media_type or 'file'}]({uri})")
