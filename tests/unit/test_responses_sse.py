"""Frames, read by the openai package's own client over a transport that never leaves the process."""

import json
from collections.abc import Sequence
from typing import Any

import httpx2
import openai
import pytest
from agent_framework import AgentResponseUpdate, Content

from hosting.responses import DONE, KEEP_ALIVE, ApiError, encode_event, error_event
from tests.unit.responses_checks import check_event, make_renderer, make_request


def client(body: bytes) -> openai.OpenAI:
    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body)

    http_client = httpx2.Client(transport=httpx2.MockTransport(answer))
    return openai.OpenAI(api_key="k", base_url="http://test/v1", http_client=http_client, max_retries=0)


def frames(contents: Sequence[Content], *, cut: bool = False, **options: Any) -> bytes:
    """A whole stream; with `cut` the model stopped at its limit."""
    renderer = make_renderer(**options)
    events = renderer.start()
    for content in contents:
        reason: Any = "length" if cut else None
        events += renderer.feed(AgentResponseUpdate(contents=[content], role="assistant", finish_reason=reason))
    events += [*renderer.finish(), renderer.terminal()]
    return KEEP_ALIVE.join(map(encode_event, events)) + DONE


def test_a_frame_is_an_event_line_and_one_line_of_json() -> None:
    assert encode_event({"type": "a.b", "sequence_number": 3, "delta": "x\ny"}) == (
        b'event: a.b\ndata: {"type":"a.b","sequence_number":3,"delta":"x\\ny"}\n\n'
    )


def test_an_id_line_carries_the_sequence_number_when_asked_for() -> None:
    assert encode_event({"type": "a", "sequence_number": 3}, with_id=True).startswith(b"id: 3\nevent: a\ndata: ")


def test_characters_that_some_take_for_line_ends_are_escaped() -> None:
    frame = encode_event({"type": "a", "delta": "\u2028\u2029\x85é"})
    assert b"\\u2028\\u2029" in frame
    assert json.loads(frame.split(b"data: ")[1])["delta"] == "\u2028\u2029\x85é"


def test_half_a_surrogate_pair_does_not_break_the_stream() -> None:
    assert b"\\ud83d" in encode_event({"type": "a", "delta": "\ud83d"})


def test_done_and_keep_alive_are_what_clients_know() -> None:
    assert (DONE, KEEP_ALIVE) == (b"data: [DONE]\n\n", b": keep-alive\n\n")


def test_the_openai_client_reads_a_stream_with_keep_alives() -> None:
    body = frames([Content.from_text("Hel"), Content.from_text("lo \u2028 ✓")])
    events = list(client(body).responses.create(input="hi", model="m", stream=True))
    assert [event.type for event in events][-1] == "response.completed"
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == "Hello \u2028 ✓"


def test_the_openai_clients_stream_helper_gets_the_final_response() -> None:
    with client(frames([Content.from_text("Hello")])).responses.stream(input="hi", model="m") as stream:
        assert stream.get_final_response().output_text == "Hello"


def test_the_openai_clients_stream_helper_parses_function_calls() -> None:
    request = make_request(tools=[{"type": "function", "name": "f"}])
    calls = [
        Content.from_function_call("call_1", "f", arguments='{"a"'),
        Content.from_function_call("call_1", "", arguments=":1}"),
    ]
    with client(frames(calls, request=request)).responses.stream(input="hi", model="m") as stream:
        deltas = [e.snapshot for e in stream if e.type == "response.function_call_arguments.delta"]
        [call] = stream.get_final_response().output
    assert deltas == ['{"a"', '{"a":1}']
    assert (call.type, call.call_id, call.arguments) == ("function_call", "call_1", '{"a":1}')


def test_an_error_event_has_the_flat_and_the_nested_form() -> None:
    event = error_event(ApiError.server_error(), sequence_number=7)
    check_event(event)
    assert event["error"]["message"] == event["message"]
    assert event["sequence_number"] == 7
    assert set(event["error"]) == {"message", "type", "param", "code"}


def test_the_openai_client_raises_at_an_error_event() -> None:
    body = encode_event(error_event(ApiError.server_error(), sequence_number=0))
    with pytest.raises(openai.APIError, match="The server had an error"):
        list(client(body).responses.create(input="hi", model="m", stream=True))
