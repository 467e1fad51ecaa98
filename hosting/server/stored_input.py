"""What a request takes from storage: the items that it refers to, and what came before it; no more than the settings allow."""

from collections.abc import Collection, Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from hosting.read_budget import ReadBudget, ReadTooLarge, read_at_most
from hosting.responses import ApiError, CreateRequest, item_references, resolve_references
from hosting.state import PreviousResponseNotFound, PreviousResponseUnfinished, Turn, Turns
from hosting.state.items import find_items, json_size

__all__ = ["TOO_LONG", "begun_after", "history_limit", "referenced_items", "with_referenced_items"]

TOO_LONG = "The conversation is too long to be continued."
"""What a response fails with when that shows only in its run."""

type Item = dict[str, Any]


@contextmanager
def history_limit(limit: int) -> Generator[ReadBudget]:
    """Allow `limit` bytes to be read in all. Raises ApiError 400 for more."""
    budget = None
    try:
        with read_at_most(limit) as budget:
            yield budget
    except ReadTooLarge as error:
        if error.budget is not budget:
            raise
        raise ApiError.context_too_long(limit) from None


async def begun_after(turns: Turns, previous: str | None, **options: Any) -> Turn:
    """A turn after the response `previous`, or a new one; `options` of Turns.begin. Raises ApiError 400."""
    try:
        return await turns.begin(previous, **{"history": False, "session": False, **options})
    except PreviousResponseNotFound:
        raise ApiError.previous_response_not_found(previous or "") from None
    except PreviousResponseUnfinished:
        raise ApiError.invalid_value(
            "previous_response_id", "The previous response is still running. Wait until it has ended."
        ) from None


async def referenced_items(turns: Turns, wanted: Collection[str], *, longest: int) -> dict[str, Item]:
    """The stored items with these ids, as far as there are any. Raises ApiError 400 when they are longer than a body may be
    that has the items themselves: `longest`, in bytes."""
    found = await find_items(turns, wanted)
    if sum(map(json_size, found.values())) > longest:
        raise ApiError.context_too_long(longest)
    return found


async def with_referenced_items(turns: Turns, request: CreateRequest, *, longest: int) -> CreateRequest:
    """Put the items themselves in the place of references. Raises ApiError 400 for one that is not found, and as above."""
    wanted = item_references(request.input_items)
    if not wanted:
        return request
    found = await referenced_items(turns, wanted, longest=longest)
    for identifier in wanted:
        if identifier not in found:
            raise ApiError.reference_not_found(identifier)
    return replace(request, input_items=tuple(resolve_references(request.input_items, found)))
