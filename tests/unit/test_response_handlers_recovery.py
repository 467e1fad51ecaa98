"""Handlers whose process dies or stops in mid-run: what the next run is given, and what clients see across it (8.4, 8.5)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hosting.responses import Event
from hosting.responses.builders import ResponseEventStream
from hosting.server import follow
from hosting.server.background_run import BackgroundRun
from hosting.server.transcript import INTERRUPTED
from tests.server_world import Json, World, serve, texts, until
from tests.sse_reader import assembled
from tests.unit.handler_runs import check_wire


class Research:
    """Three steps with a checkpoint after each. A step named in `hang_in` does not end in its first run."""

    def __init__(self, hang_in: int | None = 1, *, seeded: bool = True, at: str = "in the step") -> None:
        self.hang_in, self.seeded, self.at = hang_in, seeded, at
        self.hangs = asyncio.Event()
        self.contexts: list[Any] = []
        self.requests: list[Any] = []
        self.steps: list[int] = []

    async def __call__(self, request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        self.contexts.append(context)
        self.requests.append(request)
        if self.at == "before created":
            await self._hang()
        if context.is_recovery and self.seeded:
            stream = ResponseEventStream(response=context.persisted_response)
        else:
            stream = ResponseEventStream(response_id=context.response_id, request=request)
        yield stream.emit_created()
        yield stream.emit_in_progress()
        for step in range(len(stream.response["output"]), 3):
            message = stream.add_output_item_message()
            yield message.emit_added()
            text = message.add_text_content()
            yield text.emit_added()
            yield text.emit_delta(f"step {step}")
            if step == self.hang_in and self.at == "in the step":
                await self._hang()
            self.steps.append(step)
            yield text.emit_text_done()
            yield text.emit_done()
            yield message.emit_done()
            if step == self.hang_in and self.at == "before the checkpoint":
                await self._hang()
            yield stream.checkpoint()
        yield stream.emit_completed()
        if self.at == "after the end":
            await self._hang()

    async def _hang(self) -> None:
        if len(self.contexts) == 1:
            self.hangs.set()
            await asyncio.Event().wait()


async def crashed(world: World, handler: Research, **body: Any) -> str:
    """The handler hangs, and its process is killed when all that it said is stored."""
    reader = await world.stream("hi", background=True, **body)
    await handler.hangs.wait()
    if handler.at in ("in the step", "before the checkpoint"):
        done = 2 + 5 * (handler.hang_in or 0)
        await until(lambda: len(reader.events) >= done + 3)
    identifier = handler.contexts[0].response_id
    await world.kill()
    await reader.hang_up()
    return identifier


@pytest.mark.parametrize("at", ["before created", "in the step", "before the checkpoint"])
@pytest.mark.parametrize("seeded", [True, False])
async def test_a_response_whose_process_was_killed_is_run_again_and_is_whole(at: str, seeded: bool) -> None:
    handler = Research(at=at, seeded=seeded)
    async with serve(handler, resilient_background=True) as world:
        identifier = await crashed(world, handler)
        assert (await _after_restart(world, identifier))["status"] == "in_progress"
        done = await world.ended(identifier)
        assert (done["status"], texts(done)) == ("completed", ["step 0", "step 1", "step 2"])
        events = await (await world.follow(identifier)).ends()
        check_wire(events)
        assert assembled(events) == done["output"]
        assert events[-1]["response"] == done


async def _after_restart(world: World, identifier: str) -> Json:
    world.boot()
    found = await world.get(identifier)
    await world.kill()
    await world.restart()
    return found


async def test_the_second_run_knows_what_was_stored_and_does_no_step_twice() -> None:
    handler = Research(hang_in=1)
    async with serve(handler, resilient_background=True) as world:
        identifier = await crashed(world, handler)
        await world.restart()
        await world.ended(identifier)
        first, second = handler.contexts
        assert (first.is_recovery, first.persisted_response) == (False, None)
        assert second.is_recovery
        assert second.persisted_response["status"] == "in_progress"
        assert texts(second.persisted_response) == ["step 0"]
        assert handler.steps == [0, 1, 2]


async def test_without_a_checkpoint_the_second_run_has_the_announcement() -> None:
    handler = Research(hang_in=0)
    async with serve(handler, resilient_background=True) as world:
        identifier = await crashed(world, handler)
        await world.restart()
        await world.ended(identifier)
        persisted = handler.contexts[1].persisted_response
        assert (persisted["id"], persisted["output"]) == (identifier, [])


async def test_the_second_in_progress_is_the_reset_marker() -> None:
    handler = Research(hang_in=1)
    async with serve(handler, resilient_background=True) as world:
        identifier = await crashed(world, handler)
        await world.restart()
        reader = await world.follow(identifier)
        events = await reader.ends()
        assert reader.types.count("created") == 1
        marker = await reader.until("in_progress", 2)
        assert texts(marker["response"]) == ["step 0"]
        after = [event for event in events if event["sequence_number"] > marker["sequence_number"]]
        added = [event["item"]["id"] for event in after if event["type"] == "response.output_item.added"]
        assert len(added) == 2  # the checkpointed one does not come again


async def test_a_client_goes_on_where_it_was_after_the_crash() -> None:
    handler = Research(hang_in=1)
    async with serve(handler, resilient_background=True) as world:
        reader = await world.stream("hi", background=True)
        await handler.hangs.wait()
        await until(lambda: reader.types.count("output_text.delta") == 2)
        before = list(reader.events)
        await world.kill()
        await reader.hang_up()
        await world.restart()
        rest = await (await world.follow(before[0]["response"]["id"], before[-1]["sequence_number"])).ends()
        check_wire(before + rest)
        assert texts(rest[-1]["response"]) == ["step 0", "step 1", "step 2"]


async def test_a_follower_that_waits_through_the_crash_gets_the_recovered_events() -> None:
    """It is at another instance, which lives on; here it comes before the recovery."""
    handler = Research(hang_in=1)
    async with serve(handler, resilient_background=True) as world:
        identifier = await crashed(world, handler)
        world.boot()
        reader = await world.follow(identifier)
        await reader.until("output_text.delta", 2)
        await world.advance(120)
        await world.engine.recover()
        check_wire(await reader.ends())


async def test_a_crash_after_the_end_was_stored_does_not_enter_the_handler_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The outcome of the task and the final response are one transaction, so there is no such window; what is left to do
    after it is to close the stream."""
    handler = Research(hang_in=None)
    async with serve(handler, resilient_background=True) as world:

        async def never(*args: Any) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(BackgroundRun, "_close_when_stored", never)
        monkeypatch.setattr(follow, "_LOOK", 0.05)
        monkeypatch.setattr(follow, "_STRAGGLERS", 0.05)
        made = await world.stream("hi", background=True)
        identifier = (await made.until("created"))["response"]["id"]
        done = await world.ended(identifier)
        await world.kill()
        await made.hang_up()
        await world.restart()
        assert await world.get(identifier) == done
        assert len(handler.contexts) == 1
        events = await (await world.follow(identifier)).ends()
        check_wire(events)
        assert events[-1]["response"] == done


async def test_a_crash_between_the_last_event_and_the_transaction_runs_again_and_is_whole() -> None:
    handler = Research(hang_in=None, at="after the end")
    async with serve(handler, resilient_background=True) as world:
        identifier = await crashed(world, handler)
        await world.restart()
        done = await world.ended(identifier)
        assert (done["status"], texts(done)) == ("completed", ["step 0", "step 1", "step 2"])
        assert handler.steps == [0, 1, 2]
        check_wire(await (await world.follow(identifier)).ends())


@pytest.mark.parametrize("stream", [True, False])
async def test_without_the_option_a_killed_response_is_marked_failed(stream: bool) -> None:
    handler = Research(hang_in=1)
    async with serve(handler) as world:
        if stream:
            identifier = await crashed(world, handler)
        else:
            identifier = (await world.create("hi", background=True))["id"]
            await handler.hangs.wait()
            await world.kill()
        await world.restart()
        failed = await world.ended(identifier)
        assert (failed["status"], failed["error"]["code"]) == ("failed", "server_error")
        assert failed["error"]["message"] == INTERRUPTED
        assert len(handler.contexts) == 1
        if stream:
            events = await (await world.follow(identifier)).ends()
            check_wire(events)
            assert events[-1]["response"] == failed


async def test_a_response_that_no_process_has_begun_is_run_without_the_option_too() -> None:
    handler = Research(hang_in=None)
    async with serve(handler) as world:
        world.boot(drives=False)
        made = await world.create("hi", background=True)
        await world.kill()
        await world.restart()
        assert (await world.ended(made["id"]))["status"] == "completed"
        assert not handler.contexts[0].is_recovery


async def test_a_response_that_kills_every_process_is_given_up() -> None:
    contexts: list[Any] = []

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        contexts.append(context)
        yield ResponseEventStream(response_id=context.response_id).emit_created()
        await asyncio.Event().wait()

    async with serve(handler, resilient_background=True, env={"HOSTING_MAX_RECOVERIES": "2"}) as world:
        made = await world.create("hi", background=True)
        for life in (1, 2, 3):
            await until(lambda life=life: len(contexts) == life)
            assert (await world.get(made["id"]))["status"] == "in_progress"
            await world.kill()
            await world.restart()
        failed = await world.ended(made["id"])
        assert (failed["status"], failed["error"]["message"]) == ("failed", INTERRUPTED)
        assert len(contexts) == 3


async def test_processes_that_stop_in_order_do_not_use_up_a_run() -> None:
    """Deployments and scale-in: a run of many hours lives through any number of them."""
    contexts: list[Any] = []

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        contexts.append(context)
        stream = ResponseEventStream(response_id=context.response_id)
        yield stream.emit_created()
        if len(contexts) < 4:
            await asyncio.Event().wait()
        yield stream.emit_in_progress()
        yield stream.emit_completed()

    async with serve(handler, resilient_background=True, env={"HOSTING_MAX_RECOVERIES": "0"}) as world:
        made = await world.create("hi", background=True)
        for life in (1, 2, 3):
            await until(lambda life=life: len(contexts) == life)
            await world.stop()
            await world.restart()
        assert (await world.ended(made["id"]))["status"] == "completed"
        assert [context.is_recovery for context in contexts] == [False, True, True, True]


async def test_the_second_run_sees_the_same_request() -> None:
    handler = Research(hang_in=1)
    async with serve(handler, resilient_background=True) as world:
        await crashed(
            world,
            handler,
            metadata={"app": "tests"},
            temperature=0.5,
            headers={"x-client-tenant": "contoso", "X-Other": "no", "x-agent-foundry-call-id": "call-7"},
            query={"mode": ["deep"]},
        )
        await world.restart()
        await until(lambda: len(handler.contexts) == 2)
        first, second = handler.contexts
        assert first.client_headers == {"x-client-tenant": "contoso"}
        assert first.query_parameters == {"mode": "deep"}
        assert first.platform_context.call_id == "call-7"
        assert first.request["metadata"] == {"app": "tests"}
        for name in ("client_headers", "query_parameters", "platform_context", "created_at", "conversation_chain_id"):
            assert getattr(second, name) == getattr(first, name)
        assert handler.requests[1] == handler.requests[0] | {"input": handler.requests[1]["input"]}
        assert await second.get_input_text() == await first.get_input_text() == "hi"
        assert await second.get_input_items() == await first.get_input_items()
