"""Every row of reference 7.3, with the fixes of its section 12: one outcome, in all modes.

run_handler does not look at the mode, so a row that says something else per mode can't come back; what a mode makes of
ResponseNotCreated (500, an `error` event, a failed response) is the server's.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from hosting.responses import Event
from hosting.responses.builders import ResponseEventStream
from hosting.responses.envelope import AGENT_FAILED
from hosting.server.handler import ResponseNotCreated
from tests.unit.handler_runs import Run, check_wire, message, raw, run

SECRET = "postgres://user:hunter2@db"

pytestmark = pytest.mark.filterwarnings("error")


def builder(context: Any, request: Any = None) -> ResponseEventStream:
    return ResponseEventStream(response_id=context.response_id, request=request)


def yielding(*events: Any) -> Callable[..., AsyncIterator[Any]]:
    """A handler that yields these; a function is called with the id of the response, an exception raised."""

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Any]:
        for event in events:
            if isinstance(event, BaseException):
                raise event
            yield event(context.response_id) if callable(event) else event

    return handler


def created(identifier: str, **fields: Any) -> Event:
    return raw("created", response={"id": identifier, "status": "in_progress", "output": [], **fields})


def completed(identifier: str, **fields: Any) -> Event:
    return raw("completed", response={"id": identifier, "status": "completed", **fields})


def added(index: int, identifier: str = "msg_1") -> Event:
    return raw("output_item.added", output_index=index, item=message(identifier))


def done(index: int, identifier: str = "msg_1", text: str = "hi") -> Event:
    return raw("output_item.done", output_index=index, item=message(identifier, text))


def delta(index: int, text: Any = "hi", identifier: str = "msg_1") -> Event:
    return raw("output_text.delta", item_id=identifier, output_index=index, content_index=0, delta=text, logprobs=[])


def part(stage: str, position: int = 0) -> Event:
    empty = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    return raw(f"content_part.{stage}", item_id="msg_1", output_index=0, content_index=position, part=empty)


async def failed(handler: Any, **given: Any) -> Run:
    """Run a handler whose response must fail with the fixed sentence and a proper stream."""
    ended = await run(handler, **given)
    assert ended.ending == "finished"
    assert ended.types[-1] == "failed"
    assert ended.response["status"] == "failed"
    assert ended.response["error"]["code"] == "server_error"
    assert ended.response["error"]["message"] == AGENT_FAILED
    check_wire(ended.wire)
    return ended


# Before `created`


@pytest.mark.parametrize(
    "events",
    [
        [RuntimeError(SECRET)],
        [raw("in_progress", response={})],
        [added(0)],
        [completed],
        [raw("created")],
        [raw("created", response="resp_1")],
        [raw("created", response={"status": object()})],
        [lambda identifier: created(identifier, status="completed")],
        ["response.created"],
        [None],
        [{"response": {}}],
        [{"type": ""}],
        [{"type": 7}],
        [asyncio.CancelledError()],
    ],
)
async def test_without_a_proper_beginning_the_server_gets_a_signal_and_the_wire_nothing(events: list[Any]) -> None:
    attempt = Run(yielding(*events))
    with pytest.raises(ResponseNotCreated) as caught:
        await attempt.go()
    assert caught.value.__cause__ is not None
    assert SECRET not in str(caught.value)
    assert attempt.wire == []


async def test_a_handler_that_raises_when_called_has_created_nothing_either() -> None:
    async def handler(request: Any, context: Any, signal: Any) -> None:
        raise RuntimeError(SECRET)

    with pytest.raises(ResponseNotCreated):
        await run(handler)


async def test_a_response_that_must_exist_can_be_failed_all_the_same() -> None:
    attempt = Run(yielding(RuntimeError(SECRET)))
    with pytest.raises(ResponseNotCreated):
        await attempt.go()
    await attempt.emit([*attempt.transcript.fail(), attempt.transcript.terminal()])
    assert attempt.types == ["created", "in_progress", "failed"]
    check_wire(attempt.wire)


async def test_a_response_that_the_server_has_announced_fails_instead() -> None:
    """In the background `created` is on the wire before the handler runs."""
    ended = await run(yielding(RuntimeError(SECRET)), announced=True, first_sequence_number=2)
    assert [(event["sequence_number"], event["type"]) for event in ended.wire] == [
        (2, "response.in_progress"),
        (3, "response.failed"),
    ]


# `created` is there, and then


async def test_a_foreign_id_fails_the_response() -> None:
    ended = await failed(yielding(created("resp_foreign"), completed))
    assert ended.types == ["created", "in_progress", "failed"]
    assert {event["response"]["id"] for event in ended.wire} == {ended.base["id"]}


@pytest.mark.parametrize("kind", ["in_progress", "completed", "failed", "queued"])
async def test_a_foreign_id_later_fails_the_response_too(kind: str) -> None:
    await failed(yielding(created, raw(kind, response={"id": "resp_foreign"})))


async def test_a_handler_that_yields_nothing_has_a_completed_response() -> None:
    ended = await run(yielding())
    assert ended.types == ["created", "in_progress", "completed"]
    assert ended.response["output"] == []
    check_wire(ended.wire)


async def test_a_raise_after_created_fails_the_response_and_shows_nothing_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ended = await failed(yielding(created, RuntimeError(SECRET)))
    assert SECRET not in repr(ended.wire) + repr(ended.transcript.snapshot)
    assert "RuntimeError" in caplog.text  # and where; its message may quote a user: see hosting.telemetry.describe


async def test_a_cancellation_that_is_the_handlers_own_is_a_failure() -> None:
    """Such as of a task that it awaits; nobody has cancelled the run."""

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        yield created(context.response_id)
        task = asyncio.create_task(asyncio.sleep(60))
        task.cancel()
        await task

    await failed(handler)


async def test_an_end_without_a_terminal_event_fails_the_response() -> None:
    ended = await failed(yielding(created, added(0), done(0)))
    assert ended.types == ["created", "in_progress", "output_item.added", "output_item.done", "failed"]
    assert ended.response["output"] == [message("msg_1", "hi")]


@pytest.mark.parametrize("status", [{"status": "completed"}, {"status": "queued"}, {}])
async def test_the_status_at_the_end_is_that_of_the_event(status: dict[str, str]) -> None:
    ended = await run(yielding(created, raw("incomplete", response=status)))
    assert ended.response["status"] == "incomplete"
    assert ended.response["completed_at"] is None


@pytest.mark.parametrize("event", [completed, "in_progress", "checkpoint"])
async def test_an_output_that_was_changed_outside_the_builders_fails_the_response(event: Any) -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = builder(context)
        yield stream.emit_created()
        for made in stream.output_item_message("hi"):
            yield made
        stream.response["output"].append(message("msg_smuggled", "x"))
        if event == "in_progress":
            yield stream.emit_in_progress()
        elif event == "checkpoint":
            yield stream.checkpoint()
        else:
            yield stream.emit_completed()

    ended = await failed(handler)
    assert len(ended.response["output"]) == 1
    assert ended.saved == []


async def test_an_item_that_is_changed_after_it_was_done_fails_the_response() -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = builder(context)
        yield stream.emit_created()
        for made in stream.output_item_message("hi"):
            yield made
        stream.response["output"][0]["content"][0]["text"] = "other"
        yield stream.emit_completed()

    ended = await failed(handler)
    assert ended.response["output"][0]["content"][0]["text"] == "hi"


async def test_a_created_response_with_output_fails() -> None:
    await failed(yielding(lambda identifier: created(identifier, output=[message("msg_1", "x")])))


@pytest.mark.parametrize("event", ["text", None, 7, ["response.completed"], {"no": "type"}, {"type": None}])
async def test_what_is_no_event_fails_the_response(event: Any) -> None:
    await failed(yielding(created, event))


async def test_created_comes_once() -> None:
    ended = await failed(yielding(created, created))
    assert ended.types == ["created", "in_progress", "failed"]


# After the terminal event


@pytest.mark.parametrize(
    "late",
    [
        completed,
        raw("failed", response={}),
        added(0),
        delta(0),
        "no event",
        RuntimeError(SECRET),
        asyncio.CancelledError(),
        created("resp_foreign"),
    ],
)
async def test_after_the_terminal_event_the_response_stays_as_it_says(
    late: Any, caplog: pytest.LogCaptureFixture
) -> None:
    ended = await run(yielding(created, completed, late))
    assert ended.types == ["created", "in_progress", "completed"]
    assert ended.response["status"] == "completed"
    assert ended.transcript.next_sequence_number == 3
    check_wire(ended.wire)
    assert caplog.records  # the developer is told


# What the handler says itself


async def test_a_failure_with_a_public_reason_passes_through() -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = builder(context)
        yield stream.emit_created()
        yield stream.emit_failed(code="quota_exceeded", message="Come back tomorrow.")

    ended = await run(handler)
    assert ended.types == ["created", "in_progress", "failed"]
    assert ended.response["error"]["code"] == "quota_exceeded"
    assert ended.response["error"]["message"] == "Come back tomorrow."


@pytest.mark.parametrize("error", [None, {}, "text", {"code": 7, "message": None}])
async def test_a_failure_without_a_reason_gets_the_fixed_one(error: Any) -> None:
    await failed(yielding(created, raw("failed", response={"error": error})))


async def test_an_incomplete_response_keeps_its_reason() -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = builder(context)
        yield stream.emit_created()
        yield stream.emit_incomplete(reason="max_output_tokens", usage={"input_tokens": 1, "output_tokens": 2})

    ended = await run(handler)
    assert ended.types[-1] == "incomplete"
    assert ended.response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert ended.response["usage"]["total_tokens"] == 3
    check_wire(ended.wire)


# The sequence of item events


@pytest.mark.parametrize(
    "events",
    [
        [delta(0)],
        [done(0)],
        [added(0), delta(1)],
        [added(0), done(1)],
        [added(0), done(0), delta(0)],
        [added(0), done(0), done(0)],
        [added(0), added(0, "msg_2")],
        [added(0), added(1)],
        [added(0), done(0), added(0, "msg_2")],
        [added(0), done(0, "msg_2")],
        [added(0), part("added"), delta(0, identifier="msg_2")],
        [added(0), part("added"), delta(0, text=7)],
        [added(0), part("added"), delta(0, text={"a": 1})],
        [added(0), delta(0)],
        [added(0), part("added", 1)],
        [added(0), part("added"), part("added")],
        [added(0), part("done")],
        [added(0), part("added"), {"type": "response.output_text.delta", "output_index": 0}],
        [
            added(0),
            part("added"),
            delta(0),
            raw("output_text.done", item_id="msg_1", output_index=0, content_index=0, text="hi", logprobs=[]),
            delta(0),
        ],
        [raw("output_item.added", item=message("msg_1"))],
        [raw("output_item.done", item=message("msg_1"))],
        [raw("output_item.added", output_index=-1, item=message("msg_1"))],
        [raw("output_item.added", output_index="0", item=message("msg_1"))],
        [raw("output_item.added", output_index=True, item=message("msg_1"))],
        [raw("output_item.added", output_index=0)],
        [raw("output_item.added", output_index=0, item={"id": "x"})],
        [raw("output_item.added", output_index=0, item={"type": "message"})],
        [raw("output_item.added", output_index=0, item={"id": "x", "type": "t", "data": object()})],
        [added(0), raw("output_text.delta", output_index=0, content_index=[], delta="x", logprobs=[])],
        [raw("queued", response={}), raw("in_progress", response={}), raw("queued", response={})],
        [{"type": "acme:progress", "value": float("nan")}],
    ],
)
async def test_events_that_a_client_could_not_follow_fail_the_response(events: list[Any]) -> None:
    await failed(yielding(created, *events, completed))


async def test_a_changed_call_id_fails_the_response() -> None:
    call = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "f", "arguments": ""}
    await failed(
        yielding(
            created,
            raw("output_item.added", output_index=0, item=call),
            raw("output_item.done", output_index=0, item=call | {"call_id": "call_2"}),
        )
    )


async def test_the_log_says_what_was_wrong(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        await failed(yielding(created, delta(3)))
    assert "no item is open at the output index 3" in caplog.text
