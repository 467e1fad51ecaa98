from typing import Any

from hosting.responses import ENVELOPE_KEYS, new_envelope
from hosting.responses.envelope import failure
from tests.unit.responses_checks import check_response, make_request

THIRTY_ONE = {
    *("id", "object", "created_at", "completed_at", "status", "incomplete_details", "model", "previous_response_id"),
    *("instructions", "output", "error", "tools", "tool_choice", "truncation", "parallel_tool_calls", "text", "top_p"),
    *("presence_penalty", "frequency_penalty", "top_logprobs", "temperature", "reasoning", "usage"),
    *("max_output_tokens", "max_tool_calls", "store", "background", "service_tier", "metadata", "safety_identifier"),
    "prompt_cache_key",
}


def envelope(**body: Any) -> dict[str, Any]:
    made = new_envelope(make_request(**body), response_id="resp_1", model="m", created_at=5)
    check_response(made)
    return made


def test_all_thirty_one_keys_are_always_there_and_no_other_one() -> None:
    assert len(THIRTY_ONE) == 31
    assert set(envelope()) == THIRTY_ONE == ENVELOPE_KEYS


def test_what_may_not_be_null_has_its_default() -> None:
    made = envelope()
    expected = {
        "temperature": 1.0,
        "top_p": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "top_logprobs": 0,
        "truncation": "disabled",
        "text": {"format": {"type": "text"}},
        "tools": [],
        "tool_choice": "auto",
        "store": True,
        "background": False,
        "service_tier": "default",
        "metadata": {},
        "parallel_tool_calls": True,
    }
    assert {name: made[name] for name in expected} == expected


def test_the_request_is_echoed() -> None:
    body = {
        "instructions": "Be brief.",
        "previous_response_id": "resp_0",
        "metadata": {"a": "b"},
        "temperature": 0,
        "top_p": 0,
        "max_output_tokens": 50,
        "max_tool_calls": 2,
        "parallel_tool_calls": False,
        "store": False,
        "tool_choice": {"type": "function", "name": "f"},
        "top_logprobs": 3,
        "truncation": "auto",
        "safety_identifier": "s",
        "prompt_cache_key": "k",
        "service_tier": "flex",
        "user": "u",
    }
    made = envelope(**body)
    assert {name: made[name] for name in body} == body


def test_an_echoed_function_has_all_its_fields() -> None:
    [tool] = envelope(tools=[{"type": "function", "name": "f"}])["tools"]
    assert tool == {"type": "function", "name": "f", "description": None, "parameters": None, "strict": None}


def test_credentials_of_an_mcp_server_are_not_echoed() -> None:
    mcp = {"type": "mcp", "server_label": "x", "server_url": "https://example.com"}
    tools = [mcp | {"authorization": "secret", "headers": {"x-key": "secret"}}]
    assert envelope(tools=tools)["tools"] == [mcp]


def test_the_effective_tier_of_auto_is_the_default_one() -> None:
    assert envelope(service_tier="auto")["service_tier"] == "default"


def test_reasoning_has_effort_and_summary_at_least() -> None:
    assert envelope()["reasoning"] == {"effort": None, "summary": None}
    assert envelope(reasoning={"effort": "low"})["reasoning"] == {"effort": "low", "summary": None}


def test_a_text_format_is_echoed_beside_the_verbosity() -> None:
    assert envelope(text={"verbosity": "low", "format": None})["text"] == {
        "format": {"type": "text"},
        "verbosity": "low",
    }


def test_a_conversation_is_there_only_when_it_is_used_and_always_as_an_object() -> None:
    assert "conversation" not in envelope()
    assert envelope(conversation="conv_1")["conversation"] == {"id": "conv_1"}


def test_an_error_has_four_keys_and_a_code_that_clients_know() -> None:
    assert failure("server_error", "x") == {
        "code": "server_error",
        "message": "x",
        "type": "server_error",
        "param": None,
    }
    assert failure("rate_limit_exceeded", "x")["type"] == "rate_limit_error"
    assert failure("E_MYSTERY", "x")["code"] == "server_error"
