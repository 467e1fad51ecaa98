"""The operator beside a running app: a process of its own, without the app's agent, engine and streams."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hosting.admin.account import Account
from hosting.admin.cancelling import cancel
from hosting.admin.erasing import Contents, Erasure
from hosting.admin.listing import list_responses
from hosting.admin.running import RunningLine, oldest_running
from hosting.responses import ApiError, Event
from hosting.responses.builders import ResponseEventStream, TextResponse
from hosting.storage import MemoryAppendBlobs, StorageUnavailable, keys, memory_store
from hosting.tasks._engine import Engine
from hosting.tasks._options import TaskOptions
from tests.contract.admin_world import AdminWorld, Nobody
from tests.contract.storage_twins import Twin
from tests.server_world import World, serve

SCOPE = keys.scope("development", None)


class Worker:
    """A handler that works until it is told to end."""

    def __init__(self) -> None:
        self.entered = 0
        self.started, self.ended = asyncio.Event(), asyncio.Event()

    async def __call__(self, request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        self.entered += 1
        stream = ResponseEventStream(response_id=context.response_id, request=request)
        try:
            yield stream.emit_created()
            yield stream.emit_in_progress()
            for event in stream.output_item_message("begun"):
                yield event
            self.started.set()
            await signal.wait()
            for event in stream.output_item_message("wound up"):
                yield event
            yield stream.emit_completed()
        finally:
            self.ended.set()


def operator(world: World) -> Account:
    """Another process on the storage of the app."""
    engine = Engine(world.store, Nobody(), options=TaskOptions(), clock=world.clock)
    return Account("the account", world.store, world.blobs, engine)


async def running(world: World) -> list[RunningLine]:
    return (await oldest_running(operator(world).engine, 10)).lines


async def erase(world: World) -> Contents:
    account = operator(world)
    return await Erasure(account.engine, account.blobs, SCOPE).run()


async def stored(world: World) -> int:
    """Everything that the app has stored."""
    page = await world.store._tables.scan(None)  # type: ignore[attr-defined]
    assert page.next is None
    return len(page.items) + len(await world.blobs.list(""))


@pytest.mark.parametrize("stream", [False, True])
async def test_a_running_response_is_cancelled_from_another_process(stream: bool) -> None:
    worker = Worker()
    async with serve(worker) as world:
        identifier = (await world.create(background=True))["id"] if not stream else ""
        reader = None
        if stream:
            reader = await world.stream(background=True)
            await reader.until("output_item.done")
            identifier = reader.events[0]["response"]["id"]
        await worker.started.wait()
        assert (await cancel(operator(world), SCOPE, identifier))["status"] == "cancelled"
        assert (await world.get(identifier))["status"] == "cancelled"
        if reader is not None:
            assert (await reader.ends())[-1]["response"]["status"] == "cancelled"
        await world.advance(3)  # the run looks each two seconds
        await worker.ended.wait()
        await world.at_rest(identifier)
        assert (await world.get(identifier))["status"] == "cancelled"


async def test_input_that_kills_its_processes_is_not_run_again_once_it_is_cancelled() -> None:
    worker = Worker()
    async with serve(worker, resilient_background=True) as world:
        identifier = (await world.create(background=True))["id"]
        await worker.started.wait()
        await world.kill()
        await world.restart()
        assert worker.entered == 2
        await world.kill()
        [line] = [line async for line in list_responses(operator(world).engine, SCOPE, running=True)]
        assert (line.id, line.crashes) == (identifier, 1)
        await cancel(operator(world), SCOPE, identifier)
        await world.restart()
        await world.at_rest(identifier)
        assert worker.entered == 2
        assert [line async for line in list_responses(operator(world).engine, SCOPE, running=True)] == []


async def test_a_turn_that_waits_behind_another_is_cancelled_and_the_other_goes_on() -> None:
    worker = Worker()
    async with serve(worker, steerable_conversations=True) as world:
        first = (await world.create(background=True))["id"]
        await worker.started.wait()
        second = (await world.create("more", background=True, previous_response_id=first))["id"]
        assert (await cancel(operator(world), SCOPE, second))["status"] == "cancelled"
        await world.ended(first)
        assert (await world.get(second))["status"] == "cancelled"
        await world.advance(3)
        assert worker.entered == 1


async def test_a_response_that_has_ended_is_left_as_it_is() -> None:
    async def handler(request: Any, context: Any, signal: Any) -> TextResponse:
        return TextResponse(context, request, text="whole")

    async with serve(handler) as world:
        done = await world.ended((await world.create(background=True))["id"])
        assert await cancel(operator(world), SCOPE, done["id"]) == done


async def test_a_response_of_another_scope_is_not_found() -> None:
    worker = Worker()
    async with serve(worker) as world:
        identifier = (await world.create(background=True))["id"]
        with pytest.raises(ApiError) as refused:
            await cancel(operator(world), keys.scope("key:other", None), identifier)
        assert refused.value.status == 404
        assert (await world.get(identifier))["status"] in ("queued", "in_progress")


async def test_a_run_is_seen_from_its_acceptance_to_its_end() -> None:
    worker = Worker()
    async with serve(worker, resilient_background=True) as world:
        world.boot(drives=False)
        identifier = (await world.create(background=True))["id"]
        await world.advance(5)
        [line] = await running(world)
        assert (line.scope, line.response, line.task) == (SCOPE, identifier, identifier)
        assert (line.name, line.age, line.state, line.lease, line.crashes) == (
            "hosting.response",
            5,
            "waiting",
            None,
            0,
        )
        await world.restart()
        await worker.started.wait()
        [line] = await running(world)
        assert (line.state, line.lease is not None and 0 < line.lease <= 60) == ("running", True)
        await world.kill()
        await world.advance(70)
        [line] = await running(world)
        assert (line.state, line.lease is not None and line.lease < -2) == ("lapsed", True)
        await cancel(operator(world), SCOPE, identifier)
        await world.restart()
        await world.at_rest(identifier)
        assert await running(world) == []


async def test_a_turn_that_waits_behind_another_is_named_by_its_response() -> None:
    worker = Worker()
    async with serve(worker, steerable_conversations=True) as world:
        first = (await world.create(background=True))["id"]
        await worker.started.wait()
        await world.advance(1)
        second = (await world.create("more", background=True, previous_response_id=first))["id"]
        lines = await running(world)
        assert [(line.response, line.state, line.name) for line in lines] == [
            (first, "running", "hosting.conversation"),
            (second, "queued", "hosting.conversation"),
        ]
        assert lines[0].task == lines[1].task not in (first, second)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_run_that_is_erased_ends_and_leaves_nothing(stream: bool) -> None:
    worker = Worker()
    async with serve(worker, resilient_background=True) as world:
        await (world.stream(background=True) if stream else world.create(background=True))
        await worker.started.wait()
        gone = await erase(world)
        assert (gone.tasks, gone.rows["response"]) == (1, 1)
        await world.advance(62)
        await worker.ended.wait()
        await world.engine.recover()
        await world.engine.settle()
        await erase(world)
        assert await stored(world) == 0
        assert worker.entered == 1


async def test_a_waiting_run_that_is_erased_never_begins() -> None:
    worker = Worker()
    async with serve(worker) as world:
        world.boot(drives=False)
        await world.create(background=True)
        await world.kill()
        await erase(world)
        await world.restart()
        assert worker.entered == 0
        assert await stored(world) == 0


async def test_a_foreground_turn_that_ends_after_an_erasure_is_found_by_the_next_one() -> None:
    worker = Worker()
    async with serve(worker) as world:
        running = asyncio.create_task(world.create("hi"))
        await worker.started.wait()
        assert (await erase(world)).total == 0
        await world.server.close(1.0)
        await running
        assert (await erase(world)).rows["response"] == 1
        assert (await erase(world)).total == 0


async def test_an_erasure_that_fails_at_any_write_is_finished_by_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hosting.storage._commit._PAUSE", 0.0)
    other = keys.scope("key:other", None)
    for point in range(100):
        world = memory_world()
        for scope in (SCOPE, other):
            await world.fill(scope)
        others = await world.snapshot(without=[SCOPE])
        erasure = Erasure(world.engine, world.appends, SCOPE)
        with monkeypatch.context() as patched:
            cut(world, point, patched)
            try:
                await erasure.run()
                whole = True
            except StorageUnavailable:
                whole = False
        await erasure.run()
        assert await world.snapshot() == others
        if whole:
            assert point > 10  # so many writes there are
            return
    raise AssertionError("it never came to its end")


def memory_world() -> AdminWorld:
    store = memory_store()
    return AdminWorld(Twin("memory", store._tables, store._blobs, store), MemoryAppendBlobs())


def cut(world: AdminWorld, changes: int, patched: pytest.MonkeyPatch) -> None:
    """Let the storage fail from its n-th change on."""
    left = changes

    def limited(call: Any) -> Any:
        async def call_or_fail(*given: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise StorageUnavailable("cut off")
            return await call(*given)

        return call_or_fail

    for target, name in ((world.twin.tables, "transact"), (world.twin.blobs, "delete"), (world.appends, "delete")):
        patched.setattr(target, name, limited(getattr(target, name)))
