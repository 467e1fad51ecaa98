"""Another caller's ids, in every place where an id can stand, of every kind: they are as unknown as ids that never were.

The same answer, the same work in storage, not one look at a row of the other caller, and nothing of it changed. It holds for
every pair of callers that must not meet: tenants, and users where HOSTING_ISOLATION says so.
"""

import json
import random
import re
from typing import Any

import pytest

from tests.security.routes import ROUTES, Place, Route
from tests.security.world import PAIRS, Answer, Secured, secured, worked

_ATTACKED = [(route, place) for route in ROUTES.values() for place in route.places]


def twin(identifier: str) -> str:
    """An id of the same form that nobody has: every hex digit and letter after the prefix is another one, positions stay."""
    dice = random.Random(identifier)
    native = re.fullmatch(r"([a-z]+_)([0-9a-f]{18})([0-9a-f]{8})([0-9a-f]{24})", identifier)
    if native:
        digits = "0123456789abcdef"
        return native[1] + "".join(dice.choices(digits, k=18)) + native[3] + "".join(dice.choices(digits, k=24))
    head, _, _ = identifier.partition("-") if "-" in identifier else identifier.partition("_")
    return head + "".join(dice.choice("0123456789abcdef") if c.isalnum() else c for c in identifier[len(head) :])


def _said(answer: Answer, identifier: str) -> Any:
    """What an error says, but for the id that it repeats."""
    error = answer.error
    return error | {"message": error["message"].replace(identifier[:128], "<id>")}


async def _tried(world: Secured, route: Route, place: Place, identifier: str, own: Any) -> tuple[Answer, list[str]]:
    with worked() as calls:
        answer = await route.send(world.attacker, place.put(identifier, own))
        return answer, list(calls)


@pytest.mark.parametrize("pair", PAIRS)
async def test_ids_of_others_are_unknown(pair: str) -> None:
    async with secured(PAIRS[pair]) as world:
        found = await world.victim.furnished()
        own = await world.attacker.furnished()
        rows = world.tables.rows()
        theirs = world.partitions(world.victim)
        assert len(theirs) > 5
        world.tables.touched.clear()
        for route, place in _ATTACKED:
            for kind, identifier in found.ids().items():
                where = (route.name, place.name, kind)
                answer, work = await _tried(world, route, place, identifier, own)
                nobodys = twin(identifier)
                assert nobodys != identifier
                unknown, same_work = await _tried(world, route, place, nobodys, own)
                assert answer.status == unknown.status < 500, where
                assert world.victim.canary not in answer.text.replace(identifier, ""), where
                if answer.status >= 400:
                    assert _said(answer, identifier) == _said(unknown, nobodys), where
                    assert work == same_work, where
        assert not world.tables.touched & theirs
        after = world.tables.rows()
        assert {key: row for key, row in after.items() if key[0] in theirs} == {
            key: row for key, row in rows.items() if key[0] in theirs
        }


@pytest.mark.parametrize("pair", PAIRS)
async def test_what_is_attacked_is_all_there_afterwards(pair: str) -> None:
    async with secured(PAIRS[pair]) as world:
        victim = world.victim
        found = await victim.furnished()
        own = await world.attacker.furnished()
        for route, place in _ATTACKED:
            if route.method in ("DELETE", "POST"):
                for identifier in found.ids().values():
                    await route.send(world.attacker, place.put(identifier, own))
        for identifier in (found.response, found.background, found.calling, found.approving):
            answer = await victim.send("GET", "v1/responses/{response_id}", path={"response_id": identifier})
            assert answer.json["status"] == "completed"
        running = await victim.send("GET", "v1/responses/{response_id}", path={"response_id": found.running})
        assert running.json["status"] == "in_progress"
        items = await victim.send(
            "GET", "v1/conversations/{conversation_id}/items", path={"conversation_id": found.conversation}
        )
        assert [item["id"] for item in items.json["data"]] == [found.foreign, found.added]
        again = await victim.send(
            "POST",
            "v1/responses",
            {"input": victim.canary, "metadata": {"note": victim.canary}},
            headers={"idempotency-key": found.idempotency},
        )
        assert again.json["id"] == found.response
        note = await victim.send("GET", "v1/invocations/{invocation_id}", path={"invocation_id": found.invocation})
        assert note.json == {"note": victim.canary}
        assert (await victim.create("go on", previous_response_id=found.response))["status"] == "completed"


async def test_a_key_of_somebody_else_repeats_nothing_of_theirs() -> None:
    async with secured() as world:
        found = await world.victim.furnished()
        same = {"input": world.victim.canary, "metadata": {"note": world.victim.canary}}
        answer = await world.attacker.send("POST", "v1/responses", same, headers={"idempotency-key": found.idempotency})
        assert answer.status == 200
        assert answer.json["id"] != found.response
        other = await world.attacker.send(
            "POST", "v1/responses", {"input": "x"}, headers={"idempotency-key": "key-never-used"}
        )
        assert other.status == 200  # and a body that differs is no conflict with somebody else's


async def test_a_stream_of_somebody_else_has_not_one_event() -> None:
    async with secured() as world:
        found = await world.victim.furnished()
        for identifier in (found.running, found.background):
            for query in ({"stream": ["true"]}, {"stream": ["true"], "starting_after": ["0"]}):
                answer = await world.attacker.send(
                    "GET", "v1/responses/{response_id}", path={"response_id": identifier}, query=query
                )
                assert answer.status == 404
                assert b"event:" not in answer.body


async def test_both_may_have_the_same_ids() -> None:
    """An id is no secret and nobody's property: whoever makes one up has it in a place of its own."""
    async with secured() as world:
        items = [{"role": "user", "content": "mine", "id": "shared"}]
        for caller in (world.victim, world.attacker):
            item = json.loads(json.dumps(items).replace("mine", caller.canary))
            await caller.send("POST", "v1/responses", {"input": item}, headers={"idempotency-key": "shared"})
            await caller.send("POST", "v1/invocations", {"of": caller.canary}, headers={"x-agent-invocation-id": "s"})
        for caller in (world.victim, world.attacker):
            note = await caller.send("GET", "v1/invocations/{invocation_id}", path={"invocation_id": "s"})
            assert note.json == {"of": caller.canary}
