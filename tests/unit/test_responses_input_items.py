from typing import Any

import pytest

from hosting.ids import parse_id
from hosting.responses import (
    InvalidRequest,
    create_response_id,
    item_references,
    normalize_input,
    parse_create_request,
    resolve_references,
    stored_input_items,
)
from tests.unit.responses_checks import check_input_items

PNG = "data:image/png;base64,iVBORw0KGgo="


def one(item: object) -> dict[str, Any]:
    [normalized] = normalize_input([item])
    return normalized


def refused(item: object) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        normalize_input([item])
    return caught.value


def test_a_string_is_one_user_message_with_a_text_part() -> None:
    [item] = normalize_input("hi")
    assert item == {
        "type": "message",
        "role": "user",
        "status": "completed",
        "content": [{"type": "input_text", "text": "hi"}],
    }


def test_a_message_may_come_without_type_and_with_a_string() -> None:
    assert one({"role": "developer", "content": "x"})["content"] == [{"type": "input_text", "text": "x"}]


def test_assistant_content_is_output_text_with_annotations_and_logprobs() -> None:
    expected = [{"type": "output_text", "text": "x", "annotations": [], "logprobs": []}]
    for content in ("x", [{"type": "output_text", "text": "x"}], [{"type": "text", "text": "x", "annotations": None}]):
        assert one({"role": "assistant", "content": content})["content"] == expected


def test_nulls_that_model_dump_leaves_are_dropped() -> None:
    item = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": None,
        "encrypted_content": None,
        "status": None,
    }
    assert one(item) == {"type": "reasoning", "id": "rs_1", "summary": []}


def test_ids_of_the_client_are_kept_and_others_are_made() -> None:
    response = create_response_id()
    items = [{"role": "user", "content": "a", "id": "msg_codex-1"}, {"role": "user", "content": "b"}]
    first, second = stored_input_items(parse_create_request({"input": items}), response)
    made, owner = parse_id(second["id"], "msg"), parse_id(response)
    assert first["id"] == "msg_codex-1"
    assert made is not None
    assert owner is not None
    assert made.chain == owner.chain


def test_stored_items_are_what_openais_types_list() -> None:
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": PNG}]},
        {"role": "assistant", "content": "b"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "r"}]},
        {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "ok"},
        {"type": "function_call_output", "call_id": "call_2", "output": [{"type": "input_text", "text": "ok"}]},
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
        {"type": "custom_tool_call_output", "call_id": "call_3", "output": "ok", "status": "completed"},
    ]
    stored = stored_input_items(parse_create_request({"input": items}), create_response_id())
    assert len(stored) == len(items)
    check_input_items(stored)


def test_a_phase_is_kept() -> None:
    assert one({"role": "assistant", "content": "x", "phase": "commentary"})["phase"] == "commentary"


def test_loose_parts_make_one_user_message_per_run() -> None:
    items = normalize_input(
        [
            {"type": "input_text", "text": "a"},
            {"type": "input_image", "image_url": PNG},
            {"role": "user", "content": "b"},
            {"type": "output_text", "text": "c"},
        ]
    )
    assert [[part["type"] for part in item["content"]] for item in items] == [
        ["input_text", "input_image"],
        ["input_text"],
        ["input_text"],
    ]


@pytest.mark.parametrize(
    ("item", "param", "code"),
    [
        ("text", "input[0]", "invalid_type"),
        (None, "input[0]", "invalid_type"),
        ({}, "input[0].type", "missing_required_parameter"),
        ({"type": "novel"}, "input[0].type", "invalid_value"),
        ({"type": 5}, "input[0].type", "invalid_type"),
        ({"type": "message", "content": "x"}, "input[0].role", "missing_required_parameter"),
        ({"role": "tool", "content": "x"}, "input[0].role", "invalid_value"),
        ({"role": "user"}, "input[0].content", "missing_required_parameter"),
        ({"role": "user", "content": 5}, "input[0].content", "invalid_type"),
        ({"role": "user", "content": ["x"]}, "input[0].content[0]", "invalid_type"),
        ({"role": "user", "content": [{}]}, "input[0].content[0].type", "missing_required_parameter"),
        (
            {"role": "user", "content": [{"type": "input_text"}]},
            "input[0].content[0].text",
            "missing_required_parameter",
        ),
        (
            {"role": "user", "content": [{"type": "output_text", "text": ""}]},
            "input[0].content[0].type",
            "invalid_value",
        ),
        (
            {"role": "user", "content": [{"type": "refusal", "refusal": ""}]},
            "input[0].content[0].type",
            "invalid_value",
        ),
        (
            {"role": "assistant", "content": [{"type": "input_image", "image_url": PNG}]},
            "input[0].content[0].type",
            "invalid_value",
        ),
        ({"type": "function_call", "name": "f", "arguments": ""}, "input[0].call_id", "missing_required_parameter"),
        ({"type": "function_call", "call_id": "c", "name": "f", "arguments": {}}, "input[0].arguments", "invalid_type"),
        ({"type": "function_call_output", "output": ""}, "input[0].call_id", "missing_required_parameter"),
        ({"type": "function_call_output", "call_id": "c"}, "input[0].output", "missing_required_parameter"),
        ({"type": "function_call_output", "call_id": "c", "output": {}}, "input[0].output", "invalid_type"),
        ({"type": "reasoning", "summary": [{"text": 5}]}, "input[0].summary[0].text", "invalid_type"),
        ({"type": "item_reference"}, "input[0].id", "missing_required_parameter"),
        (
            {"type": "mcp_approval_response", "approval_request_id": "a"},
            "input[0].approve",
            "missing_required_parameter",
        ),
        ({"role": "user", "content": "x", "id": 5}, "input[0].id", "invalid_type"),
        ({"role": "user", "content": "x", "id": "x" * 513}, "input[0].id", "string_above_max_length"),
    ],
)
def test_what_is_wrong_with_an_item_is_named_by_its_path(item: object, param: str, code: str) -> None:
    error = refused(item)
    assert (error.param, error.code) == (param, code)


def test_the_same_id_twice_is_refused() -> None:
    item = {"role": "user", "content": "x", "id": "msg_1"}
    with pytest.raises(InvalidRequest, match="Duplicate item found with id msg_1"):
        normalize_input([item, item])


@pytest.mark.parametrize("reference", [{"id": "msg_1"}, {"type": "item_reference", "id": "msg_1"}])
def test_an_item_reference_with_or_without_type_is_resolved(reference: dict[str, Any]) -> None:
    items = normalize_input([reference, {"role": "user", "content": "x"}])
    stored = {"type": "message", "id": "msg_1", "role": "user", "content": []}
    assert item_references(items) == ["msg_1"]
    assert resolve_references(items, {"msg_1": stored})[0] is stored


def test_a_reference_to_nothing_is_a_400() -> None:
    with pytest.raises(InvalidRequest, match="Item with id 'msg_1' not found"):
        resolve_references(normalize_input([{"id": "msg_1"}]), {})


def test_an_image_without_detail_gets_the_default() -> None:
    assert one({"role": "user", "content": [{"type": "input_image", "image_url": PNG}]})["content"] == [
        {"type": "input_image", "detail": "auto", "image_url": PNG}
    ]


def test_file_data_may_be_bare_base64_and_takes_its_type_from_the_name() -> None:
    part = {"type": "input_file", "file_data": "JVBERi0=", "filename": "a.pdf"}
    content = one({"role": "user", "content": [part]})["content"]
    assert content[0]["file_data"] == "data:application/pdf;base64,JVBERi0="


def test_a_data_uri_under_file_url_is_the_files_data() -> None:
    part = {"type": "input_file", "file_url": "data:text/plain;base64,aGk="}
    assert one({"role": "user", "content": [part]})["content"] == [
        {"type": "input_file", "file_data": "data:text/plain;base64,aGk="}
    ]


@pytest.mark.parametrize("part", [{"type": "input_image"}, {"type": "input_file", "filename": "a.pdf"}])
def test_an_image_or_file_without_any_source_is_refused(part: dict[str, Any]) -> None:
    assert refused({"role": "user", "content": [part]}).code == "missing_required_parameter"


def test_input_audio_is_accepted() -> None:
    part = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
    assert one({"role": "user", "content": [part]})["content"] == [part]
