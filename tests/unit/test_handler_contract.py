"""What may be a response handler, and the forms in which it gives its events."""

import asyncio
import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from hosting.responses import Event, ResponseRenderer, parse_create_request
from hosting.responses.builders import ResponseEventStream, TextResponse
from hosting.server.handler import ResponseNotCreated, check_handler
from tests.unit.handler_runs import BODY, Run, check_wire, run


async def coroutine(request: Any, context: Any, signal: Any) -> Any: ...


async def generator(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
    yield {}


async def positional_only(a: Any, b: Any, c: Any, /) -> Any: ...


async def with_option(request: Any, context: Any, signal: Any, *, verbose: bool = False) -> Any: ...


class Agent:
    async def method(self, request: Any, context: Any, signal: Any) -> Any: ...

    async def __call__(self, request: Any, context: Any, signal: Any) -> Any: ...


class SyncAgent:
    def __call__(self, request: Any, context: Any, signal: Any) -> Any: ...


async def four(request: Any, context: Any, signal: Any, more: Any) -> Any: ...


async def four_with_default(request: Any, context: Any, signal: Any, more: Any = None) -> Any: ...


async def two(request: Any, context: Any) -> Any: ...


async def any_number(*args: Any) -> Any: ...


async def three_and_more(request: Any, context: Any, signal: Any, *more: Any) -> Any: ...


async def needs_keyword(request: Any, context: Any, signal: Any, *, key: str) -> Any: ...


def sync(request: Any, context: Any, signal: Any) -> Any: ...


def sync_generator(request: Any, context: Any, signal: Any) -> Iterator[Event]:
    yield {}


@pytest.mark.parametrize(
    "handler",
    [
        coroutine,
        generator,
        positional_only,
        with_option,
        Agent().method,
        Agent(),
        functools.partial(needs_keyword, key="x"),
        functools.partial(four, None),
    ],
)
def test_an_async_function_of_three_parameters_is_a_handler(handler: Any) -> None:
    assert check_handler(handler) is handler


@pytest.mark.parametrize(
    "handler",
    [
        four,
        four_with_default,
        two,
        any_number,
        three_and_more,
        needs_keyword,
        sync,
        sync_generator,
        lambda request, context, signal: None,
        SyncAgent(),
        Agent,
        None,
        "handler",
    ],
)
def test_anything_else_is_refused(handler: Any) -> None:
    with pytest.raises(TypeError, match="response handler"):
        check_handler(handler)


async def test_a_handler_gets_the_request_its_context_and_the_signal() -> None:
    got: list[Any] = []

    async def handler(request: Any, context: Any, signal: Any) -> TextResponse:
        got.extend((request["input"], context, signal))
        return TextResponse(context, request, text="ok")

    done = await run(handler)
    assert got == ["hi", done.context, done.signal]


def answer(context: Any, request: Any) -> Iterator[Event]:
    stream = ResponseEventStream(response_id=context.response_id, request=request)
    yield stream.emit_created()
    yield stream.emit_in_progress()
    yield from stream.output_item_message("Hello")
    yield stream.emit_completed()


async def async_answer(context: Any, request: Any) -> AsyncIterator[Event]:
    for event in answer(context, request):
        yield event


async def as_generator(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
    for event in answer(context, request):
        yield event


async def as_async_iterable(request: Any, context: Any, signal: Any) -> Any:
    return async_answer(context, request)


async def as_sync_generator(request: Any, context: Any, signal: Any) -> Any:
    return answer(context, request)


async def as_list(request: Any, context: Any, signal: Any) -> Any:
    return list(answer(context, request))


async def as_text(request: Any, context: Any, signal: Any) -> Any:
    return TextResponse(context, request, text="Hello")


@pytest.mark.parametrize("handler", [as_generator, as_async_iterable, as_sync_generator, as_list, as_text])
async def test_events_may_come_in_any_of_these_forms(handler: Any) -> None:
    done = await run(handler)
    assert done.ending == "finished"
    assert done.types == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    check_wire(done.wire)


@pytest.mark.parametrize("value", [None, "text", b"text", {"type": "response.created"}, 7])
async def test_a_handler_that_returns_no_events_has_created_nothing(value: Any) -> None:
    async def handler(request: Any, context: Any, signal: Any) -> Any:
        return value

    with pytest.raises(ResponseNotCreated) as caught:
        await run(handler)
    assert isinstance(caught.value.__cause__, TypeError)


async def test_a_long_sync_generator_lets_others_run() -> None:
    turns = 0

    async def handler(request: Any, context: Any, signal: Any) -> Any:
        return answer(context, request)

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await run(handler)
    task.cancel()
    assert turns > 5


async def test_the_renderer_of_agents_is_a_handler_too() -> None:
    """Its events pass unchanged, but for the fields that the server knows better."""
    made: list[Event] = []

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        renderer = ResponseRenderer(
            response_id=context.response_id,
            request=parse_create_request(dict(request)),
            model="m",
            created_at=1_700_000_000,
            clock=lambda: 1_700_000_009.5,
        )
        for event in [*renderer.start(), *renderer.feed("Hello"), *renderer.finish(), renderer.terminal()]:
            made.append(event)
            yield event

    done = await Run(handler, body=BODY).go()
    assert done.wire == made
    check_wire(done.wire)
