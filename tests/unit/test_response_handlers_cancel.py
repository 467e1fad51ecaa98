"""Cancel and disconnect: what the handler sees of it, what clients see, and what is stored (reference 7.4)."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hosting.responses import Event
from hosting.responses.builders import ResponseEventStream, TextResponse
from hosting.server import handler_answer
from hosting.server.foreground import finish_running
from tests.server_world import FINAL, serve, texts
from tests.unit.handler_runs import check_wire


class Worker:
    """A handler that works until its signal is set; `after` says what it does then."""

    def __init__(self, after: str = "complete", *, chatty: bool = False) -> None:
        self.after, self.chatty = after, chatty
        self.started, self.ended = asyncio.Event(), asyncio.Event()
        self.ids: list[str] = []
        self.seen: list[tuple[bool, bool]] = []

    async def __call__(self, request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        self.ids.append(context.response_id)
        stream = ResponseEventStream(response_id=context.response_id, request=request)
        try:
            yield stream.emit_created()
            yield stream.emit_in_progress()
            for event in stream.output_item_message("before"):
                yield event
            self.started.set()
            if self.chatty:
                message = stream.add_output_item_message()
                yield message.emit_added()
                text = message.add_text_content()
                yield text.emit_added()
                while not signal.is_set():
                    yield text.emit_delta("x")
                    await asyncio.sleep(0.001)
            await signal.wait()
            self.seen.append((context.client_cancelled, context.shutdown.is_set()))
            if self.after == "ignore":
                await asyncio.Event().wait()
            if self.after == "raise":
                raise RuntimeError("stopped")
            if self.chatty:
                return
            for event in stream.output_item_message("after"):
                yield event
            yield stream.emit_completed()
        finally:
            self.ended.set()


# Background


@pytest.mark.parametrize("chatty", [False, True])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_cancelled_handler_sees_that_its_client_has_cancelled(stream: bool, chatty: bool) -> None:
    worker = Worker(chatty=chatty)
    async with serve(worker) as world:
        await (world.stream("hi", background=True) if stream else world.create("hi", background=True))
        await worker.started.wait()
        cancelled = await world.cancel(worker.ids[0])
        assert (cancelled["status"], cancelled["output"], cancelled["completed_at"]) == ("cancelled", [], None)
        await worker.ended.wait()
        assert worker.seen == [(True, False)]


@pytest.mark.parametrize("after", ["complete", "raise"])
@pytest.mark.parametrize("stream", [False, True])
async def test_what_a_cancelled_handler_still_says_does_not_count(stream: bool, after: str) -> None:
    worker = Worker(after)
    async with serve(worker) as world:
        await (world.stream("hi", background=True) if stream else world.create("hi", background=True))
        await worker.started.wait()
        cancelled = await world.cancel(worker.ids[0])
        await worker.ended.wait()
        await world.at_rest(worker.ids[0])
        assert await world.get(worker.ids[0]) == cancelled
        assert await world.cancel(worker.ids[0]) == cancelled


async def test_followers_of_a_cancelled_response_end_with_it_and_replay_says_the_same() -> None:
    worker = Worker(chatty=True)
    async with serve(worker) as world:
        reader = await world.stream("hi", background=True)
        await reader.until("output_text.delta", 3)
        other = await world.follow(worker.ids[0], 4)
        cancelled = await world.cancel(worker.ids[0])
        events = await reader.ends()
        assert reader.numbers == list(range(len(events)))
        assert (events[-1]["type"], events[-1]["response"]) == ("response.failed", cancelled)
        assert await other.ends() == events[5:]
        await worker.ended.wait()
        await world.at_rest(worker.ids[0])
        assert await (await world.follow(worker.ids[0])).ends() == events


async def test_a_handler_that_does_not_end_is_stopped_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler_answer, "_WIND_DOWN", 0.05)
    worker = Worker("ignore")
    async with serve(worker) as world:
        await world.create("hi", background=True)
        await worker.started.wait()
        await world.cancel(worker.ids[0])
        await worker.ended.wait()
        assert worker.seen == [(True, False)]
        await world.at_rest(worker.ids[0])


async def test_a_handler_has_ten_seconds_to_wind_down() -> None:
    assert handler_answer._WIND_DOWN == 10.0


async def test_a_handler_that_never_waits_does_not_hold_up_the_process_while_it_winds_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handler_answer, "_WIND_DOWN", 0.05)
    started, ended = asyncio.Event(), asyncio.Event()

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = ResponseEventStream(response_id=context.response_id)
        yield stream.emit_created()
        started.set()
        await signal.wait()
        try:
            while True:
                yield {"type": "acme:progress"}
        finally:
            ended.set()

    async with serve(handler) as world:
        made = await world.create("hi", background=True)
        await started.wait()
        began = time.monotonic()
        await world.cancel(made["id"])
        await ended.wait()
        assert time.monotonic() - began < 5  # not when the test's own time is over


async def test_cancelling_before_the_handler_runs_keeps_it_from_running() -> None:
    worker = Worker()
    async with serve(worker) as world:
        world.boot(drives=False)
        made = await world.create("hi", background=True)
        assert (await world.cancel(made["id"]))["status"] == "cancelled"
        await world.kill()
        await world.restart()
        await world.at_rest(made["id"])
        assert (await world.get(made["id"]))["status"] == "cancelled"
        assert worker.ids == []


async def test_cancelling_what_has_ended_returns_it() -> None:
    async def handler(request: Any, context: Any, signal: Any) -> TextResponse:
        return TextResponse(context, request, text="whole")

    async with serve(handler) as world:
        done = await world.ended((await world.create("hi", background=True))["id"])
        assert done["status"] == "completed"
        assert await world.cancel(done["id"]) == done


async def test_a_cancel_that_the_run_hears_of_late_still_tells_the_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process cancels: the row and the stream say so at once, the task hears of it seconds later."""
    worker = Worker(chatty=True)
    async with serve(worker) as world:
        reader = await world.stream("hi", background=True)
        await reader.until("output_text.delta")

        async def not_yet(*args: Any) -> None:
            pass

        monkeypatch.setattr(world.engine.engine, "cancel", not_yet)
        await world.cancel(worker.ids[0])
        await worker.ended.wait()
        assert worker.seen == [(True, False)]
        assert (await reader.ends())[-1]["response"]["status"] == "cancelled"


async def test_a_second_cancel_tells_the_run_when_the_process_of_the_first_died_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = Worker()  # it stores nothing meanwhile, and so does not find out by itself
    async with serve(worker) as world:
        await world.create("hi", background=True)
        await worker.started.wait()

        async def never(*args: Any) -> None:
            pass

        with monkeypatch.context() as dead:
            dead.setattr(world.engine.engine, "cancel", never)
            cancelled = await world.cancel(worker.ids[0])
        assert not worker.ended.is_set()
        assert await world.cancel(worker.ids[0]) == cancelled
        async with asyncio.timeout(30):
            await worker.ended.wait()
        assert worker.seen == [(True, False)]


# Foreground


@pytest.mark.parametrize("after", ["complete", "raise"])
async def test_a_client_that_hangs_up_while_it_waits_for_json_cancels(after: str) -> None:
    worker, gone = Worker(after), asyncio.Event()
    async with serve(worker) as world:
        post = asyncio.create_task(world.post("hi", disconnected=gone.wait))
        await worker.started.wait()
        gone.set()
        assert (await post).status == 499
        await worker.ended.wait()
        await finish_running(5)
        assert worker.seen == [(True, False)]
        stored = await world.get(worker.ids[0])
        assert (stored["status"], texts(stored)) == ("cancelled", ["before"])


@pytest.mark.parametrize("chatty", [False, True])
async def test_a_client_that_hangs_up_while_it_reads_events_cancels(chatty: bool) -> None:
    worker = Worker(chatty=chatty)
    async with serve(worker) as world:
        reader = await world.stream("hi")
        await worker.started.wait()
        await reader.hang_up()
        await worker.ended.wait()
        await finish_running(5)
        assert worker.seen == [(True, False)]
        stored = await world.get(worker.ids[0])
        assert (stored["status"], texts(stored)[0]) == ("cancelled", "before")


async def test_a_foreground_handler_that_does_not_end_is_stopped_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler_answer, "_WIND_DOWN", 0.05)
    worker = Worker("ignore")
    async with serve(worker) as world:
        reader = await world.stream("hi")
        await worker.started.wait()
        await reader.hang_up()
        await worker.ended.wait()
        await finish_running(5)
        assert (await world.get(worker.ids[0]))["status"] == "cancelled"


async def test_a_response_that_is_complete_when_the_client_hangs_up_stays_complete() -> None:
    """The published server stores it as cancelled, without its output."""
    said, go = asyncio.Event(), asyncio.Event()
    ids: list[str] = []

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        ids.append(context.response_id)
        stream = ResponseEventStream(response_id=context.response_id)
        yield stream.emit_created()
        for event in stream.output_item_message("whole"):
            yield event
        yield stream.emit_completed()
        said.set()
        await go.wait()

    async with serve(handler) as world:
        reader = await world.stream("hi")
        await said.wait()
        await reader.hang_up()
        go.set()
        await finish_running(5)
        stored = await world.get(ids[0])
        assert (stored["status"], texts(stored)) == ("completed", ["whole"])


async def test_cancelling_a_foreground_response_is_a_400() -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        yield ResponseEventStream(response_id=context.response_id).emit_created()

    async with serve(handler) as world:
        made = await world.create("hi")
        assert made["status"] in FINAL
        refused = await world.cancel(made["id"], status=400)
        assert refused["error"]["type"] == "invalid_request_error"


async def test_events_of_a_cancelled_run_are_what_strict_clients_take() -> None:
    worker = Worker(chatty=False)
    async with serve(worker) as world:
        reader = await world.stream("hi", background=True)
        await worker.started.wait()
        await reader.until("output_item.done")
        await world.cancel(worker.ids[0])
        check_wire(await reader.ends())
