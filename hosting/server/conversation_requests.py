"""The bodies of requests about conversations, checked. Whatever a body holds, only an InvalidRequest comes out."""

from typing import Any, NoReturn, cast

from hosting.responses import InvalidRequest, normalize_input, parse_metadata
from hosting.responses.fields import Fields
from hosting.server.parsed_body import parse_body

__all__ = ["parse_conversation", "parse_items", "parse_metadata_update"]

_ITEMS = 20
"""The most items that a request may add (OpenAI's limit)."""

type Item = dict[str, Any]


def parse_conversation(raw: bytes) -> tuple[dict[str, str], list[Item]]:
    """Metadata and first items of a new conversation; the body may be empty."""
    body = Fields(parse_body(raw) if raw.strip() else {})
    return parse_metadata(body), _items(body)


def parse_metadata_update(raw: bytes) -> dict[str, str]:
    """The new metadata; null clears it."""
    value = parse_body(raw)
    body = Fields(value)
    if "metadata" not in cast("dict[str, Any]", value):
        raise InvalidRequest.missing("metadata")
    return parse_metadata(body)


def parse_items(raw: bytes) -> list[Item]:
    """The items to add, in their normal form, references not resolved. None at all is no error: then there is nothing to do."""
    body = Fields(parse_body(raw))
    if not body.has("items"):
        raise InvalidRequest.missing("items")
    return _items(body)


def _items(body: Fields) -> list[Item]:
    items = body.array("items") or []
    if len(items) > _ITEMS:
        raise InvalidRequest.array_too_long("items", _ITEMS, len(items))
    try:
        return normalize_input(items)
    except InvalidRequest as error:
        _raise_for_items(error)


def _raise_for_items(error: InvalidRequest) -> NoReturn:
    """The same error, which names the path below `items` instead of `input`."""
    if error.param is None:
        raise error
    param = "items" + error.param.removeprefix("input")
    message = error.message.replace(f"'{error.param}'", f"'{param}'")
    raise InvalidRequest(message, param=param, code=error.code) from None
