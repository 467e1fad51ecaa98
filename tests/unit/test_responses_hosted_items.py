import json
import typing
from typing import Any

import pytest
from agent_framework import AgentResponse, AgentResponseUpdate, Content, Message
from agent_framework._types import ContentType

from hosting.responses import messages_from_items
from tests.unit.responses_checks import check_input_items, render, replay, stream, types, without_ids

PNG = "data:image/png;base64,iVBORw0KGgo="


def update(*contents: Content, **fields: Any) -> AgentResponseUpdate:
    return AgentResponseUpdate(contents=list(contents), role="assistant", **fields)


def items(*contents: Content) -> list[dict[str, Any]]:
    return without_ids(stream([update(content) for content in contents])[1]["output"])


def test_code_is_streamed_and_completed_by_its_outputs() -> None:
    text = Content.from_text
    events, response = stream(
        [
            update(Content.from_code_interpreter_tool_call(call_id="c", inputs=[text("1+")])),
            update(Content.from_code_interpreter_tool_call(call_id="c", inputs=[text("1")])),
            update(Content.from_code_interpreter_tool_result(call_id="c", outputs=[text("2"), Content.from_uri(PNG)])),
        ]
    )
    assert types(events)[2:-1] == [
        "output_item.added",
        "code_interpreter_call.in_progress",
        "code_interpreter_call_code.delta",
        "code_interpreter_call_code.delta",
        "code_interpreter_call_code.done",
        "code_interpreter_call.interpreting",
        "code_interpreter_call.completed",
        "output_item.done",
    ]
    [item] = response["output"]
    assert (item["code"], item["status"]) == ("1+1", "completed")
    assert item["outputs"] == [{"type": "logs", "logs": "2"}, {"type": "image", "url": PNG}]


def test_an_interpreter_gets_no_more_outputs_from_another_message() -> None:
    result = Content.from_code_interpreter_tool_result(call_id="c", outputs=[Content.from_text("2")])
    _, response = stream([update(result), update(result, message_id="m1"), update(result, message_id="m2")])
    assert [item["outputs"] for item in response["output"]] == [
        [{"type": "logs", "logs": "22"}],
        [{"type": "logs", "logs": "2"}],
    ]


def test_a_generated_image_is_one_item_of_base64() -> None:
    image = Content.from_uri(PNG)
    for outputs in (image, [image], PNG):
        assert items(
            Content.from_image_generation_tool_call(image_id="i"),
            Content.from_image_generation_tool_result(image_id="i", outputs=outputs),
        ) == [{"type": "image_generation_call", "result": "iVBORw0KGgo=", "status": "completed"}]


def test_an_image_on_its_own_is_shown_as_a_generated_one() -> None:
    assert items(Content.from_data(b"\x89PNG", "image/png")) == [
        {"type": "image_generation_call", "status": "completed", "result": "iVBORw=="}
    ]


def test_a_file_on_its_own_is_a_link_or_a_citation() -> None:
    [linked] = items(Content.from_uri("https://e.com/a.pdf", media_type="application/pdf", name="a.pdf"))
    [cited] = items(Content.from_hosted_file("file_1"))
    assert linked["content"][0]["text"] == "[a.pdf](https://e.com/a.pdf)"
    assert cited["content"][0]["annotations"] == [{"type": "file_path", "file_id": "file_1", "index": 0}]


def test_web_and_file_search_have_items_of_their_own() -> None:
    assert items(
        Content.from_search_tool_call("s", tool_name="web_search", arguments={"query": "q"}),
        Content.from_search_tool_result("s", tool_name="web_search", result=[{"url": "https://e.com"}]),
        Content.from_search_tool_call("t", tool_name="file_search", arguments='{"queries": ["a", "b"]}'),
        Content.from_search_tool_result(
            "t", tool_name="file_search", result={"results": [{"file_id": "f", "score": 1}]}
        ),
    ) == [
        {
            "type": "web_search_call",
            "status": "completed",
            "action": {
                "type": "search",
                "query": "q",
                "queries": ["q"],
                "sources": [{"type": "url", "url": "https://e.com"}],
            },
        },
        {
            "type": "file_search_call",
            "status": "completed",
            "queries": ["a", "b"],
            "results": [{"file_id": "f", "score": 1}],
        },
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        {"type": "open_page", "url": "https://e.com"},
        {"type": "find_in_page", "url": "https://e.com", "pattern": "x"},
        "not json",
        None,
    ],
)
def test_a_search_action_of_any_kind_is_rendered(arguments: Any) -> None:
    [item] = items(Content.from_search_tool_call("s", tool_name="web_search", arguments=arguments))
    assert item["status"] == "incomplete"


def test_two_searches_without_ids_are_two_items() -> None:
    pair = [
        Content.from_search_tool_call("", tool_name="web_search", arguments={"query": "q"}),
        Content.from_search_tool_result("", tool_name="web_search", result=[]),
    ]
    assert len(items(*pair, *pair)) == 2


def test_shell_calls_and_their_outputs_are_two_items() -> None:
    output = Content.from_shell_command_output(stdout="x", exit_code=3)
    late = Content.from_shell_command_output(timed_out=True)
    call, result = stream(
        [
            update(Content.from_shell_tool_call(call_id="c", commands=["ls"], timeout_ms=5)),
            update(Content.from_shell_tool_result(call_id="c", outputs=[output, late])),
        ]
    )[1]["output"]
    assert (call["call_id"], call["action"]["commands"]) == (result["call_id"], ["ls"])
    assert [entry["outcome"] for entry in result["output"]] == [{"type": "exit", "exit_code": 3}, {"type": "timeout"}]


def test_computer_calls_wait_for_the_client() -> None:
    call = Content("computer_tool_call", id="x", call_id="c", actions=[{"type": "screenshot"}])
    result = Content("computer_tool_result", call_id="c", screenshot=Content.from_uri(PNG))
    first, second = items(call, result)
    assert (first["type"], first["actions"], first["pending_safety_checks"]) == (
        "computer_call",
        [{"type": "screenshot"}],
        [],
    )
    assert second["output"] == {"type": "computer_screenshot", "image_url": PNG}


def test_consent_is_asked_for_in_words() -> None:
    [item] = items(Content.from_oauth_consent_request("https://login.example.com"))
    assert "https://login.example.com" in item["content"][0]["text"]


def test_a_tool_without_its_result_is_not_complete() -> None:
    assert [item["status"] for item in items(Content.from_image_generation_tool_call(image_id="i"))] == ["failed"]
    assert [item["status"] for item in items(Content.from_code_interpreter_tool_call(call_id="c"))] == ["incomplete"]


EXAMPLES: dict[str, Content] = {
    "text": Content.from_text("x"),
    "text_reasoning": Content.from_text_reasoning(text="x"),
    "data": Content.from_data(b"x", "application/pdf"),
    "uri": Content.from_uri("https://e.com/a.png", media_type="image/png"),
    "error": Content.from_error(message="x"),
    "function_call": Content.from_function_call("c", "f"),
    "function_result": Content.from_function_result("c", result="x"),
    "usage": Content.from_usage({"input_token_count": 1}),
    "hosted_file": Content.from_hosted_file("f"),
    "hosted_vector_store": Content.from_hosted_vector_store("v"),
    "code_interpreter_tool_call": Content.from_code_interpreter_tool_call(call_id="c"),
    "code_interpreter_tool_result": Content.from_code_interpreter_tool_result(call_id="c", outputs=[]),
    "image_generation_tool_call": Content.from_image_generation_tool_call(image_id="i"),
    "image_generation_tool_result": Content.from_image_generation_tool_result(image_id="i"),
    "mcp_server_tool_call": Content.from_mcp_server_tool_call("c", "f", server_name="s"),
    "mcp_server_tool_result": Content.from_mcp_server_tool_result("c", output="x"),
    "search_tool_call": Content.from_search_tool_call("c", tool_name="web_search"),
    "search_tool_result": Content.from_search_tool_result("c", tool_name="file_search", result=[]),
    "shell_tool_call": Content.from_shell_tool_call(call_id="c", commands=["ls"]),
    "shell_tool_result": Content.from_shell_tool_result(call_id="c", outputs=[]),
    "shell_command_output": Content.from_shell_command_output(stdout="x"),
    "computer_tool_call": Content("computer_tool_call", id="x", call_id="c", actions=[{"type": "screenshot"}]),
    "computer_tool_result": Content("computer_tool_result", call_id="c"),
    "function_approval_request": Content.from_function_approval_request("a", Content.from_function_call("c", "f")),
    "function_approval_response": Content("function_approval_response", id="a", approved=True),
    "oauth_consent_request": Content.from_oauth_consent_request("https://e.com"),
}


RENDERED_AS = {
    "text": "message",
    "text_reasoning": "reasoning",
    "data": "message",  # no image: a link with its name
    "uri": "image_generation_call",
    "function_call": "function_call",
    "function_result": "mcp_call",
    "hosted_file": "message",
    "hosted_vector_store": "message",
    "code_interpreter_tool_call": "code_interpreter_call",
    "code_interpreter_tool_result": "code_interpreter_call",
    "image_generation_tool_call": "image_generation_call",
    "image_generation_tool_result": "image_generation_call",
    "mcp_server_tool_call": "mcp_call",
    "mcp_server_tool_result": "mcp_call",
    "search_tool_call": "web_search_call",
    "search_tool_result": "file_search_call",
    "shell_tool_call": "shell_call",
    "shell_tool_result": "shell_call_output",
    "shell_command_output": "shell_call_output",
    "computer_tool_call": "computer_call",
    "computer_tool_result": "computer_call_output",
    "function_approval_request": "mcp_approval_request",
    "function_approval_response": "mcp_approval_response",
    "oauth_consent_request": "message",
}
"""The item of each content type. The other two are fields of the response: `usage` and `error`."""


def test_the_examples_cover_every_content_type() -> None:
    assert set(EXAMPLES) == set(typing.get_args(ContentType))
    assert set(EXAMPLES) - set(RENDERED_AS) == {"usage", "error"}


@pytest.mark.parametrize("content", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_every_content_type_renders_to_valid_items_in_both_modes(content: Content) -> None:
    _, streamed = stream([update(content)])
    rendered = render(AgentResponse(messages=[Message("assistant", [content])]))
    assert without_ids(streamed["output"]) == without_ids(rendered["output"])
    expected = [RENDERED_AS[content.type]] if content.type in RENDERED_AS else []
    assert [item["type"] for item in streamed["output"]] == expected
    assert (streamed["usage"] is not None, streamed["error"] is not None) == (
        content.type == "usage",
        content.type == "error",
    )


@pytest.mark.parametrize("kind", typing.get_args(ContentType))
def test_a_content_with_nothing_in_it_never_fails_the_run_and_never_the_next(kind: Any) -> None:
    _, response = stream([update(Content(kind)), update(Content(kind))])
    check_input_items(replay(response))


@pytest.mark.parametrize("content", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_whatever_was_put_out_can_come_back_in(content: Content) -> None:
    _, response = stream([update(content)])
    stored = replay(response)
    check_input_items(stored)
    assert [message.to_dict() for message in messages_from_items(stored)] == [
        message.to_dict() for message in messages_from_items(response["output"])
    ]


HALF = "\ud83d"


@pytest.mark.parametrize(
    "contents",
    [
        [Content.from_function_call(HALF, HALF, arguments={HALF: float("nan")})],
        [Content.from_function_approval_request(HALF, Content.from_function_call(HALF, HALF, arguments=HALF))],
        [Content.from_search_tool_result(HALF, tool_name="file", result=[{"text": HALF, "score": float("inf")}])],
        [Content.from_shell_tool_result(call_id=HALF, outputs=[Content.from_shell_command_output(stdout=HALF)])],
        [Content.from_text("x", annotations=[{"type": "citation", "url": HALF, "title": HALF}])],
        [Content("computer_tool_call", id="x", call_id="c", actions=[{"type": "type", "text": HALF, "odd": object()}])],
        [Content.from_error(message=HALF, error_code=HALF)],
        [Content.from_text_reasoning(text="x", protected_data=HALF)],
    ],
    ids=lambda contents: contents[0].type,
)
def test_what_json_or_utf_8_can_t_hold_never_gets_into_a_response(contents: list[Content]) -> None:
    response = render(AgentResponse(messages=[Message("assistant", contents)]))
    assert json.dumps(response, ensure_ascii=False, allow_nan=False).encode()
