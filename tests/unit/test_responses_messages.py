import contextlib
from typing import Any

import pytest
from agent_framework import Content, Message
from hypothesis import given, settings
from hypothesis import strategies as st

from hosting.responses import InvalidRequest, messages_from_items, messages_from_responses_input
from tests.unit.responses_json import ITEMS

PNG = "data:image/png;base64,iVBORw0KGgo="


def one(*items: Any) -> Message:
    [message] = messages_from_responses_input(list(items))
    return message


def content(part: dict[str, Any], role: str = "user") -> Content:
    [made] = one({"role": role, "content": [part]}).contents
    return made


def roles(*items: Any) -> list[tuple[str, list[str]]]:
    messages = messages_from_responses_input(list(items))
    return [(message.role, [c.type for c in message.contents]) for message in messages]


def test_a_string_is_one_user_message() -> None:
    [message] = messages_from_responses_input("hi")
    assert (message.role, message.text) == ("user", "hi")


@pytest.mark.parametrize("value", [None, "", [], [{"role": "user", "content": ""}]])
def test_an_empty_input_is_a_value_error(value: object) -> None:
    with pytest.raises(ValueError, match="non-empty"):
        messages_from_responses_input(value)


def test_empty_parts_beside_others_are_skipped() -> None:
    message = one(
        {"role": "user", "content": [{"type": "input_text", "text": ""}, {"type": "input_text", "text": "x"}]}
    )
    assert [c.text for c in message.contents] == ["x"]


@pytest.mark.parametrize("role", ["user", "assistant", "system", "developer"])
def test_roles_are_kept(role: str) -> None:
    assert one({"role": role, "content": "x"}).role == role


def test_the_id_and_phase_of_a_message_are_kept() -> None:
    message = one({"role": "assistant", "content": "x", "id": "msg_1", "phase": "final_answer"})
    assert message.message_id == "msg_1"
    assert message.additional_properties["openai"] == {"phase": "final_answer"}


def test_a_refusal_keeps_its_mark() -> None:
    refusal = content({"type": "refusal", "refusal": "No."}, "assistant")
    assert refusal.text == "No."
    assert refusal.additional_properties["core"] == {"model_output_kind": "refusal"}


def test_annotations_of_the_history_are_kept() -> None:
    annotation = {"type": "url_citation", "url": "https://e.com", "title": "T", "start_index": 0, "end_index": 1}
    part = {"type": "output_text", "text": "x", "annotations": [annotation]}
    [citation] = content(part, "assistant").annotations or ()
    assert citation == {
        "type": "citation",
        "url": "https://e.com",
        "title": "T",
        "annotated_regions": [{"type": "text_span", "start_index": 0, "end_index": 1}],
    }


def test_an_inline_image_has_the_type_of_its_data() -> None:
    image = content({"type": "input_image", "image_url": PNG, "detail": "high"})
    assert (image.type, image.media_type, image.uri) == ("data", "image/png", PNG)
    assert image.additional_properties["openai"] == {"content_type": "input_image", "image_detail": "high"}


def test_an_image_url_may_come_as_an_object() -> None:
    image = content({"type": "input_image", "image_url": {"url": "https://e.com/a.webp"}})
    assert (image.type, image.media_type) == ("uri", "image/webp")


def test_an_image_by_file_id_is_a_hosted_file_marked_as_image() -> None:
    image = content({"type": "input_image", "file_id": "file_1"})
    assert (image.type, image.file_id) == ("hosted_file", "file_1")
    assert image.additional_properties["openai"]["content_type"] == "input_image"


def test_file_data_is_data_with_the_files_name() -> None:
    file = content({"type": "input_file", "file_data": "JVBERi0=", "filename": "a.pdf"})
    assert (file.type, file.media_type, file.name) == ("data", "application/pdf", "a.pdf")
    assert file.additional_properties["openai"] == {"content_type": "input_file"}


def test_a_file_by_url_or_id() -> None:
    by_url = content({"type": "input_file", "file_url": "https://e.com/a.pdf"})
    by_id = content({"type": "input_file", "file_id": "file_1", "filename": "a.pdf"})
    assert (by_url.type, by_url.media_type) == ("uri", "application/pdf")
    assert (by_id.type, by_id.file_id, by_id.name) == ("hosted_file", "file_1", "a.pdf")


def test_input_audio_is_audio_data() -> None:
    audio = content({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}})
    assert (audio.type, audio.media_type) == ("data", "audio/wav")


def test_parallel_calls_and_their_outputs_make_one_message_each() -> None:
    calls = [{"type": "function_call", "call_id": c, "name": "f", "arguments": "{}", "id": f"fc_{c}"} for c in "ab"]
    outputs = [{"type": "function_call_output", "call_id": c, "output": c} for c in "ab"]
    question = {"role": "user", "content": "q"}
    assert roles(question, *calls, *outputs, question) == [
        ("user", ["text"]),
        ("assistant", ["function_call", "function_call"]),
        ("tool", ["function_result", "function_result"]),
        ("user", ["text"]),
    ]


def test_reasoning_text_and_calls_in_a_row_are_one_assistant_message() -> None:
    assert roles(
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "r"}]},
        {"role": "assistant", "content": "a"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"role": "assistant", "content": "b"},
    ) == [("assistant", ["text_reasoning", "text", "function_call"]), ("assistant", ["text"])]


def test_a_function_call_keeps_its_item_id() -> None:
    [call] = one({"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": '{"a":1}'}).contents
    assert (call.call_id, call.name, call.arguments) == ("c", "f", '{"a":1}')
    assert call.additional_properties["openai"] == {"item_id": "fc_1"}


def test_a_function_output_may_be_text_or_parts() -> None:
    image = {"type": "input_image", "image_url": PNG}
    text = one({"type": "function_call_output", "call_id": "c", "output": "ok"}).contents[0]
    parts = one(
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "see"}, image]}
    ).contents[0]
    assert (text.call_id, text.result) == ("c", "ok")
    assert [item.type for item in parts.items or ()] == ["text", "data"]


def test_reasoning_keeps_summary_raw_text_and_encrypted_content_apart() -> None:
    contents = one(
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "s1"}, {"type": "summary_text", "text": "s2"}],
            "content": [{"type": "reasoning_text", "text": "raw"}],
            "encrypted_content": "enc",
        }
    ).contents
    assert [(c.id, c.text, c.protected_data) for c in contents] == [
        ("rs_1", "s1", "enc"),
        ("rs_1", "s2", None),
        ("rs_1", "raw", None),
    ]
    assert contents[2].additional_properties["openai"] == {"reasoning_text": True}


def test_reasoning_with_nothing_but_encrypted_content_is_kept() -> None:
    [reasoning] = one({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "enc"}).contents
    assert (reasoning.id, reasoning.protected_data) == ("rs_1", "enc")


def test_an_approval_is_the_users_and_names_the_request() -> None:
    message = one({"type": "mcp_approval_response", "approval_request_id": "af-call-1", "approve": False})
    [answer] = message.contents
    assert (message.role, answer.type, answer.id, answer.approved) == (
        "user",
        "function_approval_response",
        "af-call-1",
        False,
    )


def test_a_call_that_the_agent_executed_becomes_a_function_call_with_its_result() -> None:
    item = {"type": "mcp_call", "id": "mcp_1", "server_label": "agent", "name": "add", "arguments": "{}", "output": "3"}
    call, result = messages_from_responses_input([item])
    assert (call.role, call.contents[0].type, call.contents[0].name) == ("assistant", "function_call", "add")
    assert (result.role, result.contents[0].result) == ("tool", "3")
    assert call.contents[0].call_id == result.contents[0].call_id


def test_a_call_of_another_mcp_server_stays_one() -> None:
    item = {"type": "mcp_call", "id": "mcp_1", "server_label": "docs", "name": "f", "arguments": "{}", "output": "3"}
    assert roles(item) == [("assistant", ["mcp_server_tool_call", "mcp_server_tool_result"])]


def test_calls_that_were_cut_off_are_left_out() -> None:
    cut = {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a', "status": "incomplete"}
    mcp = {"type": "mcp_call", "id": "m", "server_label": "agent", "name": "f", "arguments": "", "status": "incomplete"}
    assert roles(cut, mcp, {"role": "user", "content": "x"}) == [("user", ["text"])]


ITEM_TYPES = [
    (
        {"type": "computer_call", "call_id": "c", "id": "cu_1", "actions": [{"type": "screenshot"}]},
        "computer_tool_call",
    ),
    (
        {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot", "image_url": PNG}},
        "computer_tool_result",
    ),
    ({"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": "q"}}, "search_tool_call"),
    ({"type": "file_search_call", "id": "fs_1", "queries": ["q"], "results": [{"text": "t"}]}, "search_tool_call"),
    (
        {"type": "code_interpreter_call", "id": "ci_1", "code": "1", "outputs": [{"type": "logs", "logs": "1"}]},
        "code_interpreter_tool_call",
    ),
    ({"type": "image_generation_call", "id": "ig_1", "result": "iVBORw0KGgo="}, "image_generation_tool_call"),
    ({"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"], "timeout_ms": 5}}, "shell_tool_call"),
    ({"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "x", "stderr": ""}]}, "shell_tool_result"),
    ({"type": "local_shell_call", "call_id": "c", "action": {"command": ["ls"]}}, "shell_tool_call"),
    ({"type": "local_shell_call_output", "id": "lsh_1", "output": "x"}, "shell_tool_result"),
    ({"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "x"}, "function_call"),
    ({"type": "custom_tool_call_output", "call_id": "c", "output": "x"}, "function_result"),
    ({"type": "apply_patch_call", "call_id": "c", "operation": {"type": "delete_file"}}, "function_call"),
    ({"type": "apply_patch_call_output", "call_id": "c", "output": "x"}, "function_result"),
    ({"type": "tool_search_call", "id": "t", "arguments": {}}, "function_call"),
    ({"type": "tool_search_output", "id": "t", "tools": []}, "function_result"),
    (
        {"type": "mcp_approval_request", "id": "a", "server_label": "agent", "name": "f", "arguments": "{}"},
        "function_approval_request",
    ),
]


@pytest.mark.parametrize(
    ("item", "kind"), ITEM_TYPES, ids=lambda value: value["type"] if isinstance(value, dict) else ""
)
def test_every_item_of_a_history_has_its_content(item: dict[str, Any], kind: str) -> None:
    assert one(item).contents[0].type == kind


@pytest.mark.parametrize("kind", ["mcp_list_tools", "additional_tools", "compaction_trigger"])
def test_items_that_tell_a_model_nothing_are_left_out(kind: str) -> None:
    item = {"type": kind, "id": "x_1", "server_label": "docs"}
    assert roles(item, {"role": "user", "content": "x"}) == [("user", ["text"])]


def test_calls_that_nobody_executes_are_marked_so() -> None:
    [call] = one({"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "x"}).contents
    assert call.informational_only


def test_an_unresolved_reference_is_an_invalid_request() -> None:
    with pytest.raises(InvalidRequest, match="Item with id 'msg_1' not found"):
        messages_from_responses_input([{"id": "msg_1"}])


def test_stored_items_of_many_turns_are_messages_in_order() -> None:
    items = [
        {"type": "message", "id": f"msg_{i}", "role": role, "content": [{"type": "input_text", "text": str(i)}]}
        for i, role in enumerate(["user", "assistant"] * 500)
    ]
    assert [message.text for message in messages_from_items(items)] == [str(i) for i in range(1000)]


@settings(max_examples=100, deadline=None)
@given(st.lists(ITEMS, max_size=4))
def test_whatever_the_items_only_an_invalid_request_comes_out(items: list[Any]) -> None:
    with contextlib.suppress(InvalidRequest):
        for message in messages_from_responses_input(items):
            message.to_dict()
