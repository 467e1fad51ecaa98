"""The output of one response while it grows: numbers for its events, indexes and ids for its items."""

from collections.abc import Mapping
from typing import Any

from hosting.ids import item_id
from hosting.responses.well_formed import well_formed_json

__all__ = ["Event", "Item", "Output"]

type Event = dict[str, Any]
"""A streaming event: `type`, `sequence_number` and what the type asks for."""

type Item = dict[str, Any]
"""An output item as it goes over the wire."""


class Output:
    """Collects events until `take`, and finished items for the final response.

    What was handed out is never changed afterwards: an item in an event, and in the final output, is a dict of its own
    until it is done.
    """

    def __init__(self, response_id: str, first_sequence_number: int = 0, first_index: int = 0) -> None:
        self._response_id = response_id
        self._first_index = first_index
        self._events: list[Event] = []
        self._items: list[Item | None] = []
        self.next_sequence_number = first_sequence_number

    def emit(self, event_type: str, **fields: Any) -> None:
        """Add an event with the next sequence number."""
        self._events.append({"type": event_type, "sequence_number": self.next_sequence_number, **fields})
        self.next_sequence_number += 1

    def emit_at(self, event_type: str, place: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
        """The same with fields in two parts, the first of which is kept by the caller: deltas come by the thousand."""
        number = self.next_sequence_number
        self._events.append({"type": event_type, "sequence_number": number, **place, **fields})
        self.next_sequence_number = number + 1

    def next_number(self) -> int:
        """The number of an event that the caller renders itself."""
        number = self.next_sequence_number
        self.next_sequence_number = number + 1
        return number

    def take(self) -> list[Event]:
        """The events since the last call."""
        events, self._events = self._events, []
        return events

    def new_id(self, prefix: str) -> str:
        """An id for an item of this response."""
        return item_id(prefix, self._response_id)

    def add(self, item: Item) -> int:
        """Announce an item that begins; its index in the output."""
        item = well_formed_json(item)
        index = self._first_index + len(self._items)
        self._items.append(None)
        self.emit("response.output_item.added", output_index=index, item=item)
        return index

    def done(self, index: int, item: Item) -> None:
        """Announce that the item at `index` is complete. It is copied as JSON: what a client can't read fails no run."""
        item = well_formed_json(item)
        self._items[index - self._first_index] = item
        self.emit("response.output_item.done", output_index=index, item=item)

    def whole(self, item: Item, started: Item | None = None) -> None:
        """An item that comes in one piece; `started` is how it is announced when that differs."""
        self.done(self.add(dict(item) if started is None else started), item)

    @property
    def items(self) -> list[Item]:
        """The items that are done, in the order of their indexes."""
        return [item for item in self._items if item is not None]

    def __len__(self) -> int:
        return len(self._items)
