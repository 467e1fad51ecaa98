"""Names of tools: letters, digits, `_` and `-`. Models refuse others, after the turn has begun."""

from typing import Any

import pytest

from hosting.responses import InvalidRequest, parse_create_request

type Json = dict[str, Any]

WRONG = ["get weather", "get.weather", "wetter/heute", "größe", "a\n", "\x00", "٣", "a" * 100 + "!"]

PLACES: dict[str, tuple[str, Any]] = {
    "tools[0].name": ("tools", lambda name: [{"type": "function", "name": name}]),
    "tools[1].name": ("tools", lambda name: [{"type": "web_search"}, {"type": "custom", "name": name}]),
    "tool_choice.name": ("tool_choice", lambda name: {"type": "function", "name": name}),
    "tool_choice.tools[0].name": (
        "tool_choice",
        lambda name: {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": name}]},
    ),
    "text.format.name": ("text", lambda name: {"format": {"type": "json_schema", "name": name, "schema": {}}}),
}


def refused(body: Json) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse_create_request({"input": "hi", **body})
    return caught.value


@pytest.mark.parametrize("param", PLACES)
@pytest.mark.parametrize("name", WRONG, ids=ascii)
def test_a_name_with_other_letters_is_refused_where_it_stands(param: str, name: str) -> None:
    field, make = PLACES[param]
    longest = 64 if field == "text" else 128
    error = refused({field: make(name)})
    code = "invalid_value" if len(name) <= longest else "string_above_max_length"
    assert (error.param, error.code) == (param, code)
    if code == "invalid_value":
        assert "'^[a-zA-Z0-9_-]+$'" in error.message
    assert len(error.message) < 300


@pytest.mark.parametrize("param", PLACES)
def test_a_name_can_be_as_long_as_the_limit_and_no_longer(param: str) -> None:
    field, make = PLACES[param]
    longest = 64 if field == "text" else 128
    name = ("aZ09_-" * 30)[:longest]
    parse_create_request({"input": "hi", field: make(name)})
    assert refused({field: make(name + "a")}).code == "string_above_max_length"


@pytest.mark.parametrize("kind", ["function", "custom"])
def test_a_choice_and_a_list_of_choices_need_names(kind: str) -> None:
    assert refused({"tool_choice": {"type": kind, "name": "a b"}}).param == "tool_choice.name"
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": kind}]}
    assert refused({"tool_choice": allowed}).param == "tool_choice.tools[0].name"
    assert refused({"tools": [{"type": kind}]}).code == "missing_required_parameter"


def test_no_more_tools_can_be_allowed_than_declared() -> None:
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "a"}] * 129}
    error = refused({"tool_choice": allowed})
    assert (error.param, error.code) == ("tool_choice.tools", "array_above_max_length")


def test_tools_that_this_server_does_not_look_into_have_names_as_they_like() -> None:
    tools = [{"type": "namespace", "name": "a b", "tools": []}, {"type": "mcp", "server_label": "my server"}]
    choice = {"type": "mcp", "server_label": "my server", "name": "get.weather"}
    assert len(parse_create_request({"input": "hi", "tools": tools, "tool_choice": choice}).tools) == 2


@pytest.mark.parametrize("name", WRONG, ids=ascii)
def test_calls_of_the_past_keep_their_names(name: str) -> None:
    """An agent's own tools, and those of other models, are named as they like; what came out must go in again."""
    items = [
        {"type": "function_call", "call_id": "call_1", "name": name, "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "sunny"},
        {"type": "custom_tool_call", "call_id": "call_2", "name": name, "input": ""},
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": "sunny"},
    ]
    request = parse_create_request({"input": items})
    assert [item["name"] for item in request.input_items if "name" in item] == [name, name]
