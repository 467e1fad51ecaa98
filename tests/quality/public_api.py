"""The public surface of `hosting` as text: one line a name, sorted, the same in every run.

    python -m tests.quality.public_api        writes tests/quality/public_api.txt anew, after a change that is meant

Public is what a package of `hosting` lists in `__all__`, and so do the modules beside the packages and those in `_MODULES`.
Annotations are written without the modules of their names, so that a dependency may move its classes.
"""

import dataclasses
import enum
import functools
import importlib
import inspect
import pkgutil
import re
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hosting

__all__ = ["SNAPSHOT", "describe"]

SNAPSHOT = Path(__file__).with_name("public_api.txt")

_MODULES = ("hosting.functions.app_object", "hosting.server.invocations")
"""Modules inside packages whose names apps use, although no package lists them."""


def describe() -> str:
    """The whole surface."""
    return "\n".join(line for name in _public_modules() for line in (*_module(name), ""))


def _public_modules() -> list[str]:
    found: set[str] = set(_MODULES)
    for info in pkgutil.walk_packages(hosting.__path__, "hosting."):
        if info.ispkg or info.name.count(".") == 1:
            found.add(info.name)
    named = [name for name in found if not any(part.startswith("_") for part in name.split("."))]
    return sorted(name for name in named if getattr(importlib.import_module(name), "__all__", None))


def _module(name: str) -> Iterator[str]:
    module = importlib.import_module(name)
    yield name
    for member in sorted(module.__all__):
        yield from _member(member, getattr(module, member))


def _member(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, typing.TypeAliasType):
        parameters = f"[{', '.join(map(str, value.__type_params__))}]" if value.__type_params__ else ""
        yield f"  type {name}{parameters} = {_annotation(value.__value__)}"
    elif inspect.isclass(value):
        yield from _class(name, value)
    elif callable(value):
        yield f"  {_callable(name, value)}"
    else:
        constant = isinstance(value, str | int | float | tuple | bytes | frozenset)
        yield f"  {name}: {type(value).__name__}{f' = {_value(value)}' if constant else ''}"


def _class(name: str, cls: type) -> Iterator[str]:
    bases = [_unqualified(base.__name__) for base in cls.__bases__ if base not in (object, typing.Generic)]
    yield f"  class {name}{f'({", ".join(bases)})' if bases else ''}"
    if issubclass(cls, enum.Enum):
        for member in cls:
            yield f"    {member.name} = {_value(member.value)}"
        return
    if typing.is_typeddict(cls) or hasattr(cls, "_fields"):  # the latter has every named tuple
        for field, annotation in cls.__annotations__.items():
            yield f"    {field}: {_annotation(annotation)}"
    if dataclasses.is_dataclass(cls):
        for field in dataclasses.fields(cls):
            if not field.name.startswith("_"):
                yield f"    {field.name}: {_annotation(field.type)}{_default(field)}"
    elif (fields := getattr(cls, "model_fields", None)) is not None:
        for field, info in sorted(fields.items()):
            yield f"    {field}: {_annotation(info.annotation)} = {_value(info.get_default())} ({info.alias or field})"
    elif "__init__" in vars(cls) and not getattr(cls, "_is_protocol", False):
        yield f"    {_callable('__init__', cls.__init__)}"
    for member in sorted({member for base in _own(cls) for member in vars(base) if not member.startswith("_")}):
        value = inspect.getattr_static(cls, member)
        if isinstance(value, staticmethod | classmethod):
            yield f"    {type(value).__name__} {_callable(member, value.__func__)}"
        elif isinstance(value, property):
            yield f"    property {member} -> {_annotation(_returned(value.fget))}"
        elif inspect.isfunction(value):
            yield f"    {_callable(member, value)}"


def _own(cls: type) -> list[type]:
    """The class, and the bases of this project that have no entry of their own."""
    bases = [base for base in cls.__mro__[1:] if base.__module__.partition(".")[0] == "hosting"]
    return [cls, *(base for base in bases if base not in _public_classes())]


@functools.cache
def _public_classes() -> frozenset[type]:
    modules = [importlib.import_module(name) for name in _public_modules()]
    values = [getattr(module, name) for module in modules for name in module.__all__]
    return frozenset(value for value in values if inspect.isclass(value))


def _returned(getter: Any) -> Any:
    return inspect.signature(getter).return_annotation


def _callable(name: str, function: Any) -> str:
    kind = "async def" if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function) else "def"
    return f"{kind} {name}{_signature(function)}"


def _signature(function: Any) -> str:
    try:
        signature = inspect.signature(function)
    except ValueError:
        return "(...)"
    shown: list[str] = []
    before: Any = None
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and before not in (
            parameter.KEYWORD_ONLY,
            parameter.VAR_POSITIONAL,
        ):
            shown.append("*")
        if before is parameter.POSITIONAL_ONLY and parameter.kind is not before:
            shown.append("/")
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        text = stars + parameter.name
        if parameter.annotation is not parameter.empty:
            text += f": {_annotation(parameter.annotation)}"
        if parameter.default is not parameter.empty:
            text += f" = {_value(parameter.default)}"
        shown.append(text)
        before = parameter.kind
    returned = signature.return_annotation
    arrow = "" if returned is signature.empty else f" -> {_annotation(returned)}"
    return f"({', '.join(shown)}){arrow}"


def _default(field: "dataclasses.Field[Any]") -> str:
    if field.default_factory is not dataclasses.MISSING:
        return f" = {getattr(field.default_factory, '__name__', 'made')}()"
    return "" if field.default is dataclasses.MISSING else f" = {_value(field.default)}"


def _annotation(annotation: Any) -> str:
    if annotation is None:
        return "None"
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"ForwardRef\('([^']*)'[^)]*\)", r"\1", text)
    return _unqualified(text.replace("NoneType", "None"))


def _unqualified(text: str) -> str:
    return re.sub(r"\b(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])", "", text)


def _value(value: Any) -> str:
    """A default as text that is the same in every process."""
    if isinstance(value, frozenset | set):
        return f"{type(value).__name__}({{{', '.join(sorted(map(repr, value)))}}})"
    if isinstance(value, types.FunctionType | types.BuiltinFunctionType | type):
        return value.__name__
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    return re.sub(r" (?:object )?at 0x[0-9a-f]+", "", repr(value))


if __name__ == "__main__":
    SNAPSHOT.write_text(describe())
    print(f"{SNAPSHOT} written")
