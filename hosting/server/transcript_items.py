"""The output items of a transcript: which are open, which are done, and under which index clients see them."""

from collections.abc import Sequence

from hosting.responses import Item
from hosting.server.earlier_events import EarlierEvents
from hosting.server.event_checks import HandlerFault
from hosting.server.open_items import OpenItem

__all__ = ["TranscriptItems"]


class TranscriptItems:
    """Indexes are the handler's, which counts from 0 in every run; `shown_index` is for the wire.

    `persisted` are the items that a recovered run may go on from, None where nothing is recovered; `earlier` says which
    indexes are taken.
    """

    def __init__(self, persisted: Sequence[Item] | None, earlier: EarlierEvents) -> None:
        self._earlier = earlier
        self._open: dict[int, OpenItem] = {}
        self._done: dict[int, Item] = {}
        self._ids: set[str] = set()
        # Of a recovery: what was persisted, until it is known whether this run goes on from it or from nothing.
        self._seed = list(persisted) if persisted is not None else None
        self._shift = 0

    @property
    def done(self) -> list[Item]:
        """The items that are done, in the order of their indexes."""
        return [self._done[index] for index in sorted(self._done)]

    def begin(self, *, seeded: bool) -> None:
        """A recovered run goes on from what was persisted, or begins again from nothing. The first word counts."""
        if self._seed is None:
            return
        seed, self._seed = self._seed, None
        if seeded:
            self._done = dict(enumerate(seed))
            self._ids = {item["id"] for item in seed if "id" in item}
        self._shift = max(0, self._earlier.used_indexes - len(self._done))

    def begin_at(self, index: int) -> None:
        """The same for a run that says nothing of it: the index of its first item tells."""
        self.begin(seeded=self._seed is not None and index >= len(self._seed))

    def shown_index(self, index: int) -> int:
        """The index on the wire."""
        return index + self._shift

    def add(self, kind: str, index: int, item: Item) -> None:
        """An item begins. Raises HandlerFault when the index or the id is taken."""
        if index in self._open or index in self._done:
            raise HandlerFault(f"{kind}: the output index {index} is taken")
        if item["id"] in self._ids:
            raise HandlerFault(f"{kind}: the response has an item {item['id']} already")
        self._ids.add(item["id"])
        self._open[index] = OpenItem(item)

    def open_at(self, kind: str, index: int) -> OpenItem:
        """The item that is open at an index. Raises HandlerFault when there is none."""
        if index not in self._open:
            raise HandlerFault(f"{kind}: no item is open at the output index {index}")
        return self._open[index]

    def left_open(self) -> list[tuple[int, Item]]:
        """Index and item, closed as incomplete, of each item that is not done."""
        return [(index, self._open[index].closed()) for index in sorted(self._open)]

    def finish(self, index: int, item: Item) -> None:
        """The item that is open at an index is done, and this is what it has become."""
        self._open.pop(index)
        self._done[index] = item
