from typing import Any

import pytest
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from hosting.responses import CreateRequest
from hosting.responses.envelope import new_envelope
from hosting.responses.replay import replay_events

TEXT = {"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}
ITEMS: list[dict[str, Any]] = [
    {
        "id": "rs_1",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "because"}],
        "status": "completed",
    },
    {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [TEXT]},
    {"id": "msg_2", "type": "message", "role": "assistant", "status": "completed", "content": []},
    {"id": "fc_1", "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "status": "completed"},
]


def response(status: str = "completed") -> dict[str, Any]:
    made = new_envelope(CreateRequest(), response_id="resp_1", model="m", created_at=1, status="completed")
    return {**made, "output": ITEMS, "status": status}


def test_numbers_are_contiguous_and_the_terminal_event_is_the_stored_response() -> None:
    events = replay_events(response())
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert (events[0]["type"], events[-1]["type"]) == ("response.created", "response.completed")
    assert events[-1]["response"] == response()


def test_every_event_is_of_a_type_that_the_client_knows() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    for event in replay_events(response()):
        assert adapter.validate_python(event).type == event["type"]


def test_the_items_are_those_of_the_response_in_order() -> None:
    done = [event["item"] for event in replay_events(response()) if event["type"] == "response.output_item.done"]
    assert done == ITEMS


@pytest.mark.parametrize(
    ("status", "terminal"), [("failed", "failed"), ("incomplete", "incomplete"), ("cancelled", "failed")]
)
def test_the_last_event_says_how_it_ended(status: str, terminal: str) -> None:
    assert replay_events(response(status))[-1]["type"] == f"response.{terminal}"
