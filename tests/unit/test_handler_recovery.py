"""A handler that is run again after a crash: what clients see across it, and what is stored."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hosting.responses import Event
from hosting.responses.builders import ResponseEventStream
from hosting.server.earlier_events import EarlierEvents
from tests.unit.handler_runs import Run, base_of, check_wire, message, run


class Crash(BaseException):
    """The process dies; nothing after it happens."""


async def research(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
    """Three steps with a checkpoint after each; goes on where the last checkpoint is."""
    if context.is_recovery:
        stream = ResponseEventStream(response=context.persisted_response)
    else:
        stream = ResponseEventStream(response_id=context.response_id, request=request)
    yield stream.emit_created()
    yield stream.emit_in_progress()
    for step in range(len(stream.response["output"]), 3):
        for event in stream.output_item_message(f"step {step}"):
            yield event
        yield stream.checkpoint()
    yield stream.emit_completed()


async def from_scratch(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
    """The same without looking at what was persisted."""
    stream = ResponseEventStream(response_id=context.response_id, request=request)
    yield stream.emit_created()
    yield stream.emit_in_progress()
    for step in range(3):
        for event in stream.output_item_message(f"step {step}"):
            yield event
    yield stream.emit_completed()


async def crashed(handler: Any, events: int) -> Run:
    """The first life: so many events reach the wire."""
    attempt = Run(handler)
    emit = attempt.emit

    async def until_the_crash(batch: Any) -> None:
        for event in batch:
            if len(attempt.wire) == events:
                raise Crash
            await emit([event])

    attempt.emit = until_the_crash  # type: ignore[method-assign]
    with pytest.raises(Crash):
        await attempt.go()
    assert len(attempt.wire) == events
    return attempt


async def recovered(handler: Any, first: Run, *, replay: bool = False) -> Run:
    """The second life."""
    persisted = first.saved[-1] if first.saved else {**first.base, "status": "in_progress"}
    earlier = EarlierEvents()
    for event in first.wire if replay else ():
        earlier.add(event)
    numbers: dict[str, Any] = {} if replay else {"first_sequence_number": len(first.wire)}
    return await run(handler, base=first.base, persisted=persisted, earlier=earlier, **numbers)


def texts(response: Any) -> list[str]:
    return [item["content"][0]["text"] for item in response["output"]]


ALL_EVENTS = 2 + 3 * 6


@pytest.mark.parametrize("handler", [research, from_scratch])
@pytest.mark.parametrize("events", range(1, ALL_EVENTS + 1))
async def test_wherever_the_crash_is_the_response_is_whole_and_its_numbers_have_no_gap(
    handler: Any, events: int
) -> None:
    first = await crashed(handler, events)
    second = await recovered(handler, first)
    assert texts(second.response) == ["step 0", "step 1", "step 2"]
    wire = first.wire + second.wire
    assert [event["sequence_number"] for event in wire] == list(range(len(wire)))
    assert [event["type"] for event in wire].count("response.created") == 1


@pytest.mark.parametrize("handler", [research, from_scratch])
@pytest.mark.parametrize("events", range(1, ALL_EVENTS + 1))
async def test_a_client_that_starts_over_at_the_reset_marker_has_what_is_stored(handler: Any, events: int) -> None:
    first = await crashed(handler, events)
    second = await recovered(handler, first)
    assembled: dict[int, Any] = {}
    started = False
    for event in first.wire + second.wire:
        if event["type"] == "response.in_progress":
            if started or event in second.wire:
                assembled = dict(enumerate(event["response"]["output"]))
            started = True
        elif event["type"] == "response.output_item.done":
            assembled[event["output_index"]] = event["item"]
    assert [assembled[index] for index in sorted(assembled)] == second.response["output"]


@pytest.mark.parametrize("handler", [research, from_scratch])
@pytest.mark.parametrize("events", range(1, ALL_EVENTS + 1))
async def test_a_client_that_knows_of_no_reset_can_follow_when_the_earlier_events_were_replayed(
    handler: Any, events: int
) -> None:
    """The openai package's accumulator refuses an output index that comes twice, and an item that nobody closes."""
    first = await crashed(handler, events)
    second = await recovered(handler, first, replay=True)
    check_wire(first.wire + second.wire)
    assert texts(second.response) == ["step 0", "step 1", "step 2"]


async def test_the_reset_marker_carries_the_persisted_snapshot_and_checkpointed_items_do_not_come_again() -> None:
    first = await crashed(research, 2 + 6 + 3)  # in the middle of the second step
    second = await recovered(research, first)
    marker = second.wire[0]
    assert marker["type"] == "response.in_progress"
    assert marker["response"]["status"] == "in_progress"
    assert texts(marker["response"]) == ["step 0"]
    assert [event["output_index"] for event in second.wire if event["type"] == "response.output_item.added"] == [1, 2]
    assert second.wire[-1]["response"]["output"][0] == first.saved[0]["output"][0]


async def test_an_item_that_was_done_but_not_checkpointed_is_not_in_the_snapshot() -> None:
    first = await crashed(from_scratch, 2 + 6)
    second = await recovered(from_scratch, first)
    assert second.wire[0]["response"]["output"] == []
    assert len(second.response["output"]) == 3


async def test_created_of_the_second_life_takes_no_number() -> None:
    first = await crashed(research, 4)
    second = await recovered(research, first)
    assert second.wire[0]["sequence_number"] == 4
    assert "created" not in second.types


async def test_the_reset_marker_comes_even_if_the_handler_forgets_it() -> None:
    persisted = base_of() | {"output": [message("msg_1", "one")]}

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = ResponseEventStream(response=context.persisted_response)
        for event in stream.output_item_message("two"):
            yield event
        yield stream.emit_completed()

    second = await run(handler, base=persisted, persisted=persisted, first_sequence_number=7)
    assert second.types[:2] == ["in_progress", "output_item.added"]
    assert texts(second.wire[0]["response"]) == ["one"]
    assert texts(second.response) == ["one", "two"]


async def test_a_second_life_that_fails_at_once_keeps_what_was_persisted() -> None:
    persisted = base_of() | {"output": [message("msg_1", "one")]}

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        raise RuntimeError
        yield {}

    second = await run(handler, base=persisted, persisted=persisted, first_sequence_number=7)
    assert second.types == ["in_progress", "failed"]
    assert texts(second.response) == ["one"]


async def test_a_second_life_that_says_nothing_has_not_completed_anything() -> None:
    persisted = base_of() | {"output": [message("msg_1", "one")]}

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        return
        yield {}

    second = await run(handler, base=persisted, persisted=persisted)
    assert second.types == ["in_progress", "failed"]


async def test_a_second_life_may_not_change_what_was_persisted() -> None:
    persisted = base_of() | {"output": [message("msg_1", "one")]}

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = ResponseEventStream(response=context.persisted_response)
        stream.response["output"][0] = message("msg_1", "another")
        yield stream.emit_created()
        yield stream.emit_completed()

    second = await run(handler, base=persisted, persisted=persisted)
    assert second.types == ["in_progress", "failed"]
    assert texts(second.response) == ["one"]


async def test_created_comes_once_in_the_second_life_too() -> None:
    persisted = base_of()

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = ResponseEventStream(response=context.persisted_response)
        yield stream.emit_created()
        yield stream.emit_created()

    assert (await run(handler, base=persisted, persisted=persisted)).types == ["in_progress", "failed"]


async def test_what_the_first_life_set_is_kept() -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        if context.is_recovery:
            stream = ResponseEventStream(response=context.persisted_response)
            yield stream.emit_failed(message=f"gave up in phase {stream.internal_metadata['phase']}")
            return
        stream = ResponseEventStream(response_id=context.response_id)
        stream.response["metadata"]["topic"] = "crashes"
        stream.response["model"] = "used"
        stream.internal_metadata["phase"] = "gather"
        yield stream.emit_created()
        yield stream.checkpoint()
        yield stream.emit_in_progress()

    first = await run(handler)
    second = await run(handler, base=base_of(identifier=first.base["id"]), persisted=first.saved[-1])
    assert second.response["metadata"] == {"app": "tests", "topic": "crashes"}
    assert second.response["model"] == "used"
    assert second.response["error"]["message"] == "gave up in phase gather"


async def test_a_third_life_goes_on_from_the_second() -> None:
    first = await crashed(research, 2 + 6 + 2)
    wire = list(first.wire)
    earlier = EarlierEvents()
    for event in wire:
        earlier.add(event)
    second = Run(research, base=first.base, persisted=first.saved[-1], earlier=earlier)
    emit, before = second.emit, len(wire)

    async def until_the_crash(batch: Any) -> None:
        for event in batch:
            if len(second.wire) == 10:
                raise Crash
            await emit([event])

    second.emit = until_the_crash  # type: ignore[method-assign]
    with pytest.raises(Crash):
        await second.go()
    wire += second.wire
    assert len(wire) == before + 10
    earlier = EarlierEvents()
    for event in wire:
        earlier.add(event)
    third = await run(research, base=first.base, persisted=second.saved[-1], earlier=earlier)
    assert texts(third.response) == ["step 0", "step 1", "step 2"]
    check_wire(wire + third.wire)


async def test_an_id_that_was_persisted_is_taken() -> None:
    persisted = base_of() | {"output": [message("msg_1", "one")]}

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = ResponseEventStream(response=context.persisted_response)
        yield stream.emit_created()
        yield stream.add_output_item("msg_1").emit_added(message("msg_1"))

    assert (await run(handler, base=persisted, persisted=persisted)).types == ["in_progress", "failed"]
