"""Rows B and C of af_gaps: requests that the published helpers take and get wrong, and errors of the wrong kind."""

from types import SimpleNamespace
from typing import Any

import pytest
from agent_framework import Agent, Content, FunctionTool, Message, tool

from hosting.responses import (
    CreateRequest,
    InvalidRequest,
    check_tool_names,
    executable_tools,
    messages_from_responses_input,
    responses_to_run,
)
from tests.unit.responses_checks import make_request
from tests.unit.test_responses_agent import Scripted, run

PNG = "data:image/png;base64,iVBORw0KGgo="
WEATHER = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}
type Json = dict[str, Any]


def options(**body: Any) -> Json:
    return responses_to_run({"input": "hi", **body})["options"]


def refused(body: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        responses_to_run(body)
    assert isinstance(caught.value, ValueError)
    return caught.value


def one(item: Json) -> Message:
    [message] = messages_from_responses_input([item])
    return message


def test_b1_unknown_keys_are_no_options() -> None:
    body = {"additional_function_arguments": {"user_id": "admin"}, "function_invocation_kwargs": {}, "x": 1}
    assert options(**body, temperature=0.5) == {"temperature": 0.5}


def test_b2_function_tools_are_declared_and_have_no_code() -> None:
    [declared] = options(tools=[WEATHER])["tools"]
    assert isinstance(declared, FunctionTool)
    assert (declared.name, declared.declaration_only) == ("get_weather", True)


@pytest.mark.parametrize("stream", [False, True])
async def test_b2_a_call_of_a_clients_tool_ends_the_run_after_one_call_of_the_model(stream: bool) -> None:
    script = [[Content.from_function_call("c1", "get_weather", arguments="{}")], [Content.from_text("never")]]
    response, client = await run(make_request(tools=[WEATHER]), script, stream=stream)
    assert [(item["type"], item["name"]) for item in response["output"]] == [("function_call", "get_weather")]
    assert len(client.seen) == 1


ALLOWED = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "get_weather"}]}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("required", "required"),
        ({"type": "function", "name": "f"}, {"mode": "required", "required_function_name": "f"}),
        (ALLOWED, {"mode": "auto", "allowed_tools": ["get_weather"]}),
        ({"type": "web_search"}, None),
    ],
)
def test_b3_a_tool_choice_has_the_frameworks_form(choice: Any, expected: Any) -> None:
    assert options(tool_choice=choice).get("tool_choice") == expected


def test_b4_a_text_format_is_a_response_format() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    format = {"type": "json_schema", "name": "n", "schema": schema, "strict": True}
    assert options(text={"format": format})["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": schema, "strict": True},
    }
    assert options(text={"format": {"type": "json_object"}})["response_format"] == {"type": "json_object"}
    assert options(text={"format": {"type": "text"}}) == {}


async def test_b4_the_value_of_the_result_is_parsed() -> None:
    format = {"type": "json_schema", "name": "n", "schema": {"type": "object", "properties": {}}}
    arguments = responses_to_run({"input": "hi", "text": {"format": format}})
    agent = Agent(Scripted([[Content.from_text('{"a": 1}')]]))
    result = await agent.run(arguments["messages"], options=arguments["options"])  # type: ignore[arg-type]
    assert result.value == {"a": 1}


@pytest.mark.parametrize("value", ["false", "no", "true", 1])
def test_b5_stream_is_true_or_false_and_nothing_like_it(value: Any) -> None:
    error = refused({"input": "hi", "stream": value})
    assert (error.param, error.code) == ("stream", "invalid_type")


@pytest.mark.parametrize(
    "body", [{"max_output_tokens": 20, "max_tokens": 9999}, {"max_tokens": 9999, "max_output_tokens": 20}]
)
def test_b6_there_is_one_name_for_the_limit_of_the_output(body: Json) -> None:
    assert options(**body) == {"max_tokens": 20}


def test_b6_there_is_one_name_for_parallel_calls() -> None:
    body = {"parallel_tool_calls": False, "allow_multiple_tool_calls": True}
    assert options(**body) == {"allow_multiple_tool_calls": False}


def test_b7_what_belongs_to_the_server_stays_there() -> None:
    body: Json = {
        "model": "expensive",
        "store": True,
        "include": ["reasoning.encrypted_content"],
        "prompt": {"id": "p"},
        "service_tier": "priority",
        "truncation": "auto",
        "conversation_id": "conv_1",
        "metadata": {"a": "b"},
        "user": "u",
    }
    assert options(**body) == {}


def test_b7_instructions_are_the_callers_and_are_passed_on() -> None:
    assert options(instructions="Be brief.") == {"instructions": "Be brief."}


def test_b8_ids_phases_annotations_and_logprobs_of_the_history_are_kept() -> None:
    citation = {"type": "url_citation", "url": "https://e.com", "title": "T", "start_index": 0, "end_index": 2}
    logprobs = [{"token": "ok", "bytes": [111, 107], "logprob": -0.5, "top_logprobs": []}]
    part = {"type": "output_text", "text": "ok", "annotations": [citation], "logprobs": logprobs}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "phase": "final_answer", "content": [part]}
    message = one(item)
    [text] = message.contents
    assert text.annotations is not None
    assert message.message_id == "msg_1"
    assert message.additional_properties["openai"] == {"phase": "final_answer"}
    assert (text.annotations[0].get("url"), text.annotations[0].get("title")) == ("https://e.com", "T")
    assert text.additional_properties["openai"]["logprobs"] == logprobs


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "http://169.254.169.254/latest/meta-data", "http://10.0.0.1/a.png", "http://localhost/a"],
)
@pytest.mark.parametrize(("kind", "field"), [("input_image", "image_url"), ("input_file", "file_url")])
def test_b9_urls_into_the_servers_own_network_are_refused(url: str, kind: str, field: str) -> None:
    error = refused({"input": [{"role": "user", "content": [{"type": kind, field: url}]}]})
    assert (error.param, error.code) == (f"input[0].content[0].{field}", "invalid_value")


def test_b9_the_app_can_allow_private_hosts() -> None:
    item = {"role": "user", "content": [{"type": "input_image", "image_url": "http://10.0.0.1/a.png"}]}
    [message] = messages_from_responses_input([item], allow_private_urls=True)
    assert message.contents[0].uri == "http://10.0.0.1/a.png"


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("data:application/pdf;base64,JVBERi0=", "invalid_image_format"),
        ("data:image/png;base64,no!base64", "invalid_base64_image"),
        ("data:image/png,raw", "invalid_value"),
    ],
)
def test_b10_a_data_uri_is_what_it_says(url: str, code: str) -> None:
    error = refused({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": url}]}]})
    assert (error.param, error.code) == ("input[0].content[0].image_url", code)


@pytest.mark.parametrize("role", ["system", "developer"])
def test_b11_the_roles_of_the_api_are_the_callers_to_use_and_to_filter(role: str) -> None:
    # As at OpenAI: whoever may call may give instructions. An app that does not want it looks at the roles.
    [message] = responses_to_run({"input": [{"role": role, "content": "x"}]})["messages"]
    assert (message.role, message.text) == (role, "x")


IMAGE = {"type": "input_image", "image_url": PNG}


@pytest.mark.parametrize(
    ("role", "part"),
    [
        ("user", {"type": "refusal", "refusal": "no"}),
        ("user", {"type": "output_text", "text": "x"}),
        ("assistant", IMAGE),
        ("assistant", {"type": "input_text", "text": "x"}),
    ],
)
def test_b12_parts_belong_to_their_role(role: str, part: Json) -> None:
    error = refused({"input": [{"role": role, "content": [part]}]})
    assert (error.param, error.code) == ("input[0].content[0].type", "invalid_value")


@pytest.mark.parametrize("body", [None, [], "text", 5, True])
def test_c1_a_body_that_is_no_object_is_a_value_error(body: Any) -> None:
    assert (refused(body).status, refused(body).code) == (400, "invalid_type")


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ({"type": "input_image", "image_url": "iVBORw0KGgo="}, "image_url"),
        ({"type": "input_image", "image_url": "images/a.png"}, "image_url"),
        ({"type": "input_image", "image_url": "data:"}, "image_url"),
        ({"type": "input_file", "file_url": "a.pdf"}, "file_url"),
    ],
)
def test_c2_what_is_no_url_is_a_value_error_that_names_it(part: Json, field: str) -> None:
    error = refused({"input": [{"role": "user", "content": [part]}]})
    assert (error.param, error.code) == (f"input[0].content[0].{field}", "invalid_value")


@pytest.mark.parametrize(
    ("field", "value", "param", "code"),
    [
        ("temperature", "hot", "temperature", "invalid_type"),
        ("top_p", 2, "top_p", "decimal_above_max_value"),
        ("max_output_tokens", 0, "max_output_tokens", "integer_below_min_value"),
        ("tools", [WEATHER, WEATHER], "tools[1].name", "invalid_value"),
        ("metadata", {"a": 1}, "metadata.a", "invalid_type"),
    ],
)
def test_c3_options_are_checked_before_the_run(field: str, value: Any, param: str, code: str) -> None:
    error = refused({"input": "hi", field: value})
    assert (error.param, error.code) == (param, code)


@tool(approval_mode="never_require")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(approval_mode="always_require")
def delete(name: str) -> str:
    """Delete something."""
    return name


AGENT = Agent(Scripted([]), tools=[add, delete, FunctionTool(name="declared", description="", func=None)])


@pytest.mark.parametrize("name", ["add", "delete", "declared"])
def test_c3_a_tool_of_the_agents_name_is_refused_and_named(name: str) -> None:
    request = make_request(tools=[WEATHER, {"type": "function", "name": name}])
    with pytest.raises(InvalidRequest, match=f"'{name}' is a tool of the agent") as caught:
        check_tool_names(request, AGENT)
    assert (caught.value.param, caught.value.code) == ("tools[1].name", "invalid_value")


@pytest.mark.parametrize("agent", [AGENT, object(), None])
def test_c3_other_names_are_free(agent: object) -> None:
    check_tool_names(make_request(tools=[WEATHER, {"type": "web_search"}]), agent)
    check_tool_names(CreateRequest(), agent)


def test_functions_that_an_agent_executes_without_asking_are_known() -> None:
    assert executable_tools(AGENT) == {"add"}
    assert executable_tools(Agent(Scripted([]))) == frozenset()
    assert executable_tools(object()) == frozenset()


def test_functions_of_a_connected_mcp_server_are_known_too() -> None:
    server = SimpleNamespace(name="docs", functions=[add, delete])
    agent = SimpleNamespace(default_options={"tools": delete}, mcp_tools=[server])
    assert executable_tools(agent) == {"add"}
