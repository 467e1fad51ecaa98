"""Lists of items as OpenAI pages them: what a request asks for, and the list object that answers it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hosting.responses import ApiError

__all__ = ["PageRequest", "list_object", "no_such_item", "parse_page_request"]

_DEFAULTS = (("limit", "20"), ("order", "desc"), ("after", ""))


@dataclass(frozen=True, slots=True)
class PageRequest:
    """`limit`, `order` and `after` of a list request, as OpenAI defines them."""

    limit: int
    descending: bool
    after: str | None
    """The id of the item behind which the page begins."""


def parse_page_request(query: Mapping[str, Sequence[str]]) -> PageRequest:
    """Raises ApiError 400 for a limit outside 1 to 100 or another order than asc and desc."""
    limit, order, after = (query.get(name, [default])[-1] for name, default in _DEFAULTS)
    if not (limit.isascii() and limit.isdigit() and len(limit) <= 9 and 1 <= int(limit) <= 100):
        raise ApiError.invalid_value(
            "limit", f"Invalid 'limit': expected an integer from 1 to 100, got '{limit[:40]}'."
        )
    if order not in ("asc", "desc"):
        raise ApiError.invalid_value("order", f"Invalid 'order': expected 'asc' or 'desc', got '{order[:40]}'.")
    return PageRequest(int(limit), order == "desc", after or None)


def no_such_item(page: PageRequest) -> ApiError:
    """400: `after` is no item of the list."""
    return ApiError.invalid_value(
        "after", f"Invalid 'after': no item with id '{(page.after or '')[:80]}' in this list."
    )


def list_object(items: Sequence[dict[str, Any]], *, has_more: bool) -> dict[str, Any]:
    """The list object of one page."""
    return {
        "object": "list",
        "data": list(items),
        "first_id": items[0]["id"] if items else None,
        "last_id": items[-1]["id"] if items else None,
        "has_more": has_more,
    }
