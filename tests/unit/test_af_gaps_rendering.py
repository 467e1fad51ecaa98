"""Rows D of af_gaps: results that the published helpers render wrongly or not at all."""

import copy
import json
from typing import Any

import pytest
from agent_framework import AgentResponse, Content, Message

from hosting.responses import KnownCall, create_response_id, known_calls, responses_from_run
from hosting.responses.replay import replay_events
from tests.unit.responses_checks import check_response, check_stream, without_ids

PNG = "data:image/png;base64,iVBORw0KGgo="
T = Content.from_text
F = Content.from_function_call
R = Content.from_function_result
type Json = dict[str, Any]


def rendered(*contents: Content, body: Json | None = None, result: Json | None = None, **options: Any) -> Json:
    """A run that gave one assistant message, rendered and checked."""
    answer: AgentResponse[Any] = AgentResponse(messages=[Message("assistant", list(contents))], **(result or {}))
    request = {"input": "hi", **(body or {})}
    response = responses_from_run(answer, response_id=create_response_id(), request=request, **options)
    check_response(response)
    return response


def items(*contents: Content, **options: Any) -> list[Json]:
    return without_ids(rendered(*contents, **options)["output"])


def said(response: Json) -> list[str]:
    return [part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"]]


def test_d1_missing_counts_are_zero() -> None:
    usage = rendered(result={"usage_details": {"input_token_count": 3, "output_token_count": 2}})["usage"]
    assert usage == {
        "input_tokens": 3,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 5,
    }


def test_d2_a_raw_object_is_no_status_and_no_error() -> None:
    class Raw:
        status = 200
        error = "none"

    response = rendered(T("x"), result={"raw_representation": Raw()})
    assert (response["status"], response["error"]) == ("completed", None)


def test_d3_images_and_files_on_their_own() -> None:
    linked = Content.from_uri("https://e.com/a.pdf", media_type="application/pdf", name="a.pdf")
    image, message = items(Content.from_uri(PNG), linked, Content.from_hosted_file("file_1"))
    assert image == {"type": "image_generation_call", "status": "completed", "result": "iVBORw0KGgo="}
    assert [(part["text"], part["annotations"]) for part in message["content"]] == [
        ("[a.pdf](https://e.com/a.pdf)", []),
        ("", [{"type": "file_path", "file_id": "file_1", "index": 0}]),
    ]


SCREENSHOT = {"type": "computer_screenshot", "image_url": PNG}
CLICK = {"type": "click", "x": 1, "y": 2, "button": "left"}
OWN_ITEMS: list[tuple[list[Content], list[Json]]] = [
    (
        [
            Content.from_search_tool_call("s", tool_name="web_search", arguments={"query": "q"}),
            Content.from_search_tool_result("s", tool_name="web_search", result=[]),
        ],
        [
            {
                "type": "web_search_call",
                "status": "completed",
                "action": {"type": "search", "query": "q", "queries": ["q"]},
            }
        ],
    ),
    (
        [
            Content.from_search_tool_call("s", tool_name="file_search", arguments={"queries": ["q"]}),
            Content.from_search_tool_result("s", tool_name="file_search", result=[{"text": "t", "score": 0.5}]),
        ],
        [
            {
                "type": "file_search_call",
                "status": "completed",
                "queries": ["q"],
                "results": [{"text": "t", "score": 0.5}],
            }
        ],
    ),
    (
        [
            Content("computer_tool_call", id="x", call_id="c", actions=[CLICK]),
            Content("computer_tool_result", call_id="c", screenshot=Content.from_uri(PNG)),
        ],
        [
            {"type": "computer_call", "status": "completed", "actions": [CLICK], "pending_safety_checks": []},
            {"type": "computer_call_output", "status": "completed", "output": SCREENSHOT},
        ],
    ),
    (
        [Content.from_shell_command_output(stdout="x", exit_code=3)],
        [
            {
                "type": "shell_call_output",
                "status": "completed",
                "max_output_length": None,
                "output": [{"stdout": "x", "stderr": "", "outcome": {"type": "exit", "exit_code": 3}}],
            }
        ],
    ),
]


@pytest.mark.parametrize(("contents", "expected"), OWN_ITEMS, ids=["web", "file", "computer", "shell"])
def test_d4_tools_have_items_of_their_own(contents: list[Content], expected: list[Json]) -> None:
    assert items(*contents) == expected


def test_d4_what_has_no_item_is_said_in_words() -> None:
    consent, store = Content.from_oauth_consent_request("https://login.e.com"), Content.from_hosted_vector_store("vs_1")
    assert said(rendered(consent)) == ["Sign-in is needed to continue: https://login.e.com"]
    assert said(rendered(store)) == ["[vector store vs_1]"]


def test_d4_usage_is_counted_and_not_said() -> None:
    response = rendered(Content.from_usage({"input_token_count": 1, "output_token_count": 2}))
    assert (response["output"], response["usage"]["total_tokens"]) == ([], 3)


def test_d5_annotations_survive_the_loss_of_the_raw_part() -> None:
    regions: Any = [{"type": "text_span", "start_index": 0, "end_index": 2}]
    citation: Any = {"type": "citation", "url": "https://e.com", "title": "T", "annotated_regions": regions}
    copied = copy.deepcopy(T("ok", annotations=[citation], raw_representation=object()))
    [message] = items(copied)
    assert message["content"][0]["annotations"] == [
        {"type": "url_citation", "url": "https://e.com", "title": "T", "start_index": 0, "end_index": 2}
    ]


def test_d6_a_summary_is_a_summary_and_one_reasoning_is_one_item() -> None:
    raw = {"openai": {"reasoning_text": True}}
    [reasoning] = items(
        Content.from_text_reasoning(id="rs_1", text="a"),
        Content.from_text_reasoning(id="rs_1", text="b"),
        Content.from_text_reasoning(id="rs_1", text="raw", additional_properties=raw),
    )
    assert reasoning["summary"] == [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}]
    assert reasoning["content"] == [{"type": "reasoning_text", "text": "raw"}]


def test_d7_an_mcp_result_of_contents_is_its_text_in_the_item_of_its_call() -> None:
    call = Content.from_mcp_server_tool_call("m", "add", server_name="docs", arguments={"a": 1})
    between = T("Adding.")
    [item, _] = items(call, between, Content.from_mcp_server_tool_result("m", output=[T("4")]))
    assert (item["type"], item["output"], item["arguments"], item["server_label"]) == (
        "mcp_call",
        "4",
        '{"a": 1}',
        "docs",
    )


def test_d7_code_and_its_result_are_one_item_with_something_between() -> None:
    result = Content.from_code_interpreter_tool_result(call_id="k", outputs=[T("2")])
    output = items(Content.from_code_interpreter_tool_call(call_id="k", inputs=[T("1+1")]), T("Running."), result)
    assert [(item["type"], item.get("code"), item.get("outputs")) for item in output] == [
        ("code_interpreter_call", "1+1", [{"type": "logs", "logs": "2"}]),
        ("message", None, None),
    ]


def test_d8_a_function_call_has_an_id_of_its_own() -> None:
    [item] = rendered(F("c1", "f", arguments="{}", id="af-call-1"))["output"]
    assert item["id"].startswith("fc_")
    assert item["call_id"] == "c1"


def executed(mode: Any, **options: Any) -> list[Json]:
    """A call of the app's own tool that was executed, beside one of a tool that the client declared."""
    messages = [
        Message("assistant", [F("c1", "add", arguments='{"a":1}'), F("c2", "weather", arguments="{}")]),
        Message("tool", [R("c1", result="3")]),
    ]
    body = {"input": "hi", "tools": [{"type": "function", "name": "weather"}]}
    response = responses_from_run(
        AgentResponse(messages=messages), response_id="resp_1", request=body, server_calls=mode, **options
    )
    check_response(response)
    return response["output"]


@pytest.mark.parametrize("server_tools", [{"add"}, set()])
@pytest.mark.parametrize(
    ("mode", "shown"),
    [
        ("mcp_call", [("mcp_call", "add", "3"), ("function_call", "weather", None)]),
        ("hidden", [("function_call", "weather", None)]),
        (
            "function_call",
            [("function_call", "weather", None), ("function_call", "add", None), ("function_call_output", None, "3")],
        ),
    ],
)
def test_d9_calls_that_the_server_executed_are_told_from_those_that_the_client_must_answer(
    mode: Any, shown: list[Any], server_tools: set[str]
) -> None:
    output = executed(mode, server_tools=server_tools)
    found = [(item["type"], item.get("name"), item.get("output")) for item in output]
    assert sorted(map(str, found)) == sorted(map(str, shown))
    answered = {item["call_id"] for item in output if item["type"] == "function_call_output"}
    to_answer = [item["name"] for item in output if item["type"] == "function_call" and item["call_id"] not in answered]
    assert to_answer == ["weather"]


@pytest.mark.parametrize("mode", ["mcp_call", "hidden", "function_call"])
def test_d9_a_call_of_the_servers_that_did_not_get_executed_is_never_handed_to_the_client(mode: Any) -> None:
    output = items(F("c1", "add", arguments="{}"), server_tools={"add"}, server_calls=mode)
    assert [item["type"] for item in output if item["type"] == "function_call"] == []


def test_d9_a_call_that_an_earlier_run_left_is_named_by_the_history() -> None:
    asked = Content.from_function_approval_request("af-1", F("c1", "delete", arguments='{"a":1}', id="af-1"))
    history = known_calls(rendered(asked)["output"])
    assert history == {"af-1": KnownCall("delete", '{"a":1}', None, "af-1")}
    [item] = items(R("c1", id="af-1", result="gone"), known_calls=history)
    assert (item["type"], item["name"], item["arguments"], item["output"], item["approval_request_id"]) == (
        "mcp_call",
        "delete",
        '{"a":1}',
        "gone",
        "af-1",
    )


def test_d10_messages_of_other_roles_are_shown() -> None:
    messages = [Message("user", ["a"]), Message("tool", [R("c1", result="3"), T("b")]), Message("critic", ["c"])]
    assert said(responses_from_run(AgentResponse(messages=messages), response_id="resp_1")) == ["a", "b", "c"]


def test_d11_error_content_fails_the_response() -> None:
    response = rendered(T("half"), Content.from_error(message="Out of cheese.", error_code="rate_limit_exceeded"))
    assert response["status"] == "failed"
    assert response["error"] == {
        "code": "rate_limit_exceeded",
        "message": "Out of cheese.",
        "type": "rate_limit_error",
        "param": None,
    }
    assert said(response) == ["half"]


@pytest.mark.parametrize("count", [-1, "5", 2.5, None])
def test_d12_an_odd_counter_is_zero(count: Any) -> None:
    usage = rendered(T("x"), result={"usage_details": {"input_token_count": count, "output_token_count": 2}})["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (0, 2)


def test_d12_an_odd_reason_or_code_is_the_plain_one() -> None:
    assert rendered(T("x"), result={"finish_reason": "novel"})["incomplete_details"] is None
    assert rendered(Content.from_error(message="x", error_code="E42"))["error"]["code"] == "server_error"


def test_d12_odd_properties_of_the_result_are_not_the_responses() -> None:
    assert rendered(T("x"), result={"additional_properties": {"metadata": {"a": 1}}})["metadata"] == {}


@pytest.mark.parametrize("value", ["x", T("x"), Message("assistant", ["x"]), [Message("assistant", ["x"])]], ids=type)
def test_d13_a_text_a_content_or_a_message_is_a_result(value: Any) -> None:
    assert said(responses_from_run(value, response_id="resp_1")) == ["x"]


def test_d14_the_request_is_echoed() -> None:
    body: Json = {
        "instructions": "Be brief.",
        "tools": [{"type": "function", "name": "f"}],
        "tool_choice": "required",
        "text": {"verbosity": "low"},
        "temperature": 0.3,
        "metadata": {"a": "b"},
        "store": False,
        "parallel_tool_calls": False,
        "max_output_tokens": 17,
    }
    response = rendered(body=body, session_id="resp_0")
    assert response["previous_response_id"] == "resp_0"
    assert response["tools"] == [
        {"type": "function", "name": "f", "description": None, "parameters": None, "strict": None}
    ]
    assert response["text"] == {"format": {"type": "text"}, "verbosity": "low"}
    simple = (
        "instructions",
        "tool_choice",
        "temperature",
        "metadata",
        "store",
        "parallel_tool_calls",
        "max_output_tokens",
    )
    assert {name: response[name] for name in simple} == {name: body[name] for name in simple}


def test_d14_what_was_not_said_has_the_apis_default_or_null() -> None:
    response = rendered()
    assert (response["parallel_tool_calls"], response["tool_choice"], response["temperature"]) == (True, "auto", 1.0)
    nulls = ("error", "incomplete_details", "instructions", "max_output_tokens", "previous_response_id", "usage")
    assert {name: response[name] for name in nulls} == dict.fromkeys(nulls)


@pytest.mark.parametrize("moment", ["2023-11-14T22:13:20+00:00", "2023-11-14T22:13:20", "2023-11-14T22:13:20.5Z"])
def test_d14_a_response_is_as_old_as_its_run(moment: str) -> None:
    assert rendered(result={"created_at": moment})["created_at"] == 1_700_000_000
    assert rendered(result={"created_at": moment}, created_at=5)["created_at"] == 5


def test_d14_a_moment_that_is_none_is_now() -> None:
    assert rendered(result={"created_at": "soon"})["created_at"] > 1_700_000_000


def test_d15_a_stored_response_is_replayed_with_the_same_ids() -> None:
    response = json.loads(json.dumps(rendered(T("a"), F("c1", "f"))))
    events = replay_events(response)
    check_stream(events)
    assert events[-1]["response"] == response
    assert [event["item"] for event in events if event["type"].endswith("item.done")] == response["output"]


def test_d16_the_output_of_a_plain_result_is_a_string() -> None:
    result = AgentResponse(messages=[Message("assistant", [F("c1", "f")]), Message("tool", [R("c1", result="3")])])
    _, output = responses_from_run(result, response_id="resp_1", server_calls="function_call")["output"]
    assert (output["type"], output["output"]) == ("function_call_output", "3")


def test_d17_a_text_has_logprobs() -> None:
    [message] = items(T("x"))
    assert message["content"] == [{"type": "output_text", "text": "x", "annotations": [], "logprobs": []}]
