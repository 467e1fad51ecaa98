"""How a run goes: what is on the wire, what is stored, and how it ends when somebody wants it to."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from hosting.responses import Event
from hosting.responses.builders import CHECKPOINT, INTERNAL_METADATA, ResponseEventStream
from hosting.server.handler import run_handler
from tests.unit.handler_runs import Run, check_wire, message, raw, run


def builder(context: Any, request: Any = None) -> ResponseEventStream:
    return ResponseEventStream(response_id=context.response_id, request=request)


async def begin(context: Any, text: str = "hi") -> AsyncIterator[Event]:
    """A message that is still open."""
    stream = builder(context)
    yield stream.emit_created()
    item = stream.add_output_item_message()
    yield item.emit_added()
    part = item.add_text_content()
    yield part.emit_added()
    yield part.emit_delta(text)


# The wire


async def test_numbers_are_contiguous_from_where_the_wire_stands() -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = builder(context)
        yield stream.emit_created()
        yield stream.checkpoint()
        yield stream.emit_in_progress() | {"sequence_number": 99}
        yield stream.emit_completed()
        yield stream.emit_completed()

    ended = await run(handler, first_sequence_number=5)
    assert [event["sequence_number"] for event in ended.wire] == [5, 6, 7]


async def test_the_terminal_event_waits_for_the_server_to_store_the_response() -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = builder(context)
        yield stream.emit_created()
        yield stream.emit_completed()

    attempt = Run(handler)
    ending = await run_handler(handler, {}, attempt.context, attempt.signal, attempt.emit, attempt.transcript)
    assert ending == "finished"
    assert attempt.types == ["created", "in_progress"]
    assert attempt.transcript.snapshot["status"] == "completed"
    assert attempt.transcript.terminal()["type"] == "response.completed"


async def test_a_response_that_could_not_be_stored_fails_after_its_end() -> None:
    attempt = Run(lambda *_: _answered(attempt.context))
    await run_handler(attempt.handler, {}, attempt.context, attempt.signal, attempt.emit, attempt.transcript)
    assert attempt.transcript.fail(message="The response could not be stored.") == []
    event = attempt.transcript.terminal()
    assert event["type"] == "response.failed"
    assert event["response"]["error"]["message"] == "The response could not be stored."
    assert event["response"]["completed_at"] is None


async def _answered(context: Any) -> AsyncIterator[Event]:
    stream = builder(context)
    yield stream.emit_created()
    for event in stream.output_item_message("hi"):
        yield event
    yield stream.emit_completed()


async def test_in_progress_is_said_once_and_always() -> None:
    async def silent(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = builder(context)
        yield stream.emit_created()
        for event in stream.output_item_message("hi"):
            yield event
        yield stream.emit_in_progress()
        yield stream.emit_completed()

    ended = await run(silent)
    assert ended.types[:3] == ["created", "in_progress", "output_item.added"]
    assert ended.types.count("in_progress") == 1
    check_wire(ended.wire)


async def test_a_response_may_be_queued_first() -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = builder(context)
        yield stream.emit_created(status="queued")
        yield stream.emit_queued()
        yield stream.emit_in_progress()
        yield stream.emit_completed()

    ended = await run(handler)
    assert [(kind, event["response"]["status"]) for kind, event in zip(ended.types, ended.wire, strict=True)] == [
        ("created", "queued"),
        ("queued", "queued"),
        ("in_progress", "in_progress"),
        ("completed", "completed"),
    ]


async def test_what_the_server_has_announced_is_not_announced_again() -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = builder(context)
        yield stream.emit_created(status="queued")
        yield stream.emit_queued()
        yield stream.emit_in_progress()
        yield stream.emit_completed()

    ended = await run(handler, announced=True, first_sequence_number=2)
    assert [(event["sequence_number"], event["type"]) for event in ended.wire] == [
        (2, "response.in_progress"),
        (3, "response.completed"),
    ]


async def test_events_of_the_apps_own_pass() -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = builder(context)
        yield stream.emit_created()
        yield {"type": "acme:progress", "done": 3, "of": [7]}
        yield stream.emit_completed()

    ended = await run(handler)
    assert ended.wire[2] == {"type": "acme:progress", "done": 3, "of": [7], "sequence_number": 2}


async def test_what_went_out_does_not_change_when_the_handler_changes_its_own() -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        yield raw("created", response={})
        item = message("msg_1", "said")
        yield raw("output_item.added", output_index=0, item=message("msg_1"))
        yield raw("output_item.done", output_index=0, item=item)
        item["content"][0]["text"] = "changed"
        yield raw("completed", response={})

    ended = await run(handler)
    assert ended.wire[3]["item"] == message("msg_1", "said")
    assert ended.response["output"] == [message("msg_1", "said")]


async def test_half_an_emoji_does_not_reach_what_is_stored() -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        yield raw("created", response={})
        yield raw("output_item.added", output_index=0, item=message("msg_1"))
        yield raw("output_item.done", output_index=0, item=message("msg_1", "\ud83d!"))
        yield raw("completed", response={})

    ended = await run(handler)
    assert ended.response["output"][0]["content"][0]["text"] == "\ufffd!"


async def test_calls_that_the_client_has_to_answer_are_known() -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = builder(context)
        yield stream.emit_created()
        for event in stream.output_item_function_call("f", "call_1", "{}"):
            yield event
        yield stream.emit_completed()

    assert (await run(handler)).transcript.open_calls == ["call_1"]


# Whose word counts


async def test_a_builder_that_does_not_know_the_request_takes_nothing_away() -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = ResponseEventStream(response_id=context.response_id)
        yield stream.emit_created()
        yield stream.emit_completed()

    for event in (await run(handler)).wire:
        assert event["response"]["temperature"] == 0.5
        assert event["response"]["metadata"] == {"app": "tests"}
        assert event["response"]["model"] == "m"
        assert event["response"]["created_at"] == 1_700_000_000


async def test_what_the_handler_sets_counts_except_where_the_server_knows_better() -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = builder(context, request)
        stream.response.update({"temperature": 0.75, "model": "used", "background": True, "store": False})
        stream.response.update({"previous_response_id": "resp_x", "created_at": 1, "agent_reference": {"name": "a"}})
        stream.response["metadata"]["more"] = "1"
        yield stream.emit_created()
        stream.response["model"] = "used in the end"
        yield stream.emit_completed()

    ended = await run(handler)
    response = ended.response
    assert (response["temperature"], response["model"]) == (0.75, "used in the end")
    assert ended.wire[0]["response"]["model"] == "used"
    assert response["metadata"] == {"app": "tests", "more": "1"}
    assert response["agent_reference"] == {"name": "a"}
    assert (response["background"], response["store"], response["created_at"]) == (False, True, 1_700_000_000)
    assert response["previous_response_id"] is None


async def test_internal_metadata_is_stored_and_never_shown() -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = builder(context)
        stream.internal_metadata["phase"] = "gather"
        yield stream.emit_created()
        yield stream.checkpoint()
        yield stream.emit_completed()

    ended = await run(handler)
    assert INTERNAL_METADATA in ended.saved[0]["metadata"]
    assert INTERNAL_METADATA not in repr(ended.wire) + repr(ended.response)


# Items that nobody closes


@pytest.mark.parametrize("end", ["completed", "incomplete", "failed", "raise", "return"])
async def test_text_that_a_client_has_seen_is_kept_when_its_item_stays_open(end: str) -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        async for event in begin(context, "half a sen"):
            yield event
        if end == "raise":
            raise RuntimeError
        if end != "return":
            yield raw(end, response={"output": []})

    ended = await run(handler)
    assert ended.types[-2:] == ["output_item.done", end if end in ("completed", "incomplete") else "failed"]
    (item,) = ended.response["output"]
    assert item["status"] == "incomplete"
    assert item["content"] == [{"type": "output_text", "text": "half a sen", "annotations": [], "logprobs": []}]
    check_wire(ended.wire)


async def test_every_kind_of_open_item_keeps_what_was_said_of_it() -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = builder(context)
        yield stream.emit_created()
        reasoning = stream.add_output_item_reasoning_item()
        yield reasoning.emit_added()
        for event in reasoning.summary_part("first"):
            yield event
        part = reasoning.add_summary_part()
        yield part.emit_added()
        yield part.emit_text_delta("sec")
        call = stream.add_output_item_function_call("f", "call_1")
        yield call.emit_added()
        yield call.emit_arguments_delta('{"a"')
        code = stream.add_output_item_code_interpreter_call()
        yield code.emit_added()
        yield code.emit_code_delta("1+")
        yield code.emit_code_done("1+1")
        image = stream.add_output_item_image_gen_call()
        yield image.emit_added()
        text = stream.add_output_item_message()
        yield text.emit_added()
        refusal, cited = text.add_refusal_content(), text.add_text_content()
        yield refusal.emit_added()
        yield cited.emit_added()
        yield cited.emit_delta("see")
        yield cited.emit_annotation_added({"type": "file_path", "file_id": "f", "index": 0})
        yield refusal.emit_delta("no")
        raise RuntimeError

    ended = await run(handler)
    reasoning, call, code, image, text = ended.response["output"]
    assert [part["text"] for part in reasoning["summary"]] == ["first", "sec"]
    assert (call["arguments"], call["status"]) == ('{"a"', "incomplete")
    assert (code["code"], code["status"]) == ("1+1", "incomplete")
    assert image["status"] == "failed"
    assert text["content"][0] == {"type": "refusal", "refusal": "no"}
    assert text["content"][1]["text"] == "see"
    assert text["content"][1]["annotations"] == [{"type": "file_path", "file_id": "f", "index": 0}]
    assert ended.transcript.open_calls == []  # nobody can answer half a call
    check_wire(ended.wire)


# Checkpoints


async def test_a_checkpoint_stores_what_is_done_and_shows_nothing() -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = builder(context)
        yield stream.emit_created()
        for event in stream.output_item_message("one"):
            yield event
        yield stream.add_output_item_message().emit_added()
        yield stream.checkpoint()
        yield stream.emit_completed()

    ended = await run(handler)
    (snapshot,) = ended.saved
    assert snapshot["status"] == "in_progress"
    assert [item["content"][0]["text"] for item in snapshot["output"]] == ["one"]
    assert CHECKPOINT not in [event["type"] for event in ended.wire]


async def test_a_checkpoint_without_news_is_not_stored_again() -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = builder(context)
        yield stream.emit_created()
        yield stream.emit_in_progress()
        yield stream.checkpoint()
        yield stream.checkpoint()
        stream.internal_metadata["n"] = 1
        yield stream.checkpoint()
        yield stream.emit_completed()
        yield stream.checkpoint()

    assert len((await run(handler)).saved) == 2


async def test_a_checkpoint_that_can_not_be_stored_does_not_end_the_run() -> None:
    tried: list[Any] = []

    async def broken(snapshot: Any) -> None:
        tried.append(snapshot)
        raise OSError("away")

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = builder(context)
        yield stream.emit_created()
        yield stream.checkpoint()
        yield stream.checkpoint()
        yield stream.emit_completed()

    ended = await run(handler, checkpoint=broken)
    assert ended.response["status"] == "completed"
    assert len(tried) == 2  # the second one is no repetition: the first is not there


async def test_without_a_place_to_store_them_checkpoints_do_nothing() -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = builder(context)
        yield stream.emit_created()
        yield stream.checkpoint()
        yield stream.emit_completed()

    ended = await run(handler, checkpoint=None)
    assert ended.types == ["created", "in_progress", "completed"]


# After the terminal event


async def test_the_handlers_code_after_its_terminal_event_runs_before_the_end() -> None:
    steps: list[str] = []

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = builder(context)
        yield stream.emit_created()
        yield stream.emit_completed()
        await asyncio.sleep(0)
        steps.append("state saved")

    ended = await run(handler)
    assert steps == ["state saved"]
    assert ended.response["status"] == "completed"


@pytest.mark.parametrize("stubborn", [False, True])
async def test_a_handler_does_not_hold_its_finished_response_for_ever(stubborn: bool) -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = builder(context)
        yield stream.emit_created()
        yield stream.emit_completed()
        swallows = stubborn
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                if not swallows:
                    raise
                swallows = False  # the next one ends the test, should the first not do
            yield stream.emit_completed()

    ended = await asyncio.wait_for(run(handler, after_terminal_seconds=0.02), 30)
    assert ended.types[-1] == "completed"


# Ends that somebody else wants


async def test_what_comes_after_a_cancel_does_not_count() -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        async for event in begin(context, "so far"):
            yield event
        context.client_cancelled = True
        yield raw("output_text.delta", output_index=0, content_index=0, delta=" and more", logprobs=[])
        yield raw("completed", response={})

    ended = await run(handler)
    assert ended.ending == "cancelled"
    assert ended.types[-1] == "failed"
    assert (ended.response["status"], ended.response["completed_at"]) == ("cancelled", None)
    assert ended.response["error"] is None
    assert ended.response["output"][0]["content"][0]["text"] == "so far"
    check_wire(ended.wire)


@pytest.mark.parametrize("error", [None, RuntimeError("x"), asyncio.CancelledError()])
async def test_a_cancelled_run_is_cancelled_however_the_handler_leaves(error: BaseException | None) -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        yield builder(context).emit_created()
        context.client_cancelled = True
        if error is not None:
            raise error

    ended = await run(handler)
    assert (ended.ending, ended.response["status"]) == ("cancelled", "cancelled")


async def test_a_cancel_after_the_terminal_event_is_too_late() -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = builder(context)
        yield stream.emit_created()
        yield stream.emit_completed()
        context.client_cancelled = True

    ended = await run(handler)
    assert (ended.ending, ended.response["status"]) == ("finished", "completed")


@pytest.mark.parametrize("how", ["exit", "exit in a task group", "return", "raise"])
async def test_a_stopping_process_leaves_a_recoverable_response_to_another(how: str) -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        async for event in begin(context):
            yield event
        context.shutdown.set()
        if how == "exit":
            await context.exit_for_recovery()
        if how == "exit in a task group":
            async with asyncio.TaskGroup() as group:
                group.create_task(context.exit_for_recovery())
        if how == "raise":
            raise RuntimeError("the model hung up")

    ended = await run(handler, recoverable=True)
    assert ended.ending == "deferred"
    assert ended.types[-1] == "output_text.delta"
    assert not ended.transcript.ended


async def test_a_stopping_process_lets_a_terminal_event_count() -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = builder(context)
        yield stream.emit_created()
        context.shutdown.set()
        yield stream.emit_completed()
        await context.exit_for_recovery()

    ended = await run(handler, recoverable=True)
    assert (ended.ending, ended.response["status"]) == ("finished", "completed")


@pytest.mark.parametrize("leave", [True, False])
async def test_a_response_that_nobody_runs_again_fails_when_the_process_stops(leave: bool) -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        yield builder(context).emit_created()
        context.shutdown.set()
        if leave:
            await context.exit_for_recovery()

    ended = await run(handler)
    assert ended.ending == "finished"
    assert ended.response["status"] == "failed"
    assert "interrupted" in ended.response["error"]["message"]


async def test_a_silent_handler_in_a_stopping_process_has_not_completed_anything() -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        context.shutdown.set()
        return
        yield {}

    ended = await run(handler, announced=True)
    assert ended.response["status"] == "failed"


async def test_a_steered_handler_ends_its_response_as_it_likes() -> None:
    """A newer turn sets the signal, nothing else: what the handler has to say then counts."""

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = builder(context)
        yield stream.emit_created()
        signal.set()
        for event in stream.output_item_message("that far"):
            yield event
        yield stream.emit_incomplete(reason="steered")

    ended = await run(handler)
    assert ended.response["incomplete_details"] == {"reason": "steered"}
    assert len(ended.response["output"]) == 1


# Cancellation of the task, failures of the server's own


class Waiting:
    """A handler that says something, then waits; it tells when it has been closed."""

    def __init__(self, *, swallow: bool = False) -> None:
        self.waits = asyncio.Event()
        self.closed = False
        self._swallow = swallow

    async def __call__(self, request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        try:
            async for event in begin(context):
                yield event
            self.waits.set()
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                if not self._swallow:
                    raise
            yield raw("completed", response={})
        finally:
            self.closed = True


@pytest.mark.parametrize("swallow", [False, True])
async def test_a_cancelled_task_ends_the_run_and_leaves_the_transcript_to_the_server(swallow: bool) -> None:
    handler = Waiting(swallow=swallow)
    attempt = Run(handler)
    task = asyncio.create_task(attempt.go())
    await handler.waits.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert handler.closed
    assert not attempt.transcript.ended
    await attempt.emit([*attempt.transcript.cancel(), attempt.transcript.terminal()])
    assert attempt.transcript.response["status"] == "cancelled"
    check_wire(attempt.wire)


async def test_a_wire_that_breaks_ends_the_run_with_its_own_error_and_closes_the_handler() -> None:
    closed: list[bool] = []

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        try:
            async for event in begin(context):
                yield event
        finally:
            closed.append(True)

    async def broken(events: Sequence[Event]) -> None:
        raise OSError("the wire")

    attempt = Run(handler)
    with pytest.raises(OSError, match="the wire"):
        await run_handler(handler, {}, attempt.context, attempt.signal, broken, attempt.transcript)
    assert closed == [True]


async def test_a_handler_that_fails_in_its_clean_up_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Any]:
        try:
            yield builder(context).emit_created()
            yield "no event"
        finally:
            raise RuntimeError("clean-up")

    ended = await run(handler)
    assert ended.response["status"] == "failed"
    assert "clean-up" in caplog.text


async def test_the_generator_that_a_coroutine_returned_is_closed_too() -> None:
    closed: list[bool] = []

    async def events(context: Any) -> AsyncIterator[Any]:
        try:
            yield builder(context).emit_created()
            yield "no event"
        finally:
            closed.append(True)

    async def handler(request: Any, context: Any, signal: Any) -> Any:
        return events(context)

    await run(handler)
    assert closed == [True]
