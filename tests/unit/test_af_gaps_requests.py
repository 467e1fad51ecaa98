"""Rows A of af_gaps: valid requests that the published helpers refuse."""

from typing import Any

import pytest
from agent_framework import AgentResponse, Content, Message

from hosting.responses import (
    InvalidRequest,
    messages_from_items,
    messages_from_responses_input,
    normalize_input,
    resolve_references,
    responses_from_run,
    responses_to_run,
)

PNG = "data:image/png;base64,iVBORw0KGgo="
PDF = "data:application/pdf;base64,JVBERi0="
type Json = dict[str, Any]


def one(item: Json) -> Message:
    [message] = messages_from_responses_input([item])
    return message


def content(item: Json) -> Content:
    [content] = one(item).contents
    return content


def part(value: Json) -> Content:
    return content({"role": "user", "content": [value]})


@pytest.mark.parametrize("output", ["sunny", [{"type": "input_text", "text": "sunny"}]])
def test_a1_the_output_of_a_clients_tool_alone(output: Any) -> None:
    body = {
        "previous_response_id": "resp_1",
        "input": [{"type": "function_call_output", "call_id": "c1", "output": output}],
    }
    [message] = responses_to_run(body)["messages"]
    [result] = message.contents
    assert (message.role, result.type, result.call_id, result.result) == ("tool", "function_result", "c1", "sunny")


def test_a1_an_output_of_images_keeps_them() -> None:
    output = [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": PNG}]
    items = content({"type": "function_call_output", "call_id": "c1", "output": output}).items
    assert items is not None
    assert [(item.type, item.text or item.uri) for item in items] == [("text", "see"), ("data", PNG)]


def test_a2_a_function_call_of_the_history() -> None:
    item = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": '{"a":1}'}
    call = content(item)
    assert one(item).role == "assistant"
    assert (call.type, call.call_id, call.name, call.arguments) == ("function_call", "c1", "f", '{"a":1}')
    assert call.additional_properties["openai"]["item_id"] == "fc_1"


def test_a3_reasoning_sent_back_with_its_encrypted_content() -> None:
    summary = [{"type": "summary_text", "text": "Let me see."}]
    reasoning = content({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "gAAA"})
    assert (reasoning.type, reasoning.id, reasoning.text, reasoning.protected_data) == (
        "text_reasoning",
        "rs_1",
        "Let me see.",
        "gAAA",
    )


def test_a4_an_approval_names_its_request_and_nothing_else() -> None:
    item = {"type": "mcp_approval_response", "approval_request_id": "af-1", "approve": True}
    answer = content(item)
    assert (one(item).role, answer.type, answer.id, answer.approved, answer.function_call) == (
        "user",
        "function_approval_response",
        "af-1",
        True,
        None,
    )


def test_a4_a_request_for_approval_of_the_history() -> None:
    item = {"type": "mcp_approval_request", "id": "af-1", "server_label": "agent", "name": "delete", "arguments": "{}"}
    asked = content(item)
    assert (one(item).role, asked.type, asked.id) == ("assistant", "function_approval_request", "af-1")
    assert asked.function_call is not None
    assert (asked.function_call.name, asked.function_call.arguments) == ("delete", "{}")


@pytest.mark.parametrize("data", [PDF, PDF.partition(",")[2]])
def test_a5_a_local_file_as_the_sdk_sends_it(data: str) -> None:
    file = part({"type": "input_file", "filename": "a.pdf", "file_data": data})
    assert (file.type, file.uri, file.media_type, file.name) == ("data", PDF, "application/pdf", "a.pdf")


def test_a6_an_image_by_its_file_id() -> None:
    image = part({"type": "input_image", "file_id": "file_1", "detail": "low"})
    assert (image.type, image.file_id, image.media_type) == ("hosted_file", "file_1", "image/*")
    assert image.additional_properties["openai"] == {"content_type": "input_image", "image_detail": "low"}


@pytest.mark.parametrize("reference", [{"type": "item_reference", "id": "msg_1"}, {"id": "msg_1"}])
def test_a7_a_reference_is_the_item_it_points_at(reference: Json) -> None:
    stored = {"type": "message", "id": "msg_1", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    assert resolve_references(normalize_input([reference]), {"msg_1": stored}) == [stored]


def test_a7_a_reference_to_nothing_is_a_400_with_openais_words() -> None:
    with pytest.raises(InvalidRequest, match="Item with id 'msg_1' not found") as caught:
        resolve_references(normalize_input([{"id": "msg_1"}]), {})
    assert (caught.value.status, caught.value.param) == (400, "input")


def test_a8_computer_use() -> None:
    action = {"type": "click", "x": 1, "y": 2, "button": "left"}
    call = {"type": "computer_call", "id": "cu_1", "call_id": "c1", "action": action, "pending_safety_checks": []}
    screenshot = {"type": "computer_screenshot", "image_url": PNG}
    output = {"type": "computer_call_output", "call_id": "c1", "output": screenshot}
    asked, answered = messages_from_responses_input([call, output])
    assert (asked.role, asked.contents[0].type, asked.contents[0].call_id, asked.contents[0].actions) == (
        "assistant",
        "computer_tool_call",
        "c1",
        [action],
    )
    shot = answered.contents[0].screenshot
    assert shot is not None
    assert (answered.role, answered.contents[0].call_id, shot.uri) == ("tool", "c1", PNG)


SEARCH = {"type": "search", "query": "q", "sources": [{"type": "url", "url": "https://e.com"}]}
MCP: Json = {"type": "mcp_call", "id": "mcp_1", "server_label": "docs", "name": "f", "arguments": "{}", "output": "4"}
REPLAYED: list[tuple[Json, list[tuple[str, str, Any]]]] = [
    (
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": SEARCH},
        [("search_tool_call", "arguments", SEARCH), ("search_tool_result", "result", SEARCH["sources"])],
    ),
    (
        {"type": "file_search_call", "id": "fs_1", "queries": ["q"], "results": [{"text": "t"}]},
        [("search_tool_call", "arguments", {"queries": ["q"]}), ("search_tool_result", "result", [{"text": "t"}])],
    ),
    (
        {"type": "code_interpreter_call", "id": "ci_1", "code": "1+1", "outputs": [{"type": "logs", "logs": "2"}]},
        [("code_interpreter_tool_call", "inputs", "1+1"), ("code_interpreter_tool_result", "outputs", "2")],
    ),
    (
        {"type": "image_generation_call", "id": "ig_1", "result": "iVBORw0KGgo="},
        [("image_generation_tool_call", "image_id", "ig_1"), ("image_generation_tool_result", "outputs", PNG)],
    ),
    (MCP, [("mcp_server_tool_call", "server_name", "docs"), ("mcp_server_tool_result", "output", "4")]),
    (
        {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}},
        [("shell_tool_call", "commands", ["ls"])],
    ),
    (
        {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "x", "stderr": "", "outcome": {}}]},
        [("shell_tool_result", "outputs", "x")],
    ),
    (
        {"type": "local_shell_call", "call_id": "c", "action": {"command": ["ls"]}},
        [("shell_tool_call", "commands", ["ls"])],
    ),
    ({"type": "local_shell_call_output", "id": "c", "output": "x"}, [("shell_tool_result", "outputs", "x")]),
    (
        {"type": "apply_patch_call", "call_id": "c", "operation": {"type": "delete_file"}},
        [("function_call", "arguments", '{"type": "delete_file"}')],
    ),
    ({"type": "apply_patch_call_output", "call_id": "c", "output": "ok"}, [("function_result", "result", "ok")]),
    ({"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "x"}, [("function_call", "arguments", "x")]),
    ({"type": "custom_tool_call_output", "call_id": "c", "output": "y"}, [("function_result", "result", "y")]),
    ({"type": "tool_search_call", "id": "t", "arguments": {"q": 1}}, [("function_call", "arguments", '{"q": 1}')]),
    ({"type": "tool_search_output", "id": "t", "tools": []}, [("function_result", "result", "[]")]),
]


@pytest.mark.parametrize(
    ("item", "expected"), REPLAYED, ids=lambda value: value.get("type", "") if isinstance(value, dict) else ""
)
def test_a9_items_of_a_replayed_output(item: Json, expected: list[tuple[str, str, Any]]) -> None:
    made = [found for message in messages_from_items(normalize_input([item])) for found in message.contents]
    assert [
        (found.type, name, plain(getattr(found, name))) for found, (_, name, _) in zip(made, expected, strict=True)
    ] == (expected)


def plain(value: Any) -> Any:
    """Contents as what they say."""
    if isinstance(value, Content):
        return value.text or value.stdout or value.uri
    if isinstance(value, list) and value and isinstance(value[0], Content):
        return plain(value[0])
    return value


@pytest.mark.parametrize("kind", ["mcp_list_tools", "additional_tools", "compaction_trigger", "program_output"])
def test_a9_listings_and_marks_say_nothing_to_a_model(kind: str) -> None:
    item = {"type": kind, "id": "x_1", "server_label": "docs", "tools": [], "result": ""}
    messages = messages_from_responses_input([item, {"role": "user", "content": "hi"}])
    assert [(message.role, message.text) for message in messages] == [("user", "hi")]


def test_a9_an_output_of_the_helper_itself_goes_back_in() -> None:
    contents = [
        Content.from_text_reasoning(id="rs_1", text="Let me see.", protected_data="gAAA"),
        Content.from_mcp_server_tool_call("m", "search", server_name="docs", arguments="{}"),
        Content.from_mcp_server_tool_result("m", output="found"),
        Content.from_code_interpreter_tool_call(call_id="k", inputs=[Content.from_text("1+1")]),
        Content.from_code_interpreter_tool_result(call_id="k", outputs=[Content.from_text("2")]),
        Content.from_shell_tool_call(call_id="s", commands=["ls"]),
        Content.from_shell_tool_result(call_id="s", outputs=[Content.from_shell_command_output(stdout="a")]),
        Content.from_text("done"),
        Content.from_function_call("c", "f", arguments="{}"),
    ]
    result = AgentResponse(messages=[Message("assistant", contents)])
    output = responses_from_run(result, response_id="resp_1")["output"]
    answer = {"type": "function_call_output", "call_id": "c", "output": "x"}
    messages = responses_to_run({"input": [*output, answer]})["messages"]
    assert [(message.role, [found.type for found in message.contents]) for message in messages] == [
        (
            "assistant",
            [
                "text_reasoning",
                "mcp_server_tool_call",
                "mcp_server_tool_result",
                "code_interpreter_tool_call",
                "code_interpreter_tool_result",
                "shell_tool_call",
            ],
        ),
        ("tool", ["shell_tool_result"]),
        ("assistant", ["text", "function_call"]),
        ("tool", ["function_result"]),
    ]


def test_a10_a_prompt_template_without_input_is_an_empty_list_of_messages() -> None:
    assert responses_to_run({"prompt": {"id": "pmpt_1"}})["messages"] == []


EMPTY = {"role": "user", "content": ""}
NO_PARTS = {"role": "user", "content": []}
SILENT = {"role": "assistant", "content": [{"type": "output_text", "text": ""}]}


def test_a11_empty_texts_beside_something_are_skipped() -> None:
    image = {"type": "input_image", "image_url": PNG}
    captioned = {"role": "user", "content": [{"type": "input_text", "text": ""}, image]}
    messages = messages_from_responses_input([EMPTY, NO_PARTS, SILENT, captioned])
    assert [(message.role, [found.type for found in message.contents]) for message in messages] == [("user", ["data"])]


@pytest.mark.parametrize("value", ["", [], [EMPTY], [NO_PARTS], [SILENT]])
def test_a11_nothing_at_all_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="non-empty") as caught:
        messages_from_responses_input(value)
    assert isinstance(caught.value, InvalidRequest)
    assert caught.value.param == "input"
