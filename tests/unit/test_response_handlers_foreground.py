"""Response handlers in the foreground: every kind of handler, as JSON and as a stream."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from hosting.responses import Event
from hosting.responses.builders import ResponseEventStream, TextResponse
from tests.server_world import serve, texts
from tests.unit.handler_runs import check_wire


async def builders(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
    stream = ResponseEventStream(response_id=context.response_id, request=request)
    yield stream.emit_created()
    yield stream.emit_in_progress()
    for event in stream.output_item_message("Hello"):
        yield event
    yield stream.emit_completed(usage={"input_tokens": 1, "output_tokens": 2})


async def text(request: Any, context: Any, signal: Any) -> TextResponse:
    return TextResponse(context, request, text="Hello")


async def chunks(request: Any, context: Any, signal: Any) -> TextResponse:
    async def parts() -> AsyncIterator[str]:
        for part in ("Hel", "lo"):
            await asyncio.sleep(0)
            yield part

    return TextResponse(context, request, text=parts())


async def sync_generator(request: Any, context: Any, signal: Any) -> Iterator[Event]:
    def events() -> Iterator[Event]:
        stream = ResponseEventStream(response_id=context.response_id, request=request)
        yield stream.emit_created()
        yield from stream.output_item_message("Hello")
        yield stream.emit_completed()

    return events()


async def async_iterable(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
    return builders(request, context, signal)


KINDS = [builders, text, chunks, sync_generator, async_iterable]


@pytest.mark.parametrize("handler", KINDS)
async def test_a_handler_of_any_kind_answers_with_json(handler: Any) -> None:
    async with serve(handler) as world:
        made = await world.create("hi", metadata={"app": "tests"})
        assert (made["status"], texts(made), made["metadata"]) == ("completed", ["Hello"], {"app": "tests"})
        assert await world.get(made["id"]) == made


@pytest.mark.parametrize("handler", KINDS)
async def test_a_handler_of_any_kind_streams(handler: Any) -> None:
    async with serve(handler) as world:
        reader = await world.stream("hi")
        events = await reader.ends()
        check_wire(events)
        assert reader.types[0] == "created"
        assert reader.types[-1] == "completed"
        assert reader.done
        assert texts(await world.get(events[0]["response"]["id"])) == ["Hello"]


@pytest.mark.parametrize("handler", KINDS)
async def test_a_handler_of_any_kind_runs_in_the_background(handler: Any) -> None:
    async with serve(handler) as world:
        made = await world.create("hi", background=True)
        assert (made["status"], made["output"]) == ("queued", [])
        done = await world.ended(made["id"])
        assert (done["status"], texts(done)) == ("completed", ["Hello"])


@pytest.mark.parametrize("handler", KINDS)
async def test_a_handler_of_any_kind_runs_in_the_background_with_a_stream(handler: Any) -> None:
    async with serve(handler) as world:
        reader = await world.stream("hi", background=True)
        events = await reader.ends()
        check_wire(events)
        assert reader.types[:3] == ["created", "queued", "in_progress"]
        assert reader.types[-1] == "completed"
        again = await world.follow(events[0]["response"]["id"])
        assert await again.ends() == events


async def test_usage_of_the_handler_is_stored() -> None:
    async with serve(builders) as world:
        assert (await world.create("hi"))["usage"]["total_tokens"] == 3


async def test_an_app_without_a_handler_says_so_in_no_detail() -> None:
    async with serve() as world:
        made = await world.create("hi")
        assert (made["status"], made["error"]["code"]) == ("failed", "server_error")
        background = await world.create("hi", background=True)
        assert (await world.ended(background["id"]))["status"] == "failed"


async def test_a_response_that_is_not_stored_is_nowhere() -> None:
    async with serve(text) as world:
        made = await world.create("hi", store=False)
        assert texts(made) == ["Hello"]
        await world.get(made["id"], status=404)


@pytest.mark.parametrize("streams", [False, True])
async def test_a_background_response_must_be_stored(streams: bool) -> None:
    async with serve(text) as world:
        refused = await world.create("hi", store=False, background=True, stream=streams, status=400)
        assert refused["error"]["param"] == "background"
