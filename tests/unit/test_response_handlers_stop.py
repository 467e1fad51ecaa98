"""Graceful stops (reference 8.5): never worse than a kill, and followers of a response that goes on elsewhere are not told
that it has ended."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hosting.responses import Event
from hosting.responses.builders import ResponseEventStream
from hosting.server.transcript import INTERRUPTED
from tests.server_world import World, serve, texts, until
from tests.unit.handler_runs import check_wire


class Stopped:
    """Waits for its signal in the first run, then does as `then` says; completes in the second."""

    def __init__(self, then: str) -> None:
        self.then = then
        self.waits = asyncio.Event()
        self.contexts: list[Any] = []
        self.seen: list[tuple[bool, bool]] = []
        self.cleaned_up = 0

    async def __call__(self, request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        self.contexts.append(context)
        if context.is_recovery:
            stream = ResponseEventStream(response=context.persisted_response)
        else:
            stream = ResponseEventStream(response_id=context.response_id, request=request)
        yield stream.emit_created()
        yield stream.emit_in_progress()
        try:
            if not context.is_recovery:
                for event in stream.output_item_message("first life"):
                    yield event
                yield stream.checkpoint()
                self.waits.set()
                await signal.wait()
                self.seen.append((context.shutdown.is_set(), context.client_cancelled))
                if self.then == "exit":
                    await context.exit_for_recovery()
                if self.then == "ignore":
                    await asyncio.Event().wait()
                if self.then == "raise":
                    raise RuntimeError("the database has gone")
                if self.then == "return":
                    return
        finally:
            await asyncio.sleep(0.02)
            self.cleaned_up += 1
        for event in stream.output_item_message("the rest"):
            yield event
        yield stream.emit_completed()


async def stopped(world: World, handler: Stopped) -> tuple[str, list[Event]]:
    """A background run that is there when its process stops; its id and what a client had read."""
    reader = await world.stream("hi", background=True)
    await handler.waits.wait()
    await reader.until("output_item.done")
    await world.stop(3.0)  # virtual seconds: some 100 ms
    await reader.hang_up()
    return handler.contexts[0].response_id, reader.events


@pytest.mark.parametrize("then", ["exit", "ignore", "raise", "return"])
async def test_a_response_that_does_not_end_in_a_stopping_process_goes_on_in_another(then: str) -> None:
    handler = Stopped(then)
    async with serve(handler, resilient_background=True) as world:
        identifier, before = await stopped(world, handler)
        assert handler.seen == [(True, False)]
        assert handler.cleaned_up == 1
        await world.restart(20)  # the lease was given back: nobody waits for its end
        done = await world.ended(identifier)
        assert (done["status"], texts(done)) == ("completed", ["first life", "the rest"])
        assert handler.contexts[1].is_recovery
        assert texts(handler.contexts[1].persisted_response) == ["first life"]
        events = before + await (await world.follow(identifier, before[-1]["sequence_number"])).ends()
        check_wire(events)
        assert events[-1]["response"] == done


async def test_a_response_that_ends_in_a_stopping_process_has_ended() -> None:
    handler = Stopped("complete")
    async with serve(handler, resilient_background=True) as world:
        identifier, _ = await stopped(world, handler)
        await world.restart()
        done = await world.get(identifier)
        assert (done["status"], texts(done)) == ("completed", ["first life", "the rest"])
        assert len(handler.contexts) == 1


async def test_the_stream_stays_open_for_the_recovered_run() -> None:
    """The published server closes it, and the recovered events never reach its readers (25)."""
    handler = Stopped("exit")
    async with serve(handler, resilient_background=True) as world:
        identifier, before = await stopped(world, handler)
        world.boot()
        reader = await world.follow(identifier)
        await reader.until("output_item.done")
        assert not reader.done
        assert reader.events == before
        await world.advance(20)
        await world.engine.recover()
        check_wire(await reader.ends())


@pytest.mark.parametrize("then", ["ignore", "raise", "return"])
async def test_without_the_option_a_response_that_does_not_end_is_failed(then: str) -> None:
    handler = Stopped(then)
    async with serve(handler) as world:
        identifier, _ = await stopped(world, handler)
        assert handler.seen == [(True, False)]
        await world.restart()
        failed = await world.ended(identifier)
        assert (failed["status"], failed["error"]["message"]) == ("failed", INTERRUPTED)
        assert len(handler.contexts) == 1
        check_wire(await (await world.follow(identifier)).ends())


async def test_exit_for_recovery_without_the_option_fails_the_response(caplog: pytest.LogCaptureFixture) -> None:
    handler = Stopped("exit")
    async with serve(handler) as world:
        identifier, _ = await stopped(world, handler)
        await world.restart()
        assert (await world.ended(identifier))["status"] == "failed"
        assert len(handler.contexts) == 1


async def test_exit_for_recovery_outside_a_shutdown_is_an_error() -> None:
    errors: list[str] = []

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = ResponseEventStream(response_id=context.response_id)
        yield stream.emit_created()
        try:
            await context.exit_for_recovery()
        except RuntimeError as error:
            errors.append(str(error))
        yield stream.emit_completed()

    async with serve(handler, resilient_background=True) as world:
        made = await world.create("hi", background=True)
        assert (await world.ended(made["id"]))["status"] == "completed"
        assert "shutdown" in errors[0]
        assert (await world.create("hi"))["status"] == "completed"
        assert "resilient_background" in errors[1]


# Foreground


@pytest.mark.parametrize("stream", [False, True])
async def test_a_foreground_handler_hears_of_the_stop_and_may_end(stream: bool) -> None:
    handler = Stopped("complete")
    async with serve(handler) as world:
        post = asyncio.create_task(world.post("hi", stream=stream))
        await handler.waits.wait()
        await world.server.close(5)
        assert handler.seen == [(True, False)]
        assert (await post).status == 200
        assert texts(await _stored(world, handler)) == ["first life", "the rest"]


@pytest.mark.parametrize("then", ["ignore", "raise", "return"])
async def test_a_foreground_handler_that_does_not_end_is_stored_as_failed(then: str) -> None:
    handler = Stopped(then)
    async with serve(handler) as world:
        reader = await world.stream("hi")
        await handler.waits.wait()
        # Who listens is not to be cut off while it tidies up.
        await world.server.close(0.05 if then == "ignore" else 30)
        failed = await _stored(world, handler)
        assert (failed["status"], failed["error"]["message"]) == ("failed", INTERRUPTED)
        assert texts(failed) == ["first life"]
        events = await reader.ends()
        check_wire(events)
        assert events[-1]["response"] == failed
        assert handler.cleaned_up == 1


async def test_a_json_client_of_a_stopping_process_gets_the_failed_response() -> None:
    handler = Stopped("ignore")
    async with serve(handler) as world:
        post = asyncio.create_task(world.create("hi"))
        await handler.waits.wait()
        await world.server.close(0.05)
        assert (await post)["status"] == "failed"


async def _stored(world: World, handler: Stopped) -> Any:
    """What the next process finds."""
    await until(lambda: handler.cleaned_up == 1)
    await world.kill()
    world.boot()
    return await world.get(handler.contexts[0].response_id)
