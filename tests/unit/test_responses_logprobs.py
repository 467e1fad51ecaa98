"""Log probabilities go through wherever a client of the framework keeps them."""

from typing import Any

import pytest
from agent_framework import AgentResponse, AgentResponseUpdate, Content, Message

from hosting.responses import messages_from_items
from tests.unit.responses_checks import render, replay, stream

type Json = dict[str, Any]

WIRE: list[Json] = [
    {
        "token": "Hel",
        "bytes": [72, 101, 108],
        "logprob": -0.5,
        "top_logprobs": [{"token": "Hel", "bytes": [72, 101, 108], "logprob": -0.5}],
    },
    {"token": "lo", "bytes": [108, 111], "logprob": -1.0, "top_logprobs": []},
]


def text(said: str, logprobs: Any, **fields: Any) -> Content:
    return Content.from_text(said, additional_properties={"openai": {"logprobs": logprobs}}, **fields)


def update(*contents: Content, **fields: Any) -> AgentResponseUpdate:
    return AgentResponseUpdate(contents=list(contents), role="assistant", **fields)


def part(response: Json) -> Json:
    return response["output"][0]["content"][0]


class Logprob:
    """As the openai package has it."""

    def __init__(self, token: str, logprob: float, top: list["Logprob"] | None = None) -> None:
        self.token, self.logprob, self.bytes = token, logprob, None
        self.top_logprobs = top


class Choice:
    """The log probabilities of a chat completion."""

    def __init__(self) -> None:
        self.content = [Logprob("Hel", -0.5, [Logprob("Hel", -0.5)]), Logprob("lo", -1)]


def test_each_delta_has_its_own_and_the_text_has_all() -> None:
    events, response = stream([update(text("Hel", WIRE[:1])), update(text("lo", WIRE[1:]))])
    deltas = [event["logprobs"] for event in events if event["type"].endswith("text.delta")]
    [done] = [event["logprobs"] for event in events if event["type"].endswith("text.done")]
    assert (deltas, done, part(response)["logprobs"]) == ([WIRE[:1], WIRE[1:]], WIRE, WIRE)


def test_a_closing_snapshot_does_not_double_them() -> None:
    updates = [
        update(text("Hel", WIRE[:1])),
        update(text("lo", WIRE[1:])),
        update(text("Hello", WIRE, merge_mode="replace")),
    ]
    assert part(stream(updates)[1])["logprobs"] == WIRE


def test_a_snapshot_that_goes_on_brings_the_rest_in_its_delta() -> None:
    events, response = stream([update(text("Hel", WIRE[:1])), update(text("Hello", WIRE, merge_mode="replace"))])
    deltas = [event["logprobs"] for event in events if event["type"].endswith("text.delta")]
    assert (deltas, part(response)["logprobs"]) == ([WIRE[:1], WIRE[1:]], WIRE)


def test_a_snapshot_without_any_keeps_those_that_came() -> None:
    snapshot = update(Content.from_text("Hel", merge_mode="replace"))
    assert part(stream([update(text("Hel", WIRE[:1])), snapshot])[1])["logprobs"] == WIRE[:1]


def test_empty_ones_are_the_same_as_none() -> None:
    events, response = stream([update(text("Hel", [])), update(text("lo", []))])
    assert [event["delta"] for event in events if event["type"].endswith("text.delta")] == ["Hel", "lo"]
    assert part(response)["logprobs"] == []


@pytest.mark.parametrize("key", ["message", "response"])
def test_a_chat_completion_keeps_them_beside_its_text(key: str) -> None:
    noted = {"logprobs": Choice()}
    message = Message("assistant", ["Hello"], additional_properties=noted if key == "message" else None)
    result = AgentResponse(messages=[message], additional_properties=noted if key == "response" else None)
    assert part(render(result))["logprobs"] == WIRE


def test_chunks_of_a_chat_completion_too() -> None:
    first = update(Content.from_text("Hello"))
    second = update(
        Content.from_text("Hello"), additional_properties={"logprobs": Choice(), "system_fingerprint": None}
    )
    assert part(stream([first, second])[1])["logprobs"] == WIRE


@pytest.mark.parametrize(
    "odd",
    [
        "x",
        5,
        {},
        [None],
        [{"token": 5, "logprob": -1}],
        [{"token": "a"}],
        [{"token": "a", "logprob": float("-inf")}],
        [[]],
    ],
)
def test_what_is_none_is_left_out(odd: Any) -> None:
    assert part(render(AgentResponse(messages=[Message("assistant", [text("x", odd)])])))["logprobs"] == []


def test_they_come_back_in_with_the_text() -> None:
    response = render(AgentResponse(messages=[Message("assistant", [text("Hello", WIRE)])]))
    [message] = messages_from_items(replay(response))
    assert message.contents[0].additional_properties["openai"]["logprobs"] == WIRE
    again = render(AgentResponse(messages=[message]))
    assert part(again)["logprobs"] == WIRE
