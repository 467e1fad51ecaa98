"""Whatever the JSON, only a ValueError (an InvalidRequest) comes out of what reads it; and what comes in comes through."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hosting.responses import (
    InvalidRequest,
    check_tool_pairs,
    compact,
    estimate_input_tokens,
    messages_from_items,
    messages_from_responses_input,
    options_from_request,
    parse_compact_request,
    parse_create_request,
    parse_input_tokens_request,
    responses_continuation,
    responses_session_id,
    responses_to_run,
    stored_input_items,
)
from hosting.responses.compaction import compacted_text
from tests.unit.responses_json import BODIES, JSON, VALUES
from tests.unit.responses_mutations import VALID, mutated


def _read_all(body: Any) -> None:
    run = responses_to_run(body)
    for message in run["messages"]:
        json.dumps(message.to_dict())


def _compact(body: Any) -> None:
    request = parse_compact_request(body)
    made = compact(stored_input_items(request, "resp_1"), response_id="resp_1", created_at=1)
    json.dumps(made, allow_nan=False).encode()
    again = parse_create_request({"input": made["output"]})
    with contextlib.suppress(InvalidRequest):  # a reference that nobody has resolved
        messages_from_items(again.input_items)


def _create(body: Any) -> None:
    request = parse_create_request(body)
    options_from_request(request)
    check_tool_pairs([], request.input_items)


def _estimate(body: Any) -> None:
    request = parse_input_tokens_request(body)
    assert 0 <= estimate_input_tokens(request) == estimate_input_tokens(request, [])


READERS: dict[str, Callable[[Any], Any]] = {
    "run": _read_all,
    "session": responses_session_id,
    "continuation": responses_continuation,
    "create": _create,
    "compact": _compact,
    "estimate": _estimate,
    "messages": lambda body: messages_from_responses_input(body.get("input") if isinstance(body, dict) else body),
}


@pytest.mark.parametrize("body", VALID, ids=range(len(VALID)))
def test_the_bodies_that_are_mutated_are_valid(body: dict[str, Any]) -> None:
    request = parse_create_request(body)
    assert len(request.input_items) == (1 if isinstance(body["input"], str) else len(body["input"]))
    assert parse_create_request(request.to_body()) == request


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS.keys())
@settings(max_examples=120, deadline=None)
@given(body=mutated() | BODIES | VALUES | JSON)
def test_only_an_invalid_request_comes_out(reader: Callable[[Any], Any], body: Any) -> None:
    before = json.dumps(body)
    with contextlib.suppress(InvalidRequest):
        reader(body)
    assert json.dumps(body) == before


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=40) | st.binary(max_size=40) | JSON)
def test_any_content_of_a_compaction_is_text_for_the_agent(content: Any) -> None:
    assert isinstance(compacted_text({"type": "compaction", "encrypted_content": content}), str)


@settings(max_examples=80, deadline=None)
@given(mutated())
def test_what_was_taken_is_stored_and_taken_again(body: dict[str, Any]) -> None:
    try:
        request = parse_create_request(body)
    except InvalidRequest:
        return
    stored = stored_input_items(request, "resp_1")
    again = parse_create_request({"input": stored}, input_required=False)
    assert list(again.input_items) == stored
