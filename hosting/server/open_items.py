"""Items between `added` and `done`: what a client has seen of them so far.

A response may end while items are open: its handler fails, is cancelled, or forgets one. The text that a client has seen
must not be missing in what is stored, and strict clients refuse a response that leaves an item open. So the server closes
such items itself, from their events.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from hosting.responses import Item
from hosting.responses.text_items import OUTPUT_TEXT, REASONING_TEXT, REFUSAL, SUMMARY_TEXT, PartKind
from hosting.responses.well_formed import well_formed

__all__ = ["OpenItem"]

type Json = dict[str, Any]


class _Key(NamedTuple):
    """Where a text belongs: a field of the item itself, or of one of its parts."""

    container: str
    position: int
    field: str


_KINDS = (OUTPUT_TEXT, REFUSAL, REASONING_TEXT, SUMMARY_TEXT)
_TEXTS: dict[str, PartKind] = {kind.text_event: kind for kind in _KINDS}
_PARTS: dict[str, str] = {kind.part_event: kind.index_field for kind in _KINDS}
_LISTS = {"content_index": "content", "summary_index": "summary"}
_FIELDS = {
    "response.function_call_arguments": "arguments",
    "response.mcp_call_arguments": "arguments",
    "response.custom_tool_call_input": "input",
    "response.code_interpreter_call_code": "code",
}
# Types whose status can't say that they were cut off.
_CUT_OFF = {"image_generation_call": "failed", "apply_patch_call": "in_progress"}


class OpenItem:
    """One item while it is open. `item` is how it was announced."""

    def __init__(self, item: Item) -> None:
        self.item = item
        self._parts: dict[tuple[str, int], Json] = {}
        self._chunks: dict[_Key, list[str]] = {}
        self._finished: set[_Key] = set()

    @property
    def identity(self) -> tuple[Any, ...]:
        """What `done` must not change."""
        return self.item.get("id"), self.item["type"], self.item.get("call_id")

    def observe(self, event: Mapping[str, Any]) -> str | None:
        """Take in an inner event; or, for one that a client could not follow, what is wrong with it."""
        name, _, stage = cast("str", event["type"]).rpartition(".")
        if name in _TEXTS:
            kind = _TEXTS[name]
            place = (_LISTS[kind.index_field], event.get(kind.index_field, 0))
            if place not in self._parts:
                return f"its part was not added: {kind.index_field} {place[1]}"
            return self._text(_Key(*place, kind.text_field), stage, event)
        if name in _FIELDS:
            return self._text(_Key("", 0, _FIELDS[name]), stage, event)
        if name in _PARTS and isinstance(event.get("part"), Mapping):
            place = (_LISTS[_PARTS[name]], event.get(_PARTS[name], 0))
            if stage == "added" and place[1] != sum(container == place[0] for container, _ in self._parts):
                return f"parts are added one after the other, which {_PARTS[name]} {place[1]} is not"
            if stage == "done":  # it has its text now
                if place not in self._parts:
                    return f"it was not added: {_PARTS[name]} {place[1]}"
                self._chunks = {key: value for key, value in self._chunks.items() if key[:2] != place}
            self._parts[place] = dict(event["part"])
        elif name == "response.output_text.annotation":
            part = self._parts.get(("content", event.get("content_index", 0)))
            if part is not None and isinstance(known := part.get("annotations"), list):
                part["annotations"] = [*cast("list[Any]", known), event.get("annotation")]
        return None

    def closed(self) -> Item:
        """The item with all that was said of it, marked as incomplete."""
        item = dict(self.item)
        parts = {place: dict(part) for place, part in self._parts.items()}
        for key, chunks in self._chunks.items():
            target = item if not key.container else parts[key.container, key.position]
            target[key.field] = well_formed("".join(chunks))
        for place in sorted(parts):
            item[place[0]] = []
        for place in sorted(parts):
            item[place[0]].append(parts[place])
        if "status" in item:
            item["status"] = _CUT_OFF.get(item["type"], "incomplete")
        return item

    def _text(self, key: _Key, stage: str, event: Mapping[str, Any]) -> str | None:
        if stage == "delta":
            if key in self._finished:
                return "the text it belongs to was done"
            self._chunks.setdefault(key, []).append(event["delta"])
        elif stage == "done":
            self._finished.add(key)
            if isinstance(final := event.get(key.field), str):
                self._chunks[key] = [final]
        return None
