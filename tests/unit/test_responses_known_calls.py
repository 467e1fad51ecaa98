"""Calls that one run leaves and a later one executes: what they were is read from the conversation."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from agent_framework import AgentSession, Content, Message

from hosting.responses import KnownCall, executable_tools, known_calls, known_calls_of_session
from tests.unit.responses_checks import make_renderer, make_request
from tests.unit.test_responses_agent import BOTH, WEATHER, F, Scripted, T, add, run

type Json = dict[str, Any]

CALL = F("c1", "delete", arguments='{"a":1}', id="af-1")
KNOWN = KnownCall("delete", '{"a":1}')
ASKED = KnownCall("delete", '{"a":1}', None, "af-1")
REQUEST = Content.from_function_approval_request("af-1", CALL)
RESULT = Content.from_function_result("c1", id="af-1", result="gone")
ITEM = {"type": "mcp_approval_request", "id": "af-1", "server_label": "agent", "name": "delete", "arguments": '{"a":1}'}


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([Message("assistant", [CALL])], {"af-1": KNOWN, "c1": KNOWN}),
        ([Message("assistant", [CALL]).to_dict()], {"af-1": KNOWN, "c1": KNOWN}),
        ([CALL], {"af-1": KNOWN, "c1": KNOWN}),
        ([Message("assistant", [CALL, REQUEST])], {"af-1": ASKED, "c1": ASKED}),
        ([REQUEST.to_dict()], {"af-1": ASKED, "c1": ASKED}),
        ([ITEM], {"af-1": ASKED}),
        ([Message("assistant", [CALL]), Message("tool", [RESULT])], {}),
        ([Message("user", ["hi"]), {"type": "message", "role": "user", "content": []}, "text", None, 5], {}),
        ([{"type": "function_approval_request", "id": 5, "function_call": None}, {"type": "function_call"}], {}),
    ],
)
def test_calls_are_known_by_every_id_that_a_result_may_have(history: list[Any], expected: Json) -> None:
    assert known_calls(history) == expected


def test_a_call_of_an_mcp_server_keeps_its_server() -> None:
    hosted = F("c1", "search", arguments="{}", server_name="docs")
    renderer = make_renderer(known_calls=known_calls([hosted]))
    renderer.start()
    renderer.feed(Message("tool", [Content.from_function_result("c1", result="x")]))
    renderer.finish()
    [item] = renderer.response["output"]
    assert (item["server_label"], item["name"]) == ("docs", "search")


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("mcp_call", [("mcp_call", "delete", '{"a":1}')]),
        ("function_call", [("function_call", "delete", '{"a":1}'), ("function_call_output", None, None)]),
        ("hidden", []),
    ],
)
def test_a_known_call_shows_as_what_it_was_in_each_mode(mode: Any, expected: list[Any]) -> None:
    renderer = make_renderer(server_calls=mode)
    renderer.remember(known_calls([CALL]))
    renderer.start()
    renderer.feed(Message("tool", [RESULT]))
    renderer.finish()
    output = renderer.response["output"]
    assert [(item["type"], item.get("name"), item.get("arguments")) for item in output] == expected
    assert renderer.open_calls == []


HISTORIES: list[Callable[[Json, AgentSession], Any]] = [
    lambda response, session: known_calls(response["output"]),
    lambda response, session: known_calls_of_session(json.loads(json.dumps(session.to_dict()))["state"]),
]


@pytest.mark.parametrize("read", HISTORIES, ids=["items", "session"])
@BOTH
async def test_a_call_that_was_approved_in_another_process_has_its_name_again(stream: bool, read: Any) -> None:
    session = AgentSession()
    first, _ = await run(
        make_request(), [[F("c1", "delete", arguments='{"name":"x"}')]], stream=stream, session=session
    )
    [asked] = first["output"]
    answer = {"type": "mcp_approval_response", "approval_request_id": asked["id"], "approve": True}
    second, _ = await run(
        make_request(input=[answer]),
        [[T("done")]],
        stream=stream,
        session=session,
        known_calls=read(first, session),
    )
    executed = second["output"][0]
    assert (executed["type"], executed["name"], executed["arguments"], executed["output"]) == (
        "mcp_call",
        "delete",
        '{"name":"x"}',
        "deleted x",
    )
    assert executed["approval_request_id"] == asked["id"]


@BOTH
async def test_a_call_that_waited_for_the_clients_answer_beside_it_has_its_name_again(stream: bool) -> None:
    script = [[F("c1", "add", arguments='{"a":1,"b":2}'), F("c2", "get_weather", arguments="{}")]]
    session = AgentSession()
    await run(make_request(tools=[WEATHER]), script, stream=stream, session=session)
    history = known_calls_of_session(session.state)
    answer = make_request(input=[{"type": "function_call_output", "call_id": "c2", "output": "sunny"}], tools=[WEATHER])
    response, _ = await run(answer, [[T("3 and sunny")]], stream=stream, session=session, known_calls=history)
    item = response["output"][0]
    assert (item["type"], item["name"], item["arguments"], item["output"]) == ("mcp_call", "add", '{"a":1,"b":2}', "3")


def test_tools_that_become_known_later_show_live() -> None:
    renderer = make_renderer()
    renderer.add_server_tools(executable_tools(Scripted([]).as_agent(tools=[add])))
    renderer.start()
    events = renderer.feed(Message("assistant", [F("c1", "add", arguments="{}")]))
    assert [event["type"] for event in events][:2] == ["response.output_item.added", "response.mcp_call.in_progress"]


@pytest.mark.parametrize("state", [{}, {"a": 5, "b": {"c": 6}, "d": {"e": [7, None, {"type": "function_call"}]}}])
def test_a_session_without_calls_has_none(state: Json) -> None:
    assert known_calls_of_session(state) == {}
