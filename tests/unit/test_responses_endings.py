"""Usage, and the ways in which a response ends."""

from typing import Any

import pytest
from agent_framework import AgentResponse, AgentResponseUpdate, Content, Message

from tests.unit.responses_checks import check_stream, make_renderer, make_request, render, stream

T = Content.from_text


def update(*contents: Content, role: str | None = "assistant", **fields: Any) -> AgentResponseUpdate:
    return AgentResponseUpdate(contents=list(contents), role=role, **fields)


def texts(response: dict[str, Any]) -> list[list[str]]:
    return [[part["text"] for part in item["content"]] for item in response["output"] if item["type"] == "message"]


# Usage


def details(**counts: Any) -> Any:
    return {f"{name}_count": value for name, value in counts.items()}


def test_missing_counters_are_zero() -> None:
    result = AgentResponse(messages=[], usage_details=details(input_token=3, output_token=2))
    assert render(result)["usage"] == {
        "input_tokens": 3,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 5,
    }


def test_all_five_counters_are_taken_over() -> None:
    counts = details(
        input_token=30,
        output_token=20,
        total_token=51,
        cache_read_input_token=4,
        cache_creation_input_token=5,
        reasoning_output_token=6,
    )
    usage = render(AgentResponse(messages=[], usage_details=counts))["usage"]
    assert usage["input_tokens_details"] == {"cached_tokens": 4, "cache_write_tokens": 5}
    assert usage["output_tokens_details"] == {"reasoning_tokens": 6}
    assert usage["total_tokens"] == 51


@pytest.mark.parametrize("odd", [-1, "5", 2.5, True, None])
def test_an_odd_counter_never_fails_a_finished_run(odd: Any) -> None:
    result = AgentResponse(messages=[], usage_details=details(input_token=odd, output_token=2))
    assert render(result)["usage"]["input_tokens"] == 0


def test_usage_on_the_way_adds_up_and_can_be_replaced() -> None:
    first, second = (Content.from_usage(details(input_token=i, output_token=1)) for i in (3, 4))
    _, response = stream([update(first), update(T("x")), update(second)])
    assert response["usage"]["input_tokens"] == 7
    final = Content.from_usage(details(input_token=1, output_token=1), merge_mode="replace")
    assert stream([update(first), update(final)])[1]["usage"]["input_tokens"] == 1


def test_usage_does_not_cut_a_text() -> None:
    usage = Content.from_usage(details(input_token=1))
    assert texts(stream([update(T("a")), update(usage), update(T("b"))])[1]) == [["ab"]]


def test_without_any_count_there_is_no_usage() -> None:
    assert render(AgentResponse(messages=[], usage_details={}))["usage"] is None


# How it ends


@pytest.mark.parametrize(
    ("reason", "wire"), [("length", "max_output_tokens"), ("content_filter", "content_filter")], ids=str
)
def test_a_model_that_was_cut_off_leaves_an_incomplete_response(reason: Any, wire: str) -> None:
    events, response = stream([update(T("part")), update(finish_reason=reason)])
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": wire})
    assert response["output"][0]["status"] == "incomplete"
    assert response["completed_at"] is None
    assert events[-1]["type"] == "response.incomplete"
    assert render(AgentResponse(messages=[], finish_reason=reason))["incomplete_details"] == {"reason": wire}


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "novel", None])
def test_any_other_reason_is_a_complete_response(reason: Any) -> None:
    assert render(AgentResponse(messages=[], finish_reason=reason))["status"] == "completed"


def test_a_run_that_is_not_over_is_incomplete() -> None:
    token: Any = {"token": "x"}
    assert render(AgentResponse(messages=[], continuation_token=token))["status"] == "incomplete"


def test_error_content_fails_the_response_with_its_message() -> None:
    error = Content.from_error(message="Out of cheese.", error_code="server_error", error_details="secret")
    events, response = stream([update(T("a")), update(error), update(T("b"))])
    assert (response["status"], events[-1]["type"]) == ("failed", "response.failed")
    assert response["error"] == {
        "code": "server_error",
        "message": "Out of cheese.",
        "type": "server_error",
        "param": None,
    }
    assert "secret" not in repr(events)


def test_an_unknown_error_code_is_a_server_error() -> None:
    error = Content.from_error(message="x", error_code="E42")
    assert render(AgentResponse(messages=[Message("assistant", [error])]))["error"]["code"] == "server_error"


def test_a_failure_ends_the_open_items_and_says_nothing_of_its_cause() -> None:
    renderer = make_renderer()
    events = [*renderer.start(), *renderer.feed(update(T("half"))), *renderer.fail(), renderer.terminal()]
    check_stream(events)
    assert events[-1]["type"] == "response.failed"
    assert renderer.response["output"][0]["status"] == "incomplete"
    assert texts(renderer.response) == [["half"]]
    assert renderer.response["error"]["message"] == "The agent failed before it could complete this response."


def test_a_failure_can_have_a_public_reason() -> None:
    renderer = make_renderer()
    renderer.start()
    renderer.fail(code="rate_limit_exceeded", message="Slow down.")
    assert renderer.response["error"]["code"] == "rate_limit_exceeded"
    assert renderer.response["error"]["message"] == "Slow down."


def test_a_step_after_the_run_can_still_fail_it() -> None:
    renderer = make_renderer()
    events = [*renderer.start(), *renderer.feed(update(T("x")))]
    events += [*renderer.finish(), *renderer.fail(message="Not stored."), renderer.terminal()]
    check_stream(events)
    assert events[-1]["type"] == "response.failed"
    assert renderer.response["completed_at"] is None


def test_a_cut_off_run_that_then_fails_is_only_failed() -> None:
    renderer = make_renderer()
    renderer.start()
    renderer.feed(update(T("x"), finish_reason="length"))
    renderer.finish()
    renderer.fail()
    assert (renderer.response["status"], renderer.response["incomplete_details"]) == ("failed", None)


def test_a_cancelled_response_ends_with_failed_and_keeps_its_status() -> None:
    renderer = make_renderer()
    events = [*renderer.start(), *renderer.feed(update(T("half"))), *renderer.cancel(), renderer.terminal()]
    check_stream(events)
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["status"] == "cancelled"
    assert events[-1]["response"]["error"] is None


def test_a_stream_without_updates_shows_its_result() -> None:
    assert texts(stream([], result=AgentResponse(messages=[Message("assistant", ["x"])]))[1]) == [["x"]]


def test_a_run_can_be_interrupted_for_a_newer_input() -> None:
    call = Content.from_function_call("c1", "f", arguments="{}")
    renderer = make_renderer(request=make_request(tools=[{"type": "function", "name": "f"}]))
    events = [*renderer.start(), *renderer.feed(update(T("half"), call)), *renderer.interrupt("steered")]
    events.append(renderer.terminal())
    check_stream(events)
    assert events[-1]["type"] == "response.incomplete"
    assert renderer.response["incomplete_details"] == {"reason": "steered"}
    assert [item["status"] for item in renderer.response["output"]] == ["completed", "incomplete"]
    assert renderer.open_calls == []


def test_an_emoji_that_came_in_two_halves_is_whole_in_the_end() -> None:
    renderer = make_renderer()
    events = [*renderer.start(), *renderer.feed(update(T("\ud83d"))), *renderer.feed(update(T("\ude00 \ud83d")))]
    events += [*renderer.finish(), renderer.terminal()]
    assert texts(renderer.response) == [["\U0001f600 \ufffd"]]
