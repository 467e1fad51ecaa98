"""Every row of reference 7.3 on the wire: as JSON, as a stream, in the background and in the background with a stream.

The published package has three different outcomes in many rows, two of them a response that is in progress for ever (its
defect 24) and one in which the stream says something else than the response (29). Here a mode changes where the outcome is
seen, not what it is.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from hosting.responses import Event
from hosting.responses.builders import ResponseEventStream
from hosting.responses.envelope import AGENT_FAILED
from tests.server_world import Json, World, parsed, serve
from tests.unit.handler_runs import check_wire, message, raw

SECRET = "postgres://user:hunter2@db"


def yielding(*steps: Any) -> Callable[..., AsyncIterator[Any]]:
    """A handler that yields these; a function is called with the id of the response, an exception raised."""

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Any]:
        for step in steps:
            if isinstance(step, BaseException):
                raise step
            yield step(context.response_id) if callable(step) else step

    return handler


def created(identifier: str, **fields: Any) -> Event:
    return raw("created", response={"id": identifier, "status": "in_progress", "output": [], **fields})


def completed(identifier: str) -> Event:
    return raw("completed", response={"id": identifier, "status": "completed"})


def failed_with_words(identifier: str) -> Event:
    error = {"code": "rate_limit_exceeded", "message": "Come back tomorrow."}
    return raw("failed", response={"id": identifier, "error": error})


def incomplete(identifier: str) -> Event:
    return raw("incomplete", response={"id": identifier, "incomplete_details": {"reason": "max_output_tokens"}})


async def smuggler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
    stream = ResponseEventStream(response_id=context.response_id, request=request)
    yield stream.emit_created()
    stream.response["output"].append(message("msg_smuggled", "x"))
    yield stream.emit_completed()


NOT_CREATED = {
    "raises before any event": yielding(RuntimeError(SECRET)),
    "first event is not created": yielding(raw("in_progress", response={})),
    "first event is no event": yielding("response.created"),
    "created without a response": yielding(raw("created")),
    "created with a terminal status": yielding(lambda identifier: created(identifier, status="completed")),
}
FAILED = {
    "created with a foreign id": yielding(lambda _: created("resp_foreign")),
    "raises after created": yielding(created, RuntimeError(SECRET)),
    "ends without a terminal event": yielding(created),
    "changes the output outside the builders": smuggler,
    "yields what is no event": yielding(created, "text"),
}
COMPLETED = {
    "yields nothing at all": yielding(),
    "yields a second terminal event": yielding(created, completed, failed_with_words),
    "yields another event after the end": yielding(created, completed, raw("output_item.added", output_index=0)),
    "raises after the end": yielding(created, completed, RuntimeError(SECRET)),
}
GENERIC = {"code": "server_error", "message": AGENT_FAILED}


def named(rows: dict[str, Any]) -> Any:
    return pytest.mark.parametrize("handler", list(rows.values()), ids=list(rows))


def outcome(response: Json) -> tuple[str, Json | None]:
    error = response["error"]
    return response["status"], error and {"code": error["code"], "message": error["message"]}


async def in_the_background(world: World, *, stream: bool) -> Json:
    if not stream:
        return await world.ended((await world.create("hi", background=True))["id"])
    events = await (await world.stream("hi", background=True)).ends()
    check_wire(events)
    assert SECRET not in repr(events)
    stored = await world.get(events[0]["response"]["id"])
    assert events[-1]["response"] == stored
    return stored


@named(NOT_CREATED)
async def test_as_json_a_response_that_was_not_created_is_a_500(handler: Any) -> None:
    async with serve(handler) as world:
        refused = await world.create("hi", status=500)
        assert refused["error"]["code"] == "server_error"
        assert SECRET not in repr(refused)


@named(NOT_CREATED)
async def test_as_a_stream_a_response_that_was_not_created_is_one_error_event(handler: Any) -> None:
    async with serve(handler) as world:
        reader = await world.stream("hi")
        assert [(event["type"], event["sequence_number"]) for event in await reader.ends()] == [("error", 0)]
        assert reader.done
        assert SECRET not in repr(reader.events)


@named(NOT_CREATED | FAILED)
@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
async def test_in_the_background_it_fails(handler: Any, stream: bool) -> None:
    async with serve(handler) as world:
        assert outcome(await in_the_background(world, stream=stream)) == ("failed", GENERIC)


@named(FAILED)
async def test_as_json_it_fails(handler: Any) -> None:
    async with serve(handler) as world:
        made = await world.create("hi")
        assert outcome(made) == ("failed", GENERIC)
        assert await world.get(made["id"]) == made
        assert SECRET not in repr(made)


@named(FAILED)
async def test_as_a_stream_it_fails(handler: Any) -> None:
    async with serve(handler) as world:
        events = await (await world.stream("hi")).ends()
        check_wire(events)
        assert outcome(events[-1]["response"]) == ("failed", GENERIC)
        assert SECRET not in repr(events)


@named(COMPLETED)
@pytest.mark.parametrize("background", [False, True], ids=["foreground", "background"])
@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
async def test_what_completes_completes_in_every_mode(handler: Any, background: bool, stream: bool) -> None:
    async with serve(handler) as world:
        if background:
            response = await in_the_background(world, stream=stream)
        elif stream:
            events = await (await world.stream("hi")).ends()
            check_wire(events)
            response = events[-1]["response"]
        else:
            response = await world.create("hi")
        assert outcome(response) == ("completed", None)
        assert response["output"] == []


@pytest.mark.parametrize("background", [False, True], ids=["foreground", "background"])
@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
async def test_words_of_the_handler_for_its_failure_are_public(background: bool, stream: bool) -> None:
    async with serve(yielding(created, failed_with_words)) as world:
        response = await _answer(world, background, stream)
        assert outcome(response) == ("failed", {"code": "rate_limit_exceeded", "message": "Come back tomorrow."})


@pytest.mark.parametrize("background", [False, True], ids=["foreground", "background"])
@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
async def test_an_incomplete_response_says_why(background: bool, stream: bool) -> None:
    async with serve(yielding(created, incomplete)) as world:
        response = await _answer(world, background, stream)
        assert response["status"] == "incomplete"
        assert response["incomplete_details"] == {"reason": "max_output_tokens"}


async def _answer(world: World, background: bool, stream: bool) -> Json:
    if background:
        return await in_the_background(world, stream=stream)
    if stream:
        return (await (await world.stream("hi")).ends())[-1]["response"]
    return await world.create("hi")


async def test_the_500_asks_no_sdk_to_run_the_handler_again() -> None:
    runs: list[int] = []

    async def handler(request: Any, context: Any, signal: Any) -> None:
        runs.append(1)
        raise RuntimeError(SECRET)

    async with serve(handler) as world:
        response = await world.post("hi")
        parsed(response, 500)
        assert response.headers["x-should-retry"] == "false"
        assert runs == [1]
