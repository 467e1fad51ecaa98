"""Hostile texts in every place where an id can stand, on every route: an error of the client, or a text like any other.

What reaches storage is keys of our own alphabet, in the caller's own partitions, whatever the text is.
"""

import json
import re

import pytest

from hosting.ids import parse_id
from hosting.storage import keys
from tests.security.hostile import HOSTILE
from tests.security.routes import ROUTES, Route
from tests.security.world import Answer, secured

_ATTACKED = [route for route in ROUTES.values() if route.places]
_KEY = re.compile(r"[a-z0-9_.~-]{1,512}")
_LONGEST_ERROR = 1_500


@pytest.mark.parametrize("route", _ATTACKED, ids=lambda route: route.name)
async def test_no_text_in_the_place_of_an_id_does_harm(route: Route) -> None:
    async with secured() as world:
        await world.victim.create("hi")
        own = await world.attacker.furnished()
        theirs = world.partitions(world.victim)
        world.tables.touched.clear()
        for place in route.places:
            for what, text in HOSTILE.items():
                answer = await route.send(world.attacker, place.put(text, own))
                where = (place.name, what)
                assert answer.status in (200, 400, 404, 409), (where, answer.status, answer.body)
                assert _is_plain(answer), where
                if answer.status != 200:
                    assert answer.error["type"] == "invalid_request_error", where
                    assert len(answer.body) < _LONGEST_ERROR, where
        assert not world.tables.touched & theirs
        assert all(_KEY.fullmatch(partition) for partition in world.tables.touched)
        assert all(_KEY.fullmatch(row) for _, row in world.tables.rows())


def _is_plain(answer: Answer) -> bool:
    """Whether nothing of the text has become a header, a second event, or something that is no JSON."""
    headers = all(value.isprintable() and value.isascii() for value in answer.headers.values())
    if answer.status == 200 and answer.body.startswith((b"event:", b"id:")):
        frames = answer.body.decode().split("\n\n")
        return headers and all(
            len(frame.splitlines()) in (2, 3) and json.loads(frame.splitlines()[-1].removeprefix("data: "))
            for frame in frames[:-2]
        )
    return headers and isinstance(answer.json, dict)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_only_the_grammar_is_an_id(text: str) -> None:
    assert parse_id(text) is None or what_parses(text)


def what_parses(text: str) -> bool:
    # The only one in the list is an id in all but its place, which no log has a row for.
    return text == HOSTILE["a place that is not in a log"]


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_as_part_of_a_key_every_text_is_plain_short_and_its_own(text: str) -> None:
    encoded = keys.encode_key(text)
    assert re.fullmatch(r"[a-z0-9_~-]{1,160}", encoded)
    assert [other for other in HOSTILE.values() if keys.encode_key(other) == encoded] == [text]


def test_no_text_makes_a_scope_or_a_chain_that_is_another_ones() -> None:
    scopes = {keys.scope(one, other) for one in HOSTILE.values() for other in (*HOSTILE.values(), None)}
    assert len(scopes) == len(HOSTILE) * (len(HOSTILE) + 1)
    chains = {keys.chain_of(text) for text in HOSTILE.values()}
    assert len(chains) == len(HOSTILE)


@pytest.mark.parametrize("text", ["", "x", "0" * 31, "0" * 33, "G" * 32, "0" * 32 + "-", "../" + "0" * 29])
def test_a_partition_is_made_of_nothing_but_a_scope_and_a_chain(text: str) -> None:
    with pytest.raises(ValueError):
        keys.partition_key(text, "0" * 18)
    with pytest.raises(ValueError):
        keys.partition_key("0" * 32, text)


async def test_ids_that_clients_make_up_come_back_as_they_were() -> None:
    """They are taken, because clients number their items by themselves; and no two of them are mistaken for one."""
    texts = [text for text in HOSTILE.values() if 0 < len(text) <= 512 and text.isprintable()]
    items = [{"role": "user", "content": f"{number}", "id": text} for number, text in enumerate(texts)]
    async with secured() as world:
        caller = world.attacker
        made = await caller.send("POST", "v1/conversations", {})
        where = {"conversation_id": made.json["id"]}
        for start in range(0, len(items), 20):
            answer = await caller.send(
                "POST", "v1/conversations/{conversation_id}/items", {"items": items[start : start + 20]}, path=where
            )
            assert answer.status == 200
        for number, text in enumerate(texts):
            path = {**where, "item_id": text}
            answer = await caller.send("GET", "v1/conversations/{conversation_id}/items/{item_id}", path=path)
            assert (answer.status, answer.json["id"]) == (200, text)
            assert answer.json["content"][0]["text"] == f"{number}"


@pytest.mark.parametrize(
    "query", [{"limit": [text]} for text in ("0100000", "1" * 5000, "0050" + "0" * 5000, "-1", "٣")]
)
@pytest.mark.parametrize(
    "route", ["v1/responses/{response_id}/input_items", "v1/conversations/{conversation_id}/items"]
)
async def test_a_page_is_never_larger_than_it_may_be(query: dict[str, list[str]], route: str) -> None:
    async with secured() as world:
        own = await world.attacker.furnished()
        path = {"response_id": own.response, "conversation_id": own.conversation}
        answer = await world.attacker.send("GET", route, path=path, query=query)
        assert answer.status == 400
        assert answer.error["param"] == "limit"
        assert len(answer.body) < _LONGEST_ERROR


@pytest.mark.parametrize("after", ["-1", "1" * 13, "1e3", "0x1", "٣", "1\n", "1,2", "' or 1 eq 1", "NaN", "a" * 10_000])
@pytest.mark.parametrize("as_header", [False, True])
async def test_a_position_in_a_stream_is_a_number_or_an_error(after: str, as_header: bool) -> None:
    async with secured() as world:
        own = await world.attacker.furnished()
        query = {"stream": ["true"]} | ({} if as_header else {"starting_after": [after]})
        answer = await world.attacker.send(
            "GET",
            "v1/responses/{response_id}",
            path={"response_id": own.background},
            query=query,
            headers={"last-event-id": after} if as_header else {},
        )
        assert answer.status == 400
        assert answer.error["param"] == ("Last-Event-ID" if as_header else "starting_after")


async def test_a_position_behind_the_end_is_an_empty_stream_and_no_wait() -> None:
    async with secured() as world:
        own = await world.attacker.furnished()
        answer = await world.attacker.send(
            "GET",
            "v1/responses/{response_id}",
            path={"response_id": own.background},
            query={"stream": ["true"], "starting_after": ["9" * 12]},
        )
        assert (answer.status, answer.body) == (200, b"data: [DONE]\n\n")
