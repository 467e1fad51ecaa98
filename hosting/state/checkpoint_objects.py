"""Objects of allowed types as their attributes, and back: into an empty instance, whose `__init__` is not called."""

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, cast

__all__ = ["object_state", "restored_object"]

type State = dict[str, Any]

_MODEL = "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__"


def object_state(value: object) -> State:
    """The attributes of a dataclass, a pydantic model, or an object without a way of its own of being pickled, unless that is
    a pair of `__getstate__` and `__setstate__`. Raises TypeError for anything else.
    """
    kind = cast("type[Any]", type(value))
    if kind.__reduce__ is not object.__reduce__ or kind.__reduce_ex__ is not object.__reduce_ex__:
        raise TypeError(f"{kind.__name__} has its own way of being pickled, which a checkpoint can't use")
    _check_empty_instance(kind)
    if _is_model(kind):
        model: Any = value
        values: State = {"values": dict(cast("State", vars(model)))}
        return values | {name.strip("_"): getattr(model, name) for name in _MODEL}
    if _has_own_hooks(kind):
        own: Any = cast("Any", value).__getstate__()
        if not isinstance(own, dict):
            raise TypeError(f"{kind.__name__}.__getstate__ gives no dict")
        return cast("State", own)
    state: State = dict(getattr(value, "__dict__", {}))
    return state | {name: getattr(value, name) for name in _slots(kind) if hasattr(value, name)}


def restored_object(kind: type[Any], state: object) -> Any:
    """An instance of `kind` with these attributes. Fields that its class has got since are at their defaults; those that it
    has lost do no harm. Raises ValueError or TypeError for a state that is none of it.
    """
    if not isinstance(state, dict):
        raise TypeError("a state is a dict")
    attributes = cast("State", state)
    if _is_model(kind):
        return _restored_model(kind, attributes)
    if issubclass(kind, Enum):
        raise TypeError(f"{kind.__name__} is stored in another form")
    _check_names(kind, attributes)
    instance = _empty(kind)
    if _has_own_hooks(kind):
        cast("Any", instance).__setstate__(attributes)
        return instance
    for name, value in attributes.items():
        if hasattr(instance, "__dict__") or name in _slots(kind):
            object.__setattr__(instance, name, value)
    if is_dataclass(kind):
        for field in fields(kind):
            if field.init and field.name not in attributes:
                object.__setattr__(instance, field.name, _default(kind, field))
    return instance


def _check_names(kind: type[Any], attributes: Iterable[str]) -> None:
    """Raises ValueError for `__class__` and its kind, and for an attribute that would stand in the way of a method."""
    declared = _field_names(kind)
    for name in attributes:
        if name.startswith("__") or (name not in declared and callable(getattr(kind, name, None))):
            raise ValueError(f"{kind.__name__} has no attribute {name}")


def _restored_model(kind: type[Any], state: State) -> Any:
    values: State = state["values"]
    known: Mapping[str, Any] = _model_fields(kind)
    for name, field in known.items():
        if name not in values and not field.is_required():
            values[name] = field.get_default(call_default_factory=True, validated_data=values)
    _check_names(kind, values)
    if missing := [name for name in known if name not in values]:
        raise ValueError(f"{kind.__name__} has the field {missing[0]} without a value")
    instance = _empty(kind)
    object.__setattr__(instance, "__dict__", values)
    for name in _MODEL:
        object.__setattr__(instance, name, state[name.strip("_")])
    return instance


def _default(kind: type[Any], field: "Field[Any]") -> Any:
    if field.default is not MISSING:
        return field.default
    if field.default_factory is not MISSING:
        return field.default_factory()
    raise ValueError(f"{kind.__name__} has the field {field.name} without a value")


def _empty(kind: type[Any]) -> object:
    return object.__new__(kind)


@cache
def _check_empty_instance(kind: type) -> None:
    """Raises TypeError for a type whose instances are more than their attributes: of dict, of an exception, abstract ones."""
    _empty(kind)


@cache
def _is_model(kind: type) -> bool:
    return hasattr(kind, "__pydantic_fields__") and hasattr(kind, "model_validate")


@cache
def _has_own_hooks(kind: type) -> bool:
    # A frozen dataclass with slots is given a pair of hooks by the decorator; its fields are all there is.
    getstate: Any = kind.__getstate__
    own = getstate is not object.__getstate__ and getattr(getstate, "__name__", "") != "_dataclass_getstate"
    return own and hasattr(kind, "__setstate__")


@cache
def _field_names(kind: type) -> frozenset[str]:
    if _is_model(kind):
        return frozenset(_model_fields(kind))
    return frozenset(field.name for field in fields(kind)) if is_dataclass(kind) else frozenset()


def _model_fields(kind: Any) -> Mapping[str, Any]:
    return kind.__pydantic_fields__


@cache
def _slots(kind: type) -> frozenset[str]:
    names: set[str] = set()
    for base in kind.__mro__:
        slots: Any = vars(base).get("__slots__", ())
        names.update((slots,) if isinstance(slots, str) else slots)
    return frozenset(names - {"__dict__", "__weakref__"})
