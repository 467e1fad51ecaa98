from typing import Any

import pytest
from agent_framework import AgentResponse, AgentResponseUpdate, Content, Message

from tests.unit.responses_checks import check_stream, make_renderer, make_request, render, stream, types, without_ids

F = Content.from_function_call
R = Content.from_function_result
CLIENT = make_request(tools=[{"type": "function", "name": "f"}, {"type": "function", "name": "g"}])


def update(*contents: Content, role: str | None = "assistant", **fields: Any) -> AgentResponseUpdate:
    return AgentResponseUpdate(contents=list(contents), role=role, **fields)


def calls(response: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(item["type"], item["name"], item["arguments"]) for item in response["output"] if "arguments" in item]


# Calls of the client's own tools


def test_a_declared_call_is_streamed_as_it_comes() -> None:
    events, response = stream(
        [update(F("c1", "f", arguments='{"a":')), update(F("c1", "", arguments="1}"))], request=CLIENT
    )
    assert types(events)[2:] == [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    assert events[5]["name"] == "f"
    item = response["output"][0]
    assert item["id"].startswith("fc_")
    assert (item["call_id"], item["status"], item["arguments"]) == ("c1", "completed", '{"a":1}')


def test_interleaved_fragments_of_parallel_calls_find_their_call_by_occurrence() -> None:
    fragments = [
        F("c1", "f", arguments='{"a"', id="af-1"),
        F("c2", "g", arguments='{"b"', id="af-2"),
        F("", "", arguments=":1}", id="af-1"),
        F("", "", arguments=":2}", id="af-2"),
    ]
    _, response = stream([update(fragment) for fragment in fragments], request=CLIENT)
    assert calls(response) == [("function_call", "f", '{"a":1}'), ("function_call", "g", '{"b":2}')]


def test_interleaved_fragments_find_their_call_by_call_id() -> None:
    fragments = [
        F("c1", "f", arguments="{"),
        F("c2", "g", arguments="{"),
        F("c1", "", arguments="}"),
        F("c2", "", arguments="}"),
    ]
    _, response = stream([update(fragment) for fragment in fragments], request=CLIENT)
    assert calls(response) == [("function_call", "f", "{}"), ("function_call", "g", "{}")]


def test_a_fragment_without_any_id_belongs_to_the_call_before_it() -> None:
    _, response = stream([update(F("c1", "f", arguments="{")), update(F("", "", arguments="}"))], request=CLIENT)
    assert calls(response) == [("function_call", "f", "{}")]


def test_a_fragment_without_any_id_after_a_text_is_a_call_of_its_own() -> None:
    updates = [update(F("c1", "f", arguments="{}")), update(Content.from_text("x")), update(F("", "g", arguments="{}"))]
    _, response = stream(updates, request=CLIENT)
    assert len(calls(response)) == 2


def test_fragments_in_a_later_message_still_find_their_call_and_cut_its_text_once() -> None:
    fragment, text = F("c1", "f", arguments="", id="af-1"), Content.from_text("a")
    updates = [update(fragment), update(fragment, text, fragment, text, role="user")]
    _, response = stream(updates, request=CLIENT)
    whole = render(AgentResponse.from_updates(updates), request=CLIENT)
    assert without_ids(response["output"]) == without_ids(whole["output"])
    assert response["output"][1]["content"][0]["text"] == "aa"


def test_a_closing_snapshot_of_the_arguments_sends_nothing_again() -> None:
    updates = [
        update(F("c1", "f", arguments='{"a":1}')),
        update(F("c1", "f", arguments='{"a":1}', merge_mode="replace")),
    ]
    events, response = stream(updates, request=CLIENT)
    assert [event["delta"] for event in events if event["type"].endswith("delta")] == ['{"a":1}']
    assert calls(response) == [("function_call", "f", '{"a":1}')]


def test_a_snapshot_that_differs_is_what_counts() -> None:
    renderer = make_renderer(request=CLIENT)
    events = renderer.start()
    events += renderer.feed(update(F("c1", "f", arguments='{"a":1')))
    events += renderer.feed(update(F("c1", "f", arguments='{"b":2}', merge_mode="replace")))
    events += [*renderer.finish(), renderer.terminal()]
    check_stream(events, replaced=True)
    assert calls(renderer.response) == [("function_call", "f", '{"b":2}')]


def test_the_mark_that_the_user_must_act_is_no_second_call() -> None:
    mark = F("c1", "f", id="af-1")
    mark.user_input_request = True
    events, response = stream([update(F("c1", "f", arguments="{}", id="af-1")), update(mark)], request=CLIENT)
    assert calls(response) == [("function_call", "f", "{}")]
    assert types(events)[-2:] == ["output_item.done", "completed"]


def test_the_whole_call_again_is_no_second_call() -> None:
    whole = F("c1", "f", arguments='{"a":1}')
    assert calls(stream([update(whole), update(whole)], request=CLIENT)[1]) == [("function_call", "f", '{"a":1}')]


def test_arguments_may_be_an_object() -> None:
    parts = [update(F("c1", "f", arguments={"a": 1})), update(F("c1", "f", arguments={"b": 2}))]
    assert calls(stream(parts, request=CLIENT)[1]) == [("function_call", "f", '{"a": 1, "b": 2}')]


@pytest.mark.parametrize("arguments", [None, "", {}])
def test_no_arguments_are_an_empty_object_because_clients_parse_them(arguments: Any) -> None:
    assert calls(stream([update(F("c1", "f", arguments=arguments))], request=CLIENT)[1]) == [
        ("function_call", "f", "{}")
    ]


def test_a_call_without_a_call_id_gets_one() -> None:
    [item] = render(AgentResponse(messages=[Message("assistant", [F("", "f")])]), request=CLIENT)["output"]
    assert item["call_id"].startswith("call_")


def test_a_call_id_that_is_used_twice_does_not_merge_two_calls() -> None:
    contents = [F("c1", "f", arguments="{}", id="af-1"), F("c1", "g", arguments="{}", id="af-2")]
    items = render(AgentResponse(messages=[Message("assistant", contents)]), request=CLIENT)["output"]
    assert [item["name"] for item in items] == ["f", "g"]
    assert items[0]["call_id"] != items[1]["call_id"]


def test_open_calls_are_what_the_client_has_to_answer() -> None:
    renderer = make_renderer(request=CLIENT)
    renderer.start()
    renderer.feed(update(F("c1", "f", arguments="{}"), F("c2", "g", arguments="{}")))
    renderer.finish()
    assert renderer.open_calls == ["c1", "c2"]


def test_a_call_that_was_cut_off_is_no_open_call() -> None:
    renderer = make_renderer(request=CLIENT)
    renderer.start()
    renderer.feed(update(F("c1", "f", arguments='{"a'), finish_reason="length"))
    renderer.finish()
    assert renderer.response["output"][0]["status"] == "incomplete"
    assert renderer.open_calls == []


def test_a_declared_call_that_was_executed_after_all_is_shown_with_its_output() -> None:
    updates = [update(F("c1", "f", arguments="{}")), update(R("c1", result="done"), role="tool")]
    renderer = make_renderer(request=CLIENT)
    renderer.start()
    for each in updates:
        renderer.feed(each)
    renderer.finish()
    call, output = renderer.response["output"]
    assert (call["type"], output["type"], output["call_id"], output["output"]) == (
        "function_call",
        "function_call_output",
        "c1",
        "done",
    )
    assert renderer.open_calls == []


# Calls that the server executes


def executed(**options: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    updates = [
        update(F("c1", "add", arguments='{"a":', id="af-1")),
        update(F("c1", "", arguments="1}", id="af-1")),
        update(R("c1", result="3", id="af-1"), role="tool"),
        update(Content.from_text("It is 3.")),
    ]
    return stream(updates, **options)


def test_an_executed_call_is_an_mcp_call_that_nobody_answers() -> None:
    _, response = executed()
    item = response["output"][0]
    assert [entry["type"] for entry in response["output"]] == ["mcp_call", "message"]
    assert (item["server_label"], item["name"], item["arguments"], item["output"], item["status"]) == (
        "agent",
        "add",
        '{"a":1}',
        "3",
        "completed",
    )


def test_an_executed_call_shows_when_its_result_is_there() -> None:
    events, _ = executed()
    assert types(events)[2:8] == [
        "output_item.added",
        "mcp_call.in_progress",
        "mcp_call_arguments.delta",
        "mcp_call_arguments.done",
        "mcp_call.completed",
        "output_item.done",
    ]


def test_a_call_of_a_tool_that_is_known_to_be_the_servers_shows_at_once() -> None:
    renderer = make_renderer(server_tools={"add"})
    renderer.start()
    events = renderer.feed(update(F("c1", "add", arguments="{}")))
    assert types(events) == ["output_item.added", "mcp_call.in_progress", "mcp_call_arguments.delta"]


def test_a_call_that_the_agent_did_not_get_to_execute_is_incomplete() -> None:
    _, response = stream([update(F("c1", "add", arguments="{}"))], server_tools={"add"})
    assert [(item["type"], item["status"]) for item in response["output"]] == [("mcp_call", "incomplete")]


def test_executed_calls_can_be_hidden() -> None:
    assert [item["type"] for item in executed(server_calls="hidden")[1]["output"]] == ["message"]


def test_executed_calls_can_be_shown_as_the_published_helpers_show_them() -> None:
    items = executed(server_calls="function_call")[1]["output"]
    assert [item["type"] for item in items] == ["function_call", "function_call_output", "message"]
    assert items[0]["call_id"] == items[1]["call_id"] == "c1"


def test_a_failed_call_says_no_more_than_its_public_result() -> None:
    failed = R("c1", result="Error: Function failed.", exception="RuntimeError: secret")
    events, response = stream([update(F("c1", "add")), update(failed, role="tool")])
    item = response["output"][0]
    assert (item["status"], item["output"]) == ("failed", None)
    assert item["error"]["content"] == [{"type": "text", "text": "Error: Function failed."}]
    assert "secret" not in repr(events)
    assert "mcp_call.failed" in types(events)


def test_a_failure_without_a_public_result_has_a_fixed_one() -> None:
    events, response = stream([update(F("c1", "add")), update(R("c1", exception="secret"), role="tool")])
    assert response["output"][0]["error"]["content"][0]["text"] == "The tool failed."
    assert "secret" not in repr(events)


def test_results_that_are_more_than_text_are_named() -> None:
    image = Content.from_data(b"x", "image/png")
    result = R("c1", result=[Content.from_text("see"), image])
    assert stream([update(F("c1", "add")), update(result, role="tool")])[1]["output"][0]["output"] == "see\n[image/png]"
    as_parts = stream([update(F("c1", "add")), update(result, role="tool")], server_calls="function_call")[1]["output"][
        1
    ]
    assert [part["type"] for part in as_parts["output"]] == ["input_text", "input_image"]


def test_a_result_of_a_call_of_an_earlier_run_is_shown_without_its_name() -> None:
    _, response = stream([update(R("c9", result="8", id="af-9"), role="tool")])
    assert calls(response) == [("mcp_call", "tool", "{}")]
    assert response["output"][0]["output"] == "8"


def test_a_call_that_nobody_executed_is_the_clients() -> None:
    renderer = make_renderer()
    renderer.start()
    renderer.feed(update(F("c1", "lookup", arguments="{}")))
    renderer.finish()
    assert calls(renderer.response) == [("function_call", "lookup", "{}")]
    assert renderer.open_calls == ["c1"]


def test_what_the_agent_still_has_to_execute_is_not_handed_to_the_client() -> None:
    updates = [update(F("c1", "add", arguments="{}")), update(F("c2", "f", arguments="{}"))]
    assert calls(stream(updates, request=CLIENT)[1]) == [("function_call", "f", "{}")]


def test_a_failed_run_hands_no_call_to_the_client() -> None:
    renderer = make_renderer()
    events = [*renderer.start(), *renderer.feed(update(F("c1", "add", arguments="{}")))]
    events += [*renderer.fail(), renderer.terminal()]
    check_stream(events)
    assert renderer.response["output"] == []


def test_a_hosted_call_is_never_the_clients() -> None:
    hosted = F("c1", "f", arguments="{}", hosted=True, server_name="docs")
    _, response = stream([update(hosted)], request=CLIENT, server_calls="hidden")
    assert calls(response) == [("mcp_call", "f", "{}")]
    assert response["output"][0]["server_label"] == "docs"


# Approvals and MCP servers


def test_a_request_for_approval_takes_the_place_of_its_call() -> None:
    call = F("c1", "delete", arguments='{"a":1}', id="af-1")
    request = Content.from_function_approval_request("af-1", call)
    renderer = make_renderer()
    events = [*renderer.start(), *renderer.feed(update(call)), *renderer.feed(update(request))]
    events += [*renderer.finish(), renderer.terminal()]
    check_stream(events)
    assert renderer.response["output"] == [
        {
            "id": "af-1",
            "type": "mcp_approval_request",
            "server_label": "agent",
            "name": "delete",
            "arguments": '{"a":1}',
        }
    ]
    assert renderer.open_calls == []


def test_calls_beside_one_that_needs_approval_wait_with_it() -> None:
    call, other = F("c1", "delete", id="af-1"), F("c2", "add", id="af-2")
    _, response = stream([update(call, other), update(Content.from_function_approval_request("af-1", call))])
    assert [item["type"] for item in response["output"]] == ["mcp_approval_request"]


def test_a_request_for_approval_is_shown_once() -> None:
    request = Content.from_function_approval_request("af-1", F("c1", "delete", id="af-1"))
    assert len(stream([update(request), update(request)])[1]["output"]) == 1


def test_a_call_that_was_approved_in_the_same_run_names_its_request() -> None:
    call = F("c1", "delete", id="af-1")
    updates = [
        update(call, Content.from_function_approval_request("af-1", call)),
        update(R("c1", result="x", id="af-1")),
    ]
    _, response = stream(updates)
    assert [item["type"] for item in response["output"]] == ["mcp_approval_request", "mcp_call"]
    assert response["output"][1]["approval_request_id"] == "af-1"


def test_an_mcp_call_and_its_result_are_one_item() -> None:
    updates = [
        update(Content.from_mcp_server_tool_call("m1", "search", server_name="docs", arguments={"q": "x"})),
        update(Content.from_mcp_server_tool_result("m1", output=[Content.from_text("found")])),
    ]
    _, response = stream(updates)
    [item] = response["output"]
    assert (item["server_label"], item["name"], item["arguments"], item["output"]) == (
        "docs",
        "search",
        '{"q": "x"}',
        "found",
    )


@pytest.mark.parametrize("output", ["plain", {"a": 1}, [1, 2], None, [Content.from_text("a"), Content.from_text("b")]])
def test_any_output_of_an_mcp_server_is_a_string(output: Any) -> None:
    _, response = stream([update(Content.from_mcp_server_tool_result("m1", output=output))])
    assert isinstance(response["output"][0]["output"], str)
