"""Followers that want to take all places for themselves, and hostile positions to go on from."""

import gc
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hosting.server import Request, Response
from tests.security.world import Caller, Secured, secured
from tests.server_world import until

LIMIT = 3


@pytest.fixture
async def world() -> AsyncIterator[Secured]:
    async with secured(env={"HOSTING_MAX_STREAMS_PER_TENANT": str(LIMIT), "HOSTING_MAX_STREAMS": "5"}) as opened:
        yield opened


async def follow(world: Secured, caller: Caller, identifier: str, **headers: str) -> Response:
    """The events of a response, before anybody reads them."""
    return await _get(world, caller, identifier, {"stream": ["true"]}, headers)


async def _get(world: Secured, caller: Caller, identifier: str, query: Any, headers: Any = None) -> Response:
    sent = {**caller.headers, **(headers or {})}
    route, path = "v1/responses/{response_id}", {"response_id": identifier}
    return await world.server.handle(route, Request("GET", f"/v1/responses/{identifier}", sent, query, path))


async def running(world: Secured, caller: Caller) -> str:
    """A streamed response in the background that never ends. Who made it does not follow it."""
    answer = await _post(world, caller, {"input": "wait", "background": True, "stream": True})
    assert answer.status == 200
    body: Any = answer.body
    first = await anext(body)
    await body.aclose()
    return json.loads(first.split(b"data: ")[1].split(b"\n")[0])["response"]["id"]


async def _post(world: Secured, caller: Caller, body: Any) -> Response:
    async def read(limit: int) -> bytes:
        return json.dumps(body).encode()

    return await world.server.handle("v1/responses", Request("POST", "/v1/responses", caller.headers, read=read))


def taken(world: Secured) -> int:
    return world.server.limits.seats["streams"]


async def close(*responses: Response) -> None:
    for response in responses:
        body: Any = response.body
        await body.aclose()


async def test_one_follower_more_than_the_limit_is_a_429_and_another_tenant_is_served(world: Secured) -> None:
    mine, theirs = await running(world, world.attacker), await running(world, world.victim)
    assert taken(world) == 0
    followers = [await follow(world, world.attacker, mine) for _ in range(LIMIT)]
    refused = [await follow(world, world.attacker, mine) for _ in range(20)]
    assert {response.status for response in refused} == {429}
    assert refused[0].headers["retry-after"] == "1"
    assert (await _post(world, world.attacker, {"input": "a", "background": True, "stream": True})).status == 429
    served = await follow(world, world.victim, theirs)
    assert served.status == 200
    await close(*followers, served)
    assert taken(world) == 0


async def test_refused_followers_cost_the_tenant_none_of_its_other_requests(world: Secured) -> None:
    mine = await running(world, world.attacker)
    followers = [await follow(world, world.attacker, mine) for _ in range(LIMIT)]
    assert (await follow(world, world.attacker, mine)).status == 429
    assert (await _get(world, world.attacker, mine, {})).status == 200
    await world.attacker.create("hello")
    await close(*followers)


async def test_places_come_back_when_streams_are_closed_in_the_middle(world: Secured) -> None:
    mine = await running(world, world.attacker)
    for _ in range(4 * LIMIT):
        follower = await follow(world, world.attacker, mine)
        assert follower.status == 200
        body: Any = follower.body
        await anext(body)
        await body.aclose()
    assert taken(world) == 0


async def test_places_come_back_when_nobody_ever_reads(world: Secured) -> None:
    mine = await running(world, world.attacker)
    for _ in range(4 * LIMIT):
        follower = await follow(world, world.attacker, mine)
        assert follower.status == 200
        await close(follower)
    assert taken(world) == 0
    for _ in range(4 * LIMIT):
        assert (await follow(world, world.attacker, mine)).status == 200  # and dropped at once
        gc.collect()
    assert taken(world) == 0


async def test_places_come_back_when_the_response_is_cancelled_under_its_followers(world: Secured) -> None:
    mine = await running(world, world.attacker)
    followers = [await follow(world, world.attacker, mine) for _ in range(LIMIT)]
    cancelled = await world.attacker.send("POST", "v1/responses/{response_id}/cancel", path={"response_id": mine})
    assert cancelled.status == 200
    for follower in followers:
        body: Any = follower.body
        assert (b"".join([chunk async for chunk in body])).endswith(b"data: [DONE]\n\n")
    await until(lambda: taken(world) == 0)


async def test_a_foreign_response_takes_no_place(world: Secured) -> None:
    theirs = await running(world, world.victim)
    for _ in range(2 * LIMIT):
        assert (await follow(world, world.attacker, theirs)).status == 404
    assert taken(world) == 0


HOSTILE = [
    "-1",
    "1e3",
    "0x10",
    " 1",
    "1 ",
    "1\r\nx: y",
    "+1",
    "1_000",
    "१",
    "²",
    "NaN",
    "null",
    "9" * 13,
    "9" * 5000,
    "1,2",
    "\x00",
]


@pytest.mark.parametrize("position", HOSTILE)
async def test_a_position_that_is_no_number_is_a_400_and_takes_no_place(world: Secured, position: str) -> None:
    mine = await running(world, world.attacker)
    for query, headers, named in (
        ({"stream": ["true"], "starting_after": [position]}, {}, "starting_after"),
        ({"stream": ["true"]}, {"last-event-id": position}, "Last-Event-ID"),
        ({"stream": ["true"], "starting_after": ["1", position]}, {"last-event-id": "1"}, "starting_after"),
    ):
        answer = await _get(world, world.attacker, mine, query, headers)
        assert answer.status == 400
        assert isinstance(answer.body, bytes)
        assert json.loads(answer.body)["error"]["param"] == named
        assert len(answer.body) < 1_000
    assert taken(world) == 0


async def test_a_position_far_beyond_the_end_of_an_ended_stream_ends_at_once(world: Secured) -> None:
    answer = await _post(world, world.attacker, {"input": "hello", "background": True, "stream": True})
    body: Any = answer.body
    first, *_ = [chunk async for chunk in body]
    identifier = json.loads(first.split(b"data: ")[1].split(b"\n")[0])["response"]["id"]
    for query, headers in (
        ({"stream": ["true"], "starting_after": ["9" * 12]}, {}),
        ({"stream": ["true"]}, {"last-event-id": "9" * 12}),
    ):
        beyond = await _get(world, world.attacker, identifier, query, headers)
        rest: Any = beyond.body
        assert b"".join([chunk async for chunk in rest]) == b"data: [DONE]\n\n"
    assert taken(world) == 0
