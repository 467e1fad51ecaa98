"""ResponseEventStream: the response from created to its terminal event."""

import pytest

from hosting.responses import create_response_id, parse_create_request
from hosting.responses.builders import CHECKPOINT, INTERNAL_METADATA, ResponseEventStream, public_response
from tests.unit.handler_runs import message
from tests.unit.responses_checks import check_event, check_response


def make(**given: object) -> ResponseEventStream:
    return ResponseEventStream(response_id=create_response_id(), clock=lambda: 1_700_000_000.9, **given)  # type: ignore[arg-type]


def stored(*items: dict[str, object], **fields: object) -> dict[str, object]:
    stream = make(model="m")
    return stream.emit_created()["response"] | {"output": list(items)} | fields


@pytest.mark.parametrize(
    "emit",
    [
        lambda stream: stream.emit_created(),
        lambda stream: stream.emit_created(status="queued"),
        lambda stream: (stream.emit_created(), stream.emit_queued())[1],
        lambda stream: (stream.emit_created(), stream.emit_in_progress())[1],
        lambda stream: (stream.emit_created(), stream.emit_completed(usage={"input_tokens": 3}))[1],
        lambda stream: (stream.emit_created(), stream.emit_failed(code="server_error", message="no"))[1],
        lambda stream: (stream.emit_created(), stream.emit_incomplete(reason="max_output_tokens"))[1],
    ],
)
def test_each_lifecycle_event_is_what_the_openai_package_expects(emit) -> None:
    event = emit(make(model="m"))
    check_event(event)
    check_response(event["response"])


@pytest.mark.parametrize("given", [{}, {"response": {"output": []}}])
def test_a_stream_needs_an_id(given) -> None:
    with pytest.raises(ValueError, match="needs an id"):
        ResponseEventStream(**given)


def test_a_new_response_and_a_stored_one_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="not both"):
        ResponseEventStream(request={}, response=stored())


def test_fields_of_the_request_are_echoed_but_its_input_is_not_read() -> None:
    stream = make(
        request={
            "input": object(),
            "model": "m",
            "instructions": "be brief",
            "conversation": "conv_x",
            "metadata": {"a": "1"},
        }
    )
    response = stream.emit_created()["response"]
    assert response["model"] == "m"
    assert response["instructions"] == "be brief"
    assert response["conversation"] == {"id": "conv_x"}
    assert response["metadata"] == {"a": "1"}


def test_a_parsed_request_is_taken_too() -> None:
    request = parse_create_request({"input": "hi", "temperature": 0.25})
    assert make(request=request).emit_created()["response"]["temperature"] == 0.25


def test_the_model_and_the_agent_given_are_shown() -> None:
    stream = make(request={"model": "asked"}, model="used", agent_reference={"type": "agent_reference", "name": "a"})
    response = stream.emit_created()["response"]
    assert response["model"] == "used"
    assert response["agent_reference"] == {"type": "agent_reference", "name": "a"}


@pytest.mark.parametrize(
    "call",
    [
        lambda stream: stream.emit_queued(),
        lambda stream: stream.emit_in_progress(),
        lambda stream: stream.emit_completed(),
        lambda stream: stream.emit_failed(),
        lambda stream: stream.emit_incomplete(),
        lambda stream: stream.checkpoint(),
        lambda stream: stream.add_output_item_message().emit_added(),
    ],
)
def test_nothing_comes_before_created(call) -> None:
    with pytest.raises(ValueError, match="comes before response"):
        call(make())


def test_a_response_does_not_begin_as_completed() -> None:
    with pytest.raises(ValueError, match="begins as"):
        make().emit_created(status="completed")  # type: ignore[arg-type]


def test_only_a_completed_response_has_a_time_of_completion() -> None:
    ends = {}
    for name in ("completed", "failed", "incomplete"):
        stream = make()
        stream.emit_created()
        ends[name] = getattr(stream, f"emit_{name}")()["response"]["completed_at"]
    assert ends == {"completed": 1_700_000_000, "failed": None, "incomplete": None}


def test_a_failure_shows_its_code_its_message_and_more_metadata() -> None:
    stream = make(request={"metadata": {"a": "1"}})
    stream.emit_created()
    response = stream.emit_failed(code="quota", message="Come back tomorrow.", metadata={"b": "2"})["response"]
    assert response["error"]["code"] == "quota"
    assert response["error"]["message"] == "Come back tomorrow."
    assert response["metadata"] == {"a": "1", "b": "2"}


def test_an_incomplete_response_tells_why() -> None:
    stream = make()
    stream.emit_created()
    assert stream.emit_incomplete(reason="content_filter")["response"]["incomplete_details"] == {
        "reason": "content_filter"
    }


@pytest.mark.parametrize(
    "usage",
    [
        {"input_tokens": 3, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 1}},
        {"input_token_count": 3, "output_token_count": 4, "cache_read_input_token_count": 1},
        {"input_tokens": 3, "output_tokens": 4, "total_tokens": None, "input_tokens_details": {"cached_tokens": 1}},
    ],
)
def test_usage_is_filled_up_to_what_the_api_requires(usage) -> None:
    stream = make()
    stream.emit_created()
    assert stream.emit_completed(usage=usage)["response"]["usage"] == {
        "input_tokens": 3,
        "input_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 0},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 7,
    }


def test_events_are_numbered_and_listed_and_a_checkpoint_takes_no_number() -> None:
    stream = make()
    emitted = [stream.emit_created(), stream.checkpoint(), stream.emit_in_progress()]
    assert stream.events() == emitted
    assert [event["sequence_number"] for event in emitted if event["type"] != CHECKPOINT] == [0, 1]


def test_a_stream_that_keeps_no_events_says_so() -> None:
    with pytest.raises(ValueError, match="keep_events"):
        make(keep_events=False).events()


def test_what_was_handed_out_does_not_change_when_the_response_grows() -> None:
    stream = make()
    created = stream.emit_created()
    list(stream.output_item_message("hi"))
    stream.emit_failed(metadata={"later": "x"})
    assert created["response"]["output"] == []
    assert created["response"]["metadata"] == {}
    assert created["response"]["status"] == "in_progress"


def test_items_in_the_output_are_in_the_order_of_their_indexes() -> None:
    stream = make()
    stream.emit_created()
    first, second = stream.output_item_message("first"), stream.output_item_message("second")
    list(second)
    list(first)
    output = stream.emit_completed()["response"]["output"]
    assert [item["content"][0]["text"] for item in output] == ["first", "second"]


# Recovery


def test_a_stream_from_a_stored_response_goes_on_at_the_next_index() -> None:
    stream = ResponseEventStream(response=stored(message("msg_1", "one")))
    stream.emit_created()
    assert stream.emit_in_progress()["response"]["output"] == [message("msg_1", "one")]
    assert stream.add_output_item_message().output_index == 1
    list(stream.output_item_message("two"))
    output = stream.emit_completed()["response"]["output"]
    assert [item["content"][0]["text"] for item in output] == ["one", "two"]


def test_a_stream_from_a_stored_response_may_leave_out_created() -> None:
    assert ResponseEventStream(response=stored()).emit_in_progress()["type"] == "response.in_progress"


def test_the_stored_response_itself_is_not_changed() -> None:
    persisted = stored(message("msg_1", "one"))
    stream = ResponseEventStream(response=persisted)
    stream.response["output"][0]["status"] = "changed"
    list(stream.output_item_message("two"))
    stream.emit_failed(metadata={"x": "y"})
    assert persisted["output"] == [message("msg_1", "one")]
    assert persisted["metadata"] == {}
    assert persisted["status"] == "in_progress"


def test_a_stored_response_that_had_ended_is_open_again() -> None:
    persisted = stored(
        status="failed", error={"code": "server_error"}, completed_at=1, incomplete_details={"reason": "x"}
    )
    response = ResponseEventStream(response=persisted).emit_in_progress()["response"]
    assert response["status"] == "in_progress"
    assert (response["error"], response["completed_at"], response["incomplete_details"]) == (None, None, None)


# Internal metadata


def test_internal_metadata_travels_with_the_snapshot_and_comes_back() -> None:
    stream = make(request={"metadata": {"a": "1"}})
    stream.internal_metadata["phase"] = "gather"
    stream.emit_created()
    snapshot = stream.checkpoint()["response"]
    assert ResponseEventStream(response=snapshot).internal_metadata == {"phase": "gather"}
    assert public_response(snapshot)["metadata"] == {"a": "1"}


def test_internal_metadata_that_is_taken_away_is_gone() -> None:
    stream = make()
    stream.internal_metadata["phase"] = "gather"
    stream.emit_created()
    del stream.internal_metadata["phase"]
    assert INTERNAL_METADATA not in stream.checkpoint()["response"]["metadata"]


@pytest.mark.parametrize("notes", [{"x": "y" * 512}, {"x": object()}, {"x": float("nan")}])
def test_internal_metadata_is_a_little_json(notes) -> None:
    stream = make()
    stream.internal_metadata.update(notes)
    with pytest.raises(ValueError):
        stream.emit_created()


@pytest.mark.parametrize("text", ["no json", "[1]", 7])
def test_internal_metadata_that_cannot_be_read_is_none(text) -> None:
    assert ResponseEventStream(response=stored(metadata={INTERNAL_METADATA: text})).internal_metadata == {}
