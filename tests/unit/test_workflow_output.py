"""From a workflow's events to output items: what is an answer, whose it is, and where one message ends."""

import json
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from agent_framework import (
    AgentExecutorResponse,
    AgentResponse,
    AgentResponseUpdate,
    Content,
    Message,
    WorkflowErrorDetails,
    WorkflowEvent,
)
from pydantic import BaseModel

from hosting.ids import response_id
from hosting.responses import ResponseRenderer, parse_create_request
from hosting.responses.workflow_output import WorkflowOutput


def renderer() -> ResponseRenderer:
    request = parse_create_request({"input": "hi"})
    return ResponseRenderer(response_id=response_id(), request=request, model="m", created_at=1)


def output(executor: str, data: Any, kind: Any = "output") -> WorkflowEvent[Any]:
    return WorkflowEvent(kind, executor_id=executor, data=data)


def update(text: str, **fields: Any) -> AgentResponseUpdate:
    return AgentResponseUpdate(contents=[Content.from_text(text)], role="assistant", **fields)


def done(executor: str) -> WorkflowEvent[Any]:
    return WorkflowEvent.executor_completed(executor)


def render(*events: WorkflowEvent[Any]) -> dict[str, Any]:
    out, made = WorkflowOutput(), renderer()
    made.start()
    streamed: list[Any] = []
    for event in events:
        for thing in out.feed(event):
            streamed += made.feed(thing)
    for thing in out.finish():
        streamed += made.feed(thing)
    streamed += made.finish()
    closed = [event["item"] for event in streamed if event["type"] == "response.output_item.done"]
    assert closed == made.response["output"]
    return made.response


def texts(*events: WorkflowEvent[Any]) -> list[str]:
    return [item["content"][0]["text"] for item in render(*events)["output"]]


@dataclass
class Report:
    title: str
    day: date


class Score(BaseModel):
    points: int


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("plain", ["plain"]),
        (Message("assistant", ["a message"]), ["a message"]),
        (Content.from_text("a content"), ["a content"]),
        (["one", Message("assistant", ["two"])], ["one", "two"]),
        (AgentResponse(messages=[Message("assistant", ["a"]), Message("assistant", ["b"])]), ["a", "b"]),
        (AgentExecutorResponse("bob", AgentResponse(messages=[Message("assistant", ["inner"])]), []), ["inner"]),
        ({"total": 3}, ['{"total": 3}']),
        (Report("t", date(2026, 1, 2)), ['{"title": "t", "day": "2026-01-02"}']),
        ([Score(points=1)], ['[{"points": 1}]']),
        (5, ["5"]),
        (False, ["false"]),
        ([], ["[]"]),
        (None, []),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_an_executor_yields_is_said(data: Any, said: list[str]) -> None:
    assert texts(output("a", data), done("a")) == said


def test_an_object_that_json_can_t_hold_is_still_said() -> None:
    endless: dict[str, Any] = {}
    endless["self"] = endless
    (said,) = texts(output("a", {"it": object(), "bytes": b"x", "nan": float("nan")}))
    assert json.loads(said)["bytes"] == "eA=="
    assert len(texts(output("a", endless))) == 1


@pytest.mark.parametrize(
    "event",
    [
        output("a", "progress", "intermediate"),
        output("a", "progress", "data"),
        WorkflowEvent.executor_invoked("a", "input"),
        WorkflowEvent.executor_completed("a", ["output"]),
        WorkflowEvent.executor_failed("a", WorkflowErrorDetails("ValueError", "secret")),
        WorkflowEvent.warning("careful"),
        WorkflowEvent.error(ValueError("secret")),
        WorkflowEvent.request_info("r", "a", "really?", bool),
        WorkflowEvent.superstep_started(1),
        WorkflowEvent("group_chat", data=Message("assistant", ["inner"])),
    ],
    ids=lambda event: event.type,
)
def test_what_happens_inside_is_no_answer(event: WorkflowEvent[Any]) -> None:
    assert texts(event) == []


def test_updates_of_an_executor_are_one_message() -> None:
    assert texts(output("a", update("He")), output("a", update("llo")), done("a")) == ["Hello"]


def test_each_executor_says_a_message_of_its_own() -> None:
    events = [output("a", update("from a")), done("a"), output("b", update("from b")), done("b")]
    assert texts(*events) == ["from a", "from b"]


def test_each_run_of_an_executor_is_a_message_of_its_own() -> None:
    events = [output("a", update("first")), done("a"), output("a", update("second")), done("a")]
    assert texts(*events) == ["first", "second"]


def test_authors_and_messages_of_one_run_are_kept_apart() -> None:
    events = [
        output("a", update("1", message_id="m1")),
        output("a", update("1", message_id="m1")),
        output("a", update("2", message_id="m2")),
        output("a", update("3", author_name="eve", message_id="m2")),
        output("a", update("4", author_name="bob", message_id="m2")),
    ]
    assert texts(*events) == ["11", "23", "4"]


def test_executors_that_speak_at_the_same_time_are_heard_one_after_the_other() -> None:
    events = [
        output("a", update("a1 ")),
        output("b", update("b1 ")),
        output("a", update("a2")),
        output("c", "whole"),
        done("c"),
        output("b", update("b2")),
        done("a"),
        output("b", update(" b3")),
        done("b"),
    ]
    assert texts(*events) == ["a1 a2", "b1 b2 b3", "whole"]


def test_the_one_who_began_is_heard_as_it_speaks() -> None:
    out = WorkflowOutput()
    assert len(out.feed(output("a", update("now")))) == 1
    assert out.feed(output("b", update("later"))) == []
    assert len(out.feed(done("a"))) == 1
    assert len(out.feed(output("b", update("live")))) == 1


def test_an_executor_that_does_not_say_that_it_is_done_holds_up_nobody_longer_than_its_superstep() -> None:
    out = WorkflowOutput()
    out.feed(output("a", update("a")))
    out.feed(output("b", update("b")))
    assert len(out.feed(WorkflowEvent.superstep_completed(1))) == 1
    assert len(out.feed(output("c", update("c")))) == 1


@pytest.mark.parametrize("role", ["user", "system", "tool", "assistant", "narrator"])
def test_a_participant_of_any_role_is_heard(role: Any) -> None:
    assert texts(output("chat", [Message(role, ["I say"], author_name="alice")])) == ["I say"]
    assert texts(output("chat", Message(role, ["alone"]))) == ["alone"]


def test_what_the_user_has_said_is_no_answer_in_a_transcript() -> None:
    transcript = [Message("system", ["be nice"]), Message("user", ["question"]), Message("assistant", ["answer"])]
    assert texts(output("chat", transcript)) == ["answer"]
    assert texts(output("chat", AgentResponse(messages=transcript))) == ["answer"]


def test_text_beside_a_tool_result_is_heard() -> None:
    result = Content.from_function_result("c1", result="sunny")
    message = Message("tool", [result, Content.from_text("as I said")])
    items = render(output("chat", [message]))["output"]
    assert [item["type"] for item in items] == ["mcp_call", "message"]


def test_tokens_of_all_agents_count_also_of_those_that_are_not_heard() -> None:
    def usage(tokens: int) -> Any:
        return {"input_token_count": tokens, "output_token_count": 1, "total_token_count": tokens + 1}

    counted = AgentResponseUpdate(contents=[Content.from_usage(usage(3))], role="assistant")
    whole = AgentResponse(messages=[Message("assistant", ["a"])], usage_details=usage(5))
    made = render(output("hidden", counted, "intermediate"), output("hidden", whole, "data"), output("a", whole))
    assert made["usage"]["input_tokens"] == 13
    assert made["usage"]["output_tokens"] == 3
    assert len(made["output"]) == 1


def test_the_reason_of_the_last_agent_counts() -> None:
    assert render(output("a", update("cut", finish_reason="length")))["status"] == "incomplete"
    whole = AgentResponse(messages=[Message("assistant", ["cut"])], finish_reason="length")
    assert render(output("a", whole))["incomplete_details"] == {"reason": "max_output_tokens"}
    assert (
        render(output("a", whole), done("a"), output("b", update("b", finish_reason="stop")))["status"] == "completed"
    )


def test_an_update_that_replaces_the_text_so_far_does() -> None:
    replacing = update("Final")
    replacing.merge_mode = "replace"
    assert texts(output("a", update("Draft")), output("a", replacing)) == ["Final"]
