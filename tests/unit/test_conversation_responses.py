"""Responses that are turns of a conversation: what they see, what they leave, and who comes first."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from agent_framework import Agent

from demo_agent import create_demo_chat_client
from hosting.identity import Identity
from hosting.server import Request
from hosting.settings import load_settings
from hosting.state import AgentState, TableHistoryProvider
from hosting.state.conversation_turns import ConversationTurns
from hosting.state.conversations import Conversations
from hosting.storage import Operation, StorageUnavailable, Store, keys
from tests.server_world import Json, World, parsed, serve, texts, until

_DEVELOPER = Identity(load_settings({"AZURE_FUNCTIONS_ENVIRONMENT": "Development"})).caller({})
SCOPE = keys.scope(_DEVELOPER.tenant, None)


def demo() -> Agent:
    return Agent(client=create_demo_chat_client(), context_providers=[TableHistoryProvider()])


@pytest.fixture
async def world() -> AsyncGenerator[World]:
    async with serve(hosted=AgentState(demo)) as made:
        yield made


@pytest.fixture
async def steerable() -> AsyncGenerator[World]:
    async with serve(hosted=AgentState(demo), steerable_conversations=True, resilient_background=True) as made:
        yield made


async def call(
    world: World, method: str, tail: str = "", body: Json | None = None, status: int = 200, **ids: str
) -> Json:
    async def read(limit: int) -> bytes:
        return b"" if body is None else json.dumps(body).encode()

    route = "v1/conversations" + tail
    query = {"limit": ["100"], "order": ["asc"]} if method == "GET" and tail.endswith("/items") else {}
    request = Request(method, route, read=read, path_params=ids, query=query)
    return parsed(await world.server.handle(route, request), status)


async def conversation(world: World, **body: Any) -> str:
    return (await call(world, "POST", body=body))["id"]


async def said(world: World, identifier: str) -> list[str]:
    """The texts in the conversation, oldest first."""
    page = await call(world, "GET", "/{conversation_id}/items", conversation_id=identifier)
    return [part["text"] for item in page["data"] if item["type"] == "message" for part in item["content"]]


async def until_held(world: World, identifier: str, by_somebody: bool = True) -> None:
    """Wait until a foreground turn has the conversation, or until none has."""

    async def so() -> bool:
        found = await Conversations(world.store, SCOPE).get(identifier)
        return found is not None and (found.holder is not None) == by_somebody

    await until(so)


async def test_a_turn_adds_its_input_and_its_output_in_order(world: World) -> None:
    conv = await conversation(world)
    made = await world.create("one", conversation=conv)
    await world.create("two", conversation={"id": conv})
    assert made["conversation"] == {"id": conv}
    assert await said(world, conv) == ["one", "Echo: one", "two", "Echo: two"]


async def test_a_turn_sees_what_was_there_before_it(world: World) -> None:
    conv = await conversation(world, items=[{"role": "user", "content": "by hand"}])
    await world.create("one", conversation=conv)
    assert texts(await world.create("[[history]]", conversation=conv)) == ["history users=3 first=by hand"]


async def test_a_background_turn_sees_and_adds_the_same(world: World) -> None:
    conv = await conversation(world)
    await world.create("one", conversation=conv)
    made = await world.ended((await world.create("[[history]]", conversation=conv, background=True))["id"])
    assert "one" in texts(made)[0]
    assert (await said(world, conv))[:3] == ["one", "Echo: one", "[[history]]"]
    await world.create("three", conversation=conv)
    assert (await said(world, conv))[-2:] == ["three", "Echo: three"]


async def test_an_unknown_conversation_is_404(world: World) -> None:
    conv = await conversation(world)
    missing = conv[:-4] + "0000"
    for extra in ({}, {"stream": True}, {"background": True}):
        error = parsed(await world.post("hi", conversation=missing, **extra), 404)["error"]
        assert missing in error["message"]


@pytest.mark.parametrize("extra", [{}, {"stream": True}, {"background": True}])
async def test_a_conversation_with_a_running_turn_is_locked_for_others(world: World, extra: Json) -> None:
    conv = await conversation(world)
    running = asyncio.create_task(world.create("[[slow 50 10]]", conversation=conv))
    await until_held(world, conv)
    error = parsed(await world.post("me too", conversation=conv, **extra), 409)["error"]
    assert error["code"] == "conversation_locked"
    await running
    await world.create("now", conversation=conv)
    assert len(await said(world, conv)) == 4


async def test_a_running_background_turn_locks_the_conversation_until_it_is_cancelled(world: World) -> None:
    conv = await conversation(world)
    made = await world.create("[[slow 500 10]]", conversation=conv, background=True)
    assert (await world.create("hi", conversation=conv, status=409))["error"]["code"] == "conversation_locked"
    await world.cancel(made["id"])
    await world.create("hi", conversation=conv)
    assert await said(world, conv) == ["hi", "Echo: hi"]


async def test_a_dead_process_gives_its_conversation_free_after_a_while(world: World) -> None:
    conv = await conversation(world)
    running = asyncio.create_task(world.create("[[slow 500 10]]", conversation=conv))
    await until_held(world, conv)
    await world.kill()
    await asyncio.gather(running, return_exceptions=True)
    await world.restart()
    assert (await world.create("hi", conversation=conv, status=409))["error"]["code"] == "conversation_locked"
    held = await Conversations(world.store, SCOPE).get(conv)
    assert held is not None
    assert 0 < held.until - time.time() <= 30
    await ConversationTurns(world.store, SCOPE).extend(held, str(held.holder), time.time() - 1)  # the while goes by
    await world.create("hi", conversation=conv)
    assert await said(world, conv) == ["hi", "Echo: hi"]


async def test_a_turn_that_does_not_know_that_it_has_its_conversation_lets_it_go(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write that takes the conversation is applied, and no answer to it arrives."""
    conv = await conversation(world)
    commit, lost = Store.commit, [1, 2]

    async def unanswered(
        self: Store, partition: str, operations: Sequence[Operation], **options: Any
    ) -> dict[str, str]:
        etags = await commit(self, partition, operations, **options)
        if lost and any(operation.row == keys.conversation_row(conv) for operation in operations):
            lost.pop()
            raise StorageUnavailable("no answer")
        return etags

    monkeypatch.setattr(Store, "commit", unanswered)
    await world.create("one", conversation=conv, status=503)
    assert not lost
    await world.create("two", conversation=conv)
    assert await said(world, conv) == ["two", "Echo: two"]


async def test_a_long_turn_keeps_its_conversation(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hosting.server.conversation_hold._LEASE", 2.0)
    monkeypatch.setattr("hosting.server.conversation_hold._RENEW", 0.1)
    conv = await conversation(world)
    running = asyncio.create_task(world.create("[[slow 40 100]]", conversation=conv))
    await until_held(world, conv)
    await asyncio.sleep(2.2)  # more than it was held for to begin with
    assert (await world.create("hi", conversation=conv, status=409))["error"]["code"] == "conversation_locked"
    assert (await running)["status"] == "completed"
    assert len(await said(world, conv)) == 2


async def test_a_client_that_hangs_up_gives_the_conversation_free(world: World) -> None:
    conv = await conversation(world)
    reader = await world.stream("[[slow 500 10]]", conversation=conv)
    await reader.until("output_text.delta")
    await reader.hang_up()
    await until_held(world, conv, by_somebody=False)
    await world.create("hi", conversation=conv)
    assert await said(world, conv) == ["hi", "Echo: hi"]


async def test_a_turn_that_fails_leaves_the_conversation_as_it_was(world: World) -> None:
    conv = await conversation(world)
    for extra in ({}, {"background": True}):
        made = await world.create("[[fail no]]", conversation=conv, **extra)
        assert (await world.ended(made["id"]))["status"] == "failed"
    await world.create("hi", conversation=conv)
    assert await said(world, conv) == ["hi", "Echo: hi"]


async def test_an_unstored_turn_sees_the_conversation_and_is_not_added(world: World) -> None:
    conv = await conversation(world)
    await world.create("one", conversation=conv)
    assert "one" in texts(await world.create("[[history]]", conversation=conv, store=False))[0]
    assert await said(world, conv) == ["one", "Echo: one"]


async def test_continuing_a_response_of_a_conversation_does_not_add_to_the_conversation(world: World) -> None:
    conv = await conversation(world)
    first = await world.create("one", conversation=conv)
    for extra in ({}, {"background": True}):
        branch = await world.ended((await world.create("[[history]]", previous_response_id=first["id"], **extra))["id"])
        assert "one" in texts(branch)[0]
        assert "conversation" not in branch
    await world.create("two", conversation=conv)
    assert await said(world, conv) == ["one", "Echo: one", "two", "Echo: two"]


async def test_a_deleted_response_leaves_its_items_to_the_conversation(world: World) -> None:
    conv = await conversation(world)
    made = await world.create("one", conversation=conv)
    await world.delete(made["id"])
    await world.get(made["id"], status=404)
    assert await said(world, conv) == ["one", "Echo: one"]


async def test_a_deleted_conversation_leaves_its_responses_and_these_can_be_deleted_too(world: World) -> None:
    conv = await conversation(world)
    made = await world.create("a secret", conversation=conv)
    await call(world, "DELETE", "/{conversation_id}", conversation_id=conv)
    assert texts(await world.get(made["id"])) == ["Echo: a secret"]
    await world.delete(made["id"])
    assert "a secret" not in repr(vars(world.store._tables))  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]


async def test_items_that_the_conversation_has_already_are_there_once(world: World) -> None:
    conv = await conversation(world)
    item = {"id": "msg_mine", "type": "message", "role": "user", "content": [{"type": "input_text", "text": "one"}]}
    await world.create([item], conversation=conv)
    await world.create([item, {"role": "user", "content": "two"}], conversation=conv)
    assert await said(world, conv) == ["one", "Echo: one", "two", "Echo: two"]
    error = (await world.create([item], conversation=conv, status=400))["error"]
    assert (
        error["message"]
        == "Duplicate item found with id msg_mine. Remove duplicate items from your input and try again."
    )
    assert (error["param"], error["code"]) == ("input", None)


async def test_the_open_call_of_the_last_turn_has_to_be_answered(world: World) -> None:
    conv = await conversation(world)
    tools = [{"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}}]
    made = await world.create("[[call weather {}]]", conversation=conv, tools=tools)
    call_id = made["output"][0]["call_id"]
    error = (await world.create("no answer", conversation=conv, status=400))["error"]
    assert error["message"] == f"No tool output found for function call {call_id}."
    answer = [{"type": "function_call_output", "call_id": call_id, "output": "sunny"}]
    assert (await world.create(answer, conversation=conv, tools=tools))["status"] == "completed"


async def test_of_parallel_turns_each_completes_or_is_refused_and_items_never_interleave(world: World) -> None:
    conv = await conversation(world)

    async def turn(number: int) -> int:
        return (await world.post(f"[[slow 3 5]] {number}", conversation=conv)).status

    statuses = await asyncio.gather(*(turn(number) for number in range(8)))
    assert set(statuses) <= {200, 409}
    assert 200 in statuses
    found = await said(world, conv)
    assert len(found) == 2 * statuses.count(200)
    assert all(text.startswith("[[slow") for text in found[::2])


async def test_a_steered_conversation_queues_turns_and_keeps_their_order(steerable: World) -> None:
    conv = await conversation(steerable)
    first = await steerable.create("[[slow 500 10]]", conversation=conv, background=True)

    async def running() -> bool:
        return (await steerable.get(first["id"]))["status"] == "in_progress"

    await until(running)
    second = await steerable.create("two", conversation=conv, background=True)
    third = await steerable.create("three", conversation=conv, background=True)
    ends = [await steerable.ended(made["id"]) for made in (first, second, third)]
    assert ends[0]["incomplete_details"] == {"reason": "steered"}
    assert ends[2]["status"] == "completed"
    found = await said(steerable, conv)
    assert [text for text in found if "[[slow" in text or text in ("two", "three")] == [
        "[[slow 500 10]]",
        "two",
        "three",
    ]


async def test_a_recovered_background_turn_is_in_the_conversation_once() -> None:
    async with serve(hosted=AgentState(demo), resilient_background=True) as world:
        conv = await conversation(world)
        made = await world.create("[[slow 30 10]]", conversation=conv, background=True)
        await asyncio.sleep(0.1)
        await world.kill()
        await world.restart()
        assert (await world.ended(made["id"]))["status"] == "completed"
        assert len(await said(world, conv)) == 2
        await world.create("next", conversation=conv)
        assert len(await said(world, conv)) == 4


async def test_a_request_that_is_sent_again_gets_its_running_turn_and_no_409(world: World) -> None:
    conv = await conversation(world)
    key = {"idempotency-key": "k"}
    first = await world.create("[[slow 30 10]]", conversation=conv, background=True, headers=key)
    again = await world.create("[[slow 30 10]]", conversation=conv, background=True, headers=key)
    assert again["id"] == first["id"]
    await world.ended(first["id"])
    assert len(await said(world, conv)) == 2
