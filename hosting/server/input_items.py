"""The list of items that a response was made from: those of the turns before it, then its own input.

Clients go on behind the id of the last item they have. So an id is in the list once, although clients may send an item again
that an earlier turn has, under the same id, or refer to it: else they would go round for ever.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from hosting.ids import parse_id
from hosting.read_budget import charge
from hosting.server.item_list import PageRequest, list_object, no_such_item, parse_page_request
from hosting.state import StoredResponse, Turns
from hosting.state.items import ItemPage, turn_items
from hosting.state.lineage import Place, Segment, places

__all__ = ["list_input_items"]

type Item = dict[str, Any]


_REMEMBERED = 100
"""Bytes that remembering an id takes, besides its characters."""


async def list_input_items(turns: Turns, stored: StoredResponse, query: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """One page, in OpenAI's list form. Raises ApiError 400 when `after` is no item of the list, and StorageError."""
    page = parse_page_request(query)
    order = [*places(stored.before), stored.place]
    if page.descending:
        order.reverse()
    # An id of ours says which turn it is in: what lies before that turn need not be read.
    home = _home_of(page.after)
    at = next((i for i, place in enumerate(order) if _home(place) == home), 0)
    listed = await _page(turns, stored, order, page, at)
    if listed is None and at:
        listed = await _page(turns, stored, order, page, 0)
    if listed is None:
        raise no_such_item(page)
    return list_object(listed.items, has_more=listed.has_more)


def _home(place: Place) -> tuple[str, int]:
    return place.chain, place.turn


def _home_of(identifier: str | None) -> tuple[str, int] | None:
    """The turn that an item was made in, as its id says."""
    parsed = parse_id(identifier) if identifier is not None else None
    return None if parsed is None else (parsed.chain, parsed.turn)


async def _page(
    turns: Turns, stored: StoredResponse, order: Sequence[Place], page: PageRequest, at: int
) -> ItemPage | None:
    """The page, by the turns from number `at` on; None when the item to go on behind is not there, or when it takes the turns
    before `at` to tell whether an item has been in the list."""
    homes, strangers = _Homes(turns, order), set[str]()
    listed, after = ItemPage(page.limit), page.after
    async with aclosing(_items(turns, stored, order[at:], page.descending)) as items:
        async for place, item in items:
            identifier: str = item["id"]
            home = _home_of(identifier)
            if home != _home(place):
                if identifier in strangers or await homes.has(home):
                    continue  # it is listed where it was made, or where it came first
                if at and after is None:
                    return None
                charge(_REMEMBERED + len(identifier))
                strangers.add(identifier)
            if after is not None:
                after = None if identifier == after else after
            elif not listed.add(item):
                break
    return listed if after is None else None


class _Homes:
    """The turns that a list is made of, by what the ids of their items say."""

    def __init__(self, turns: Turns, order: Sequence[Place]) -> None:
        self._turns, self._places = turns, {_home(place): place for place in order}
        self._there: dict[Place, bool] = {}

    async def has(self, home: tuple[str, int] | None) -> bool:
        """Whether the items of a turn are in the list. Those of a deleted one are not: later turns keep their own copies. A
        point read for each turn that is asked about."""
        if home is None or (place := self._places.get(home)) is None:
            return False
        if place not in self._there:
            row = (await self._turns.items(Segment(place.chain, place.log, place.turn, place.turn))).get(place)
            self._there[place] = row is None or not row.fields.get("deleted")
        return self._there[place]


async def _items(
    turns: Turns, stored: StoredResponse, order: Sequence[Place], descending: bool
) -> AsyncGenerator[tuple[Place, Item]]:
    if stored.input is not None:  # its own are in its row: it has no place in the log yet
        order = [place for place in order if place != stored.place]
        if descending:
            for item in reversed(stored.input):
                yield stored.place, item
    async with aclosing(turn_items(turns, order)) as found:
        async for place, given, made, _ in found:
            items = given if place == stored.place else [*given, *made]
            for item in reversed(items) if descending else items:
                yield place, item
    if stored.input is not None and not descending:
        for item in stored.input:
            yield stored.place, item
