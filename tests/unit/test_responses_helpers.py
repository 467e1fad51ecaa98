import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agent_framework import AgentResponse, AgentResponseUpdate, Content, Message, ResponseStream

from hosting.ids import parse_id
from hosting.responses import (
    InvalidRequest,
    ResponseEvents,
    create_conversation_id,
    create_response_id,
    responses_continuation,
    responses_from_run,
    responses_from_streaming_run,
    responses_session_id,
    responses_to_run,
)
from tests.unit.responses_checks import check_response, check_stream

# Ids and continuation


def test_new_ids_have_the_grammar_of_the_house() -> None:
    assert parse_id(create_response_id(), "resp") is not None
    assert parse_id(create_conversation_id(), "conv") is not None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, (None, False)),
        ({"previous_response_id": None, "conversation": None}, (None, False)),
        ({"previous_response_id": "resp_1"}, ("resp_1", False)),
        ({"conversation": "conv_1"}, ("conv_1", True)),
        ({"conversation": {"id": "conv_1"}}, ("conv_1", True)),
        ({"conversation_id": "conv_1"}, ("conv_1", True)),
        ({"previous_response_id": "resp_1", "conversation_id": "conv_1"}, ("resp_1", False)),
        ({"previous_response_id": "of-another-make"}, ("of-another-make", False)),
    ],
)
def test_what_a_request_continues(body: dict[str, Any], expected: tuple[str | None, bool]) -> None:
    assert responses_continuation(body) == expected
    assert responses_session_id(body) == expected[0]


@pytest.mark.parametrize(
    "body",
    [
        {"previous_response_id": ""},
        {"previous_response_id": 5},
        {"conversation": ""},
        {"conversation": {}},
        {"conversation": {"id": None}, "previous_response_id": "resp_1"},
        {"conversation": {"id": 5}},
        {"conversation": 5},
        {"conversation_id": []},
        {"previous_response_id": "resp_1", "conversation": "conv_1"},
        [],
        None,
        "text",
    ],
    ids=repr,
)
def test_a_malformed_continuation_is_a_value_error(body: Any) -> None:
    with pytest.raises(InvalidRequest):
        responses_session_id(body)
    with pytest.raises(ValueError):
        responses_to_run(body)


# Requests


def test_a_request_becomes_the_arguments_of_a_run() -> None:
    run = responses_to_run({"input": "hi", "stream": True, "temperature": 0.2, "max_output_tokens": 50})
    assert [message.text for message in run["messages"]] == ["hi"]
    assert run["options"] == {"temperature": 0.2, "max_tokens": 50}
    assert run["stream"] is True


def test_ids_of_any_make_are_no_matter_to_a_run() -> None:
    assert responses_to_run({"input": "hi", "previous_response_id": "of-another-make"})["messages"]


@pytest.mark.parametrize("value", [None, "", []])
def test_a_run_needs_an_input(value: Any) -> None:
    with pytest.raises(InvalidRequest):
        responses_to_run({"input": value, "previous_response_id": "resp_1"})


# Results


def result(text: str = "hello") -> AgentResponse[Any]:
    return AgentResponse(messages=[Message("assistant", [text])])


def test_a_result_becomes_a_response() -> None:
    response = responses_from_run(result(), response_id="resp_1")
    check_response(response)
    assert (response["id"], response["status"], response["model"]) == ("resp_1", "completed", "agent")
    assert response["output"][0]["content"][0]["text"] == "hello"


def test_a_session_id_shows_as_what_it_is() -> None:
    by_conversation = responses_from_run(result(), response_id="resp_1", session_id="conv_1")
    by_response = responses_from_run(result(), response_id="resp_2", session_id="resp_1")
    named = responses_from_run(result(), response_id="resp_1", conversation_id="conv_1")
    assert by_conversation["conversation"] == named["conversation"] == {"id": "conv_1"}
    assert by_response["previous_response_id"] == "resp_1"
    assert "conversation" not in by_response


def test_a_request_is_echoed_by_its_body() -> None:
    body = {"input": "hi", "model": "m", "instructions": "Be brief.", "previous_response_id": "of-another-make"}
    response = responses_from_run(result(), response_id="resp_1", request=body)
    assert (response["model"], response["instructions"]) == ("m", "Be brief.")


def test_calls_of_the_requests_tools_are_the_clients() -> None:
    call = AgentResponse(messages=[Message("assistant", [Content.from_function_call("c", "f", arguments="{}")])])
    [item] = responses_from_run(call, response_id="resp_1")["output"]
    assert (item["type"], item["call_id"]) == ("function_call", "c")


def test_the_model_of_the_run_is_reported_when_the_request_names_none() -> None:
    reported = AgentResponse(messages=[], additional_properties={"model": "gpt-x"})
    assert responses_from_run(reported, response_id="resp_1")["model"] == "gpt-x"


# Streams


class Source:
    """A run's stream that notes whether it was closed."""

    def __init__(self, *contents: Content, error: Exception | None = None) -> None:
        self._contents = contents
        self._error = error
        self.ended = False

    async def _updates(self) -> AsyncIterator[AgentResponseUpdate]:
        try:
            for content in self._contents:
                yield AgentResponseUpdate(contents=[content], role="assistant")
            if self._error is not None:
                raise self._error
        finally:
            self.ended = True

    def stream(self) -> Any:
        return ResponseStream(self._updates(), finalizer=AgentResponse.from_updates)


def events_of(frames: list[str]) -> list[dict[str, Any]]:
    parsed = [frame.split("\n") for frame in frames]
    for lines in parsed:
        assert lines[2:] == ["", ""]
    return [json.loads(lines[1].removeprefix("data: ")) for lines in parsed]


async def test_a_stream_is_rendered_as_frames() -> None:
    source = Source(Content.from_text("Hel"), Content.from_text("lo"))
    rendered = responses_from_streaming_run(source.stream(), response_id="resp_1")
    events = events_of([frame async for frame in rendered])
    check_stream(events)
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "Hello"
    assert (rendered.failed, rendered.error, source.ended) == (False, None, True)
    assert rendered.response == events[-1]["response"]


async def test_a_failed_run_ends_the_stream_and_is_told_to_the_caller() -> None:
    source = Source(Content.from_text("Hel"), error=RuntimeError("secret"))
    rendered = responses_from_streaming_run(source.stream(), response_id="resp_1")
    events = events_of([frame async for frame in rendered])
    check_stream(events)
    assert events[-1]["type"] == "response.failed"
    assert "secret" not in repr(events)
    assert rendered.failed
    assert isinstance(rendered.error, RuntimeError)
    assert source.ended


async def test_a_client_that_goes_away_closes_the_run() -> None:
    source = Source(*[Content.from_text("x")] * 100)
    rendered = responses_from_streaming_run(source.stream(), response_id="resp_1")
    async for frame in rendered:
        if "output_text.delta" in frame:
            break
    await rendered.aclose()
    assert rendered.failed
    assert source.ended


async def test_a_stream_that_was_never_read_is_closed_too() -> None:
    stream = Source(Content.from_text("x")).stream()
    closed: list[bool] = []
    stream.with_cleanup_hook(lambda: closed.append(True))
    rendered = responses_from_streaming_run(stream, response_id="resp_1")
    await rendered.aclose()
    assert closed == [True]
    assert rendered.failed


async def test_any_async_iterator_of_updates_will_do() -> None:
    async def updates() -> AsyncIterator[AgentResponseUpdate]:
        yield AgentResponseUpdate(contents=[Content.from_text("x")], finish_reason="length")

    rendered = responses_from_streaming_run(updates(), response_id="resp_1")
    events = events_of([frame async for frame in rendered])
    check_stream(events)
    assert events[-1]["type"] == "response.incomplete"
    assert not rendered.failed
    assert isinstance(rendered, ResponseEvents)
