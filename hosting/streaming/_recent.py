"""The latest stored events of a stream, in memory."""

from bisect import bisect_right
from collections.abc import Sequence

from hosting.streaming._lines import Damage, Event
from hosting.streaming._segments import Place

__all__ = ["Recent"]


class Recent:
    """All stored events with numbers greater than `floor`, up to the place `tail`; unset until `restart`.

    Whoever stores or reads events at the end of the stream adds them, so that subscribers that keep up share one copy and
    one poll. Bounded: what is too much falls out at the front.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._items: list[Event | Damage] = []
        self._bytes = 0
        self.floor = -1
        self.tail: Place | None = None
        self.ended = False

    def covers(self, last: int) -> bool:
        """Whether all stored events with numbers greater than `last` are here."""
        return self.tail is not None and last >= self.floor

    def after(self, last: int) -> list[Event | Damage]:
        """The items with numbers greater than `last`."""
        return self._items[bisect_right(self._items, last, key=_seq) :]

    def restart(self, tail: Place, *, ended: bool) -> None:
        """Hold nothing, from `tail` on."""
        self._items, self._bytes = [], 0
        self.floor, self.tail, self.ended = tail.last, tail, ended

    def extend(self, before: int, items: Sequence[Event | Damage], tail: Place, *, ended: bool) -> None:
        """Add `items`, the first of which follows number `before`, and which lie in front of `tail`.

        What is known already is skipped. When something lies between what is known and `before`, the window starts anew:
        subscribers that need it read the store.
        """
        if self.tail is None or before > self.tail.last:
            self.restart(tail._replace(last=before), ended=False)
        known = -1 if self.tail is None else self.tail.last
        new = [item for item in items if item.seq > known]
        self._items += new
        self._bytes += sum(_size(item) for item in new)
        if self.tail is None or (tail.segment, tail.offset) >= (self.tail.segment, self.tail.offset):
            self.tail = tail
        self.ended = self.ended or ended
        self._shrink()

    def _shrink(self) -> None:
        if self._bytes <= self._limit:
            return
        cut = 0
        while self._bytes > self._limit // 2 and cut < len(self._items):
            self._bytes -= _size(self._items[cut])
            cut += 1
        self.floor = self._items[cut - 1].seq
        del self._items[:cut]


def _seq(item: Event | Damage) -> int:
    return item.seq


def _size(item: Event | Damage) -> int:
    return len(item.data) + 64 if isinstance(item, Event) else 64
