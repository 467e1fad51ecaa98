"""Creating a response: keys of repeated requests, clients that go, and chains that mix foreground and background."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from agent_framework import Agent

from demo_agent import create_demo_chat_client
from hosting.server import Request
from hosting.server.background_work import Work
from hosting.server.caller import RequestFacts
from hosting.state import AgentState, TableHistoryProvider
from hosting.state.conversations import Conversations
from hosting.storage import Store, keys
from tests.server_world import World, parsed, serve, texts, until


def demo() -> Agent:
    return Agent(client=create_demo_chat_client(), context_providers=[TableHistoryProvider()])


@pytest.fixture
async def world() -> AsyncGenerator[World]:
    async with serve(hosted=AgentState(demo), steerable_conversations=True, resilient_background=True) as made:
        yield made


async def test_a_key_of_a_request_that_was_refused_can_be_used_again() -> None:
    async with serve(hosted=AgentState(demo)) as world:
        conv = parsed(await world.server.handle("v1/conversations", Request("POST", "v1/conversations")))["id"]
        running = asyncio.create_task(world.create("[[slow 50 10]]", conversation=conv))

        async def held() -> bool:
            found = await Conversations(world.store, keys.scope("development", None)).get(conv)
            return found is not None and found.holder is not None

        await until(held)
        key = {"idempotency-key": "k"}
        refused = await world.create("me too", conversation=conv, headers=key, status=409)
        assert refused["error"]["code"] == "conversation_locked"
        await running
        assert texts(await world.create("me too", conversation=conv, headers=key)) == ["Echo: me too"]


async def test_background_after_foreground_after_background_stays_in_its_chain(world: World) -> None:
    first = await world.ended((await world.create("one", background=True))["id"])
    second = await world.create("two", previous_response_id=first["id"])
    third = await world.create("[[history]]", previous_response_id=second["id"], background=True)
    assert third["id"][5:23] == first["id"][5:23]  # the chain, in each id
    assert texts(await world.ended(third["id"])) == ["history users=3 first=one"]


async def test_background_after_a_foreground_beginning_stays_in_its_chain(world: World) -> None:
    first = await world.create("one")
    second = await world.create("[[history]]", previous_response_id=first["id"], background=True)
    assert second["id"][5:23] == first["id"][5:23]
    assert texts(await world.ended(second["id"])) == ["history users=2 first=one"]


async def test_a_branch_of_an_older_background_response_has_a_chain_of_its_own(world: World) -> None:
    first = await world.ended((await world.create("one", background=True))["id"])
    await world.ended((await world.create("two", previous_response_id=first["id"], background=True))["id"])
    branch = await world.create("[[history]]", previous_response_id=first["id"], background=True)
    assert branch["id"][5:23] != first["id"][5:23]
    assert texts(await world.ended(branch["id"])) == ["history users=2 first=one"]


async def test_a_client_that_waits_behind_a_running_turn_and_hangs_up_ends_its_own(world: World) -> None:
    first = await world.create("[[slow 400 10]]", background=True)
    gone = asyncio.Event()
    waiting = asyncio.create_task(world.post("never seen", previous_response_id=first["id"], disconnected=gone.wait))
    await until(lambda: len(world.server.limits.seats) == 3 and _accepted(world.store, first["id"]))
    gone.set()
    assert (await waiting).status == 499


async def test_a_client_that_follows_its_turn_behind_a_running_one_and_hangs_up_ends_it(world: World) -> None:
    first = await world.create("[[slow 400 10]]", background=True)
    reading = await world.stream("never seen", previous_response_id=first["id"])
    waiting = (await reading.until("queued"))["response"]["id"]
    await reading.hang_up()

    async def cancelled() -> bool:
        return (await world.get(waiting))["status"] == "cancelled"

    await until(cancelled)


async def test_a_background_turn_behind_a_running_one_goes_on_without_its_reader(world: World) -> None:
    first = await world.create("[[slow 3 10]]", background=True)
    reading = await world.stream("seen", previous_response_id=first["id"], background=True)
    waiting = (await reading.until("queued"))["response"]["id"]
    await reading.hang_up()
    assert (await world.ended(waiting))["status"] == "completed"


def _accepted(store: Store, first: str) -> bool:
    """Whether a second response of the chain is stored."""
    rows: Any = store._tables  # pyright: ignore[reportPrivateUsage]
    return repr(vars(rows)).count("response.resp_" + first[5:23]) >= 2


async def test_a_client_that_goes_while_its_answer_is_stored_finds_it_stored(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, go_on, gone = asyncio.Event(), asyncio.Event(), asyncio.Event()
    commit = Store.commit
    made: list[str] = []

    async def slow(self: Store, partition: str, operations: Any, **options: Any) -> Any:
        if rows := [operation.row for operation in operations if operation.row.startswith("response.")]:
            made.extend(rows)
            reached.set()
            await go_on.wait()
        return await commit(self, partition, operations, **options)

    monkeypatch.setattr(Store, "commit", slow)
    posted = asyncio.create_task(world.post("hi", disconnected=gone.wait))
    await reached.wait()
    gone.set()
    assert (await posted).status == 499
    go_on.set()
    identifier = made[0].removeprefix("response.")

    async def stored() -> bool:
        return (await world._of(identifier)).status == 200  # pyright: ignore[reportPrivateUsage]

    await until(stored)
    assert (await world.get(identifier))["status"] == "completed"


async def test_a_run_that_a_later_version_accepted_with_more_in_it_is_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = Work.to_document
    facts = RequestFacts.to_document
    monkeypatch.setattr(Work, "to_document", lambda self: {**written(self), "later": 1})
    monkeypatch.setattr(RequestFacts, "to_document", lambda self: {**facts(self), "later": 1})
    made = await world.create("hi", background=True)
    assert (await world.ended(made["id"]))["status"] == "completed"


async def test_a_run_that_another_version_accepted_with_too_little_in_it_fails_and_does_not_wait_for_ever(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Work, "to_document", lambda self: {"renamed": self.model})
    made = await world.create("hi", background=True)
    assert (await world.ended(made["id"]))["status"] == "failed"
