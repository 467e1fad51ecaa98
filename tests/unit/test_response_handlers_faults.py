"""Storage that fails under a running handler, and requests that come twice."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agent_framework import Agent

from demo_agent import create_demo_chat_client
from hosting.responses import Event
from hosting.responses.builders import ResponseEventStream
from hosting.server.background import BackgroundResponses
from hosting.state import AgentState, TableHistoryProvider
from hosting.storage import MemoryBlobs, MemoryTables, StorageUnavailable, Store
from tests.server_world import parsed, reader, serve, texts
from tests.unit.handler_runs import check_wire


class Tables(MemoryTables):
    """Storage that takes the next writes of running responses and loses the answer, or is away."""

    def __init__(self) -> None:
        super().__init__()
        self.lose_answers = self.away = 0

    async def transact(self, partition: str, operations: Any) -> Any:
        if any(operation.row.startswith("response.") for operation in operations):
            if self.lose_answers:
                self.lose_answers -= 1
                await super().transact(partition, operations)
                raise StorageUnavailable("the answer was lost")
            if self.away:
                self.away -= 1
                raise StorageUnavailable("away")
        return await super().transact(partition, operations)


class Steps:
    """Two steps with a checkpoint after each; `before` is called before each checkpoint."""

    def __init__(self, before: Any) -> None:
        self.before = before
        self.runs = 0

    async def __call__(self, request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        self.runs += 1
        stream = ResponseEventStream(response_id=context.response_id, request=request)
        yield stream.emit_created()
        yield stream.emit_in_progress()
        for step in range(2):
            for event in stream.output_item_message(f"step {step}"):
                yield event
            self.before(step)
            yield stream.checkpoint()
        yield stream.emit_completed()


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("away", [1, 3])
async def test_a_checkpoint_whose_answer_was_lost_costs_no_more_than_itself(step: int, away: int) -> None:
    """It was applied, so the version of the row that the run knows is an old one: the final response must not be lost."""
    tables = Tables()

    def before(at: int) -> None:
        if at == step:
            tables.lose_answers, tables.away = 1, away

    handler = Steps(before)
    async with serve(handler, store=Store(tables, MemoryBlobs()), resilient_background=True) as world:
        made = await world.create("hi", background=True)
        done = await world.ended(made["id"])
        assert (done["status"], texts(done)) == ("completed", ["step 0", "step 1"])
        assert handler.runs == 1


@pytest.mark.parametrize("away", [2, 4])
async def test_a_checkpoint_that_could_not_be_stored_costs_no_more_than_itself(away: int) -> None:
    tables = Tables()

    def before(at: int) -> None:
        tables.away = away if at == 0 else 0

    handler = Steps(before)
    async with serve(handler, store=Store(tables, MemoryBlobs()), resilient_background=True) as world:
        made = await world.create("hi", background=True)
        done = await world.ended(made["id"])
        assert (done["status"], texts(done)) == ("completed", ["step 0", "step 1"])


async def test_a_response_that_is_cancelled_while_a_checkpoint_is_in_doubt_stays_cancelled() -> None:
    tables = Tables()
    checkpointed, go = asyncio.Event(), asyncio.Event()

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = ResponseEventStream(response_id=context.response_id)
        yield stream.emit_created()
        yield stream.emit_in_progress()
        stream.response["metadata"]["step"] = "1"
        tables.lose_answers, tables.away = 1, 1
        yield stream.checkpoint()
        checkpointed.set()
        await go.wait()
        yield stream.emit_completed()

    async with serve(handler, store=Store(tables, MemoryBlobs()), resilient_background=True) as world:
        made = await world.create("hi", background=True)
        await checkpointed.wait()
        cancelled = await world.cancel(made["id"])
        go.set()
        await world.at_rest(made["id"])
        assert (await world.get(made["id"]), cancelled["status"]) == (cancelled, "cancelled")


async def test_the_beginning_of_a_run_whose_answer_was_lost_is_no_reason_to_fail_it() -> None:
    """Without resilient_background a run that has begun is not made again; but this one has not."""
    tables = Tables()
    handler = Steps(lambda at: None)
    async with serve(handler, store=Store(tables, MemoryBlobs())) as world:
        world.boot(drives=False)
        made = await world.create("hi", background=True)
        await world.kill()
        tables.lose_answers, tables.away = 1, 2
        await world.restart()
        assert (await world.ended(made["id"]))["status"] == "completed"
        assert handler.runs == 1


async def test_an_outage_while_the_metadata_is_read_is_waited_out() -> None:
    tables = Tables()
    runs: list[bool] = []

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        runs.append(context.is_recovery)
        stream = ResponseEventStream(response_id=context.response_id)
        yield stream.emit_created()
        yield stream.emit_completed()

    class Failing(Store):
        fails = 1

        async def query(self, partition: str, first: str, last: str, **options: Any) -> Any:
            if first.startswith("metadata") and self.fails:
                self.fails -= 1
                raise StorageUnavailable("away")
            return await super().query(partition, first, last, **options)

    store = Failing(tables, MemoryBlobs())
    async with serve(handler, store=store, resilient_background=True) as world:
        made = await world.create("hi", background=True)
        await world.advance(60)
        assert store.fails == 0
        assert (await world.ended(made["id"]))["status"] == "completed"
        assert len(runs) == 1


class Slow(Store):
    """Waits before the next read of a response row."""

    before_the_row: Any = None

    async def get(self, partition: str, row: str, **options: Any) -> Any:
        if row.startswith("response.") and (wait := self.before_the_row) is not None:
            self.before_the_row = None
            await wait()
        return await super().get(partition, row, **options)


async def test_a_response_that_becomes_final_while_it_is_read_is_there() -> None:
    """Its row and its place in the log are read at the same time; the one before the transaction, the other after it."""

    go = asyncio.Event()

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = ResponseEventStream(response_id=context.response_id)
        yield stream.emit_created()
        await go.wait()
        yield stream.emit_completed()

    store = Slow(MemoryTables(), MemoryBlobs())
    async with serve(handler, store=store) as world:
        made = await world.create("hi", background=True)

        async def ends() -> None:
            go.set()
            await world.at_rest(made["id"])

        store.before_the_row = ends
        assert (await world.get(made["id"]))["status"] == "completed"


async def test_a_turn_after_a_response_that_becomes_final_while_it_is_read_knows_what_was_said_in_it() -> None:
    def demo() -> Agent:
        return Agent(client=create_demo_chat_client(), context_providers=[TableHistoryProvider()])

    store = Slow(MemoryTables(), MemoryBlobs())
    async with serve(hosted=AgentState(demo), store=store) as world:
        made = await world.create("[[slow 5 20]]", background=True)

        async def ends() -> None:
            await world.at_rest(made["id"])

        store.before_the_row = ends
        answer = await world.create("[[history]]", previous_response_id=made["id"])
        assert texts(answer) == ["history users=2 first=[[slow 5 20]]"]


# Requests that come twice


async def count(handler_runs: list[str], request: Any, context: Any) -> AsyncIterator[Event]:
    handler_runs.append(context.response_id)
    stream = ResponseEventStream(response_id=context.response_id, request=request)
    yield stream.emit_created()
    for event in stream.output_item_message("once"):
        yield event
    yield stream.emit_completed()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_background_request_that_comes_twice_runs_once(stream: bool) -> None:
    runs: list[str] = []

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        async for event in count(runs, request, context):
            yield event

    async with serve(handler) as world:
        headers = {"idempotency-key": "key-1"}
        answers = [await world.post("hi", background=True, stream=stream, headers=headers) for _ in range(2)]
        if stream:
            first, second = [await reader(answer).ends() for answer in answers]
            assert first == second
            check_wire(first)
        else:
            first, second = map(parsed, answers)
            assert first["id"] == second["id"]
            await world.ended(first["id"])
        assert len(runs) == 1
        other = await world.create("other", background=True, stream=stream, headers=headers, status=409)
        assert other["error"]["code"] == "idempotency_key_reused"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_background_request_whose_process_died_before_it_was_accepted_is_accepted_once(
    stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key is claimed, the response is not there: the client sends the request again, even twice at once."""
    runs: list[str] = []

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        async for event in count(runs, request, context):
            yield event

    async with serve(handler) as world:
        headers = {"idempotency-key": "key-1"}
        claimed = asyncio.Event()

        async def never(*args: Any) -> Any:
            claimed.set()
            await asyncio.Event().wait()

        with monkeypatch.context() as patch:
            patch.setattr(BackgroundResponses, "accept", never)
            dying = asyncio.create_task(world.post("hi", background=True, stream=stream, headers=headers))
            await claimed.wait()
        await world.kill()
        dying.cancel()
        await asyncio.gather(dying, return_exceptions=True)
        await world.restart()
        posts = (world.post("hi", background=True, stream=stream, headers=headers) for _ in range(2))
        answers = await asyncio.gather(*posts)
        if stream:
            first, second = [await reader(answer).ends() for answer in answers]
            assert first == second
            identifier = first[0]["response"]["id"]
        else:
            first, second = map(parsed, answers)
            assert first["id"] == second["id"]
            identifier = first["id"]
        assert texts(await world.ended(identifier)) == ["once"]
        assert runs == [identifier]
