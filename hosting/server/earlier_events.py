"""What an earlier run of a handler has put on the wire, as far as the next run must know."""

import logging
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from hosting.responses import Item
from hosting.server.open_items import OpenItem
from hosting.streaming import EventStream, StreamCorrupt

__all__ = ["EarlierEvents", "read_earlier"]

_log = logging.getLogger(__name__)


class EarlierEvents:
    """Reads the events of a stream again, before its response is run again: `add` all of them, in order.

    Clients that start over at the second `response.in_progress` need none of this. openai-python and openai-node don't know
    that rule: they refuse a response whose output indexes come twice, or that completes with an item left open.
    """

    def __init__(self) -> None:
        self.next_sequence_number = 0
        """The number of the next event."""
        self.used_indexes = 0
        """The first output index that no item has had."""
        self._open: dict[int, OpenItem] = {}

    def add(self, event: Mapping[str, Any]) -> None:
        """Take in an event."""
        self.next_sequence_number = event["sequence_number"] + 1
        index, kind = event.get("output_index"), event["type"]
        if not isinstance(index, int):
            return
        self.used_indexes = max(self.used_indexes, index + 1)
        if kind == "response.output_item.added":
            self._open[index] = OpenItem(event["item"])
        elif kind == "response.output_item.done":
            self._open.pop(index, None)
        elif index in self._open:
            self._open[index].observe(event)

    def left_open(self) -> list[tuple[int, Item]]:
        """Output index and item, closed as incomplete, of each item that was not done."""
        return [(index, self._open[index].closed()) for index in sorted(self._open)]


async def read_earlier(stream: EventStream) -> EarlierEvents:
    """What an interrupted attempt has put into the stream: it took the stream's end, so nothing comes after that."""
    earlier = EarlierEvents()
    last = await stream.last_cursor()
    after = -1
    while last is not None and after < last:
        try:
            async with aclosing(stream.subscribe(after=after)) as events:
                async for event in events:
                    earlier.add(event)
                    after = event["sequence_number"]
                    if after >= last:
                        break
                else:
                    break
        except StreamCorrupt as damage:  # followers are told; the run goes on behind it
            _log.error("Events of a response that is run again are damaged: %s", damage)
            after = max(after + 1, damage.resume_after)
        earlier.next_sequence_number = max(earlier.next_sequence_number, after + 1)
    return earlier
