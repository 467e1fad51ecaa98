"""Messages, built part by part."""

from collections.abc import Callable, Mapping
from typing import Any

from hosting.responses.builders._growth import Growth
from hosting.responses.builders._item import Chunks, ItemBuilder, ItemEvents
from hosting.responses.output import Event
from hosting.responses.text_items import OUTPUT_TEXT, REFUSAL, PartKind
from hosting.responses.well_formed import well_formed

__all__ = ["OutputItemMessageBuilder", "RefusalContentBuilder", "TextContentBuilder", "TextPart"]

type Json = dict[str, Any]
type Inner = Callable[..., Event]


class TextPart:
    """A part that receives text, of a message or of a reasoning item: added, deltas, text done, part done."""

    kind: PartKind

    def __init__(self, inner: Inner, index: int) -> None:
        self._inner = inner
        self._place = {self.kind.index_field: index}
        self._chunks: list[str] = []
        self._annotations: list[Json] = []
        self._stage = "new"
        self._text: str | None = None

    @property
    def final_text(self) -> str | None:
        """The whole text, once it is done."""
        return self._text

    @property
    def part(self) -> Json | None:
        """The part as the item will have it, once it is done."""
        return self.kind.part(self._text or "", self._annotations) if self._stage == "done" else None

    def emit_added(self) -> Event:
        """The part begins, without text."""
        self._move("new", "open")
        return self._emit(f"{self.kind.part_event}.added", part=self.kind.part(""))

    def emit_done(self) -> Event:
        """The part is over, after its text is."""
        self._move("text done", "done")
        return self._emit(f"{self.kind.part_event}.done", part=self.part)

    def _delta(self, text: str) -> Event:
        self._move("open", "open")
        self._chunks.append(text)
        return self._emit(f"{self.kind.text_event}.delta", delta=text, **self._logprobs())

    def _text_done(self, final_text: str | None) -> Event:
        self._move("open", "text done")
        self._text = well_formed("".join(self._chunks) if final_text is None else final_text)
        return self._emit(f"{self.kind.text_event}.done", **{self.kind.text_field: self._text}, **self._logprobs())

    def _annotation(self, annotation: Mapping[str, Any]) -> Event:
        if self._stage not in ("open", "text done"):
            raise ValueError(
                f"an annotation comes between the beginning and the end of its part, which is {self._stage}"
            )
        self._annotations.append(dict(annotation))
        return self._emit(
            "response.output_text.annotation.added",
            annotation_index=len(self._annotations) - 1,
            annotation=dict(annotation),
        )

    def _emit(self, event_type: str, **fields: Any) -> Event:
        return self._inner(event_type, **self._place, **fields)

    def _logprobs(self) -> Json:
        return {"logprobs": []} if self.kind.with_logprobs else {}

    def _move(self, stage: str, to: str) -> None:
        if self._stage != stage:
            raise ValueError(f"a {self.kind.type} part that is {self._stage} can't become {to}: it has to be {stage}")
        self._stage = to


class TextContentBuilder(TextPart):
    """A text in a message."""

    kind = OUTPUT_TEXT

    @property
    def content_index(self) -> int:
        return self._place["content_index"]

    def emit_delta(self, text: str) -> Event:
        """A piece of the text."""
        return self._delta(text)

    def emit_text_done(self, final_text: str | None = None) -> Event:
        """The text is over: the deltas joined, or `final_text`, which clients then take instead."""
        return self._text_done(final_text)

    def emit_annotation_added(self, annotation: Mapping[str, Any]) -> Event:
        """A citation in the text, in one of the API's forms."""
        return self._annotation(annotation)


class RefusalContentBuilder(TextPart):
    """A refusal in a message."""

    kind = REFUSAL

    @property
    def content_index(self) -> int:
        return self._place["content_index"]

    @property
    def final_refusal(self) -> str | None:
        """The whole text, once it is done."""
        return self.final_text

    def emit_delta(self, text: str) -> Event:
        """A piece of the refusal."""
        return self._delta(text)

    def emit_refusal_done(self, final_refusal: str | None = None) -> Event:
        """The text is over; see TextContentBuilder.emit_text_done."""
        return self._text_done(final_refusal)


class OutputItemMessageBuilder(ItemBuilder):
    """A message of the assistant. Its parts may overlap; all of them must be done before it is."""

    def __init__(self, growth: Growth) -> None:
        super().__init__(growth, "msg")
        self._parts: list[TextPart] = []

    def emit_added(self) -> Event:
        """The message begins, without parts."""
        return self._add(self._item("in_progress", []))

    def add_text_content(self) -> TextContentBuilder:
        """A new text part; it shows with its own emit_added."""
        part = TextContentBuilder(self._inner, len(self._parts))
        self._parts.append(part)
        return part

    def add_refusal_content(self) -> RefusalContentBuilder:
        """A new refusal; it shows with its own emit_added."""
        part = RefusalContentBuilder(self._inner, len(self._parts))
        self._parts.append(part)
        return part

    def text_content(self, text: Chunks) -> ItemEvents:
        """All events of one text part."""
        part = self.add_text_content()
        return ItemEvents((part.emit_added,), text, part.emit_delta, (part.emit_text_done, part.emit_done))

    def refusal_content(self, text: Chunks) -> ItemEvents:
        """All events of one refusal."""
        part = self.add_refusal_content()
        return ItemEvents((part.emit_added,), text, part.emit_delta, (part.emit_refusal_done, part.emit_done))

    def emit_done(self, *, status: str = "completed") -> Event:
        """The message is over. ValueError without a part, or while one is not done. `status`: or incomplete."""
        parts = [part.part for part in self._parts]
        if not parts or None in parts:
            raise ValueError("a message needs at least one part, and all its parts done, before it is done")
        return self._finish(self._item(status, parts))

    def _item(self, status: str, content: list[Any]) -> Json:
        return {"id": self.item_id, "type": "message", "status": status, "role": "assistant", "content": content}
