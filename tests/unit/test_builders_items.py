"""Every kind of item: the order of its events (reference 6.3), the openai package's types, and calls in a wrong order."""

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import pytest

from hosting.responses import Event, create_response_id
from hosting.responses.builders import ResponseEventStream
from tests.unit.handler_runs import check_wire

type Build = Callable[[ResponseEventStream], Iterable[Event]]


def make() -> ResponseEventStream:
    stream = ResponseEventStream(response_id=create_response_id(), model="m")
    stream.emit_created()
    stream.emit_in_progress()
    return stream


def inner(events: Iterable[Event]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


async def chunks(*texts: str) -> AsyncIterator[str]:
    for text in texts:
        yield text


def stepwise(*steps: str) -> Callable[[Any], list[Event]]:
    """Events of a builder, one `method` or `method:argument` after the other."""
    return lambda builder: [
        getattr(builder, name)(*([argument] if colon else []))
        for name, colon, argument in (s.partition(":") for s in steps)
    ]


SEARCH = stepwise("emit_added", "emit_in_progress", "emit_searching", "emit_completed", "emit_done")
CODE = stepwise(
    "emit_added", "emit_in_progress", "emit_interpreting", "emit_code_delta:1+", "emit_code_delta:1", "emit_code_done",
    "emit_completed", "emit_done",
)  # fmt: skip
IMAGE = stepwise(
    "emit_added", "emit_in_progress", "emit_generating", "emit_partial_image:AA", "emit_partial_image:BB",
    "emit_completed", "emit_done:CC",
)  # fmt: skip
MCP = ("emit_added", "emit_arguments_delta:{}", "emit_arguments_done", "emit_in_progress")

ITEMS: dict[str, tuple[Build, list[str]]] = {
    "message": (
        lambda s: s.output_item_message("hi", annotations=[{"type": "file_path", "file_id": "f", "index": 0}]),
        [
            "content_part.added",
            "output_text.delta",
            "output_text.annotation.added",
            "output_text.done",
            "content_part.done",
        ],
    ),
    "reasoning": (
        lambda s: s.output_item_reasoning_item("hm"),
        [
            "reasoning_summary_part.added",
            "reasoning_summary_text.delta",
            "reasoning_summary_text.done",
            "reasoning_summary_part.done",
        ],
    ),
    "function_call": (
        lambda s: s.output_item_function_call("f", "call_1", "{}"),
        ["function_call_arguments.delta", "function_call_arguments.done"],
    ),
    "function_call_output": (lambda s: s.output_item_function_call_output("call_1", "42"), []),
    "custom_tool_call": (
        lambda s: stepwise("emit_added", "emit_input_delta:x", "emit_input_done", "emit_done")(
            s.add_output_item_custom_tool_call("call_1", "t")
        ),
        ["custom_tool_call_input.delta", "custom_tool_call_input.done"],
    ),
    "web_search_call": (
        lambda s: SEARCH(s.add_output_item_web_search_call()),
        ["web_search_call.in_progress", "web_search_call.searching", "web_search_call.completed"],
    ),
    "file_search_call": (
        lambda s: SEARCH(s.add_output_item_file_search_call(["q"])),
        ["file_search_call.in_progress", "file_search_call.searching", "file_search_call.completed"],
    ),
    "code_interpreter_call": (
        lambda s: CODE(s.add_output_item_code_interpreter_call()),
        [
            "code_interpreter_call.in_progress",
            "code_interpreter_call.interpreting",
            "code_interpreter_call_code.delta",
            "code_interpreter_call_code.delta",
            "code_interpreter_call_code.done",
            "code_interpreter_call.completed",
        ],
    ),
    "image_generation_call": (
        lambda s: IMAGE(s.add_output_item_image_gen_call()),
        [
            "image_generation_call.in_progress",
            "image_generation_call.generating",
            "image_generation_call.partial_image",
            "image_generation_call.partial_image",
            "image_generation_call.completed",
        ],
    ),
    "mcp_call": (
        lambda s: stepwise(*MCP, "emit_completed", "emit_done")(s.add_output_item_mcp_call("srv", "t")),
        ["mcp_call_arguments.delta", "mcp_call_arguments.done", "mcp_call.in_progress", "mcp_call.completed"],
    ),
    "mcp_call that fails": (
        lambda s: stepwise(*MCP, "emit_failed", "emit_done")(s.add_output_item_mcp_call("srv", "t")),
        ["mcp_call_arguments.delta", "mcp_call_arguments.done", "mcp_call.in_progress", "mcp_call.failed"],
    ),
    "mcp_list_tools": (
        lambda s: stepwise("emit_added", "emit_in_progress", "emit_completed", "emit_done")(
            s.add_output_item_mcp_list_tools("srv")
        ),
        ["mcp_list_tools.in_progress", "mcp_list_tools.completed"],
    ),
    "apply_patch_call": (
        lambda s: s.output_item_apply_patch_call("call_1", {"type": "delete_file", "path": "a"}),
        [],
    ),
    "apply_patch_call_output": (lambda s: s.output_item_apply_patch_call_output("call_1", output="ok"), []),
    "compaction": (lambda s: s.output_item_compaction("opaque"), []),
    "computer_call": (lambda s: s.output_item_computer_call("call_1", {"type": "screenshot"}), []),
    "computer_call_output": (
        lambda s: s.output_item_computer_call_output("call_1", {"type": "computer_screenshot", "file_id": "f"}),
        [],
    ),
    "custom_tool_call_output": (lambda s: s.output_item_custom_tool_call_output("call_1", "x"), []),
    "shell_call": (
        lambda s: s.output_item_function_shell_call("call_1", {"commands": ["ls"]}, {"type": "local"}),
        [],
    ),
    "shell_call_output": (
        lambda s: s.output_item_function_shell_call_output(
            "call_1", [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]
        ),
        [],
    ),
    "local_shell_call": (
        lambda s: s.output_item_local_shell_call("call_1", {"type": "exec", "command": ["ls"], "env": {}}),
        [],
    ),
    "local_shell_call_output": (lambda s: s.output_item_local_shell_call_output("a"), []),
    "mcp_approval_request": (lambda s: s.output_item_mcp_approval_request("srv", "t", "{}"), []),
    "mcp_approval_response": (lambda s: s.output_item_mcp_approval_response("mcpr_1", True), []),
}


@pytest.mark.parametrize("name", ITEMS)
def test_events_of_an_item_come_in_their_order_and_satisfy_the_openai_package(name: str) -> None:
    build, expected = ITEMS[name]
    stream = make()
    events = list(build(stream))
    assert inner(events) == ["output_item.added", *expected, "output_item.done"]
    assert events[-1]["item"]["type"] == name.split()[0]
    stream.emit_completed()
    check_wire(stream.events())
    assert stream.response["output"] == [events[-1]["item"]]


def test_structured_outputs_hold_data_of_any_form() -> None:
    events = list(make().output_item_structured_outputs({"a": [1]}))
    assert inner(events) == ["output_item.added", "output_item.done"]
    assert events[-1]["item"] | {"id": ""} == {"id": "", "type": "structured_outputs", "output": {"a": [1]}}


@pytest.mark.parametrize(
    ("build", "delta"),
    [
        (lambda s, text: s.output_item_message(text), "output_text.delta"),
        (lambda s, text: s.output_item_reasoning_item(text), "reasoning_summary_text.delta"),
        (lambda s, text: s.output_item_function_call("f", "call_1", text), "function_call_arguments.delta"),
    ],
)
async def test_a_text_that_comes_in_chunks_is_a_delta_for_each(build, delta) -> None:
    stream = make()
    events = [event async for event in build(stream, chunks("a", "", "b"))]
    assert [event["delta"] for event in events if event["type"] == f"response.{delta}"] == ["a", "b"]
    stream.emit_completed()
    check_wire(stream.events())


async def test_partial_images_come_as_they_are_made() -> None:
    stream = make()
    events = [event async for event in stream.output_item_image_gen_call("CC", partials=chunks("AA", "BB"))]
    assert [e["partial_image_b64"] for e in events if "partial_image_b64" in e] == ["AA", "BB"]
    assert events[-1]["item"]["result"] == "CC"


async def test_for_and_async_for_give_the_same_events() -> None:
    def normal(events: Iterable[Event]) -> list[Any]:
        return [(event["type"], event.get("delta"), event.get("text")) for event in events]

    plain = normal(make().output_item_message("hi"))
    assert normal([event async for event in make().output_item_message("hi")]) == plain


def test_chunks_need_async_for() -> None:
    source = chunks("a")
    with pytest.raises(TypeError, match="async for"):
        list(make().output_item_message(source))


async def test_the_source_of_chunks_is_closed_when_the_reader_stops() -> None:
    closed = []

    async def source() -> AsyncIterator[str]:
        try:
            yield "a"
            yield "b"
        finally:
            closed.append(True)

    events = aiter(make().output_item_message(source()))
    async for event in events:
        if event["type"] == "response.output_text.delta":
            break
    await events.aclose()  # type: ignore[attr-defined]
    assert closed == [True]


def test_an_empty_text_has_no_delta() -> None:
    assert "output_text.delta" not in inner(make().output_item_message(""))


def test_an_emoji_streamed_in_halves_is_whole_in_the_end() -> None:
    stream = make()
    message = stream.add_output_item_message()
    message.emit_added()
    part = message.add_text_content()
    part.emit_added()
    for half in "\ud83d", "\ude00":
        part.emit_delta(half)
    assert part.emit_text_done()["text"] == "\N{GRINNING FACE}"


def test_a_message_may_have_several_parts_at_once() -> None:
    stream = make()
    message = stream.add_output_item_message()
    message.emit_added()
    text, refusal = message.add_text_content(), message.add_refusal_content()
    assert (text.content_index, refusal.content_index) == (0, 1)
    for step in (text.emit_added, refusal.emit_added):
        step()
    refusal.emit_delta("no")
    text.emit_delta("well")
    for step in (text.emit_text_done, refusal.emit_refusal_done, text.emit_done, refusal.emit_done, message.emit_done):
        step()
    stream.emit_completed()
    check_wire(stream.events())
    assert (text.final_text, refusal.final_refusal) == ("well", "no")
    assert [part["type"] for part in stream.response["output"][0]["content"]] == ["output_text", "refusal"]


def test_parts_can_be_added_whole() -> None:
    stream = make()
    message = stream.add_output_item_message()
    message.emit_added()
    assert inner(message.text_content("a"))[0] == "content_part.added"
    assert inner(message.refusal_content("b"))[1] == "refusal.delta"
    message.emit_done(status="incomplete")
    assert stream.response["output"][0]["status"] == "incomplete"


def test_a_final_text_replaces_the_deltas() -> None:
    stream = make()
    call = stream.add_output_item_function_call("f", "call_1")
    call.emit_added()
    call.emit_arguments_delta("{")
    assert call.emit_arguments_done('{"a": 1}')["arguments"] == '{"a": 1}'
    assert call.emit_done()["item"]["arguments"] == '{"a": 1}'


def test_reasoning_may_be_nothing_but_encrypted() -> None:
    stream = make()
    item = stream.add_output_item_reasoning_item()
    item.emit_added()
    done = item.emit_done(encrypted_content="opaque")["item"]
    assert (done["summary"], done["encrypted_content"]) == ([], "opaque")


def test_a_failed_tool_shows_its_public_error() -> None:
    call = make().add_output_item_mcp_call("srv", "t", item_id="mcp_own")
    call.emit_added()
    item = call.emit_done(error="It is closed.")["item"]
    assert (item["id"], item["status"]) == ("mcp_own", "failed")
    assert item["error"]["content"][0]["text"] == "It is closed."


def test_an_item_of_any_type_keeps_the_id_it_was_given() -> None:
    item = make().add_output_item("x_1")
    item.emit_added({"type": "acme:thing"})
    assert item.emit_done({"type": "acme:thing", "n": 1})["item"] == {"id": "x_1", "type": "acme:thing", "n": 1}


@pytest.mark.parametrize("item", [{}, {"type": "t", "id": "other"}])
def test_an_item_needs_a_type_and_its_own_id(item) -> None:
    with pytest.raises(ValueError, match="id x_1 and a type"):
        make().add_output_item("x_1").emit_added(item)


def test_a_typed_item_knows_its_type() -> None:
    item = make().add_output_item_compaction()
    assert item.emit_added({"encrypted_content": ""})["item"]["type"] == "compaction"


# The wrong order

PART = ("emit_added", "emit_delta:x", "emit_text_done", "emit_done")


@pytest.mark.parametrize(
    "steps",
    [
        ["emit_delta:x"],
        ["emit_text_done"],
        ["emit_done"],
        ["emit_added", "emit_added"],
        ["emit_added", "emit_done"],
        ["emit_added", "emit_text_done", "emit_delta:x"],
        ["emit_added", "emit_text_done", "emit_text_done"],
        [*PART, "emit_delta:x"],
        [*PART, "emit_done"],
    ],
)
def test_a_part_refuses_a_step_out_of_order(steps: list[str]) -> None:
    stream = make()
    message = stream.add_output_item_message()
    message.emit_added()
    part = message.add_text_content()
    stepwise(*steps[:-1])(part)
    before = len(stream.events())
    with pytest.raises(ValueError):
        stepwise(steps[-1])(part)
    assert len(stream.events()) == before


@pytest.mark.parametrize(
    ("build", "steps"),
    [
        (lambda s: s.add_output_item_function_call("f", "c"), ["emit_arguments_delta:x"]),
        (lambda s: s.add_output_item_function_call("f", "c"), ["emit_done"]),
        (lambda s: s.add_output_item_function_call("f", "c"), ["emit_added", "emit_added"]),
        (lambda s: s.add_output_item_function_call("f", "c"), ["emit_added", "emit_done", "emit_done"]),
        (lambda s: s.add_output_item_function_call("f", "c"), ["emit_added", "emit_done", "emit_arguments_delta:x"]),
        (
            lambda s: s.add_output_item_function_call("f", "c"),
            ["emit_added", "emit_arguments_done", "emit_arguments_delta:x"],
        ),
        (
            lambda s: s.add_output_item_code_interpreter_call(),
            ["emit_added", "emit_code_done", "emit_code_done"],
        ),
        (lambda s: s.add_output_item_web_search_call(), ["emit_searching"]),
        (lambda s: s.add_output_item_message(), ["emit_added", "emit_done"]),
    ],
)
def test_an_item_refuses_a_step_out_of_order(build, steps: list[str]) -> None:
    builder = build(make())
    stepwise(*steps[:-1])(builder)
    with pytest.raises(ValueError):
        stepwise(steps[-1])(builder)


@pytest.mark.parametrize("add", ["add_output_item_message", "add_output_item_reasoning_item"])
def test_an_item_is_not_done_before_its_parts(add: str) -> None:
    item = getattr(make(), add)()
    item.emit_added()
    part = item.add_text_content() if "message" in add else item.add_summary_part()
    part.emit_added()
    part.emit_text_done()
    with pytest.raises(ValueError, match="parts"):
        item.emit_done()
    part.emit_done()
    assert item.emit_done()["item"]["status"] == "completed"


def test_an_annotation_needs_an_open_part() -> None:
    message = make().add_output_item_message()
    message.emit_added()
    part = message.add_text_content()
    with pytest.raises(ValueError, match="annotation"):
        part.emit_annotation_added({"type": "file_path", "file_id": "f", "index": 0})


# The published package's surface (reference 6.3): a handler written for it finds every name

GROWING = """message reasoning_item function_call function_call_output custom_tool_call mcp_call mcp_list_tools
web_search_call file_search_call code_interpreter_call image_gen_call"""
WHOLE = """apply_patch_call apply_patch_call_output compaction computer_call computer_call_output custom_tool_call_output
function_shell_call function_shell_call_output local_shell_call local_shell_call_output mcp_approval_request
mcp_approval_response structured_outputs"""
WITHOUT_GENERATOR = (
    """custom_tool_call mcp_call mcp_list_tools web_search_call file_search_call code_interpreter_call"""
)


@pytest.mark.parametrize("item", [*GROWING.split(), *WHOLE.split()])
def test_the_published_names_are_there(item: str) -> None:
    assert callable(getattr(ResponseEventStream, f"add_output_item_{item}"))
    assert hasattr(ResponseEventStream, f"output_item_{item}") == (item not in WITHOUT_GENERATOR.split())
