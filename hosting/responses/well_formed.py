"""Text and values that every JSON parser and the storage services take, out of whatever an agent hands over.

Python strings can hold halves of surrogate pairs, which UTF-8 can't; its floats NaN and infinity, which JSON can't.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Any, cast

__all__ = ["well_formed", "well_formed_json"]


def well_formed(text: str) -> str:
    """`text` with halves that belong together joined, and others replaced by U+FFFD. Mostly `text` itself.

    A client makes a half by cutting a string inside an emoji, a model by streaming an emoji in two pieces.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def well_formed_json(value: object) -> Any:
    """A copy of `value` that is JSON: texts well formed, numbers finite (others become null), other objects as text."""
    try:
        return _copy(value)
    except RecursionError:  # a list that contains itself
        return None


def _copy(value: object) -> Any:
    if isinstance(value, str):
        return well_formed(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, Mapping):
        entries = cast("Mapping[object, object]", value)
        return {well_formed(str(key)): _copy(entry) for key, entry in entries.items()}
    if isinstance(value, (list, tuple)):
        return [_copy(entry) for entry in cast("list[object]", value)]
    return well_formed(str(value))
