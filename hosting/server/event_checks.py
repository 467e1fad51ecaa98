"""Checks of single events. What comes through is plain JSON that nobody else holds."""

import json
from collections.abc import Mapping
from typing import Any, cast

from hosting.responses import Item
from hosting.responses.well_formed import well_formed

__all__ = [
    "TERMINAL",
    "HandlerFault",
    "Json",
    "checked_index",
    "checked_item",
    "checked_response",
    "event_type",
    "plain_event",
]

type Json = dict[str, Any]

TERMINAL = {"response.completed": "completed", "response.failed": "failed", "response.incomplete": "incomplete"}
"""Event type to the status that it brings."""

_FLAT = frozenset({str, int, bool, type(None)})
_INDEXES = ("content_index", "summary_index")


class HandlerFault(Exception):
    """The handler broke the contract. The text is for the log of the server, not for clients."""


def event_type(event: object) -> str:
    """The type of an event. Raises HandlerFault for what is no event."""
    if not isinstance(event, Mapping):
        raise HandlerFault(f"an event is a dict, not {type(event).__name__}")
    kind = cast("Mapping[str, object]", event).get("type")
    if not isinstance(kind, str) or not kind:
        raise HandlerFault("an event needs a type")
    return kind


def plain_event(event: Mapping[str, Any]) -> Json:
    """A copy of the event. Deltas come by the thousand and are mostly flat: those are copied without a look inside."""
    copy = dict(event)
    for value in event.values():
        if type(value) not in _FLAT and not (type(value) is list and not value):
            copy = _plain(copy, copy["type"])
            break
    for name in _INDEXES:
        if not isinstance(copy.get(name, 0), int):
            raise HandlerFault(f"{copy['type']} with a {name} that is no integer")
    kind = cast("str", copy["type"])
    if kind.startswith("response.") and kind.endswith(".delta") and not isinstance(copy.get("delta"), str):
        raise HandlerFault(f"{copy['type']} with a delta that is no string")
    return copy


def checked_response(event: Mapping[str, Any]) -> Json:
    """The response that a lifecycle event carries."""
    response = event.get("response")
    if not isinstance(response, Mapping):
        raise HandlerFault(f"{event['type']} without a response")
    return _plain(cast("Mapping[str, Any]", response), event["type"])


def checked_item(event: Mapping[str, Any]) -> Item:
    """The item of an added or done event: it needs an id and a type."""
    item = event.get("item")
    if not isinstance(item, Mapping):
        raise HandlerFault(f"{event['type']} without an item")
    plain = _plain(cast("Mapping[str, Any]", item), event["type"])
    for name in ("id", "type"):
        if not isinstance(plain.get(name), str) or not plain[name]:
            raise HandlerFault(f"{event['type']}: an item needs an id and a type")
    return plain


def checked_index(event: Mapping[str, Any]) -> int:
    """The output index of an item event."""
    index = event.get("output_index")
    if not isinstance(index, int) or isinstance(index, bool) or index < 0:
        raise HandlerFault(f"{event['type']} with the output_index {index!r}")
    return index


def _plain(value: Mapping[str, Any], where: str) -> Json:
    try:
        text = json.dumps(value if isinstance(value, dict) else dict(value), ensure_ascii=False, allow_nan=False)
        return json.loads(well_formed(text))
    except (TypeError, ValueError, RecursionError) as error:
        raise HandlerFault(f"{where} holds something that is no JSON: {error}") from None
