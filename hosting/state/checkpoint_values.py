"""Values that JSON has no form for and that are no objects of a class of the app: as text or numbers, and back."""

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

__all__ = ["LEAVES", "LEAVES_BY_TAG", "Leaf"]


@dataclass(frozen=True, slots=True)
class Leaf:
    """How values of exactly one type are stored. `load` raises ValueError or TypeError for what `dump` never gives."""

    tag: str
    dump: Callable[[Any], str | list[int]]
    load: Callable[[Any], Any]


def _from_base64(text: Any) -> bytes:
    return b64decode(text, validate=True)


# An aware datetime comes back with the same offset, not with the rules of its zone.
LEAVES: Mapping[type, Leaf] = {
    bytes: Leaf("bytes", lambda value: b64encode(value).decode(), _from_base64),
    bytearray: Leaf("bytearray", lambda value: b64encode(value).decode(), lambda text: bytearray(_from_base64(text))),
    datetime: Leaf("datetime", datetime.isoformat, datetime.fromisoformat),
    date: Leaf("date", date.isoformat, date.fromisoformat),
    time: Leaf("time", time.isoformat, time.fromisoformat),
    timedelta: Leaf(
        "timedelta",
        lambda value: [value.days, value.seconds, value.microseconds],
        lambda parts: timedelta(days=parts[0], seconds=parts[1], microseconds=parts[2]),
    ),
    Decimal: Leaf("decimal", str, Decimal),
    UUID: Leaf("uuid", str, UUID),
    float: Leaf("float", repr, float),
}
"""By exact type. A float is only stored this way when JSON has no number for it."""

LEAVES_BY_TAG: Mapping[str, Leaf] = {leaf.tag: leaf for leaf in LEAVES.values()}
