import contextlib
from typing import Any

import pytest
from hypothesis import given, settings

from hosting.responses import InvalidRequest, create_response_id, parse_create_request, stored_input_items
from tests.unit.responses_json import BODIES, FIELDS, JSON


def refused(**body: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse_create_request({"input": "hi", **body})
    return caught.value


def test_the_smallest_request_has_every_default() -> None:
    request = parse_create_request({"input": "hi"})
    assert (request.model, request.stream, request.background, request.store) == (None, False, False, True)
    assert (request.tool_choice, request.metadata, request.tools, request.include) == ("auto", {}, (), ())


def test_explicit_nulls_are_absent_fields() -> None:
    body = {"input": "hi"} | dict.fromkeys(FIELDS)
    assert parse_create_request(body) == parse_create_request({"input": "hi"})


def test_empty_values_are_values() -> None:
    body = {"input": "hi", "tools": [], "include": [], "metadata": {}, "text": {}, "reasoning": {}}
    request = parse_create_request(body)
    assert (request.text, request.reasoning) == ({}, {})


def test_unknown_fields_are_ignored() -> None:
    body = {"input": "hi", "client_metadata": {"x": 1}, "additional_function_arguments": {"user_id": "admin"}}
    assert parse_create_request(body) == parse_create_request({"input": "hi"})


@pytest.mark.parametrize("body", [None, [], "text", 1, True])
def test_a_body_that_is_no_object_is_refused(body: object) -> None:
    with pytest.raises(InvalidRequest, match="must be a JSON object"):
        parse_create_request(body)


@pytest.mark.parametrize("value", ["false", "true", 0, 1, {}])
def test_stream_must_be_a_bool(value: object) -> None:
    error = refused(stream=value)
    assert (error.code, error.param) == ("invalid_type", "stream")


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("temperature", 2.1, "decimal_above_max_value"),
        ("temperature", -0.1, "decimal_below_min_value"),
        ("temperature", "hot", "invalid_type"),
        ("temperature", True, "invalid_type"),
        ("temperature", float("nan"), "decimal_below_min_value"),
        ("top_p", 1.5, "decimal_above_max_value"),
        ("top_logprobs", 21, "integer_above_max_value"),
        ("max_output_tokens", 15, "integer_below_min_value"),
        ("max_output_tokens", 1.5, "invalid_type"),
        ("max_tool_calls", -1, "integer_below_min_value"),
        ("truncation", "sometimes", "invalid_value"),
        ("service_tier", "platinum", "invalid_value"),
        ("instructions", 5, "invalid_type"),
        ("model", ["m"], "invalid_type"),
        ("include", "reasoning.encrypted_content", "invalid_type"),
        ("include", [1], "invalid_type"),
        ("include", ["reasoning.encrypted_content", "secrets"], "invalid_value"),
        ("prompt_cache_key", "x" * 65, "string_above_max_length"),
        ("prompt_cache_options", {"prewarm": True}, "unsupported_parameter"),
        ("prompt_cache_options", {"prewarm": "yes"}, "invalid_type"),
        ("metadata", {"k": 1}, "invalid_type"),
        ("metadata", {"k": None}, "invalid_type"),
        ("metadata", {"k" * 65: "v"}, "string_above_max_length"),
        ("metadata", {"k": "v" * 513}, "string_above_max_length"),
        ("metadata", {str(i): "" for i in range(17)}, "object_above_max_properties"),
        ("safety_identifier", "x" * 129, "string_above_max_length"),
        ("text", {"format": {"type": "yaml"}}, "invalid_value"),
        ("text", {"format": {}}, "missing_required_parameter"),
        ("text", {"format": {"type": "json_schema", "schema": {}}}, "missing_required_parameter"),
        ("text", {"format": {"type": "json_schema", "name": "x"}}, "missing_required_parameter"),
        ("text", {"verbosity": "chatty"}, "invalid_value"),
        ("reasoning", {"effort": 3}, "invalid_type"),
        ("tools", {}, "invalid_type"),
        ("tools", ["weather"], "invalid_type"),
        ("tools", [{}], "missing_required_parameter"),
        ("tools", [{"type": "function"}], "missing_required_parameter"),
        ("tools", [{"type": "function", "name": ""}], "missing_required_parameter"),
        ("tools", [{"type": "function", "name": "a", "parameters": []}], "invalid_type"),
        ("tools", [{"type": "function", "name": "a"}, {"type": "function", "name": "a"}], "invalid_value"),
        ("tool_choice", "maybe", "invalid_value"),
        ("tool_choice", 1, "invalid_type"),
        ("tool_choice", {"type": "function"}, "missing_required_parameter"),
        ("tool_choice", {"type": "allowed_tools", "mode": "auto"}, "missing_required_parameter"),
        ("tool_choice", {"type": "allowed_tools", "mode": "none", "tools": []}, "invalid_value"),
        ("previous_response_id", 5, "invalid_type"),
        ("previous_response_id", "abc", "invalid_value"),
        ("previous_response_id", "", "invalid_value"),
        ("conversation", "abc", "invalid_value"),
        ("conversation", {}, "missing_required_parameter"),
        ("conversation", 5, "invalid_type"),
        ("stream_options", {"include_obfuscation": False}, "invalid_value"),
        ("prompt", {}, "missing_required_parameter"),
    ],
)
def test_each_field_is_checked_and_named(field: str, value: object, code: str) -> None:
    error = refused(**{field: value})
    assert error.code == code
    assert error.param is not None
    assert error.param.startswith(field)


def test_a_number_of_thousands_of_digits_is_refused_without_printing_it() -> None:
    assert refused(max_output_tokens=-(10**10_000)).code == "integer_below_min_value"


def test_limits_themselves_are_allowed() -> None:
    request = parse_create_request(
        {
            "input": "hi",
            "temperature": 2,
            "top_p": 0,
            "top_logprobs": 20,
            "max_output_tokens": 16,
            "prompt_cache_key": "x" * 64,
            "metadata": {str(i) * 32: "v" * 512 for i in range(10, 26)},
        }
    )
    assert len(request.metadata) == 16


def test_a_previous_response_and_a_conversation_exclude_each_other() -> None:
    error = refused(previous_response_id="resp_1", conversation="conv_1")
    assert (error.status, error.param) == (400, "previous_response_id")


def test_a_conversation_is_an_id_or_an_object_with_one() -> None:
    assert parse_create_request({"input": "hi", "conversation": "conv_1"}).conversation_id == "conv_1"
    assert parse_create_request({"input": "hi", "conversation": {"id": "conv_1"}}).conversation_id == "conv_1"


def test_background_needs_storage() -> None:
    error = refused(background=True, store=False)
    assert (error.code, error.param) == ("unsupported_parameter", "background")


def test_stream_options_go_with_a_stream() -> None:
    body = {"input": "hi", "stream": True, "stream_options": {"include_obfuscation": False}}
    assert parse_create_request(body).stream_options == {"include_obfuscation": False}


def test_a_missing_input_is_named() -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_create_request({})
    assert (caught.value.code, caught.value.param) == ("missing_required_parameter", "input")


def test_a_prompt_stands_in_for_the_input() -> None:
    assert parse_create_request({"prompt": {"id": "pmpt_1"}}).input_items == ()


@pytest.mark.parametrize("value", ["", [], [{"role": "user", "content": ""}], [{"role": "user", "content": []}]])
def test_an_input_with_nothing_in_it_needs_something_to_continue(value: object) -> None:
    with pytest.raises(InvalidRequest, match="non-empty"):
        parse_create_request({"input": value})
    parse_create_request({"input": value, "previous_response_id": "resp_1"})


@pytest.mark.parametrize("value", [5, True, {}, 1.5])
def test_an_input_of_another_type_is_refused(value: object) -> None:
    error = refused(input=value)
    assert (error.code, error.param) == ("invalid_type", "input")


def test_tools_of_unknown_types_pass() -> None:
    tools = [{"type": "namespace", "name": "x", "tools": []}, {"type": "web_search"}]
    assert parse_create_request({"input": "hi", "tools": tools}).client_tools == frozenset()


def test_the_clients_functions_are_known_by_name() -> None:
    tools = [{"type": "function", "name": "a"}, {"type": "custom", "name": "b"}]
    assert parse_create_request({"input": "hi", "tools": tools}).client_tools == {"a"}


def test_a_request_survives_the_way_through_a_body() -> None:
    request = parse_create_request(
        {
            "input": [{"role": "user", "content": "hi"}, {"type": "reasoning", "id": "rs_1", "summary": []}],
            "conversation": "conv_1",
            "tools": [{"type": "function", "name": "a"}],
            "metadata": {"a": "b"},
            "include": ["reasoning.encrypted_content"],
            "temperature": 0,
            "stream": True,
        }
    )
    assert parse_create_request(request.to_body()) == request


def test_deep_nesting_is_a_400_and_no_recursion_error() -> None:
    deep: Any = {}
    for _ in range(5000):
        deep = {"a": deep}
    error = refused(text=deep)
    assert error.status == 400


def test_a_huge_array_is_fine() -> None:
    request = parse_create_request({"input": [{"role": "user", "content": "x"}] * 20_000})
    assert len(request.input_items) == 20_000


@settings(max_examples=100, deadline=None)
@given(BODIES | JSON)
def test_whatever_the_json_only_an_invalid_request_comes_out(body: object) -> None:
    with contextlib.suppress(InvalidRequest):
        request = parse_create_request(body)
        items = stored_input_items(request, create_response_id())
        assert all("id" in item for item in items)
        assert parse_create_request(request.to_body()) == request
