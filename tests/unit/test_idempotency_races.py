"""What a key is not: in use by a deleted response, deleted while it ends, or another response's."""

import asyncio
from typing import Any

import pytest

from hosting.responses.builders import ResponseEventStream
from hosting.server import handler_answer
from hosting.server.background import BackgroundResponses
from hosting.state import Turns
from hosting.state.conversations import Conversations
from hosting.storage import MemoryAppendBlobs, StorageUnavailable, keys
from tests.server_world import parsed, reader, serve, until
from tests.unit.test_idempotency_after_delete import KEY, Counting

SCOPE = keys.scope("development", None)


class Waiting(Counting):
    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()

    async def __call__(self, request: Any, context: Any, signal: Any) -> Any:
        self.runs += 1
        stream = ResponseEventStream(response_id=context.response_id, request=request)
        yield stream.emit_created()
        await self.gate.wait()
        yield stream.emit_completed()


async def test_one_that_was_cancelled_and_deleted_is_not_run_again() -> None:
    handler = Waiting()
    async with serve(handler) as world:
        made = await world.create(background=True, headers=KEY)
        await until(lambda: handler.runs == 1)
        await world.cancel(made["id"])
        handler.gate.set()
        await world.at_rest(made["id"])
        await world.delete(made["id"])
        again = await world.create(background=True, headers=KEY, status=409)
        assert again["error"]["code"] == "idempotency_response_deleted"


async def test_one_that_ends_while_its_repeat_looks_is_not_taken_for_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = Waiting()
    async with serve(handler) as world:
        first = asyncio.create_task(world.post(headers=KEY))
        await until(lambda: handler.runs == 1)
        look = Turns.response

        async def looked(self: Turns, identifier: str, **options: Any) -> Any:
            found = await look(self, identifier, **options)
            if found is None:
                handler.gate.set()
                await first
            return found

        monkeypatch.setattr(Turns, "response", looked)
        assert parsed(await world.post(headers=KEY)) == parsed(first.result())


async def test_items_that_took_the_place_of_a_turn_that_died_are_not_its_end() -> None:
    async with serve(Counting()) as world:
        conversation = await world.conversation()
        chain = keys.chain_of(conversation)
        await Conversations(world.store, SCOPE).append(
            conversation, [{"type": "message", "role": "user", "content": []}]
        )
        assert not await Turns(world.store, SCOPE).had_ended(f"resp_{chain}{0:08x}{'1' * 24}")


async def test_a_turn_that_has_become_a_branch_is_found_by_its_key() -> None:
    handler = Counting()
    async with serve(handler, steerable_conversations=True) as world:
        first = await world.create("one", background=True)
        await world.ended(first["id"])
        failed = await world.create("fail", background=True, previous_response_id=first["id"])
        await world.ended(failed["id"])
        body = {"background": True, "previous_response_id": first["id"], "headers": KEY}
        made = await world.create("three", **body)
        await world.ended(made["id"])
        assert (await world.create("three", **body))["id"] == made["id"]
        assert handler.runs == 3


async def test_a_turn_that_has_read_its_conversation_again_is_found_by_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = Counting()
    async with serve(handler) as world:
        conversation = await world.conversation()
        accept = BackgroundResponses.accept

        async def after_a_change(self: BackgroundResponses, submission: Any) -> Any:
            await Conversations(world.store, SCOPE).update(conversation, {"changed": "meanwhile"})
            return await accept(self, submission)

        body = {"background": True, "conversation": conversation, "headers": KEY}
        with monkeypatch.context() as patch:
            patch.setattr(BackgroundResponses, "accept", after_a_change)
            made = await world.create(**body)
        await world.ended(made["id"])
        assert (await world.create(**body))["id"] == made["id"]
        assert handler.runs == 1


async def test_one_whose_client_hung_up_is_no_answer_and_is_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK repeats a request that has timed out: an empty response with status 200 would be taken for its answer."""
    monkeypatch.setattr(handler_answer, "_WIND_DOWN", 0.05)
    handler = Waiting()
    async with serve(handler) as world:
        gone = asyncio.Event()
        first = asyncio.create_task(world.post(headers=KEY, disconnected=gone.wait))
        await until(lambda: handler.runs == 1)
        gone.set()
        assert (await first).status == 499
        codes: list[str] = []

        async def stored() -> bool:
            codes.append(parsed(await world.post(headers=KEY), 409)["error"]["code"])
            return codes[-1] != "idempotency_key_in_use"

        await until(stored)  # its end is stored after its client has gone
        again = await world.post(headers=KEY)
        assert parsed(again, 409)["error"]["code"] == codes[-1] == "idempotency_response_cancelled"
        assert again.headers["x-should-retry"] == "false"
        assert handler.runs == 1


async def test_one_that_was_cancelled_by_its_client_is_given_again() -> None:
    handler = Waiting()
    async with serve(handler) as world:
        made = await world.create(background=True, headers=KEY)
        await until(lambda: handler.runs == 1)
        cancelled = await world.cancel(made["id"])
        assert await world.create(background=True, headers=KEY) == cancelled


async def test_an_accepted_one_whose_events_can_not_be_opened_yet_is_followed_later_and_run_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handler = Waiting()
    async with serve(handler) as world:

        async def away(self: MemoryAppendBlobs, name: str) -> bool:
            raise StorageUnavailable("create")

        with monkeypatch.context() as patch:
            patch.setattr(MemoryAppendBlobs, "create", away)
            first = reader(await world.post(background=True, stream=True, headers=KEY))
            made = (await first.until("queued"))["response"]["id"]
            parsed(await world.post(background=True, stream=True, headers=KEY), 503)  # a repeat has nothing to lose
        reading = reader(await world.post(background=True, stream=True, headers=KEY))
        handler.gate.set()
        await world.advance(5)  # the run could not open it either, and tries again
        assert [event["response"]["id"] for event in (await reading.ends())[:1]] == [made]
        assert await first.ends() == reading.events
        rows = [row for held in world.store._tables._partitions.values() for row in held.rows]  # type: ignore[attr-defined]
        assert [row for row in rows if row.startswith("response.")] == [keys.response_row(made)]


async def test_a_repeat_of_a_foreground_turn_that_waits_behind_another_one_gets_its_end() -> None:
    handler = Waiting()
    async with serve(handler, steerable_conversations=True) as world:
        first = await world.create("one", background=True)
        body = {"previous_response_id": first["id"], "headers": KEY}
        waiting = asyncio.create_task(world.create("two", **body))
        await until(lambda: handler.runs == 1)
        await world.engine.settle()
        repeat = asyncio.create_task(world.create("two", **body))
        await world.engine.settle()
        handler.gate.set()
        made = await asyncio.wait_for(waiting, 5)
        assert await asyncio.wait_for(repeat, 5) == made
        assert (made["status"], handler.runs) == ("completed", 2)


async def test_a_repeat_of_a_waiting_foreground_turn_whose_client_goes_cancels_nothing() -> None:
    handler, gone = Waiting(), asyncio.Event()
    async with serve(handler, steerable_conversations=True) as world:
        first = await world.create("one", background=True)
        body = {"previous_response_id": first["id"], "headers": KEY}
        waiting = asyncio.create_task(world.create("two", **body))
        await until(lambda: handler.runs == 1)
        await world.engine.settle()

        repeat = asyncio.create_task(world.post("two", disconnected=gone.wait, **body))
        await world.engine.settle()
        gone.set()
        assert (await repeat).status == 499
        handler.gate.set()
        assert (await asyncio.wait_for(waiting, 5))["status"] == "completed"
