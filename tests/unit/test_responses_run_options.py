import pytest
from agent_framework import FunctionTool

from hosting.responses import options_from_request, responses_to_run
from tests.unit.responses_checks import make_request

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Weather of a place",
    "parameters": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]},
    "strict": True,
}


def test_nothing_set_gives_no_options() -> None:
    assert options_from_request(make_request()) == {}


def test_options_have_agent_frameworks_names() -> None:
    request = make_request(
        instructions="Be brief.",
        temperature=0,
        top_p=0.5,
        max_output_tokens=100,
        parallel_tool_calls=False,
        presence_penalty=0.1,
        frequency_penalty=0.2,
        reasoning={"effort": "low", "summary": None},
        text={"verbosity": "low"},
    )
    assert options_from_request(request) == {
        "instructions": "Be brief.",
        "temperature": 0,
        "top_p": 0.5,
        "max_tokens": 100,
        "allow_multiple_tool_calls": False,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "reasoning": {"effort": "low"},
        "verbosity": "low",
    }


def test_what_belongs_to_the_server_never_reaches_the_agent() -> None:
    run = responses_to_run(
        {
            "input": "hi",
            "additional_function_arguments": {"user_id": "admin"},
            "max_tokens": 1_000_000,
            "model": "big",
            "store": False,
            "background": True,
            "include": ["reasoning.encrypted_content"],
            "metadata": {"a": "b"},
            "service_tier": "priority",
            "truncation": "auto",
            "user": "u",
            "prompt": {"id": "p"},
            "conversation": "conv_1",
            "stream": True,
            "stream_options": {},
            "response_format": {"type": "object"},
            "conversation_id": "conv_1",
            "session": "s",
        }
        | {"store": True}
    )
    assert run["options"] == {}
    assert run["stream"] is True


def test_a_function_tool_becomes_a_declaration_without_code() -> None:
    [tool] = options_from_request(make_request(tools=[WEATHER]))["tools"]
    assert isinstance(tool, FunctionTool)
    assert tool.declaration_only
    assert (tool.name, tool.description) == ("get_weather", "Weather of a place")
    assert tool.parameters() == WEATHER["parameters"]


def test_a_function_without_parameters_takes_none() -> None:
    [tool] = options_from_request(make_request(tools=[{"type": "function", "name": "f"}]))["tools"]
    assert tool.parameters() == {"type": "object", "properties": {}}


def test_tools_that_would_run_at_the_apps_cost_are_not_passed_on() -> None:
    tools = [{"type": "web_search"}, {"type": "mcp", "server_label": "x", "server_url": "https://example.com"}]
    assert options_from_request(make_request(tools=tools)) == {}


@pytest.mark.parametrize(
    ("choice", "option"),
    [
        ("required", "required"),
        ("none", "none"),
        ({"type": "function", "name": "f"}, {"mode": "required", "required_function_name": "f"}),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}, {"type": "mcp"}]},
            {"mode": "auto", "allowed_tools": ["f"]},
        ),
    ],
)
def test_a_tool_choice_is_translated(choice: object, option: object) -> None:
    assert options_from_request(make_request(tool_choice=choice))["tool_choice"] == option


@pytest.mark.parametrize("choice", ["auto", {"type": "web_search"}, {"type": "mcp", "server_label": "x"}])
def test_a_choice_that_says_nothing_to_the_agent_is_left_out(choice: object) -> None:
    assert options_from_request(make_request(tool_choice=choice)) == {}


def test_a_json_schema_format_becomes_a_response_format() -> None:
    format = {"type": "json_schema", "name": "city", "schema": {"type": "object"}, "strict": True, "description": None}
    assert options_from_request(make_request(text={"format": format})) == {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "city", "schema": {"type": "object"}, "strict": True},
        }
    }


def test_json_mode_becomes_a_response_format_and_text_does_not() -> None:
    assert options_from_request(make_request(text={"format": {"type": "json_object"}})) == {
        "response_format": {"type": "json_object"}
    }
    assert options_from_request(make_request(text={"format": {"type": "text"}})) == {}
