from typing import Any

import pytest

from hosting.responses import InvalidRequest, check_open_calls, check_tool_pairs, open_calls, parse_create_request

type Json = dict[str, Any]

USER = {"type": "message", "role": "user", "content": []}


def call(call_id: str, kind: str = "function_call", **fields: Any) -> Json:
    return {"type": kind, "call_id": call_id, "name": "f", "arguments": "{}", **fields}


def output(call_id: str, kind: str = "function_call_output") -> Json:
    return {"type": kind, "call_id": call_id, "output": "ok"}


def test_an_answered_call_of_the_history_is_fine() -> None:
    check_tool_pairs([USER, call("a")], [output("a")])


def test_parallel_calls_may_be_answered_in_any_order_with_a_message_between() -> None:
    check_tool_pairs([USER, call("a"), call("b")], [USER, output("b"), output("a")])


def test_a_pair_inside_the_new_input_is_fine() -> None:
    check_tool_pairs([], [USER, call("a"), output("a"), USER])


def test_an_open_call_has_openais_message() -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_tool_pairs([USER, call("call_X")], [USER])
    assert str(caught.value) == "No tool output found for function call call_X."
    assert (caught.value.param, caught.value.code) == ("input", None)


def test_an_output_without_a_call_has_openais_message() -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_tool_pairs([USER], [output("call_X")])
    assert str(caught.value) == "No tool call found for function call output with call_id call_X."
    assert caught.value.param == "input"


def test_an_output_before_its_call_is_none() -> None:
    with pytest.raises(InvalidRequest, match="No tool call found"):
        check_tool_pairs([], [output("a"), call("a")])


def test_a_second_answer_to_one_call_is_harmless() -> None:
    check_tool_pairs([call("a"), output("a")], [output("a"), USER])


def test_a_call_that_was_cut_off_needs_no_answer() -> None:
    check_tool_pairs([call("a", status="incomplete")], [USER])


def test_calls_that_the_server_executed_are_no_part_of_it() -> None:
    check_tool_pairs([{"type": "mcp_call", "name": "f", "arguments": "{}"}], [USER])


def test_an_output_of_another_kind_does_not_answer() -> None:
    with pytest.raises(InvalidRequest, match="No tool call found for custom tool call output"):
        check_tool_pairs([call("a")], [output("a", "custom_tool_call_output")])


def test_open_calls_are_those_without_an_output() -> None:
    items = [call("a"), call("b"), output("b"), call("c", status="incomplete"), {"type": "message"}]
    assert open_calls(items) == ["a"]


def request(*items: Json) -> Any:
    return parse_create_request({"input": list(items), "previous_response_id": "resp_1"})


def test_open_calls_of_the_previous_turn_can_be_checked_alone() -> None:
    message = {"role": "user", "content": "x"}
    check_open_calls(["a", "b"], request(output("b"), output("a")))
    check_open_calls([], request(message))
    check_open_calls([], request(call("n"), output("n")))
    with pytest.raises(InvalidRequest, match="No tool output found for function call b"):
        check_open_calls(["a", "b"], request(output("a")))
    with pytest.raises(InvalidRequest, match="No tool call found"):
        check_open_calls(["a"], request(output("a"), output("z")))
    with pytest.raises(InvalidRequest, match="No tool output found"):
        check_open_calls(["a"], request(message))


def test_an_open_call_of_another_kind_is_answered_by_its_kind() -> None:
    check_open_calls(["a"], request({"type": "custom_tool_call_output", "call_id": "a", "output": "ok"}))
