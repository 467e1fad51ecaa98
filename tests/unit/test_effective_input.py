"""POST /v1/responses/input_tokens and /compact: over the turns before, and without running anything."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from agent_framework import Agent

from demo_agent import create_demo_chat_client
from hosting.server import Request
from hosting.state import AgentState, TableHistoryProvider
from tests.server_world import Json, World, parsed, serve, texts


def demo() -> Agent:
    return Agent(client=create_demo_chat_client(), context_providers=[TableHistoryProvider()])


@pytest.fixture
async def world() -> AsyncGenerator[World]:
    async with serve(hosted=AgentState(demo)) as made:
        yield made


async def call(world: World, name: str, status: int = 200, **body: Any) -> Json:
    async def read(limit: int) -> bytes:
        return json.dumps(body).encode()

    route = f"v1/responses/{name}"
    return parsed(await world.server.handle(route, Request("POST", route, read=read)), status)


async def test_tokens_of_a_request_are_counted_without_running_it(world: World) -> None:
    counted = await call(world, "input_tokens", input="x" * 400, model="agent")
    # 100 of text, and 4 around the message.
    assert counted == {"object": "response.input_tokens", "input_tokens": 104}


async def test_the_turns_before_count_too(world: World) -> None:
    first = await world.create("y" * 400)
    alone = (await call(world, "input_tokens", input="hi"))["input_tokens"]
    after = (await call(world, "input_tokens", input="hi", previous_response_id=first["id"]))["input_tokens"]
    assert after - alone > 200  # the question and its echo


async def test_the_items_of_a_conversation_count_too(world: World) -> None:
    created = await world.server.handle("v1/conversations", Request("POST", "v1/conversations"))
    conv = parsed(created)["id"]
    await world.create("y" * 400, conversation=conv)
    counted = (await call(world, "input_tokens", input="hi", conversation=conv))["input_tokens"]
    assert counted > 200


async def test_a_compacted_conversation_goes_on_from_what_it_was_about(world: World) -> None:
    first = await world.create("my name is Ada")
    made = await call(world, "compact", model="agent", previous_response_id=first["id"])
    assert made["object"] == "response.compaction"
    assert [item["type"] for item in made["output"]] == ["message", "compaction"]
    again = await world.create([*made["output"], {"role": "user", "content": "[[history]]"}])
    assert texts(again) == ["history users=2 first=my name is Ada"]


async def test_compact_needs_a_model(world: World) -> None:
    error = (await call(world, "compact", 400, input="hi"))["error"]
    assert (error["code"], error["param"]) == ("missing_required_parameter", "model")


@pytest.mark.parametrize("name", ["input_tokens", "compact"])
async def test_an_unknown_previous_response_is_400(world: World, name: str) -> None:
    first = await world.create("hi")
    error = (await call(world, name, 400, model="m", input="hi", previous_response_id=first["id"][:-4] + "0000"))[
        "error"
    ]
    assert error["code"] == "previous_response_not_found"
