"""The list of items that a response was made from: those of the turns before it, then its own input."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from hosting.ids import parse_id
from hosting.responses import ApiError
from hosting.state import StoredResponse, Turns
from hosting.state.items import ItemPage, turn_items
from hosting.state.lineage import Place, places

__all__ = ["Page", "list_input_items", "parse_page"]

type Item = dict[str, Any]


class Page:
    """`limit`, `order` and `after` of a list request, as OpenAI defines them."""

    def __init__(self, limit: int, descending: bool, after: str | None) -> None:
        self.limit = limit
        self.descending = descending
        self.after = after


def parse_page(query: Mapping[str, Sequence[str]]) -> Page:
    """Raises ApiError 400 for a limit outside 1 to 100 or another order than asc and desc."""
    limit, order, after = (query.get(name, [default])[-1] for name, default in _DEFAULTS)
    if not (limit.isascii() and limit.isdigit() and len(limit) <= 9 and 1 <= int(limit) <= 100):
        raise ApiError.invalid_value(
            "limit", f"Invalid 'limit': expected an integer from 1 to 100, got '{limit[:40]}'."
        )
    if order not in ("asc", "desc"):
        raise ApiError.invalid_value("order", f"Invalid 'order': expected 'asc' or 'desc', got '{order[:40]}'.")
    return Page(int(limit), order == "desc", after or None)


_DEFAULTS = (("limit", "20"), ("order", "desc"), ("after", ""))


async def list_input_items(turns: Turns, stored: StoredResponse, query: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """One page, in OpenAI's list form. Raises ApiError 400 when `after` is no item of the list, and StorageError."""
    page = parse_page(query)
    order = [*places(stored.before), stored.place]
    if page.descending:
        order.reverse()
    seen = page.after is None
    if page.after is not None and (parsed := parse_id(page.after)) is not None:
        # An id of ours says which turn it is in: what lies before that turn need not be read.
        at = next((i for i, place in enumerate(order) if (place.chain, place.turn) == (parsed.chain, parsed.turn)), 0)
        order = order[at:]
    listed = ItemPage(page.limit)
    async with aclosing(_items(turns, stored, order, page.descending)) as items:
        async for item in items:
            if not seen:
                seen = item["id"] == page.after
            elif not listed.add(item):
                break
    if not seen:
        raise ApiError.invalid_value(
            "after", f"Invalid 'after': no item with id '{(page.after or '')[:80]}' in this list."
        )
    data = listed.items
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": listed.has_more,
    }


async def _items(
    turns: Turns, stored: StoredResponse, order: Sequence[Place], descending: bool
) -> AsyncGenerator[Item]:
    if stored.input is not None:  # its own are in its row: it has no place in the log yet
        order = [place for place in order if place != stored.place]
        if descending:
            for item in reversed(stored.input):
                yield item
    async with aclosing(turn_items(turns, order)) as found:
        async for place, given, made, _ in found:
            items = given if place == stored.place else [*given, *made]
            for item in reversed(items) if descending else items:
                yield item
    if stored.input is not None and not descending:
        for item in stored.input:
            yield item
