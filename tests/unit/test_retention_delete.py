"""`DELETE /v1/responses/{id}` really deletes: nothing that the user has said, and nothing of the answer, is stored after it."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from agent_framework import Agent

from demo_agent import create_demo_chat_client
from hosting.state import AgentState, TableHistoryProvider
from tests.server_world import World, serve, until
from tests.unit.retention_world import BIG

SECRET = "aquamarine"
BIG_SECRET = SECRET + "x" * BIG


def with_table_history() -> Agent:
    return Agent(client=create_demo_chat_client(), context_providers=[TableHistoryProvider()])


def with_session_history() -> Agent:
    return Agent(client=create_demo_chat_client())


@pytest.fixture(params=[with_table_history, with_session_history])
async def world(request: pytest.FixtureRequest) -> AsyncGenerator[World]:
    async with serve(hosted=AgentState(request.param), resilient_background=True) as made:
        yield made


@pytest.fixture
async def steerable() -> AsyncGenerator[World]:
    options = {"steerable_conversations": True, "resilient_background": True}
    async with serve(hosted=AgentState(with_table_history), **options) as made:
        yield made


def stored(world: World) -> list[str]:
    """Where the secret is."""
    tables, blobs = world.store._tables, world.store._blobs
    rows = [f"row {row}" for held in tables._partitions.values() for row, it in held.rows.items() if SECRET in str(it)]  # type: ignore[attr-defined]
    values = [f"value {name}" for name, data in blobs._blobs.items() if SECRET.encode() in data]  # type: ignore[attr-defined]
    events = [f"stream {name}" for name, blob in world.blobs._blobs.items() if SECRET.encode() in blob.data]
    return rows + values + events


async def idle(world: World) -> None:
    """Wait until nothing is at work any more."""

    async def is_idle() -> bool:
        await world.advance(0.5)
        return not world.engine.engine._attempts

    await until(is_idle)
    await asyncio.sleep(0.02)  # for the stream of the last one to be closed


@pytest.mark.parametrize("text", [SECRET, BIG_SECRET], ids=["small", "spilled"])
async def test_nothing_is_left_of_a_foreground_response(world: World, text: str) -> None:
    made = await world.create(text, instructions=SECRET, metadata={"k": SECRET})
    assert stored(world)
    await world.delete(made["id"])
    assert stored(world) == []


async def test_nothing_is_left_of_a_foreground_stream(world: World) -> None:
    reader = await world.stream(SECRET)
    made = await reader.until("completed")
    await reader.ends()
    await world.delete(made["response"]["id"])
    assert stored(world) == []


async def test_nothing_is_left_of_a_response_with_an_idempotency_key(world: World) -> None:
    made = await world.create(SECRET, headers={"idempotency-key": "a-key"})
    await world.delete(made["id"])
    assert stored(world) == []


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("text", [SECRET, BIG_SECRET], ids=["small", "spilled"])
async def test_nothing_is_left_of_a_background_response(world: World, text: str, stream: bool) -> None:
    if stream:
        reader = await world.stream(text, background=True, instructions=SECRET)
        identifier = (await reader.until("completed"))["response"]["id"]
        await reader.ends()
    else:
        identifier = (await world.create(text, background=True, instructions=SECRET))["id"]
        await world.ended(identifier)
    await idle(world)
    assert stored(world)
    await world.delete(identifier)
    assert stored(world) == []


@pytest.mark.parametrize("text", [f"[[raise]] {SECRET}", f"[[fail {SECRET}]]", f"[[incomplete]] {SECRET}"])
@pytest.mark.parametrize("background", [False, True])
async def test_nothing_is_left_of_a_response_that_ended_badly(world: World, text: str, background: bool) -> None:
    made = await world.create(text, background=background)
    await world.ended(made["id"])
    await idle(world)
    await world.delete(made["id"])
    assert stored(world) == []


async def test_nothing_is_left_of_a_cancelled_response(world: World) -> None:
    reader = await world.stream(f"[[slow 1000 20]] {SECRET}", background=True)
    identifier = (await reader.until("created"))["response"]["id"]
    await reader.until("output_text.delta")
    await world.cancel(identifier)
    await reader.ends()
    await idle(world)
    await world.delete(identifier)
    assert stored(world) == []


async def test_nothing_is_left_of_a_response_that_was_deleted_at_once_after_it_was_cancelled(world: World) -> None:
    made = await world.create(f"[[slow 1000 20]] {SECRET}", background=True, instructions=SECRET)
    await world.cancel(made["id"])
    await world.delete(made["id"])
    await idle(world)
    assert stored(world) == []


async def test_nothing_is_left_of_a_response_whose_client_went_away(world: World) -> None:
    reader = await world.stream(f"[[slow 1000 20]] {SECRET}")
    identifier = (await reader.until("created"))["response"]["id"]
    await reader.until("output_text.delta")
    await reader.hang_up()
    await until(lambda: bool(stored(world)))
    await world.delete(identifier)
    assert stored(world) == []


async def test_a_turn_that_is_deleted_is_not_in_what_its_conversation_keeps(steerable: World) -> None:
    first = await steerable.create(SECRET, background=True)
    await steerable.ended(first["id"])
    second = await steerable.create("harmless", background=True, previous_response_id=first["id"])
    await steerable.ended(second["id"])
    await idle(steerable)
    await steerable.delete(first["id"])
    assert stored(steerable) == []


async def test_nothing_is_left_of_a_conversation_whose_turns_were_all_deleted(world: World) -> None:
    first = await world.create(SECRET)
    second = await world.create(f"{SECRET} again", previous_response_id=first["id"])
    third = await world.create("harmless", previous_response_id=second["id"], background=True)
    await world.ended(third["id"])
    await idle(world)
    for response in (first, second, third):
        await world.delete(response["id"])
    assert stored(world) == []


async def test_of_the_events_of_another_response_nothing_is_deleted(world: World) -> None:
    readers = [await world.stream(text, background=True) for text in (SECRET, "harmless")]
    ids = [(await reader.until("completed"))["response"]["id"] for reader in readers]
    await idle(world)
    await world.delete(ids[0])
    events = await (await world.follow(ids[1])).ends()
    assert events[-1]["response"]["status"] == "completed"
    assert len(events) > 5
