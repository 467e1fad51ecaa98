"""Where text goes: the message and the reasoning item that are open, and what ends them and their parts."""

from typing import TYPE_CHECKING, Any

from hosting.responses.annotations import annotations_to_wire
from hosting.responses.logprobs import logprobs_to_wire
from hosting.responses.marks import is_refusal, raw_reasoning
from hosting.responses.output import Output
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

if TYPE_CHECKING:
    from agent_framework import Content

__all__ = ["OpenTexts"]

type Json = dict[str, Any]


class OpenTexts:
    """One of the two is open at most: it ends when the other begins. What is no text ends its part, and not always itself."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._message: OpenMessage | None = None
        self._reasoning: OpenReasoning | None = None
        self._reasoning_ids: set[str] = set()
        self._reasoning_run: str | None = None

    @property
    def open_text(self) -> OpenPart | None:
        """The answer's text that is open, None when the next text begins a part."""
        return self._message.open_text if self._message is not None else None

    @property
    def is_one_part(self) -> bool:
        """Whether a message is open whose whole text is still in the part that receives text."""
        return self._message is not None and self._message.has_one_open_part

    def text(self, content: "Content", *, whole: bool, replace: bool, logprobs: list[Json]) -> None:
        """A text or a refusal; `logprobs` are for a content that has none of its own."""
        kind = REFUSAL if is_refusal(content) else OUTPUT_TEXT
        annotations = annotations_to_wire(content.annotations) if content.annotations else []
        if not (content.text or annotations):
            if self._message is not None:
                self._message.break_part(unless=kind)
            self._break_reasoning()
            return
        if content.additional_properties:
            logprobs = logprobs_to_wire(content.additional_properties) or logprobs
        self._write(content.text or "", kind, annotations, logprobs, replace=replace)
        if whole:
            self.break_part()

    def note(self, text: str, annotations: list[Json] | None = None) -> None:
        """A text of the server's own, for what has no other form in the protocol."""
        self._write(text, OUTPUT_TEXT, annotations)
        self.break_part()

    def reasoning(self, content: "Content", *, whole: bool) -> None:
        """A piece of reasoning: a summary, raw text, encrypted content, or several of these."""
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
            self.close("completed")
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

    def break_part(self) -> None:
        """What comes next does not belong to the text before it, though the item may go on."""
        self._break_message()
        self._break_reasoning()

    def close(self, status: str) -> None:
        """End what is open; `status` is completed or incomplete."""
        if self._message is not None:
            self._message.close(status)
            self._message = None
        self._close_reasoning(status)
        self._reasoning_run = None

    def _write(
        self,
        text: str,
        kind: PartKind,
        annotations: list[Json] | None = None,
        logprobs: list[Json] | None = None,
        *,
        replace: bool = False,
    ) -> None:
        if self._message is None:
            self.close("completed")
            self._message = OpenMessage(self._output)
        self._message.add(kind, text, annotations, logprobs, replace=replace)

    def _break_message(self) -> None:
        if self._message is not None:
            self._message.break_part()

    def _break_reasoning(self) -> None:
        if self._reasoning is not None:
            self._reasoning.break_part()

    def _close_reasoning(self, status: str) -> None:
        if self._reasoning is not None:
            self._reasoning.close(status)
            self._reasoning = None
