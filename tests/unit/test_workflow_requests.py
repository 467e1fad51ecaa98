"""What a paused workflow asks, as items; and the client's answers, as what the workflow is told."""

import json
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

import pytest
from agent_framework import Content, Message, WorkflowEvent
from pydantic import BaseModel, field_validator

from hosting.ids import response_id
from hosting.responses import InvalidRequest, ResponseRenderer, parse_create_request
from hosting.responses.workflow_answers import decode_answer, split_answers
from hosting.responses.workflow_requests import OpenRequest, open_requests


class Color(Enum):
    RED = "red"


@dataclass
class Place:
    city: str
    zip: int = 0


class Choice(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def small(cls, value: int) -> int:
        if value > 9:
            raise ValueError("internal reason")
        return value


class Foreign:
    pass


@dataclass
class Mixed:
    messages: list[Message]


def asked(data: Any, response_type: Any = str, request_id: str = "r1") -> WorkflowEvent[Any]:
    return WorkflowEvent.request_info(request_id, "desk", data, response_type)


def approval(identifier: str = "a1") -> Content:
    call = Content.from_function_call("c1", "pay", arguments={"amount": 5}, id=identifier)
    return Content.from_function_approval_request(identifier, call)


def items(*events: WorkflowEvent[Any]) -> list[dict[str, Any]]:
    request = parse_create_request({"input": "hi"})
    made = ResponseRenderer(response_id=response_id(), request=request, model="m", created_at=1)
    made.start()
    for _, content in open_requests(events):
        made.feed(content)
    made.finish()
    return made.response["output"]


# Questions


@pytest.mark.parametrize(
    ("data", "arguments"),
    [
        (Place("Oslo", 5), {"city": "Oslo", "zip": 5}),
        (Choice(n=1), {"n": 1}),
        ({"any": ["thing"]}, {"any": ["thing"]}),
        ("really?", {"request": "really?"}),
        (Content.from_text("really?"), {"request": "really?"}),
        ([1, Decimal("2.5")], {"request": [1, "2.5"]}),
        (Color.RED, {"request": "red"}),
        (None, {"request": None}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_question_is_a_function_call(data: Any, arguments: Any) -> None:
    (item,) = items(asked(data))
    assert (item["type"], item["name"], item["call_id"], item["status"]) == (
        "function_call",
        "request_info",
        "r1",
        "completed",
    )
    assert json.loads(item["arguments"]) == arguments


def test_an_approval_is_an_approval_request() -> None:
    (item,) = items(asked(approval(), Content))
    assert (item["type"], item["id"], item["name"]) == ("mcp_approval_request", "a1", "pay")
    assert json.loads(item["arguments"]) == {"amount": 5}


def test_a_call_of_the_client_s_own_function_is_that_call() -> None:
    call = Content.from_function_call("c1", "get_weather", arguments='{"city": "Oslo"}', id="af-1")
    (item,) = items(asked(call, Content, "af-1"))
    assert (item["type"], item["call_id"], item["name"]) == ("function_call", "c1", "get_weather")
    assert call.user_input_request is not True  # the workflow's own object is not changed


def test_several_questions_are_all_there_beside_an_approval() -> None:
    found = items(asked("one"), asked(approval(), Content, "r2"), asked("two", str, "r3"))
    assert [item["type"] for item in found] == ["function_call", "mcp_approval_request", "function_call"]


def test_ids_that_come_twice_are_told_apart() -> None:
    first, second = asked(approval(), Content, "r1"), asked(approval(), Content, "r2")
    requests = [request for request, _ in open_requests([first, second])]
    assert [request.wire_id for request in requests] == ["a1", "r2"]
    assert [item["id"] for item in items(first, second)] == ["a1", "r2"]


def test_a_request_survives_being_stored() -> None:
    request = OpenRequest("r1", "approval", "a1")
    assert OpenRequest.from_document(json.loads(json.dumps(request.to_document()))) == request


# Which items are answers

OPEN = [OpenRequest("r1", "call", "r1"), OpenRequest("r2", "approval", "a2"), OpenRequest("r3", "computer", "c3")]


def called(call_id: str, output: Any = "x") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def decided(identifier: str, approve: bool = True) -> dict[str, Any]:
    return {"type": "mcp_approval_response", "approval_request_id": identifier, "approve": approve}


def test_answers_are_told_from_new_input() -> None:
    message = {"type": "message", "role": "user", "content": []}
    computer = {"type": "computer_call_output", "call_id": "c3", "output": {}}
    answers, others = split_answers([message, called("r1"), decided("a2"), computer], OPEN)
    assert answers == {"r1": called("r1"), "r2": decided("a2"), "r3": computer}
    assert others == [message]


def test_some_answers_are_enough() -> None:
    assert split_answers([decided("a2")], OPEN) == ({"r2": decided("a2")}, [])
    assert split_answers([], OPEN) == ({}, [])


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (called("nope"), "No tool call found for function call output with call_id nope."),
        (called("a2"), "No tool call found for function call output with call_id a2."),
        (decided("r1"), "No approval request found for approval response with approval_request_id r1."),
        (decided("x" * 500), "No approval request found"),
    ],
)
def test_an_answer_to_nothing_is_refused(item: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message) as caught:
        split_answers([item], OPEN)
    assert (caught.value.status, caught.value.param) == (400, "input")
    assert len(caught.value.message) < 300


def test_two_answers_to_one_request_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="Two answers"):
        split_answers([decided("a2", True), decided("a2", False)], OPEN)


def test_a_call_that_the_input_brings_along_is_answered_there() -> None:
    call = {"type": "function_call", "call_id": "own", "name": "f", "arguments": "{}"}
    request = {"type": "mcp_approval_request", "id": "own", "name": "f", "arguments": "{}"}
    given = [call, called("own"), request, decided("own")]
    assert split_answers(given, OPEN) == ({}, given)


# What the workflow is told


@pytest.mark.parametrize(
    ("text", "expected", "told"),
    [
        ("plain", str, "plain"),
        ("true", str, "true"),
        ("5", Any, "5"),
        ("5", str | int, "5"),
        ("5", int, 5),
        ("1.5", float, 1.5),
        ("true", bool, True),
        ("no", bool, False),
        ("null", int | None, None),
        ('["a"]', list[str], ["a"]),
        ("red", Color, Color.RED),
        ('"red"', Color, Color.RED),
        ("b", Literal["a", "b"], "b"),
        ('{"city": "Oslo", "zip": "5"}', Place, Place("Oslo", 5)),
        ('{"n": 3}', Choice, Choice(n=3)),
        ('{"n": 3}', Choice | None, Choice(n=3)),
        ('{"a": 1}', dict[str, Any], {"a": 1}),
        ("2026-01-02", object, "2026-01-02"),
    ],
    ids=repr,
)
def test_an_output_becomes_what_the_request_asks_for(text: str, expected: Any, told: Any) -> None:
    value = decode_answer(called("r1", text), asked("?", expected))
    assert value == told
    assert type(value) is type(told)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("perhaps", bool), ("", bool), ("x", int), ("1.5", int), ("blue", Color), ("c", Literal["a", "b"])),
        *(("Oslo", Place), ("{}", Place), ("[]", Place), ('{"n": "x"}', Choice), ("{", dict[str, int])),
        ("[" * 5000, list[Any]),
    ],
    ids=repr,
)
def test_an_output_of_another_type_is_refused_in_words(text: str, expected: Any) -> None:
    with pytest.raises(InvalidRequest, match="Invalid output for the function call r1: ") as caught:
        decode_answer(called("r1", text), asked("?", expected))
    assert (caught.value.param, caught.value.code) == ("input", "invalid_value")


def test_what_a_validator_of_the_app_says_is_not_repeated() -> None:
    with pytest.raises(InvalidRequest, match="n: the value is not valid") as caught:
        decode_answer(called("r1", '{"n": 10}'), asked("?", Choice))
    assert "internal" not in caught.value.message


def test_parts_of_an_output_are_one_text() -> None:
    parts = [
        {"type": "input_text", "text": "a"},
        {"type": "input_image", "image_url": "x"},
        {"type": "input_text", "text": "b"},
    ]
    assert decode_answer(called("r1", parts), asked("?", str)) == "a\nb"


def test_a_text_is_a_message_where_one_is_asked_for() -> None:
    told = decode_answer(called("r1", "hello"), asked("?", list[Message]))
    assert (told[0].role, told[0].text) == ("user", "hello")
    assert decode_answer(called("r1", "hello"), asked("?", Message)).text == "hello"
    assert decode_answer(called("r1", "hello"), asked(Content.from_text("?"), Content)).text == "hello"


def test_a_type_that_only_the_framework_knows_is_made_by_it() -> None:
    stored = json.dumps({"messages": [Message("user", ["hello"]).to_dict()]})
    told = decode_answer(called("r1", stored), asked("?", Mixed))
    assert told.messages[0].text == "hello"


@pytest.mark.parametrize("text", ["hello", '{"a": 1}', "5"])
@pytest.mark.parametrize("expected", [Foreign, Mixed], ids=lambda kind: kind.__name__)
def test_what_even_the_framework_can_t_make_is_refused_in_words(expected: Any, text: str) -> None:
    with pytest.raises(InvalidRequest, match=f"r1: it has to be a {expected.__name__}, as JSON"):
        decode_answer(called("r1", text), asked("?", expected))


def test_a_decision_is_an_approval_response_with_its_call() -> None:
    told = decode_answer(decided("a1", False), asked(approval(), Content))
    assert (told.type, told.id, told.approved, told.function_call.name) == (
        "function_approval_response",
        "a1",
        False,
        "pay",
    )
    assert decode_answer(decided("a1", True), asked(approval(), bool)) is True


def test_the_output_of_the_client_s_own_function_has_the_ids_of_its_call() -> None:
    call = Content.from_function_call("c1", "get_weather", id="af-1")
    told = decode_answer(called("c1", "sunny"), asked(call, Content))
    assert (told.type, told.call_id, told.id, told.result) == ("function_result", "c1", "af-1", "sunny")


def test_a_text_in_the_place_of_a_type_is_never_evaluated() -> None:
    event = asked("?")
    event._response_type = "__import__('os').system('true')"  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage]
    with pytest.raises(TypeError):
        decode_answer(called("r1"), event)
