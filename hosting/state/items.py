"""The items of earlier turns: single ones by their ids, or turn by turn."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any, cast

from hosting.ids import parse_id
from hosting.state.lineage import MAIN, Place, Segment
from hosting.state.turns import Turns
from hosting.storage import Entity

__all__ = ["find_items", "turn_items"]

type Item = dict[str, Any]

# Turns that one read takes. A page of 20 items is some 10 turns; the rest is there for turns with little in them.
_BLOCK = 50

_AT_ONCE = 16
"""Point reads of one request that go on at a time: a request may refer to thousands of items."""


async def find_items(turns: Turns, identifiers: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The stored items with these ids, as far as they exist in the scope. An id names its turn, so each is a point read.

    Not found are ids that are not ours, and items of a turn that lost a race for its place. Raises StorageError.
    """
    wanted = set(identifiers)
    places = {(parsed.chain, parsed.turn) for identifier in wanted if (parsed := parse_id(identifier)) is not None}
    free = asyncio.Semaphore(_AT_ONCE)

    async def read(chain: str, turn: int) -> dict[Place, Entity]:
        async with free:
            return await turns.items(Segment(chain, MAIN, turn, turn), "input", "output")

    rows = await asyncio.gather(*(read(chain, turn) for chain, turn in places))
    found: dict[str, dict[str, Any]] = {}
    for row in (row for segment in rows for row in segment.values()):
        for document in ("input", "output"):
            for item in cast("list[dict[str, Any]]", row.documents.get(document) or []):
                if item["id"] in wanted:
                    found[item["id"]] = item
    return found


async def turn_items(turns: Turns, order: Sequence[Place]) -> AsyncGenerator[tuple[Place, list[Item], list[Item]]]:
    """Place, input and output of the turns at `order`, which are neighbours in either direction; read in blocks.

    A deleted turn has neither; a place that was never taken does not appear. Raises StorageError.
    """
    for start in range(0, len(order), _BLOCK):
        block = order[start : start + _BLOCK]
        rows: dict[Place, Any] = {}
        for segment in _segments(block):
            rows |= await turns.items(segment, "input", "output")
        for place in block:
            if place in rows:
                documents = rows[place].documents
                given, made = (cast("list[Item]", documents.get(name) or []) for name in ("input", "output"))
                yield place, given, made


def _segments(block: Sequence[Place]) -> list[Segment]:
    """The stretches that cover a block of neighbouring places."""
    logs: dict[tuple[str, str], list[int]] = {}
    for place in block:
        logs.setdefault((place.chain, place.log), []).append(place.turn)
    return [Segment(chain, log, min(found), max(found)) for (chain, log), found in logs.items()]
