"""Where an item of a conversation is, and the items one after the other.

An id of our grammar says which turn its item is in. For any other id a row of its own says it; only where a turn brought more
of those than a transaction takes (`Conversation.scattered`), the log is read.
"""

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from itertools import batched
from typing import Any, cast

from hosting.gather import gather_all
from hosting.ids import parse_id
from hosting.state.conversation_row import Conversation, ItemNotFound, foreign_ids
from hosting.state.conversation_table import ConversationTable, row_items
from hosting.state.items import ItemPage, turn_items
from hosting.state.lineage import MAIN, Place
from hosting.state.turns import Turns
from hosting.storage import Entity, keys

__all__ = ["ConversationItems"]

_PLACES = 1_000
"""Positions of the log that are listed at a time (they are read in smaller blocks)."""

_AT_ONCE = 16
"""Turns that are looked into at a time: what is too much should be noticed before all of it is on its way."""

_LOOK_UPS = 50
"""Ids that are looked up one by one; for more of them the rows of all ids are read at once."""

type Item = dict[str, Any]


class ConversationItems:
    """The items in the log of a conversation. Every method may raise StorageError."""

    def __init__(self, table: ConversationTable) -> None:
        self._table = table
        self._turns = Turns(table.store, table.scope)

    async def row_of(self, conversation: Conversation, item_id: str) -> Entity | None:
        """The row of the turn that an item is in, with all its documents; None when there is no such item.

        A point read for an id of our grammar, two for another one. `conversation` is settled.
        """
        chain, parsed = conversation.chain, parse_id(item_id)
        if parsed is not None and parsed.chain == chain:
            row = await self._row(chain, parsed.turn)
            if _has(row, item_id):
                return row
        position = await self._indexed(chain, item_id)
        if position is not None:
            row = await self._row(chain, position)
            if _has(row, item_id):
                return row
        if conversation.scattered:
            async with aclosing(self.turns(conversation, conversation.next - 1, descending=True)) as found:
                async for position, items in found:
                    if any(item["id"] == item_id for item in items):
                        return await self._row(chain, position)
        return None

    async def item(self, conversation: Conversation, item_id: str) -> Item:
        """An item by its id. Raises ItemNotFound."""
        row = await self.row_of(conversation, item_id)
        if row is None:
            raise ItemNotFound(item_id)
        return next(item for item in row_items(row) if item["id"] == item_id)

    async def present(self, chain: str, ids: Iterable[str]) -> frozenset[str]:
        """Which of the ids have an item in the conversation of this chain. One round trip; see `scattered` for the rest."""
        wanted = dict.fromkeys(ids)
        turns: dict[int, set[str]] = {}
        for identifier in wanted:
            if (parsed := parse_id(identifier)) is not None and parsed.chain == chain:
                turns.setdefault(parsed.turn, set()).add(identifier)
        native, indexed = await gather_all(self._native(chain, list(turns)), self._present_rows(chain, list(wanted)))
        return frozenset(identifier for identifier in wanted if identifier in indexed or identifier in native)

    async def scattered(self, conversation: Conversation, ids: Iterable[str]) -> frozenset[str]:
        """The same for what only the log can tell. Costs nothing for a conversation that is not scattered."""
        wanted = set(ids)
        found: set[str] = set()
        if conversation.scattered and wanted:
            async with aclosing(self.turns(conversation, 0, descending=False)) as turns:
                async for _, items in turns:
                    found |= wanted & {item["id"] for item in items}
        return frozenset(found)

    async def page(
        self, conversation: Conversation, after: str | None, *, descending: bool, limit: int
    ) -> tuple[list[Item], bool]:
        """At most `limit` items behind the item `after`, fewer large ones, and whether there are more. Reads no more of the
        log than it needs.

        When the item `after` was deleted since (clients delete what they list, page by page), its id may still say which turn
        it was in; then the list goes on with what is left of that turn. Raises ItemNotFound for any other unknown id.
        """
        start = conversation.next - 1 if descending else 0
        if after is not None:
            start = await self._position(conversation, after)
        page = ItemPage(limit)
        async with aclosing(self.turns(conversation, start, descending=descending)) as turns:
            async for position, items in turns:
                if descending:
                    items.reverse()
                if after is not None and position == start:
                    ids = [item["id"] for item in items]
                    items = items[ids.index(after) + 1 :] if after in ids else items
                if not await self._add(page, conversation.chain, position, items):
                    break
        return page.items, page.has_more

    async def _add(self, page: ItemPage, chain: str, position: int, items: Sequence[Item]) -> bool:
        """Put the items of a turn on the page; False when it has ended.

        Turns that wait in a row may bring an item under the same id, which nobody can know when they are accepted. It is
        listed in the last of them, where its row says it is: who goes on behind that id must not come back to it.
        """
        for some in batched(items, _AT_ONCE, strict=False):
            foreign = foreign_ids(chain, position, some)
            places = await gather_all(*(self._indexed(chain, identifier) for identifier in foreign))
            found = zip(foreign, places, strict=True)
            elsewhere = {identifier for identifier, place in found if place not in (None, position)}
            if not all(page.add(item) for item in some if item["id"] not in elsewhere):
                return False
        return True

    async def turns(
        self, conversation: Conversation, start: int, *, descending: bool
    ) -> AsyncGenerator[tuple[int, list[Item]]]:
        """Position and items of the turns from `start` on, in either direction, read in blocks."""
        step, end = (-1, -1) if descending else (1, conversation.next)
        positions = range(start, end, step)
        for first in range(0, len(positions), _PLACES):
            places = [Place(conversation.chain, MAIN, position) for position in positions[first : first + _PLACES]]
            async with aclosing(turn_items(self._turns, places)) as found:
                async for place, given, made, _ in found:
                    yield place.turn, [*given, *made]

    async def _position(self, conversation: Conversation, item_id: str) -> int:
        parsed = parse_id(item_id)
        if parsed is not None and parsed.chain == conversation.chain and parsed.turn < conversation.next:
            position = await self._indexed(conversation.chain, item_id)
            return parsed.turn if position is None else position
        row = await self.row_of(conversation, item_id)
        if row is None:
            raise ItemNotFound(item_id)
        return keys.turn_position(row.row)

    async def _row(self, chain: str, position: int) -> Entity | None:
        return await self._table.store.get(self._table.partition(chain), keys.turn_row(MAIN, position))

    async def _native(self, chain: str, positions: Sequence[int]) -> set[str]:
        """The ids of all items of these turns."""
        found: set[str] = set()
        for batch in batched(positions, _AT_ONCE, strict=False):
            rows = await gather_all(*(self._row(chain, position) for position in batch))
            found |= {item["id"] for row in rows if row is not None for item in row_items(row)}
        return found

    async def _indexed(self, chain: str, item_id: str) -> int | None:
        found = await self._table.store.get(self._table.partition(chain), keys.item_row(item_id), documents=())
        return None if found is None else int(cast("int", found.fields["position"]))

    async def _present_rows(self, chain: str, ids: list[str]) -> set[str]:
        partition, rows = self._table.partition(chain), {keys.item_row(identifier): identifier for identifier in ids}
        if len(rows) > _LOOK_UPS:
            found = await self._table.store.query(partition, *keys.item_range(), documents=())
        else:
            reads = (self._table.store.get(partition, row, documents=()) for row in rows)
            found = [row for row in await gather_all(*reads) if row is not None]
        return {rows[row.row] for row in found if row.row in rows}


def _has(row: Entity | None, item_id: str) -> bool:
    return row is not None and any(item["id"] == item_id for item in row_items(row))
