"""Reasoning, as summaries of it."""

from typing import Any

from hosting.responses.builders._growth import Growth
from hosting.responses.builders._item import Chunks, ItemBuilder, ItemEvents
from hosting.responses.builders._message import TextPart
from hosting.responses.output import Event
from hosting.responses.text_items import SUMMARY_TEXT

__all__ = ["OutputItemReasoningItemBuilder", "ReasoningSummaryPartBuilder"]


class ReasoningSummaryPartBuilder(TextPart):
    """One part of the summary of a reasoning item."""

    kind = SUMMARY_TEXT

    @property
    def summary_index(self) -> int:
        return self._place["summary_index"]

    def emit_text_delta(self, text: str) -> Event:
        """A piece of the text."""
        return self._delta(text)

    def emit_text_done(self, final_text: str | None = None) -> Event:
        """The text is over; see TextContentBuilder.emit_text_done."""
        return self._text_done(final_text)


class OutputItemReasoningItemBuilder(ItemBuilder):
    """A reasoning item. It may have no parts at all."""

    def __init__(self, growth: Growth) -> None:
        super().__init__(growth, "rs")
        self._parts: list[ReasoningSummaryPartBuilder] = []

    def emit_added(self) -> Event:
        """The item begins, without parts."""
        return self._add({"id": self.item_id, "type": "reasoning", "status": "in_progress", "summary": []})

    def add_summary_part(self) -> ReasoningSummaryPartBuilder:
        """A new part of the summary; it shows with its own emit_added."""
        part = ReasoningSummaryPartBuilder(self._inner, len(self._parts))
        self._parts.append(part)
        return part

    def summary_part(self, text: Chunks) -> ItemEvents:
        """All events of one part."""
        part = self.add_summary_part()
        return ItemEvents((part.emit_added,), text, part.emit_text_delta, (part.emit_text_done, part.emit_done))

    def emit_done(self, *, status: str = "completed", encrypted_content: str | None = None) -> Event:
        """The item is over. ValueError while a part is not done."""
        parts = [part.part for part in self._parts]
        if None in parts:
            raise ValueError("all parts of a reasoning item must be done before it is")
        item: dict[str, Any] = {"id": self.item_id, "type": "reasoning", "status": status, "summary": parts}
        if encrypted_content is not None:
            item["encrypted_content"] = encrypted_content
        return self._finish(item)
