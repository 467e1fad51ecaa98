"""Rows E of af_gaps: streams that the published helpers leave silent, inconsistent or unfinished."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agent_framework import AgentResponse, AgentResponseUpdate, Content, ResponseStream

from hosting.responses import responses_from_streaming_run, with_keep_alive
from tests.unit.responses_checks import check_response, check_stream, make_renderer, make_request, stream, types
from tests.unit.test_responses_helpers import Source, events_of
from tests.unit.test_responses_sse import client, frames

PNG = "data:image/png;base64,iVBORw0KGgo="
T = Content.from_text
F = Content.from_function_call
CLIENT = make_request(tools=[{"type": "function", "name": "f"}])
type Json = dict[str, Any]


def update(*contents: Content, **fields: Any) -> AgentResponseUpdate:
    return AgentResponseUpdate(contents=list(contents), role="assistant", **fields)


def one_by_one(*contents: Content, **options: Any) -> list[list[str]]:
    """The types of the events that each content makes at once."""
    renderer = make_renderer(**options)
    renderer.start()
    return [types(renderer.feed(update(content))) for content in contents]


LIVE: list[tuple[str, list[Content], list[list[str]]]] = [
    (
        "call of the client's function",
        [F("c1", "f", arguments='{"a"'), F("c1", "", arguments=":1}")],
        [["output_item.added", "function_call_arguments.delta"], ["function_call_arguments.delta"]],
    ),
    (
        "call of a function that the agent executes",
        [F("c1", "add", arguments="{"), F("c1", "", arguments="}"), Content.from_function_result("c1", result="3")],
        [
            ["output_item.added", "mcp_call.in_progress", "mcp_call_arguments.delta"],
            ["mcp_call_arguments.delta"],
            ["mcp_call_arguments.done", "mcp_call.completed", "output_item.done"],
        ],
    ),
    (
        "reasoning",
        [Content.from_text_reasoning(text="Let "), Content.from_text_reasoning(text="me see")],
        [
            ["output_item.added", "reasoning_summary_part.added", "reasoning_summary_text.delta"],
            ["reasoning_summary_text.delta"],
        ],
    ),
    (
        "approval",
        [Content.from_function_approval_request("a", F("c1", "delete"))],
        [["output_item.added", "output_item.done"]],
    ),
    (
        "MCP",
        [Content.from_mcp_server_tool_call("m", "f", server_name="docs", arguments="{}")],
        [["output_item.added", "mcp_call.in_progress", "mcp_call_arguments.delta"]],
    ),
    (
        "code",
        [
            Content.from_code_interpreter_tool_call(call_id="k", inputs=[T("1+1")]),
            Content.from_code_interpreter_tool_call(call_id="k", inputs=[T("+1")]),
        ],
        [
            ["output_item.added", "code_interpreter_call.in_progress", "code_interpreter_call_code.delta"],
            ["code_interpreter_call_code.delta"],
        ],
    ),
    (
        "search",
        [Content.from_search_tool_call("s", tool_name="web_search", arguments={"query": "q"})],
        [["output_item.added", "web_search_call.in_progress", "web_search_call.searching"]],
    ),
    (
        "image",
        [Content.from_image_generation_tool_call(image_id="i")],
        [["output_item.added", "image_generation_call.in_progress", "image_generation_call.generating"]],
    ),
]


@pytest.mark.parametrize(("contents", "expected"), [row[1:] for row in LIVE], ids=[row[0] for row in LIVE])
def test_e1_everything_has_events_when_it_happens(contents: list[Content], expected: list[list[str]]) -> None:
    assert one_by_one(*contents, request=CLIENT, server_tools={"add"}) == expected


def test_e1_indexes_have_no_gaps_and_every_item_is_announced() -> None:
    contents = [content for _, row, _ in LIVE for content in row]
    events, response = stream([update(content) for content in contents], request=CLIENT, server_tools={"add"})
    added = [event["output_index"] for event in events if event["type"].endswith("item.added")]
    assert added == list(range(len(response["output"])))


async def read(*contents: Content, error: Exception | None = None, **options: Any) -> tuple[Any, list[Json]]:
    rendered = responses_from_streaming_run(Source(*contents, error=error).stream(), response_id="resp_1", **options)
    events = events_of([frame async for frame in rendered])
    check_stream(events)
    return rendered, events


async def test_e2_the_caller_is_told_that_the_run_failed() -> None:
    error = RuntimeError("secret")
    rendered, events = await read(T("Hel"), error=error)
    assert (rendered.failed, rendered.error) == (True, error)
    assert events[-1]["response"]["error"]["message"] == "The agent failed before it could complete this response."
    assert "secret" not in repr(events)


async def test_e2_a_run_that_went_well_may_be_stored() -> None:
    rendered, _ = await read(T("Hello"))
    assert (rendered.failed, rendered.error) == (False, None)


async def test_e3_a_reader_that_goes_away_closes_the_source_and_runs_its_hooks() -> None:
    source = Source(*[T("x")] * 100)
    run = source.stream()
    hooks: list[str] = []
    run.with_cleanup_hook(lambda: hooks.append("ran"))
    rendered = responses_from_streaming_run(run, response_id="resp_1")
    async for frame in rendered:
        if "output_text.delta" in frame:
            break
    await rendered.aclose()
    assert (source.ended, hooks, rendered.failed) == (True, ["ran"], True)


async def test_e3_a_reader_that_is_cancelled_does_so_too() -> None:
    source = Source(*[T("x")] * 100)
    rendered = responses_from_streaming_run(source.stream(), response_id="resp_1")
    reached = asyncio.Event()

    async def reading() -> None:
        async for frame in rendered:
            if "output_text.delta" in frame:
                reached.set()
                await asyncio.sleep(60)

    task = asyncio.create_task(reading())
    await reached.wait()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    await rendered.aclose()
    assert (source.ended, rendered.failed) == (True, True)


async def test_e5_what_happened_before_a_failure_stays_as_it_was_streamed() -> None:
    contents = [
        Content.from_text_reasoning(text="Hm."),
        F("c1", "add", arguments="{}"),
        Content.from_function_result("c1", result="3"),
        T("It is"),
    ]
    _, events = await read(*contents, error=RuntimeError("x"))
    output = events[-1]["response"]["output"]
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert output == done
    assert [(item["type"], item["status"]) for item in output] == [
        ("reasoning", "completed"),
        ("mcp_call", "completed"),
        ("message", "incomplete"),
    ]
    assert output[2]["content"][0]["text"] == "".join(
        event["delta"] for event in events if event["type"] == "response.output_text.delta"
    )


async def test_e6_a_replaced_text_is_the_same_in_the_stream_and_at_its_end() -> None:
    updates = [update(T("draft")), update(T("final"), merge_mode="replace")]
    renderer = make_renderer()
    events = renderer.start()
    for each in updates:
        events += renderer.feed(each)
    events += [*renderer.finish(AgentResponse.from_updates(updates)), renderer.terminal()]
    check_stream(events, replaced=True)
    assert [event["text"] for event in events if event["type"].endswith("text.done")] == ["final"]
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "final"


def test_e6_another_author_is_another_message_in_both() -> None:
    updates = [update(T("a"), author_name="A"), update(T("b"), author_name="B")]
    _, response = stream(updates, result=AgentResponse.from_updates(updates))
    assert [item["content"][0]["text"] for item in response["output"]] == ["a", "b"]


def test_e7_ids_stay_with_their_items_when_others_come_between() -> None:
    contents = [Content.from_search_tool_call("s", tool_name="web_search"), T("a"), F("c1", "f"), T("b")]
    events, response = stream([update(content) for content in contents], request=CLIENT)
    added = {event["output_index"]: event["item"]["id"] for event in events if event["type"].endswith("item.added")}
    assert [item["id"] for item in response["output"]] == [added[index] for index in sorted(added)]


async def test_e8_the_first_events_are_whole_responses() -> None:
    request = {"input": "hi", "model": "m", "tools": [{"type": "function", "name": "f"}], "tool_choice": "required"}
    _, events = await read(T("x"), request=request)
    assert types(events[:2]) == ["created", "in_progress"]
    for event in events[:2]:
        check_response(event["response"])
        assert (event["response"]["model"], event["response"]["tool_choice"]) == ("m", "required")
    assert {event["response"]["created_at"] for event in (*events[:2], events[-1])} == {
        events[0]["response"]["created_at"]
    }


async def test_e9_a_run_that_is_not_over_is_incomplete_and_no_error() -> None:
    async def updates() -> AsyncIterator[AgentResponseUpdate]:
        yield update(T("so far"))

    def finalize(parts: Any) -> AgentResponse[Any]:
        return AgentResponse(messages=[], continuation_token={"x": 1})  # type: ignore[arg-type]

    rendered = responses_from_streaming_run(ResponseStream(updates(), finalizer=finalize), response_id="resp_1")
    events = events_of([frame async for frame in rendered])
    check_stream(events)
    assert (events[-1]["type"], events[-1]["response"]["error"]) == ("response.incomplete", None)


async def test_e9_an_image_is_an_item_and_no_failure() -> None:
    _, events = await read(Content.from_uri(PNG))
    assert events[-1]["type"] == "response.completed"
    assert [item["result"] for item in events[-1]["response"]["output"]] == ["iVBORw0KGgo="]


def test_e10_annotations_without_text_are_events() -> None:
    citation: Any = {"type": "citation", "url": "https://e.com", "title": "T"}
    events, response = stream([update(T("ok")), update(T("", annotations=[citation]))])
    [annotated] = [event for event in events if event["type"] == "response.output_text.annotation.added"]
    expected = {"type": "url_citation", "url": "https://e.com", "title": "T", "start_index": 0, "end_index": 0}
    assert (annotated["annotation"], annotated["annotation_index"]) == (expected, 0)
    assert response["output"][0]["content"][0]["annotations"] == [expected]


class Slow:
    """A run that says nothing until it is told to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.go_on = asyncio.Event()
        self.closed = False
        self._error = error

    async def updates(self) -> AsyncIterator[AgentResponseUpdate]:
        try:
            yield update(T("a"))
            await self.go_on.wait()
            if self._error is not None:
                raise self._error
            yield update(T("b"))
        finally:
            self.closed = True


async def test_e11_a_comment_keeps_a_silent_connection_open() -> None:
    run = Slow()
    events = responses_from_streaming_run(run.updates(), response_id="resp_1")
    comments, told = 0, []
    async for frame in with_keep_alive(events, 0.01):
        if frame == ": keep-alive\n\n":
            comments += 1
            run.go_on.set() if comments == 3 else None
        else:
            told.append(frame)
    check_stream(events_of(told))
    assert comments >= 3
    assert events.response["output"][0]["content"][0]["text"] == "ab"
    assert (events.failed, run.closed) == (False, True)


async def test_e11_a_reader_that_goes_away_while_it_is_silent_ends_the_run() -> None:
    run = Slow()
    events = responses_from_streaming_run(run.updates(), response_id="resp_1")
    kept = with_keep_alive(events, 0.01)
    async for frame in kept:
        if frame.startswith(":"):
            break
    await kept.aclose()
    assert (events.failed, run.closed) == (True, True)


async def test_e11_frames_that_break_break_the_reader() -> None:
    async def broken() -> AsyncIterator[str]:
        yield "a"
        raise OSError("gone")

    told: list[str] = []
    with pytest.raises(OSError, match="gone"):
        async for frame in with_keep_alive(broken(), 60):
            told.append(frame)
    assert told == ["a"]


async def test_e11_frames_can_have_ids_to_resume_from() -> None:
    rendered = responses_from_streaming_run(Source(T("x"), T("y")).stream(), response_id="resp_1", with_id=True)
    ids = [frame.partition("\n")[0] async for frame in rendered]
    assert ids == [f"id: {number}" for number in range(len(ids))]


def test_e12_the_openai_package_has_no_final_response_for_an_incomplete_one() -> None:
    # Its own rule, with any server: read the events, or ask for the response by its id.
    with client(frames([T("half")], cut=True)).responses.stream(input="hi", model="m") as events:
        told = [event.type for event in events]
        with pytest.raises(RuntimeError, match=r"response\.completed"):
            events.get_final_response()
    assert told[-1] == "response.incomplete"
