"""Short requests over much that is stored: how much of it a process reads has limits, and nothing of it is lost."""

import asyncio
import json
import tracemalloc
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from hosting.server import Request, Response
from hosting.state import items
from tests.security.world import Caller, Secured, secured
from tests.server_world import until

type Json = dict[str, Any]

LIMIT = 20_000
CONVERSATIONS = "v1/conversations"


@pytest.fixture
async def world() -> AsyncGenerator[Secured]:
    async with secured(env={"HOSTING_MAX_HISTORY_BYTES": str(LIMIT)}) as made:
        yield made


async def chain(world: Secured, turns: int, size: int, **body: Any) -> Json:
    """The last of some turns of `size` characters each, one after the other."""
    made: Json = {}
    for number in range(turns):
        after = {} if not made or "conversation" in body else {"previous_response_id": made["id"]}
        made = await world.attacker.create(f"{number} " + "x" * size, **after, **body)
    return made


async def conversation(world: Secured) -> str:
    return (await world.attacker.send("POST", CONVERSATIONS, {})).json["id"]


def too_long(answer: Any) -> bool:
    return (answer.status, answer.error["code"]) == (400, "context_length_exceeded")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_turn_after_more_than_the_limit_is_refused_before_it_runs(world: Secured, stream: bool) -> None:
    made = await chain(world, 3, LIMIT // 6)  # the agent repeats it: two messages a turn
    body = {"input": "hi", "previous_response_id": made["id"], "stream": stream}
    assert too_long(await world.attacker.send("POST", "v1/responses", body))


@pytest.mark.parametrize("stream", [False, True])
async def test_a_turn_of_a_conversation_that_is_longer_is_refused_before_it_runs(world: Secured, stream: bool) -> None:
    named = await conversation(world)
    await chain(world, 3, LIMIT // 6, conversation=named)
    body = {"input": "hi", "conversation": named, "stream": stream}
    assert too_long(await world.attacker.send("POST", "v1/responses", body))
    # It is not held by the turn that came to nothing.
    added = {"items": [{"role": "user", "content": "by hand"}]}
    where = {"conversation_id": named}
    assert (
        await world.attacker.send("POST", CONVERSATIONS + "/{conversation_id}/items", added, path=where)
    ).status == 200


async def test_within_the_limit_a_turn_goes_on(world: Secured) -> None:
    made = await chain(world, 3, LIMIT // 20)
    assert (await world.attacker.create("hi", previous_response_id=made["id"]))["status"] == "completed"


async def test_a_background_turn_after_more_than_the_limit_fails_and_is_not_tried_again(world: Secured) -> None:
    made = await chain(world, 3, LIMIT // 6)
    asked = await world.attacker.create("hi", previous_response_id=made["id"], background=True)
    ended = await world.ended(world.attacker, asked["id"])
    assert (ended["status"], ended["output"]) == ("failed", [])
    assert "too long" in ended["error"]["message"]
    assert world.server.limits.memory.in_use == 0


async def test_an_idempotency_key_of_a_refused_turn_is_free(world: Secured) -> None:
    made = await chain(world, 3, LIMIT // 6)
    body = {"input": "hi", "previous_response_id": made["id"]}
    key = {"idempotency-key": "once"}
    assert too_long(await world.attacker.send("POST", "v1/responses", body, headers=key))
    assert (await world.attacker.send("POST", "v1/responses", {"input": "hi"}, headers=key)).status == 200


async def test_references_to_more_than_the_limit_are_refused(world: Secured) -> None:
    made = [await world.attacker.create(f"{number} " + "x" * (LIMIT // 4)) for number in range(5)]
    named = [{"type": "item_reference", "id": response["output"][0]["id"]} for response in made]
    assert too_long(await world.attacker.send("POST", "v1/responses", {"input": named}))
    assert too_long(await world.attacker.send("POST", CONVERSATIONS, {"items": named}))
    for route in ("v1/responses/input_tokens", "v1/responses/compact"):
        doubled = {"input": named, "model": "agent"}
        answer = await world.attacker.send("POST", route, doubled)
        assert too_long(answer), answer.body
    assert (await world.attacker.send("POST", "v1/responses", {"input": named[:1]})).status == 200


async def test_references_that_are_refused_do_not_go_on_being_read(world: Secured) -> None:
    made = [await world.attacker.create(f"{number} " + "x" * (LIMIT // 4)) for number in range(60)]
    named = [{"type": "item_reference", "id": response["output"][0]["id"]} for response in made]
    before = len(world.tables.calls)
    assert too_long(await world.attacker.send("POST", "v1/responses", {"input": named}))
    at_once = len(world.tables.calls)
    assert at_once - before <= 16
    await asyncio.sleep(0.02)
    assert len(world.tables.calls) == at_once


async def test_references_stand_for_no_more_than_a_body_may_have() -> None:
    async with secured(env={"HOSTING_MAX_REQUEST_BYTES": "10000"}) as world:
        made = [await world.attacker.create(f"{number} " + "x" * 4000) for number in range(3)]
        named = [{"type": "item_reference", "id": response["output"][0]["id"]} for response in made]
        assert too_long(await world.attacker.send("POST", "v1/responses", {"input": named}))
        assert (await world.attacker.send("POST", "v1/responses", {"input": named[:2]})).status == 200


async def test_what_has_become_too_long_can_be_made_shorter(world: Secured) -> None:
    made = await chain(world, 3, LIMIT // 6)
    body = {"model": "agent", "previous_response_id": made["id"]}
    compacted = await world.attacker.send("POST", "v1/responses/compact", body)
    assert compacted.status == 200
    assert (await world.attacker.send("POST", "v1/responses", {"input": compacted.json["output"]})).status == 200


async def test_pages_end_early_where_items_are_large_and_nothing_is_missing(
    world: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items, "_PAGE_BYTES", 3000)
    monkeypatch.setattr(items, "_BLOCK_BYTES", 2000)
    named = await conversation(world)
    made = await chain(world, 5, 1000, conversation=named)
    lists = (
        (CONVERSATIONS + "/{conversation_id}/items", {"conversation_id": named}, 10),
        ("v1/responses/{response_id}/input_items", {"response_id": made["id"]}, 9),
    )
    for route, path, count in lists:
        for order in ("asc", "desc"):
            seen: list[str] = []
            pages, query = 0, {"limit": ["100"], "order": [order]}
            while True:
                page = (await world.attacker.send("GET", route, path=path, query=query)).json
                seen += [item["id"] for item in page["data"]]
                pages += 1
                assert len(json.dumps(page["data"])) < 3500
                if not page["has_more"]:
                    break
                query["after"] = [page["last_id"]]
            assert len(set(seen)) == len(seen) == count
            assert pages == -(-count // 2)


async def test_an_item_that_is_larger_than_a_page_is_a_page(world: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "_PAGE_BYTES", 100)
    monkeypatch.setattr(items, "_BLOCK_BYTES", 100)
    made = await chain(world, 2, 1000)
    route, path = "v1/responses/{response_id}/input_items", {"response_id": made["id"]}
    page = (await world.attacker.send("GET", route, path=path)).json
    assert (len(page["data"]), page["has_more"]) == (1, True)


async def test_a_page_of_large_items_takes_little_memory() -> None:
    """It was an answer of 96 MB, and 298 MB to make it."""
    async with secured() as world:
        named = await conversation(world)
        route, path = CONVERSATIONS + "/{conversation_id}/items", {"conversation_id": named}
        for number in range(12):
            body = {"items": [{"role": "user", "content": str(number) + "x" * 4_000_000}]}
            assert (await world.attacker.send("POST", route, body, path=path)).status == 200
        tracemalloc.start()
        try:
            answer = await world.attacker.send("GET", route, path=path, query={"limit": ["100"]})
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert answer.json["has_more"]
    assert len(answer.body) < 9_000_000
    assert peak < 80_000_000


@pytest.fixture
async def small() -> AsyncGenerator[Secured]:
    """A process with room for one long conversation of a tenant."""
    limits = {"HOSTING_MAX_WORKING_BYTES": "100000", "HOSTING_MAX_WORKING_BYTES_PER_TENANT": "60000"}
    async with secured(env=limits) as made:
        yield made


async def begun(world: Secured, caller: Caller, **body: Any) -> Response:
    """A streamed turn that waits until its reader goes."""

    async def read(limit: int) -> bytes:
        return json.dumps({"input": "wait", "stream": True, **body}).encode()

    response = await world.server.handle("v1/responses", Request("POST", "/v1/responses", caller.headers, read=read))
    if response.status == 200:
        await anext(response.body)
    return response


async def test_what_runs_of_a_tenant_have_in_hand_has_a_limit_and_another_tenant_is_served(small: Secured) -> None:
    made = await small.attacker.create("x" * 20_000)
    theirs = await small.victim.create("x" * 20_000)
    assert small.server.limits.memory.in_use == 0
    running = await begun(small, small.attacker, previous_response_id=made["id"])
    assert 40_000 < small.server.limits.memory.in_use < 60_000
    refused = await begun(small, small.attacker, previous_response_id=made["id"])
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    assert (await begun(small, small.attacker)).status == 200  # small ones still are
    other = await begun(small, small.victim, previous_response_id=theirs["id"])
    assert other.status == 200
    for response in (running, other):
        await response.body.aclose()
    await until_zero(small)
    again = await begun(small, small.attacker, previous_response_id=made["id"])
    assert again.status == 200


async def test_a_background_turn_waits_for_room_and_then_runs(small: Secured) -> None:
    made = await small.attacker.create("x" * 20_000)
    running = await begun(small, small.attacker, previous_response_id=made["id"])
    scope = small.scope(small.attacker)
    with small.server.limits.memory.share(scope) as held:
        held.take(55_000)
        asked = await small.attacker.create("hi", background=True, previous_response_id=made["id"])
        await asyncio.sleep(0.3)
        path = {"response_id": asked["id"]}
        waiting = await small.attacker.send("GET", "v1/responses/{response_id}", path=path)
        assert waiting.json["status"] == "queued"
    await running.body.aclose()
    assert (await small.ended(small.attacker, asked["id"]))["status"] == "completed"
    await until_zero(small)


async def test_many_background_turns_over_one_long_conversation_run_a_few_at_a_time(small: Secured) -> None:
    made = await small.attacker.create("x" * 20_000)
    most = 0

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, small.server.limits.memory.in_use)
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    asked = [await small.attacker.create("hi", background=True, previous_response_id=made["id"]) for _ in range(8)]
    for response in asked:
        assert (await small.ended(small.attacker, response["id"]))["status"] == "completed"
    watching.cancel()
    await until_zero(small)
    assert most < 150_000  # eight at a time would be 340,000


async def until_zero(world: Secured) -> None:
    async def nothing() -> bool:
        return world.server.limits.memory.in_use == 0

    await until(nothing)
