"""A workflow's checkpoint as JSON and back. Whatever can't come back is refused when it is written.

agent-framework's own encoding pickles what JSON can't hold. Its allowlist for reading is no boundary, as it says itself: a
pickle that names allowed types only can build a function out of code and call it. Here nothing that is read is called. An
object is a name from the allowlist and its attributes, which are put into an empty instance: neither `__init__` nor any
other code of the checkpoint's choice runs, and no module is imported.

JSON values, lists, and dicts with text keys stand for themselves; all else is an object with the key `$`, which says what
it is. Objects that are shared come back as copies.
"""

import math
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import GenericAlias, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin

from agent_framework import WorkflowCheckpoint
from agent_framework.exceptions import WorkflowCheckpointException

from hosting.state.checkpoint_objects import object_state, restored_object
from hosting.state.checkpoint_types import CheckpointTypeRefused, CheckpointTypes, is_plain
from hosting.state.checkpoint_values import LEAVES, LEAVES_BY_TAG

__all__ = ["decode_checkpoint", "encode_checkpoint"]

_TAG = "$"
_MAX_DEPTH = 150
"""Deepest nesting. A value that contains itself has no end."""

_SEQUENCES: dict[type, str] = {tuple: "tuple", set: "set", frozenset: "frozenset"}
_MAPPINGS: dict[type, str] = {dict: "dict", OrderedDict: "ordered", Counter: "counter"}
_SEQUENCES_BY_TAG = {tag: kind for kind, tag in _SEQUENCES.items()}
_MAPPINGS_BY_TAG = {tag: kind for kind, tag in _MAPPINGS.items()}

_TEXT_AND_NUMBERS: tuple[Any, ...] = (str, int, float)

type Json = dict[str, Any]


def encode_checkpoint(checkpoint: WorkflowCheckpoint, types: CheckpointTypes) -> Json:
    """The checkpoint as a JSON object. Raises WorkflowCheckpointException, with the path of the value, for one that can't
    be restored: of a type that is not allowed, of one that has its own way of being pickled, or without an end.
    """
    return {name: _Encoder(types).value(value, f"checkpoint.{name}", 0) for name, value in checkpoint.to_dict().items()}


def decode_checkpoint(document: object, types: CheckpointTypes) -> WorkflowCheckpoint:
    """The checkpoint of a JSON object. Raises WorkflowCheckpointException for one that names a type that is not allowed,
    or that no checkpoint was written to.
    """
    if not isinstance(document, dict):
        raise WorkflowCheckpointException("not a stored checkpoint")
    decoder = _Decoder(types)
    try:
        fields = {name: decoder.value(value, 0) for name, value in cast("Json", document).items()}
    except WorkflowCheckpointException:
        raise
    except Exception as error:  # forms that `encode_checkpoint` does not write can be wrong in any way
        raise WorkflowCheckpointException(f"the stored checkpoint is damaged: {type(error).__name__}") from error
    return WorkflowCheckpoint.from_dict(fields)


class _Encoder:
    def __init__(self, types: CheckpointTypes) -> None:
        self._types = types

    def value(self, value: Any, path: str, depth: int) -> Any:
        """Any value."""
        kind = cast("type[Any]", type(value))
        if value is None or kind is str or kind is bool or kind is int:
            return value
        if kind is float and math.isfinite(value):
            return value
        if depth > _MAX_DEPTH:
            raise WorkflowCheckpointException(f"{path[:200]}... is nested too deeply, or contains itself")
        if kind is list:
            return self._items(value, path, depth)
        if kind is dict and _is_plain(value):
            return {key: self.value(item, f"{path}.{key}", depth + 1) for key, item in value.items()}
        if (leaf := LEAVES.get(kind)) is not None:
            return {_TAG: leaf.tag, "value": leaf.dump(value)}
        if kind in _SEQUENCES:
            return {_TAG: _SEQUENCES[kind], "items": self._items(value, path, depth)}
        if kind is deque:
            return {_TAG: "deque", "items": self._items(value, path, depth), "maxlen": value.maxlen}
        if kind in _MAPPINGS:
            return {_TAG: _MAPPINGS[kind], "items": self._pairs(value, path, depth)}
        if kind is defaultdict:
            factory = self.value(value.default_factory, f"{path}.default_factory", depth + 1)
            return {_TAG: "defaultdict", "factory": factory, "items": self._pairs(value, path, depth)}
        if isinstance(value, type) or value is Any or get_origin(value) is not None:
            return self._type(value, path, depth)
        return self._object(value, kind, path, depth)

    def _items(self, values: Iterable[Any], path: str, depth: int) -> list[Any]:
        return [self.value(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(values)]

    def _pairs(self, values: Mapping[Any, Any], path: str, depth: int) -> list[Any]:
        return [
            [self.value(key, f"{path} (key)", depth + 1), self.value(item, f"{path}[{key!r}]", depth + 1)]
            for key, item in values.items()
        ]

    def _type(self, value: Any, path: str, depth: int) -> Json:
        """A type, as the expected type of an answer is one."""
        if value is Any:
            return {_TAG: "any"}
        origin = get_origin(value)
        if origin is None:
            return {_TAG: "type", "name": self._name(value, path)}
        if origin is Literal:
            return {_TAG: "literal", "args": self._items(get_args(value), path, depth)}
        args = [{_TAG: "..."} if arg is ... else self._type(arg, path, depth + 1) for arg in get_args(value)]
        if origin is Union or origin is UnionType:
            return {_TAG: "union", "args": args}
        return {_TAG: "generic", "origin": self._name(origin, path), "args": args}

    def _object(self, value: Any, kind: type[Any], path: str, depth: int) -> Any:
        if isinstance(value, Enum):
            if value.name not in kind.__members__:  # several flags in one
                return {
                    _TAG: "flags",
                    "type": self._name(kind, path),
                    "value": self.value(value.value, path, depth + 1),
                }
            return {_TAG: "enum", "type": self._name(kind, path), "name": value.name}
        for base in _TEXT_AND_NUMBERS:  # a kind of text or number of the app's own: what JSON would make of it
            if isinstance(value, base):
                return self.value(base.__new__(base, value), path, depth)
        if is_plain(kind):
            raise WorkflowCheckpointException(f"{path}: {value!r} can't be stored in a checkpoint")
        name = self._name(kind, path)
        if isinstance(value, tuple):
            return {_TAG: "namedtuple", "type": name, "items": self._items(cast("Iterable[Any]", value), path, depth)}
        try:
            state = object_state(value)
        except TypeError as error:
            raise WorkflowCheckpointException(f"{path}: {error}") from error
        return {_TAG: "object", "type": name, "state": self.value(state, path, depth + 1)}

    def _name(self, kind: Any, path: str) -> str:
        if not isinstance(kind, type):
            raise WorkflowCheckpointException(f"{path}: {kind!r} can't be stored in a checkpoint")
        try:
            return self._types.name_of(kind)
        except CheckpointTypeRefused as error:
            raise CheckpointTypeRefused(f"{path}: {error}", error.type_name) from None


class _Decoder:
    def __init__(self, types: CheckpointTypes) -> None:
        self._types = types

    def value(self, value: Any, depth: int) -> Any:
        """Any value. Raises anything for what the encoder does not write."""
        if depth > _MAX_DEPTH + 2:
            raise WorkflowCheckpointException("the stored checkpoint is nested too deeply")
        if isinstance(value, list):
            return self._items(value, depth)
        if not isinstance(value, dict):
            return value
        stored = cast("Json", value)
        if _TAG not in stored:
            return {key: self.value(item, depth + 1) for key, item in stored.items()}
        return self._tagged(cast("str", stored[_TAG]), stored, depth)

    def _items(self, values: Any, depth: int) -> list[Any]:
        return [self.value(item, depth + 1) for item in _listed(values)]

    def _pairs(self, values: Any, depth: int) -> list[tuple[Any, Any]]:
        return [(self.value(key, depth + 1), self.value(item, depth + 1)) for key, item in _listed(values)]

    def _tagged(self, tag: str, stored: Json, depth: int) -> Any:
        if (leaf := LEAVES_BY_TAG.get(tag)) is not None:
            return leaf.load(stored["value"])
        if (sequence := _SEQUENCES_BY_TAG.get(tag)) is not None:
            return sequence(self._items(stored["items"], depth))
        if (mapping := _MAPPINGS_BY_TAG.get(tag)) is not None:
            return (
                mapping(self._pairs(stored["items"], depth)) if mapping is not Counter else self._counter(stored, depth)
            )
        match tag:
            case "deque":
                return deque(self._items(stored["items"], depth), stored["maxlen"])
            case "defaultdict":
                factory = self.value(stored["factory"], depth + 1)
                if factory is not None and factory not in (list, dict, set, int, str, float, tuple, bool):
                    raise WorkflowCheckpointException(
                        "the stored checkpoint has a defaultdict of a type that is not allowed"
                    )
                return defaultdict(cast("Callable[[], Any] | None", factory), self._pairs(stored["items"], depth))
            case "enum":
                return self._enum(stored)[stored["name"]]
            case "flags":
                return self._enum(stored)(self.value(stored["value"], depth + 1))
            case "namedtuple":
                return self._named_tuple(stored, depth)
            case "object":
                kind = self._types.named(stored["type"])
                if is_plain(kind):
                    raise WorkflowCheckpointException(f"{kind.__name__} is stored in another form")
                return restored_object(kind, self.value(stored["state"], depth + 1))
            case _:
                return self._type(tag, stored, depth)

    def _type(self, tag: str, stored: Json, depth: int) -> Any:
        if depth > _MAX_DEPTH + 2:
            raise WorkflowCheckpointException("the stored checkpoint is nested too deeply")
        match tag:
            case "any":
                return Any
            case "...":
                return ...
            case "type":
                return self._types.named(stored["name"])
            case "literal":
                return Literal[tuple(self._items(stored["args"], depth))]  # pyright: ignore[reportInvalidTypeForm]
            case "union":
                return Union[self._type_arguments(stored, depth)]  # noqa: UP007
            case "generic":
                return GenericAlias(self._types.named(stored["origin"]), self._type_arguments(stored, depth))
            case _:
                raise WorkflowCheckpointException(
                    f"the stored checkpoint has a value of the kind {tag!r}, which is unknown"
                )

    def _type_arguments(self, stored: Json, depth: int) -> tuple[Any, ...]:
        # Types only. A text in the place of one is a forward reference, which whoever resolves it evaluates as code.
        return tuple(self._type(arg[_TAG], arg, depth + 1) for arg in _listed(stored["args"]))

    def _enum(self, stored: Json) -> Any:
        kind = self._types.named(stored["type"])
        if not issubclass(kind, Enum):
            raise WorkflowCheckpointException(f"{kind.__name__} is no enum")
        return kind

    def _named_tuple(self, stored: Json, depth: int) -> Any:
        kind: type[Any] = self._types.named(stored["type"])
        if not issubclass(kind, tuple):
            raise WorkflowCheckpointException(f"{kind.__name__} is no tuple")
        make: Any = tuple.__new__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return make(kind, self._items(stored["items"], depth))

    def _counter(self, stored: Json, depth: int) -> Any:
        return Counter[Any](dict(self._pairs(stored["items"], depth)))


def _is_plain(value: dict[Any, Any]) -> bool:
    return _TAG not in value and all(type(key) is str for key in value)


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise WorkflowCheckpointException("the stored checkpoint is damaged: a list is missing")
    return cast("list[Any]", value)
