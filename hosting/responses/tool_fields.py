"""What a request says about tools and the form of the answer: `tools`, `tool_choice`, `text`."""

import re
from typing import Any

from hosting.responses.errors import InvalidRequest
from hosting.responses.fields import Fields

__all__ = ["parse_text", "parse_tool_choice", "parse_tools"]

type Json = dict[str, Any]

_MODES = ("none", "auto", "required")
_FORMATS = ("text", "json_object", "json_schema")
_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_NAME_LENGTH, _FORMAT_NAME_LENGTH = 128, 64
_MOST_TOOLS = 128
"""As many as the API takes. agent-framework compares each with all before it: 9,000 of them would hold up the process for 20
seconds, 40,000 for minutes."""


def parse_tools(body: Fields) -> tuple[Json, ...]:
    """The declared tools as they are, checked as far as this server uses them.

    A tool must be an object with a type, functions and custom tools need a name, and no two functions have the same. Types
    that we don't know pass: Codex declares `namespace` and `web_search` to every agent, whether the agent cares or not.
    """
    tools: list[Json] = []
    names: set[str] = set()
    given = body.array("tools") or []
    if len(given) > _MOST_TOOLS:
        raise InvalidRequest.array_too_long("tools", _MOST_TOOLS, len(given))
    for index, value in enumerate(given):
        tool = Fields(value, f"tools[{index}]")
        kind = tool.required_string("type")
        if kind == "custom":
            _name(tool)
        if kind == "function":
            name = _name(tool)
            if name in names:
                raise InvalidRequest(
                    f"Duplicate tool name: '{name}'. Tool names must be unique.",
                    param=tool.path("name"),
                    code="invalid_value",
                )
            names.add(name)
            tool.string("description")
            tool.object("parameters")
            tool.boolean("strict")
        tools.append(value)
    return tuple(tools)


def _name(named: Fields, longest: int = _NAME_LENGTH) -> str:
    """The `name` of a tool or a format. Models refuse others, and by then a turn has begun.

    Calls in `input` are not looked at like this: an agent's own tools, and those of other models, have names as they like, and
    what came out as an item must go in again.
    """
    name = named.required_string("name", max_length=longest)
    if _NAME.fullmatch(name) is None:
        param = named.path("name")
        raise InvalidRequest(
            f"Invalid '{param}': string does not match pattern. Expected a string that matches the pattern "
            f"'^{_NAME.pattern}$'.",
            param=param,
            code="invalid_value",
        )
    return name


def parse_tool_choice(body: Fields) -> str | Json:
    """A mode, or the object form of one; `auto` when absent."""
    value = body.value("tool_choice")
    if value is None:
        return "auto"
    if isinstance(value, str):
        return body.one_of("tool_choice", _MODES) or "auto"
    choice = body.nested("tool_choice")
    assert choice is not None
    match choice.required_string("type"):
        case "function" | "custom":
            _name(choice)
        case "allowed_tools":
            if choice.one_of("mode", _MODES[1:]) is None:
                raise InvalidRequest.missing(choice.path("mode"))
            tools = choice.array("tools")
            if tools is None:
                raise InvalidRequest.missing(choice.path("tools"))
            if len(tools) > _MOST_TOOLS:
                raise InvalidRequest.array_too_long(choice.path("tools"), _MOST_TOOLS, len(tools))
            for index, tool in enumerate(tools):
                allowed = Fields(tool, f"{choice.path('tools')}[{index}]")
                if allowed.required_string("type") in ("function", "custom"):
                    _name(allowed)
        case _:
            pass
    return value


def parse_text(body: Fields) -> Json | None:
    """`text` with its `format` checked; None when absent."""
    text = body.nested("text")
    if text is None:
        return None
    text.one_of("verbosity", ("low", "medium", "high"))
    format = text.nested("format")
    if format is not None:
        format.required_string("type")
        if format.one_of("type", _FORMATS) == "json_schema":
            _name(format, _FORMAT_NAME_LENGTH)
            format.boolean("strict")
            format.string("description")
            if format.object("schema") is None:
                raise InvalidRequest.missing(format.path("schema"))
    given = body.object("text") or {}
    return {name: given[name] for name in ("format", "verbosity") if name in given}
