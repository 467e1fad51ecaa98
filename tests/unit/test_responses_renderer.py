import time
from typing import Any

import pytest
from agent_framework import AgentResponse, AgentResponseUpdate, Content, Message

from tests.unit.responses_checks import (
    check_response,
    check_stream,
    make_renderer,
    make_request,
    render,
    stream,
    types,
    without_ids,
)

T = Content.from_text


def update(*contents: Content, role: str | None = "assistant", **fields: Any) -> AgentResponseUpdate:
    return AgentResponseUpdate(contents=list(contents), role=role, **fields)


def texts(response: dict[str, Any]) -> list[list[str]]:
    return [[part["text"] for part in item["content"]] for item in response["output"] if item["type"] == "message"]


def refusal(text: str) -> Content:
    return T(text, additional_properties={"core": {"model_output_kind": "refusal"}})


def reasoning(text: str | None, *, raw: bool = False, **fields: Any) -> Content:
    properties = {"openai": {"reasoning_text": True}} if raw else {}
    return Content.from_text_reasoning(text=text, additional_properties=properties, **fields)


def test_a_text_stream_has_exactly_these_events() -> None:
    events, response = stream([update(T("Hel")), update(T("lo"))])
    assert types(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert texts(response) == [["Hello"]]


def test_a_completed_response_says_when() -> None:
    assert render(AgentResponse(messages=[Message("assistant", ["x"])]))["completed_at"] == 1_700_000_009


def test_the_first_events_carry_the_whole_response_without_output() -> None:
    events, _ = stream([update(T("x"))], request=make_request(instructions="Be brief.", metadata={"a": "b"}))
    for event in events[:2]:
        check_response(event["response"])
        assert event["response"]["instructions"] == "Be brief."
        assert event["response"]["completed_at"] is None


def test_handed_out_events_never_change() -> None:
    renderer = make_renderer()
    events = [*renderer.start(), *renderer.feed(update(T("x")))]
    before = repr(events)
    renderer.feed(update(T("y"), refusal("no")))
    renderer.finish()
    renderer.terminal()
    assert repr(events) == before


def test_a_queued_response_is_created_once() -> None:
    renderer = make_renderer(request=make_request(background=True))
    events = [*renderer.enqueue(), *renderer.start(), *renderer.finish(), renderer.terminal()]
    assert types(events) == ["created", "queued", "in_progress", "completed"]
    assert [event["response"]["status"] for event in events] == ["queued", "queued", "in_progress", "completed"]
    assert [event["sequence_number"] for event in events] == [0, 1, 2, 3]


def test_numbering_can_go_on_where_another_process_stopped() -> None:
    renderer = make_renderer(first_sequence_number=41)
    assert [event["sequence_number"] for event in renderer.start()] == [41, 42]
    assert renderer.next_sequence_number == 43


def test_the_terminal_event_is_not_out_before_it_is_asked_for() -> None:
    renderer = make_renderer()
    renderer.start()
    assert "response.completed" not in [event["type"] for event in [*renderer.feed(update(T("x"))), *renderer.finish()]]
    assert renderer.response["status"] == "completed"
    assert renderer.terminal()["type"] == "response.completed"


# Messages


@pytest.mark.parametrize(
    "second",
    [
        update(T("b"), message_id="m2"),
        update(T("b"), message_id="m1", author_name="B"),
        update(T("b"), role="user", message_id="m1"),
    ],
    ids=["id", "author", "role"],
)
def test_a_new_message_of_the_agent_is_a_new_item(second: AgentResponseUpdate) -> None:
    _, response = stream([update(T("a"), message_id="m1", author_name="A"), second])
    assert texts(response) == [["a"], ["b"]]


def test_updates_without_ids_belong_to_one_message() -> None:
    _, response = stream([update(T("a"), message_id="m1"), update(T("b"), role=None), update(T("c"))])
    assert texts(response) == [["abc"]]


def test_texts_of_a_whole_message_stay_parts() -> None:
    assert texts(render(AgentResponse(messages=[Message("assistant", ["a", "b"])]))) == [["a", "b"]]


def test_messages_of_other_roles_are_shown_as_what_the_agent_said() -> None:
    result = AgentResponse(messages=[Message("user", ["a"]), Message("tool", ["b"]), Message("critic", ["c"])])
    assert texts(render(result)) == [["a"], ["b"], ["c"]]


def test_empty_texts_leave_nothing() -> None:
    events, response = stream([update(T("")), update(T("")), update()])
    assert response["output"] == []
    assert types(events) == ["created", "in_progress", "completed"]


def test_a_refusal_is_a_part_of_its_own() -> None:
    events, response = stream([update(T("Well. ")), update(refusal("I ca")), update(refusal("n't."))])
    assert [part["type"] for part in response["output"][0]["content"]] == ["output_text", "refusal"]
    assert response["output"][0]["content"][1] == {"type": "refusal", "refusal": "I can't."}
    assert "refusal.done" in types(events)


def test_a_refusal_marked_the_old_way_is_one_too() -> None:
    old = T("No.", additional_properties={"model_output_kind": "refusal"})
    assert render(AgentResponse(messages=[Message("assistant", [old])]))["output"][0]["content"][0]["type"] == "refusal"


def test_annotations_become_events_and_stay_in_the_text() -> None:
    citation: Any = {
        "type": "citation",
        "url": "https://e.com",
        "title": "T",
        "annotated_regions": [{"type": "text_span", "start_index": 0, "end_index": 2}],
    }
    file: Any = {"type": "citation", "file_id": "f1", "url": "a.txt", "additional_properties": {"index": 3}}
    path: Any = {"type": "citation", "file_id": "f2", "additional_properties": {"index": 1}}
    container: Any = {"type": "citation", "file_id": "f3", "url": "b", "additional_properties": {"container_id": "c"}}
    nothing: Any = {"type": "citation", "snippet": "x"}
    events, response = stream(
        [update(T("ab", annotations=[citation])), update(T("", annotations=[file, path, container, nothing]))]
    )
    found = response["output"][0]["content"][0]["annotations"]
    assert [annotation["type"] for annotation in found] == [
        "url_citation",
        "file_citation",
        "file_path",
        "container_file_citation",
    ]
    assert [e["annotation_index"] for e in events if e["type"].endswith("annotation.added")] == [0, 1, 2, 3]


# Replacement


def test_a_snapshot_sends_only_what_is_new() -> None:
    events, response = stream([update(T("Hel")), update(T("Hello", merge_mode="replace"))])
    assert [event["delta"] for event in events if event["type"].endswith("delta")] == ["Hel", "lo"]
    assert texts(response) == [["Hello"]]


def replaced(*updates: AgentResponseUpdate) -> list[list[str]]:
    renderer = make_renderer()
    events = renderer.start()
    for each in updates:
        events += renderer.feed(each)
    events += [*renderer.finish(), renderer.terminal()]
    check_stream(events, replaced=True)
    assert [e["text"] for e in events if e["type"].endswith("text.done")] == [
        text for message in texts(renderer.response) for text in message
    ]
    return texts(renderer.response)


def test_a_text_that_is_replaced_is_right_in_the_end() -> None:
    assert replaced(update(T("draft")), update(T("final", merge_mode="replace"))) == [["final"]]


def test_an_update_can_replace_its_message() -> None:
    assert replaced(update(T("draft")), update(T("fi"), T("nal"), merge_mode="replace")) == [["final"]]


def test_an_update_that_replaces_more_than_one_text_goes_on_in_a_new_part() -> None:
    updates = [update(refusal("no"), T("draft")), update(T("final"), merge_mode="replace")]
    events, response = stream(updates)
    assert response["output"][0]["content"][1]["text"] == "draftfinal"
    assert types(events)[-1] == "completed"


# Reasoning


def test_a_reasoning_summary_is_streamed_as_a_summary() -> None:
    events, response = stream([update(reasoning("Let ")), update(reasoning("me see")), update(T("ok"))])
    assert types(events)[2:8] == [
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
    ]
    assert response["output"][0]["summary"] == [{"type": "summary_text", "text": "Let me see"}]
    assert "content" not in response["output"][0]


def test_raw_reasoning_is_content_and_not_a_summary() -> None:
    events, response = stream([update(reasoning("raw", raw=True))])
    assert response["output"][0]["content"] == [{"type": "reasoning_text", "text": "raw"}]
    assert response["output"][0]["summary"] == []
    assert "reasoning_text.delta" in types(events)


def test_contents_of_one_reasoning_are_one_item() -> None:
    contents = [reasoning("a", id="x"), reasoning("b", id="x"), reasoning(None, id="x", protected_data="enc")]
    [item] = render(AgentResponse(messages=[Message("assistant", contents)]))["output"]
    assert [part["text"] for part in item["summary"]] == ["a", "b"]
    assert item["encrypted_content"] == "enc"


def test_another_reasoning_id_is_another_item() -> None:
    _, response = stream([update(reasoning("a", id="x")), update(reasoning("b", id="y"))])
    assert [item["summary"][0]["text"] for item in response["output"]] == ["a", "b"]


def test_the_services_id_is_kept_because_encrypted_content_depends_on_it() -> None:
    _, response = stream([update(reasoning("a", id="rs_service1", protected_data="enc"))])
    assert response["output"][0]["id"] == "rs_service1"


def test_reasoning_without_anything_in_it_is_no_item() -> None:
    _, response = stream([update(reasoning(None, id="rs_1")), update(reasoning(""))])
    assert response["output"] == []


# What else can come


class Odd:
    """A raw object as providers have them: nothing on it is what its name says."""

    status = 200
    error = "none"
    model = 5

    @property
    def metadata(self) -> Any:
        raise RuntimeError("secret")


def test_raw_objects_are_not_looked_at() -> None:
    result = AgentResponse(
        messages=[Message("assistant", [T("x", raw_representation=Odd())])], raw_representation=Odd()
    )
    assert render(result, follow_model=True)["status"] == "completed"


class Event:
    """What a workflow event looks like."""

    def __init__(self, type: str, data: Any) -> None:
        self.type = type
        self.data = data


def test_events_of_a_workflow_are_rendered() -> None:
    events = [
        Event("started", None),
        Event("output", update(T("a"))),
        Event("status", "IDLE"),
        Event("output", AgentResponse(messages=[Message("assistant", ["b"])])),
        Event("output", "c"),
        Event("output", {"d": 1}),
        Event("output", None),
    ]
    assert texts(stream(events)[1]) == [["a"], ["b"], ["c"], ['{"d": 1}']]


@pytest.mark.parametrize(
    "value",
    ["x", Message("assistant", ["x"]), T("x"), [Message("assistant", ["x"])]],
    ids=["text", "message", "content", "list"],
)
def test_a_text_a_message_or_a_content_is_a_result_too(value: Any) -> None:
    assert texts(render(value)) == [["x"]]


def test_the_model_is_the_given_one_or_the_one_that_the_run_reports() -> None:
    class Raw:
        model = "gpt-x"

    reported = update(T("x"), raw_representation=Raw())
    assert stream([reported])[1]["model"] == "m"
    assert stream([reported], follow_model=True)[1]["model"] == "gpt-x"


def test_a_long_stream_costs_linear_time() -> None:
    def seconds(count: int) -> float:
        renderer = make_renderer()
        renderer.start()
        updates = [update(T("four")) for _ in range(count)]
        started = time.process_time()
        for each in updates:
            renderer.feed(each)
        renderer.finish()
        return time.process_time() - started

    seconds(1000)
    assert seconds(32_000) < 16 * max(seconds(4_000), 0.005)


def test_items_so_far_can_be_read_on_the_way() -> None:
    renderer = make_renderer()
    renderer.start()
    renderer.feed(update(T("a"), message_id="1"))
    assert renderer.output_items == []
    renderer.feed(update(T("b"), message_id="2"))
    assert without_ids(renderer.output_items) == [
        {
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "a", "annotations": [], "logprobs": []}],
        }
    ]
