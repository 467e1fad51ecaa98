"""Typed values to JSON and back.

What a handler gets is always decoded from the JSON that was stored, also in the process that accepted it: a first run and a
recovered one see the same value, and nobody shares an object with the caller. So whatever JSON can't bring back is refused
when it comes in, with its path, instead of changing quietly on the way.
"""

import json
import math
import types
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Union, cast, get_args, get_origin

__all__ = ["Codec", "JSONValue", "json_size", "plain"]

type JSONValue = str | int | float | bool | list["JSONValue"] | dict[str, "JSONValue"] | None

_PLAIN: tuple[Any, ...] = (Any, object, str, int, float, bool, None, type(None), dict, list)
_MAX_DEPTH = 200


def plain(value: object, path: str) -> JSONValue:
    """A copy of `value` made of JSON types only; a tuple becomes a list.

    Raises TypeError, with the path of the offender, for any other type and for a key that is no string, and ValueError
    for NaN, infinities and values nested deeper than 200 levels (a value that contains itself has no end).
    """
    return _plain(value, path, 0)


def _plain(value: object, path: str, depth: int) -> JSONValue:
    if depth > _MAX_DEPTH:
        raise ValueError(f"{path} is nested too deeply, or contains itself")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{path} is {value}, which JSON does not have")
        return float(value)
    if isinstance(value, list | tuple):
        items = cast("list[object]", value)
        return [_plain(item, f"{path}[{n}]", depth + 1) for n, item in enumerate(items)]
    if isinstance(value, Mapping):
        result: dict[str, JSONValue] = {}
        for key, item in cast("Mapping[object, object]", value).items():
            if not isinstance(key, str):
                raise TypeError(f"{path} has the key {key!r}: JSON keys are strings")
            result[str(key)] = _plain(item, f"{path}[{key!r}]", depth + 1)
        return result
    raise TypeError(f"{path} is a {type(value).__name__}, which JSON does not have")


def json_size(value: JSONValue) -> int:
    """Bytes of compact, ASCII-escaped JSON: how the published package counts."""
    return len(json.dumps(value, separators=(",", ":"), allow_nan=False))


class Codec:
    """Values of one annotated type.

    `annotation` gives the type when it is first needed: building a pydantic adapter takes milliseconds that an import
    should not pay, and a string annotation may name something that is defined later.
    """

    def __init__(self, annotation: Callable[[], Any]) -> None:
        self._annotation = annotation

    def encode(self, value: object, path: str) -> JSONValue:
        """JSON from which `decode` makes an equal value.

        Raises TypeError or ValueError, naming the path, when there is none: for a type that JSON can't express, for a
        value that the annotated type refuses, and for one that would lose something (fields of a subclass, keys that a
        TypedDict does not have).
        """
        if self._adapter is None:
            # A model where plain JSON is annotated: its fields, as the published package does.
            dump: Any = getattr(value, "model_dump", None)
            return plain(dump(mode="json") if callable(dump) else value, path)
        document = self._dump(value, path)
        restored = self._dump(self._validate(document, path, TypeError), path)
        if (lost := _lost(document, restored, path)) is not None:
            raise TypeError(f"{lost} would be lost: {self._name} does not bring it back")
        return restored

    def decode(self, document: JSONValue, path: str) -> Any:
        """The value that was encoded. Raises ValueError, naming the path, when the annotated type no longer takes it."""
        if self._adapter is None:
            return document
        return self._validate(document, path, ValueError)

    @cached_property
    def _adapter(self) -> Any:
        annotation = self._annotation()
        if _is_plain(annotation):
            return None
        from pydantic import TypeAdapter

        return TypeAdapter[Any](annotation)

    @property
    def _name(self) -> str:
        annotation = self._annotation()
        return getattr(annotation, "__name__", None) or str(annotation)

    def _dump(self, value: object, path: str) -> JSONValue:
        from pydantic_core import PydanticSerializationError

        try:
            # Subclasses in full, so that what the annotated type would cut off is noticed; names rather than aliases,
            # because a field may read and write different ones.
            dumped: object = self._adapter.dump_python(
                value, mode="json", by_alias=False, round_trip=True, warnings=False, serialize_as_any=True
            )
        except (PydanticSerializationError, RecursionError, ValueError, TypeError) as error:
            raise TypeError(f"{path} can't be written as JSON: {error}") from None
        document = plain(dumped, path)
        if _has_null(document):  # pydantic writes NaN as null
            python = self._adapter.dump_python(value, by_alias=False, warnings=False, serialize_as_any=True)
            _refuse_non_finite(python, path)
        return document

    def _validate(self, document: JSONValue, path: str, error: type[Exception]) -> Any:
        from pydantic import ValidationError

        try:
            # JSON mode, where "2024-01-01" is a date and a list a set, also for strict models.
            return self._adapter.validate_json(json.dumps(document), by_alias=False, by_name=True)
        except ValidationError as invalid:
            faults = invalid.errors(include_url=False, include_input=False)
            where = "".join(f"[{part!r}]" for part in faults[0]["loc"])
            raise error(f"{path}{where}: {faults[0]['msg']} (annotated as {self._name})") from None


def _is_plain(annotation: Any) -> bool:
    """Whether every JSON value of this type is its own decoding."""
    if any(annotation is known for known in _PLAIN):
        return True
    if getattr(annotation, "__name__", "") == "JSONValue":
        return True
    origin = get_origin(annotation)
    if origin in (dict, list, Union, types.UnionType):
        return all(_is_plain(argument) for argument in get_args(annotation))
    return False


def _has_null(value: JSONValue) -> bool:
    if isinstance(value, dict):
        return any(_has_null(item) for item in value.values())
    return any(_has_null(item) for item in value) if isinstance(value, list) else value is None


def _refuse_non_finite(value: object, path: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{path} is {value}, which JSON does not have")
    if isinstance(value, Mapping):
        for key, item in cast("Mapping[object, object]", value).items():
            _refuse_non_finite(item, f"{path}[{key!r}]")
    elif isinstance(value, list | tuple | set | frozenset):
        for n, item in enumerate(cast("list[object]", value)):
            _refuse_non_finite(item, f"{path}[{n}]")


def _lost(before: JSONValue, after: JSONValue, path: str) -> str | None:
    """The path of something in `before` that `after` has not; `after` may have more keys (defaults)."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if key not in after:
                return f"{path}[{key!r}]"
            if (found := _lost(value, after[key], f"{path}[{key!r}]")) is not None:
                return found
        return None
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        found = next(
            (f for n, (a, b) in enumerate(zip(before, after, strict=True)) if (f := _lost(a, b, f"{path}[{n}]"))), None
        )
        return None if found is None or _sorted(before) == _sorted(after) else found  # a set has no order
    same = before == after and isinstance(before, bool) == isinstance(after, bool)
    return None if same else path


def _sorted(items: list[JSONValue]) -> list[str]:
    return sorted(json.dumps(item, sort_keys=True) for item in items)
