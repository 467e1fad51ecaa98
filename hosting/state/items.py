"""Looking up single items of earlier turns by their ids."""

import asyncio
from collections.abc import Iterable
from typing import Any, cast

from hosting.ids import parse_id
from hosting.state.lineage import MAIN, Segment
from hosting.state.turns import Turns

__all__ = ["find_items"]


async def find_items(turns: Turns, identifiers: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The stored items with these ids, as far as they exist in the scope. An id names its turn, so each is a point read.

    Not found are ids that are not ours, and items of a turn that lost a race for its place. Raises StorageError.
    """
    wanted = set(identifiers)
    places = {(parsed.chain, parsed.turn) for identifier in wanted if (parsed := parse_id(identifier)) is not None}
    rows = await asyncio.gather(
        *(turns.items(Segment(chain, MAIN, turn, turn), "input", "output") for chain, turn in places)
    )
    found: dict[str, dict[str, Any]] = {}
    for row in (row for segment in rows for row in segment.values()):
        for document in ("input", "output"):
            for item in cast("list[dict[str, Any]]", row.documents.get(document) or []):
                if item["id"] in wanted:
                    found[item["id"]] = item
    return found
