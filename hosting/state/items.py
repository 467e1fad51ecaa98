"""The items of earlier turns: single ones by their ids, or turn by turn."""

import json
import sys
from collections.abc import AsyncGenerator, Iterable, Sequence
from itertools import batched
from typing import Any, NamedTuple, cast

from hosting.gather import gather_all
from hosting.ids import parse_id
from hosting.read_budget import ReadTooLarge, charge, read_at_most
from hosting.state.lineage import MAIN, Place, Segment
from hosting.state.turns import Turns
from hosting.storage import Entity

__all__ = ["ItemPage", "TurnItems", "find_items", "json_size", "turn_items"]

type Item = dict[str, Any]

_DOCUMENTS = ("input", "output")

# Turns that one read takes. A page of 20 items is some 10 turns; the rest is there for turns with little in them.
_BLOCK = 50

_BLOCK_BYTES = 8 * 1024 * 1024
"""What is read of turns at a time. Where they are larger, fewer are read, at last one, whatever it has."""

_PAGE_BYTES = 8 * 1024 * 1024
"""Where a page ends, however few items it has by then. A page has at least one item, so it gets longer by one at most."""

_AT_ONCE = 16
"""Point reads of one request that go on at a time: a request may refer to thousands of items."""


def json_size(item: Item) -> int:
    """How many bytes an item has as JSON, which is up to four for a character."""
    return len(json.dumps(item, ensure_ascii=False).encode("utf-8", "surrogatepass"))


async def find_items(turns: Turns, identifiers: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The stored items with these ids, as far as they exist in the scope. An id names its turn, so each is a point read.

    Not found are ids that are not ours, and items of a turn that lost a race for its place. Raises StorageError.
    """
    wanted = set(identifiers)
    places = {(parsed.chain, parsed.turn) for identifier in wanted if (parsed := parse_id(identifier)) is not None}
    found: dict[str, dict[str, Any]] = {}
    for batch in batched(places, _AT_ONCE, strict=False):
        reads = (turns.items(Segment(chain, MAIN, turn, turn), "input", "output") for chain, turn in batch)
        for row in (row for segment in await gather_all(*reads) for row in segment.values()):
            found |= {item["id"]: item for item in _items_of(row) if item["id"] in wanted}
    return found


class TurnItems(NamedTuple):
    """The items of a turn, and about how many bytes they have in storage."""

    place: Place
    input: list[Item]
    output: list[Item]
    size: int


async def turn_items(turns: Turns, order: Sequence[Place]) -> AsyncGenerator[TurnItems]:
    """The turns at `order`, which are neighbours in either direction; read in blocks.

    A deleted turn has no items; a place that was never taken does not appear. Raises StorageError. What is read counts until
    it is given out; whoever keeps items charges for them.
    """
    start, length = 0, _BLOCK
    while start < len(order):
        block, budget = order[start : start + length], None
        try:
            with read_at_most(_BLOCK_BYTES if length > 1 else sys.maxsize) as budget:
                rows = await _read_block(turns, block)
        except ReadTooLarge as error:
            if error.budget is not budget:
                raise
            length = max(1, length // 4)
            continue
        for place in block:
            if (row := rows.pop(place, None)) is not None:
                given, made = (cast("list[Item]", row.documents.get(name) or []) for name in _DOCUMENTS)
                budget.refund(row.size)
                yield TurnItems(place, given, made, row.size)
        budget.refund()
        start += len(block)


async def _read_block(turns: Turns, block: Sequence[Place]) -> dict[Place, Entity]:
    rows: dict[Place, Entity] = {}
    for segment in _segments(block):
        rows |= await turns.items(segment, *_DOCUMENTS)
    return rows


def _items_of(row: Entity) -> list[Item]:
    return [item for name in _DOCUMENTS for item in cast("list[Item]", row.documents.get(name) or [])]


def _segments(block: Sequence[Place]) -> list[Segment]:
    """The stretches that cover a block of neighbouring places."""
    logs: dict[tuple[str, str], list[int]] = {}
    for place in block:
        logs.setdefault((place.chain, place.log), []).append(place.turn)
    return [Segment(chain, log, min(found), max(found)) for (chain, log), found in logs.items()]


class ItemPage:
    """A page of a list of items. It ends after `limit` items, or earlier when they are large: clients look at `has_more`."""

    def __init__(self, limit: int) -> None:
        self.items: list[Item] = []
        self.has_more = False
        self._limit, self._room = limit, _PAGE_BYTES

    def add(self, item: Item) -> bool:
        """Put an item on the page. False: the page ended before it."""
        size = json_size(item)
        if self.items and (len(self.items) == self._limit or size > self._room):
            self.has_more = True
            return False
        charge(size)
        self._room -= size
        self.items.append(item)
        return True
