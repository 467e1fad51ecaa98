"""Any run, streamed or whole, gives the same valid response."""

import copy
import json
from typing import Any

from agent_framework import AgentResponse, AgentResponseUpdate, Content
from hypothesis import given, settings
from hypothesis import strategies as st

from hosting.responses import (
    check_tool_pairs,
    event_frame,
    messages_from_items,
    messages_from_responses_input,
    responses_from_run,
    responses_to_run,
)
from tests.unit.responses_checks import (
    check_input_items,
    check_response,
    check_stream,
    make_renderer,
    make_request,
    render,
    replay,
    without_ids,
)
from tests.unit.test_responses_hosted_items import EXAMPLES

PNG = "data:image/png;base64,iVBORw0KGgo="
TEXTS = st.sampled_from(["", "a", "b ", "\u2028", "é✓", '{"', "x" * 50])
CITATION: Any = {"type": "citation", "url": "https://e.com", "title": "T"}
DECLARED = make_request(tools=[{"type": "function", "name": "declared"}])
# Which tool is called: the client's own, one of the agent, one that the agent is known to run without asking.
NAMES = ("declared", "agents", "known")


def _texts() -> st.SearchStrategy[Content]:
    plain = st.builds(Content.from_text, TEXTS, annotations=st.none() | st.just([CITATION]))
    refusal = {"core": {"model_output_kind": "refusal"}}
    return plain | st.builds(Content.from_text, TEXTS, additional_properties=st.just(refusal))


def _reasoning() -> st.SearchStrategy[Content]:
    # An id is given always or never, as services do; the raw texts of a service have ids of their own.
    def make(text: str, source: tuple[str | None, bool], protected: str | None) -> Content:
        identifier, raw = source
        properties = {"openai": {"reasoning_text": True}} if raw else {}
        return Content.from_text_reasoning(
            id=identifier, text=text, protected_data=protected, additional_properties=properties
        )

    sources = st.sampled_from([("a", False), ("b", False), ("rs_c", True)])
    return st.builds(make, TEXTS, sources, st.none() | st.just("enc"))


def _calls() -> st.SearchStrategy[Content]:
    def fragment(number: int, arguments: str) -> Content:
        name = NAMES[number % 3]
        return Content.from_function_call(f"c{number}", name, arguments=arguments, id=f"af-{number}")

    def result(number: int, failed: bool) -> Content:
        exception = "secret" if failed else None
        return Content.from_function_result(f"c{number}", result="r", id=f"af-{number}", exception=exception)

    def approval(number: int) -> Content:
        return Content.from_function_approval_request(f"af-{number}", fragment(number, "{}"))

    numbers = st.integers(0, 5)
    return (
        st.builds(fragment, numbers, st.sampled_from(["", '{"a', '":1', "}"]))
        | st.builds(result, numbers, st.booleans())
        | st.builds(approval, numbers)
    )


def _others() -> st.SearchStrategy[Content]:
    text = Content.from_text
    return st.sampled_from(
        [
            lambda: Content.from_usage({"input_token_count": 2, "output_token_count": 1}),
            lambda: Content.from_data(b"x", "image/png"),
            lambda: Content.from_hosted_file("f"),
            lambda: Content.from_hosted_vector_store("v"),
            lambda: Content.from_mcp_server_tool_call("m", "search", server_name="docs", arguments="{}"),
            lambda: Content.from_mcp_server_tool_result("m", output="found"),
            lambda: Content.from_code_interpreter_tool_call(call_id="k", inputs=[text("1")]),
            lambda: Content.from_code_interpreter_tool_result(call_id="k", outputs=[text("1")]),
            lambda: Content.from_image_generation_tool_call(image_id="i"),
            lambda: Content.from_image_generation_tool_result(image_id="i", outputs=Content.from_uri(PNG)),
            lambda: Content.from_search_tool_call("s", tool_name="web_search", arguments={"query": "q"}),
            lambda: Content.from_shell_tool_call(call_id="h", commands=["ls"]),
            lambda: Content.from_error(message="bad"),
        ]
    ).map(lambda make: make())


def _updates() -> st.SearchStrategy[list[AgentResponseUpdate]]:
    # One of each type there is, apart from those above that need others of their kind around them.
    rest = sorted(set(EXAMPLES) - {"text", "text_reasoning", "function_call", "function_result"})
    examples = st.sampled_from(rest).map(lambda kind: copy.copy(EXAMPLES[kind]))
    contents = st.one_of(_texts(), _texts(), _texts(), _reasoning(), _calls(), _calls(), _others(), examples)
    update = st.builds(
        AgentResponseUpdate,
        contents=st.lists(contents, max_size=3),
        role=st.sampled_from([None, "assistant", "assistant", "tool", "user"]),
        message_id=st.sampled_from([None, None, "m1", "m2"]),
        author_name=st.sampled_from([None, None, "A", "B"]),
        finish_reason=st.sampled_from([None] * 8 + ["stop", "length", "content_filter"]),
    )
    return st.lists(update, max_size=10).map(_plausible)


def _plausible(updates: list[AgentResponseUpdate]) -> list[AgentResponseUpdate]:
    """Leave out what no agent sends: fragments of a call that has its result, results and approvals out of nowhere."""
    begun: set[str] = set()
    over: set[str] = set()
    for update in updates:
        kept: list[Content] = []
        for content in update.contents:
            identifier = content.id or content.call_id
            if content.type in ("function_call", "mcp_server_tool_call") and identifier:
                if identifier in over:
                    continue
                begun.add(identifier)
            elif content.type in ("function_result", "function_approval_request", "mcp_server_tool_result"):
                if identifier not in begun or identifier in over:
                    continue
                over.add(identifier or "")
            kept.append(content)
        update.contents = kept
    return updates


def streamed(updates: list[AgentResponseUpdate], **options: Any) -> dict[str, Any]:
    renderer = make_renderer(request=DECLARED, server_tools={"known"}, **options)
    events = renderer.start()
    for update in updates:
        events += renderer.feed(update)
    events += [*renderer.finish(), renderer.terminal()]
    check_stream(events)
    assert "secret" not in repr(events)
    return renderer.response


@settings(max_examples=150, deadline=None)
@given(_updates(), st.sampled_from(["mcp_call", "function_call", "hidden"]))
def test_a_streamed_run_equals_the_same_run_as_a_whole(updates: list[AgentResponseUpdate], show: Any) -> None:
    stream = streamed(updates, server_calls=show)
    result = AgentResponse.from_updates(updates)
    whole = render(result, request=DECLARED, server_tools={"known"}, server_calls=show)
    assert without_ids(stream["output"]) == without_ids(whole["output"])
    for name in ("status", "usage", "error", "incomplete_details"):
        assert stream[name] == whole[name]


SHOWN = st.sampled_from(["mcp_call", "function_call", "hidden"])


@settings(max_examples=150, deadline=None)
@given(_updates(), SHOWN)
def test_the_output_of_any_run_can_be_the_input_of_the_next(updates: list[AgentResponseUpdate], show: Any) -> None:
    response = responses_from_run(
        AgentResponse.from_updates(updates), response_id="resp_1", request=DECLARED, server_calls=show
    )
    check_response(response)
    assert json.dumps(response, ensure_ascii=False, allow_nan=False).encode()
    stored = replay(response)
    check_input_items(stored)
    answers = [
        {"type": f"{item['type']}_output", "call_id": item["call_id"], "output": _ANSWERS[item["type"]]}
        for item in response["output"]
        if item["type"] in _ANSWERS and not _is_answered(item, response["output"])
    ]
    run = responses_to_run({"input": [*response["output"], *answers, {"role": "user", "content": "next"}]})
    if not any(item["type"] == "computer_call_output" for item in response["output"]):  # of a call before this run
        check_tool_pairs(stored, answers)
    said = [message.to_dict() for message in run["messages"]]
    direct = [message.to_dict() for message in messages_from_items(response["output"])]
    assert [message.to_dict() for message in messages_from_items(stored)] == direct
    assert [content["type"] for message in said for content in message["contents"]][: len(_types(direct))] == _types(
        direct
    )


_ANSWERS: dict[str, Any] = {"function_call": "x", "computer_call": {"type": "computer_screenshot", "image_url": PNG}}


def _is_answered(call: dict[str, Any], output: list[dict[str, Any]]) -> bool:
    return call.get("status") == "incomplete" or any(
        item["type"] == f"{call['type']}_output" and item["call_id"] == call["call_id"] for item in output
    )


def _types(messages: list[dict[str, Any]]) -> list[str]:
    return [content["type"] for message in messages for content in message["contents"]]


@settings(max_examples=80, deadline=None)
@given(_updates())
def test_a_replayed_output_says_the_same_whatever_way_it_comes_in(updates: list[AgentResponseUpdate]) -> None:
    output = streamed(updates)["output"]
    tail = {"role": "user", "content": "next"}
    by_helper = messages_from_responses_input([*output, tail])[:-1]
    stored = replay({"output": output})
    assert [message.to_dict() for message in by_helper] == [
        message.to_dict() for message in messages_from_items(stored)
    ]


@settings(max_examples=80, deadline=None)
@given(_updates())
def test_frames_are_the_events_of_the_same_run(updates: list[AgentResponseUpdate]) -> None:
    by_event, by_frame = (make_renderer(request=DECLARED, server_tools={"known"}) for _ in range(2))
    assert by_event.start() is not by_frame.start()
    for update in updates:
        events = by_event.feed(update)
        frames = by_frame.feed_frames(update)
        told = [json.loads(frame.split("\ndata: ", 1)[1]) for frame in frames]
        assert [_without_ids(event) for event in told] == [
            _without_ids(json.loads(event_frame(event).split("\ndata: ", 1)[1])) for event in events
        ]
    by_event.finish()
    by_frame.finish()
    assert without_ids(by_event.output_items) == without_ids(by_frame.output_items)


def _without_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_ids(entry) for name, entry in value.items() if name not in ("id", "item_id", "call_id")}
    return [_without_ids(entry) for entry in value] if isinstance(value, list) else value


@settings(max_examples=80, deadline=None)
@given(_updates(), st.integers(0, 10), st.booleans())
def test_a_run_that_breaks_anywhere_ends_its_stream_properly(
    updates: list[AgentResponseUpdate], at: int, cancelled: bool
) -> None:
    renderer = make_renderer(request=DECLARED)
    events = renderer.start()
    for update in updates[:at]:
        events += renderer.feed(update)
    events += [*(renderer.cancel() if cancelled else renderer.fail()), renderer.terminal()]
    check_stream(events)
    assert renderer.response["status"] == ("cancelled" if cancelled else "failed")
    assert renderer.open_calls == []


SNAPSHOTS = st.lists(
    st.builds(Content.from_text, TEXTS.filter(bool), merge_mode=st.sampled_from(["append", "replace"])), max_size=8
)


@settings(max_examples=50, deadline=None)
@given(SNAPSHOTS, st.booleans())
def test_replaced_texts_end_as_agent_framework_has_them(contents: list[Content], by_update: bool) -> None:
    updates = [
        AgentResponseUpdate(contents=[Content.from_text(content.text or "")], merge_mode=content.merge_mode)
        if by_update
        else AgentResponseUpdate(contents=[content])
        for content in contents
    ]
    renderer = make_renderer()
    events = renderer.start()
    for update in updates:
        events += renderer.feed(update)
    events += [*renderer.finish(), renderer.terminal()]
    check_stream(events, replaced=True)
    result = AgentResponse.from_updates(updates)
    assert without_ids(renderer.response["output"]) == without_ids(render(result)["output"])
