"""A response while its handler builds it: the snapshot, the items that are done, and the numbers of events and items."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, cast

from hosting.ids import item_id
from hosting.responses.builders._internal_metadata import read_internal_metadata, with_internal_metadata
from hosting.responses.output import Event, Item

__all__ = ["CHECKPOINT", "Growth"]

type Json = dict[str, Any]

CHECKPOINT = "hosting.checkpoint"
"""The type of the event that asks the server to store the response as it stands. It never goes over the wire."""

# What a recovered run takes back of a response that had already been ended.
_NOT_ENDED: Json = {"status": "in_progress", "completed_at": None, "error": None, "incomplete_details": None}


class Growth:
    """What a stream and its item builders share.

    `persisted` says that `response` was stored by an earlier run: its items stay, new ones follow them, and the run has
    been announced already.
    """

    def __init__(self, response: Mapping[str, Any], *, persisted: bool, keep_events: bool) -> None:
        self.response: Json = deepcopy(dict(response))
        self.notes: Json = {}
        items: list[Item] = []
        if persisted:
            self.response |= _NOT_ENDED
            self.notes = read_internal_metadata(self.response)
            items = list(cast("list[Item]", self.response.get("output") or []))
        self.response["output"] = items
        self._done = dict(enumerate(items))
        self._next_index = len(items)
        self._next_number = 0
        self._begun = persisted
        self.events: list[Event] | None = [] if keep_events else None

    def emit(self, event_type: str, **fields: Any) -> Event:
        """The next event. Raises ValueError when `response.created` was not emitted before it."""
        if event_type == "response.created":
            self._begun = True
        if not self._begun:
            raise ValueError(f"{event_type} comes before response.created")
        event: Event = {"type": event_type, "sequence_number": self._next_number, **fields}
        if event_type != CHECKPOINT:
            self._next_number += 1
        if self.events is not None:
            self.events.append(event)
        return event

    def emit_snapshot(self, event_type: str) -> Event:
        """An event with the whole response. What was handed out does not change: the containers that grow are copied."""
        response = self.response
        response["metadata"] = with_internal_metadata(response.get("metadata") or {}, self.notes)
        snapshot = response | {"output": list(response["output"]), "metadata": dict(response["metadata"])}
        return self.emit(event_type, response=snapshot)

    def new_index(self) -> int:
        """The output index of an item that is about to begin."""
        self._next_index += 1
        return self._next_index - 1

    def new_id(self, prefix: str) -> str:
        """An id for an item of this response."""
        return item_id(prefix, self.response["id"])

    def item_done(self, index: int, item: Item) -> None:
        """Take an item into the output, which is in the order of the indexes, not of completion."""
        self.response["output"].insert(sum(other < index for other in self._done), item)
        self._done[index] = item
