"""Messages and reasoning while their text arrives: parts open, deltas, parts close.

A message has `output_text` and `refusal` parts, a reasoning item summary parts and, apart from these, raw reasoning
texts. Deltas are kept in a list and joined once.
"""

from dataclasses import dataclass
from typing import Any

from hosting.responses.output import Item, Output
from hosting.responses.sse import DeltaFrames
from hosting.responses.well_formed import well_formed

__all__ = [
    "OUTPUT_TEXT",
    "REASONING_TEXT",
    "REFUSAL",
    "SUMMARY_TEXT",
    "OpenMessage",
    "OpenPart",
    "OpenReasoning",
    "PartKind",
]

type Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PartKind:
    """How a kind of part appears in items and events."""

    type: str
    text_field: str
    text_event: str
    """Prefix of the `.delta` and `.done` events."""
    part_event: str = "response.content_part"
    """Prefix of the `.added` and `.done` events of the part."""
    index_field: str = "content_index"
    with_logprobs: bool = False

    def part(self, text: str, annotations: list[Json] | None = None, logprobs: list[Json] | None = None) -> Json:
        """The part itself."""
        part: Json = {"type": self.type, self.text_field: text}
        return part | {"annotations": annotations or [], "logprobs": logprobs or []} if self.with_logprobs else part


OUTPUT_TEXT = PartKind("output_text", "text", "response.output_text", with_logprobs=True)
REFUSAL = PartKind("refusal", "refusal", "response.refusal")
REASONING_TEXT = PartKind("reasoning_text", "text", "response.reasoning_text")
SUMMARY_TEXT = PartKind(
    "summary_text", "text", "response.reasoning_summary_text", "response.reasoning_summary_part", "summary_index"
)


class OpenPart:
    """One part that receives text."""

    def __init__(self, output: Output, kind: PartKind, item_id: str, output_index: int, index: int) -> None:
        self._output = output
        self.kind = kind
        self._place: Json = {"item_id": item_id, "output_index": output_index, kind.index_field: index}
        self._chunks: list[str] = []
        self._annotations: list[Json] = []
        self._logprobs: list[Json] = []
        self._frames: DeltaFrames | None = None
        self._delta = f"{kind.text_event}.delta"
        output.emit(f"{kind.part_event}.added", **self._place, part=kind.part(""))

    def add(self, text: str, logprobs: list[Json] | None = None) -> None:
        if logprobs:
            self._logprobs += logprobs
        if not text:
            return
        self._chunks.append(text)
        if self.kind.with_logprobs:
            self._output.emit_at(self._delta, self._place, {"delta": text, "logprobs": logprobs or []})
        else:
            self._output.emit_at(self._delta, self._place, {"delta": text})

    def frame(self, text: str) -> str:
        """`add` of a plain text to the answer, with its event as a frame."""
        if self._frames is None:
            self._frames = DeltaFrames(self._delta, self._place)
        self._chunks.append(text)
        return self._frames.frame(self._output.next_number(), text)

    def replace(self, text: str, logprobs: list[Json] | None = None) -> None:
        """Make `text`, with its log probabilities, all that the part holds. Only what is new goes out as a delta.

        Deltas can't be taken back. When `text` does not begin with what was sent, the part's `.done` event carries the
        right text, which clients take as the authoritative one.
        """
        sent = "".join(self._chunks)
        known = len(self._logprobs)
        if text.startswith(sent):
            self.add(text[len(sent) :], (logprobs or [])[known:])
        else:
            self._chunks = [text]
        if logprobs or not text.startswith(sent):
            self._logprobs = list(logprobs or ())

    def annotate(self, annotations: list[Json]) -> None:
        for annotation in annotations:
            self._output.emit(
                "response.output_text.annotation.added",
                **self._place,
                annotation_index=len(self._annotations),
                annotation=annotation,
            )
            self._annotations.append(annotation)

    def close(self) -> Json:
        text = well_formed("".join(self._chunks))
        fields: Json = {self.kind.text_field: text}
        if self.kind.with_logprobs:
            fields["logprobs"] = self._logprobs
        self._output.emit(f"{self.kind.text_event}.done", **self._place, **fields)
        part = self.kind.part(text, self._annotations, self._logprobs)
        self._output.emit(f"{self.kind.part_event}.done", **self._place, part=part)
        return part


class _TextItem:
    """What messages and reasoning items share: at most one part is open at a time."""

    def __init__(self, output: Output, item_id: str, started: Item) -> None:
        self._output = output
        self.id = item_id
        self._index = output.add(started)
        self._part: OpenPart | None = None
        self._parts: list[tuple[PartKind, Json]] = []
        self._counts: dict[str, int] = {}

    def add(
        self,
        kind: PartKind,
        text: str,
        annotations: list[Json] | None = None,
        logprobs: list[Json] | None = None,
        *,
        replace: bool = False,
    ) -> None:
        """Append text to the part of this kind, which opens if it is not the current one."""
        part = self._part
        if part is None or part.kind is not kind:
            self.break_part()
            index = self._counts.get(kind.index_field, 0)
            self._counts[kind.index_field] = index + 1
            part = self._part = OpenPart(self._output, kind, self.id, self._index, index)
        if replace:
            part.replace(text, logprobs)
        else:
            part.add(text, logprobs)
        if annotations and kind is OUTPUT_TEXT:
            part.annotate(annotations)

    @property
    def open_text(self) -> OpenPart | None:
        """The answer's text that is open, None when the next text begins a part."""
        return self._part if self._part is not None and self._part.kind is OUTPUT_TEXT else None

    def break_part(self, unless: PartKind | None = None) -> None:
        """End the current part, if any, so that the next text begins a new one."""
        if self._part is not None and self._part.kind is not unless:
            self._parts.append((self._part.kind, self._part.close()))
            self._part = None

    @property
    def has_one_open_part(self) -> bool:
        """Whether all text of the item is still in the part that receives text."""
        return self._part is not None and not self._parts


class OpenMessage(_TextItem):
    """An assistant message in the making."""

    def __init__(self, output: Output) -> None:
        identifier = output.new_id("msg")
        super().__init__(output, identifier, self._item(identifier, "in_progress", []))

    def close(self, status: str) -> None:
        """End the message; `status` is completed or incomplete."""
        self.break_part()
        self._output.done(self._index, self._item(self.id, status, [part for _, part in self._parts]))

    @staticmethod
    def _item(identifier: str, status: str, content: list[Json]) -> Item:
        return {"id": identifier, "type": "message", "status": status, "role": "assistant", "content": content}


class OpenReasoning(_TextItem):
    """A reasoning item in the making."""

    def __init__(self, output: Output, identifier: str | None = None) -> None:
        # An id that the model's service gave is kept: encrypted content is only valid together with it.
        identifier = identifier or output.new_id("rs")
        self.encrypted_content: str | None = None
        super().__init__(
            output, identifier, {"id": identifier, "type": "reasoning", "status": "in_progress", "summary": []}
        )

    def close(self, status: str) -> None:
        """End the item; `status` is completed or incomplete."""
        self.break_part()
        item: Item = {
            "id": self.id,
            "type": "reasoning",
            "status": status,
            "summary": [part for kind, part in self._parts if kind is SUMMARY_TEXT],
        }
        if content := [part for kind, part in self._parts if kind is REASONING_TEXT]:
            item["content"] = content
        if self.encrypted_content is not None:
            item["encrypted_content"] = self.encrypted_content
        self._output.done(self._index, item)
