"""Lists of items of very different size, and limits at their edges: whatever is asked for, each item comes once."""

import asyncio
import json
import random
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest

from hosting.read_budget import charging, read_at_most
from hosting.responses import ApiError, Event
from hosting.responses.builders import ResponseEventStream
from hosting.server.stored_input import begun_after, history_limit
from hosting.state import Turns, items
from tests.security.endings import Client, nothing_held
from tests.security.world import Secured, secured
from tests.server_world import until

type Json = dict[str, Any]

RESPONSE, CONVERSATION = "v1/responses/{response_id}/input_items", "v1/conversations/{conversation_id}/items"
SIZES = (1, 1, 10, 900, 1900, 2100, 2990, 3100, 30_000)
"""Of texts, around the sizes of a block and a page as they are here: one item can be more than either."""


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Secured]:
    monkeypatch.setattr(items, "_PAGE_BYTES", 3000)
    monkeypatch.setattr(items, "_BLOCK_BYTES", 2000)
    async with secured() as made:
        yield made


def said(dice: random.Random, number: int) -> list[Json]:
    """Input of a turn: some messages of any size, some with ids of the client's own."""
    made: list[Json] = []
    for part in range(dice.randint(1, 4)):
        message: Json = {"role": "user", "content": dice.choice(("x", "é", "漢", "😀")) * dice.choice(SIZES)}
        if dice.random() < 0.3:
            message["id"] = f"msg_of_mine_{number}_{part}"
        made.append(message)
    return made


async def listed(world: Secured, route: str, path: Json, **query: str) -> Json:
    given = {name: [value] for name, value in query.items()}
    answer = await world.attacker.send("GET", route, path=path, query=given)
    assert answer.status == 200, answer.body
    return answer.json


async def all_pages(world: Secured, route: str, path: Json, **query: str) -> list[str]:
    """The ids of all items, page by page; each page is what it says it is."""
    seen: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = await listed(world, route, path, **query, **after)
        ids = [item["id"] for item in page["data"]]
        assert 0 < len(ids) <= int(query["limit"])
        assert (page["first_id"], page["last_id"]) == (ids[0], ids[-1])
        size = len(json.dumps(page["data"], ensure_ascii=False).encode())
        assert len(ids) == 1 or size < 3000 + 200
        seen += ids
        assert len(seen) < 200, "it goes round"
        if not page["has_more"]:
            behind = await listed(world, route, path, **query, after=ids[-1])
            assert (behind["data"], behind["has_more"], behind["last_id"]) == ([], False, None)
            return seen
        after = {"after": ids[-1]}


async def in_order(world: Secured, route: str, path: Json, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All of them in one page."""
    with monkeypatch.context() as patch:
        patch.setattr(items, "_PAGE_BYTES", 1 << 30)
        page = await listed(world, route, path, limit="100", order="asc")
        assert not page["has_more"]
        return [item["id"] for item in page["data"]]


async def chain(world: Secured, dice: random.Random, turns: int, **body: Any) -> list[Json]:
    made: list[Json] = []
    for number in range(turns):
        after = {"previous_response_id": made[-1]["id"]} if made and not body else {}
        made.append(await world.attacker.create(said(dice, number), **after, **body))
    return made


@pytest.mark.parametrize("seed", range(4))
async def test_every_way_through_a_list_gives_each_item_once(
    world: Secured, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(seed)
    named = (await world.attacker.send("POST", "v1/conversations", {})).json["id"]
    await chain(world, dice, 4, conversation=named)
    made = await chain(world, dice, 4)
    running = await world.attacker.create("wait", background=True, previous_response_id=made[-1]["id"])
    await world.attacker.send("DELETE", "v1/responses/{response_id}", path={"response_id": made[1]["id"]})
    lists: list[tuple[str, Json]] = [
        (CONVERSATION, {"conversation_id": named}),
        (RESPONSE, {"response_id": made[-1]["id"]}),
        (RESPONSE, {"response_id": running["id"]}),
    ]
    for route, path in lists:
        whole = await in_order(world, route, path, monkeypatch)
        assert len(set(whole)) == len(whole) > 5
        for limit in ("1", "2", "7", "100"):
            for order, expected in (("asc", whole), ("desc", whole[::-1])):
                for more in ({}, {"include": "message.output_text.logprobs"}):
                    assert await all_pages(world, route, path, limit=limit, order=order, **more) == expected
    await nothing_held_but(world, 1)


async def nothing_held_but(world: Secured, runs: int) -> None:
    assert len(world.world.engine.engine._attempts) == runs  # pyright: ignore[reportPrivateUsage]
    await world.world.kill()
    await nothing_held(world)


@pytest.mark.parametrize("limit", ["1", "2", "100"])
@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_an_item_that_is_sent_again_in_a_later_turn_is_listed_once(
    world: Secured, order: str, limit: str
) -> None:
    mine = {"role": "user", "content": "one", "id": "msg_mine"}
    first = await world.attacker.create([mine])
    again = [first["output"][0], {"role": "user", "content": "two"}, mine]
    second = await world.attacker.create(again, previous_response_id=first["id"])
    later = [mine, {"role": "user", "content": "three"}, {"type": "item_reference", "id": first["output"][0]["id"]}]
    third = await world.attacker.create(later, previous_response_id=second["id"])
    seen = await all_pages(world, RESPONSE, {"response_id": third["id"]}, limit=limit, order=order)
    # Mine, what was said to it, "two" and what was said to that, "three".
    assert len(set(seen)) == len(seen) == 5
    assert {"msg_mine", first["output"][0]["id"], second["output"][0]["id"]} < set(seen)


class Gated:
    """A handler that says little, once it may."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    async def __call__(self, request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = ResponseEventStream(response_id=context.response_id, request=request)
        yield stream.emit_created()
        await self.gate.wait()
        for event in stream.output_item_message("done"):
            yield event
        yield stream.emit_completed()


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_an_item_that_two_waiting_turns_of_a_conversation_bring_is_listed_once(order: str) -> None:
    handler = Gated()
    async with secured(handler=handler, steerable_conversations=True) as world:
        named = (await world.attacker.send("POST", "v1/conversations", {})).json["id"]
        body = {"conversation": named, "background": True}
        asked = [await world.attacker.create("first", **body)]
        for number in range(3):
            mine = {"role": "user", "content": f"{number}", "id": "msg_mine"}
            asked.append(await world.attacker.create([mine, {"role": "user", "content": "more"}], **body))
        handler.gate.set()
        for response in asked:
            assert (await world.ended(world.attacker, response["id"]))["status"] == "completed"
        seen = await all_pages(world, CONVERSATION, {"conversation_id": named}, limit="1", order=order)
        assert len(set(seen)) == len(seen) == 1 + 1 + 3 * 2 + 1


# --- at the edge


BODY = {"input": "x" * 5000}
LENGTH = len(json.dumps(BODY))


@pytest.mark.parametrize("announced", [True, False])
@pytest.mark.parametrize(("limit", "status"), [(LENGTH, 200), (LENGTH - 1, 413)])
async def test_a_body_may_have_as_many_bytes_as_the_limit_says(limit: int, status: int, announced: bool) -> None:
    headers = {"content-length": str(LENGTH)} if announced else {}
    async with secured(env={"HOSTING_MAX_REQUEST_BYTES": str(limit)}) as world:
        assert (await Client(world, body=BODY, headers=headers).answered())[0] == status
        await nothing_held(world)


@pytest.mark.parametrize("length", ["0", "5", "-1", "+9", "1e9", "", "5, 5", " 5"])
async def test_a_length_that_lies_gets_nobody_past_the_limit(length: str) -> None:
    async with secured(env={"HOSTING_MAX_REQUEST_BYTES": "2000"}) as world:
        status, _ = await Client(world, body=BODY, headers={"content-length": length}).answered()
        assert status in (400, 413)  # twice the same length is 400 before anything is read
        await nothing_held(world)


async def test_a_history_may_have_as_many_bytes_as_the_limit_says() -> None:
    async with secured() as world:
        made = await world.attacker.create("x" * 5000)
        turns = Turns(world.world.store, world.scope(world.attacker))
        with read_at_most(1 << 30) as budget:
            await begun_after(turns, made["id"], history=True, session=True)
            exact = budget.spent
        with history_limit(exact):
            await begun_after(turns, made["id"], history=True, session=True)
        with pytest.raises(ApiError), history_limit(exact - 1):
            await begun_after(turns, made["id"], history=True, session=True)


async def test_without_limits_all_is_taken_and_all_is_given_back() -> None:
    limits = {"HOSTING_MAX_WORKING_BYTES": "0", "HOSTING_MAX_WORKING_BYTES_PER_TENANT": "0"}
    async with secured(env=limits) as world:
        clients = [Client(world, body=BODY).answered() for _ in range(20)]
        assert {status for status, _ in await asyncio.gather(*clients)} == {200}
        await nothing_held(world)


@pytest.mark.parametrize("setting", ["HOSTING_MAX_WORKING_BYTES", "HOSTING_MAX_WORKING_BYTES_PER_TENANT"])
async def test_a_limit_below_a_body_lets_one_at_a_time_in(setting: str) -> None:
    async with secured(env={setting: "1000"}) as world:
        assert (await Client(world, body=BODY).answered())[0] == 200
        stuck = asyncio.create_task(Client(world, body=BODY, after=2, stops=True).answered())
        await until(lambda: world.server.limits.memory.in_use > 0)
        assert (await Client(world, body=BODY).answered())[0] in (429, 503)
        stuck.cancel()
        await asyncio.wait({stuck})
        assert (await Client(world, body=BODY).answered())[0] == 200
        await nothing_held(world)


def test_a_page_counts_bytes_and_not_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "_PAGE_BYTES", 100)
    counted: list[int] = []
    with charging(counted.append):
        page = items.ItemPage(5)
        assert page.add({"text": "😀" * 10})
        assert not page.add({"text": "😀" * 10 + "\ud800" * 10})
    assert counted == [len('{"text": ""}') + 40]
