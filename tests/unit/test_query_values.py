"""What a query says is checked like what a body says: a wrong value is a 400 that names it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import httpx2 as httpx
import openai
import pytest
from starlette.datastructures import QueryParams

from hosting.responses import ApiError
from hosting.responses.includes import INCLUDABLE
from hosting.server.query import query_flag
from tests.security.world import Answer, Secured, secured

ONE, ITEMS = "v1/responses/{response_id}", "v1/conversations/{conversation_id}/items"


@pytest.fixture
async def world() -> AsyncIterator[Secured]:
    async with secured() as made:
        yield made


async def ask(
    world: Secured, route: str, query: Mapping[str, Sequence[str]], *, method: str = "GET", **path: str
) -> Answer:
    body = {"items": [{"role": "user", "content": "hi"}]} if method == "POST" else None
    return await world.victim.send(method, route, body, path=path, query=query)


async def places(world: Secured) -> list[tuple[str, str, dict[str, str]]]:
    """Method, route and path of all that takes `include` in its query."""
    response = (await world.victim.create("hi"))["id"]
    conversation = (await world.victim.send("POST", "v1/conversations", {})).json["id"]
    added = await ask(world, ITEMS, {}, method="POST", conversation_id=conversation)
    where = {"conversation_id": conversation}
    return [
        ("GET", ONE, {"response_id": response}),
        ("GET", f"{ONE}/input_items", {"response_id": response}),
        ("GET", ITEMS, where),
        ("POST", ITEMS, where),
        ("GET", f"{ITEMS}/{{item_id}}", where | {"item_id": added.json["data"][0]["id"]}),
    ]


@pytest.mark.parametrize("name", ["include[]", "include"])
async def test_an_unknown_include_is_a_400_that_lists_the_known_ones(world: Secured, name: str) -> None:
    for method, route, path in await places(world):
        answer = await ask(world, route, {name: [INCLUDABLE[0], "everything"]}, method=method, **path)
        assert (answer.status, answer.error["param"], answer.error["code"]) == (400, "include", "invalid_value"), route
        assert "'everything'" in answer.error["message"]
        assert all(f"'{known}'" in answer.error["message"] for known in INCLUDABLE)


@pytest.mark.parametrize("name", ["include[]", "include"])
async def test_every_known_include_is_accepted(world: Secured, name: str) -> None:
    for method, route, path in await places(world):
        assert (await ask(world, route, {name: list(INCLUDABLE)}, method=method, **path)).status == 200, route


async def test_include_is_read_under_the_name_that_the_sdk_sends(world: Secured) -> None:
    """The same for each resource: the SDK writes the array in its own way."""
    sent: list[httpx.URL] = []

    def note(request: httpx.Request) -> httpx.Response:
        sent.append(request.url)
        return httpx.Response(200, json={"object": "list", "data": [], "has_more": False})

    client = openai.OpenAI(
        api_key="k", base_url="http://app/v1", http_client=httpx.Client(transport=httpx.MockTransport(note))
    )
    wrong: Any = ["reasoning.encrypted_content", "everything"]
    client.responses.retrieve("resp_1", include=wrong)
    client.responses.input_items.list("resp_1", include=wrong)
    client.conversations.items.list("conv_1", include=wrong)
    client.conversations.items.create("conv_1", items=[], include=wrong)
    client.conversations.items.retrieve("msg_1", conversation_id="conv_1", include=wrong)
    assert len(sent) == 5
    for (method, route, path), url in zip(await places(world), sent, strict=True):
        query: dict[str, list[str]] = {}
        for name, value in QueryParams(url.query.decode()).multi_items():
            query.setdefault(name, []).append(value)
        assert (await ask(world, route, query, method=method, **path)).status == 400, url


@pytest.mark.parametrize("name", ["stream", "include_obfuscation"])
@pytest.mark.parametrize("value", ["maybe", "", "1", "yes", "true " * 10_000])
async def test_a_boolean_that_is_none_is_a_400(world: Secured, name: str, value: str) -> None:
    made = await world.victim.create("hi")
    answer = await ask(world, ONE, {name: [value]}, response_id=made["id"])
    assert (answer.status, answer.error["param"], answer.error["code"]) == (400, name, "invalid_value")
    assert len(answer.body) < 500


@pytest.mark.parametrize(
    ("values", "flag"), [((), False), (("true",), True), (("True",), True), (("false",), False), (("x", "TRUE"), True)]
)
def test_booleans_are_read_as_clients_write_them(values: tuple[str, ...], flag: bool) -> None:
    assert query_flag({"stream": values} if values else {}, "stream") is flag


def test_a_repeated_boolean_counts_as_its_last_value() -> None:
    with pytest.raises(ApiError, match="'maybe'"):
        query_flag({"stream": ["true", "maybe"]}, "stream")


@pytest.mark.parametrize("value", ["", "-1", "1.5", "x", "9" * 5_000, "٣"])
async def test_a_wrong_starting_after_is_a_400_also_without_a_stream(world: Secured, value: str) -> None:
    made = await world.victim.create("hi")
    answer = await ask(world, ONE, {"starting_after": [value]}, response_id=made["id"])
    assert (answer.status, answer.error["param"]) == (400, "starting_after")
    assert len(answer.body) < 500


async def test_a_wrong_last_event_id_is_called_by_its_name(world: Secured) -> None:
    made = await world.victim.create("hi")
    query, headers = {"stream": ["true"]}, {"last-event-id": "x"}
    answer = await world.victim.send("GET", ONE, path={"response_id": made["id"]}, query=query, headers=headers)
    assert (answer.status, answer.error["param"]) == (400, "Last-Event-ID")


async def test_the_header_of_a_stream_does_not_matter_without_one(world: Secured) -> None:
    made = await world.victim.create("hi")
    answer = await world.victim.send("GET", ONE, path={"response_id": made["id"]}, headers={"last-event-id": "x"})
    assert answer.status == 200


async def test_a_wrong_query_costs_no_look_at_storage_and_says_nothing_to_strangers(world: Secured) -> None:
    made = await world.victim.create("hi")
    wrong = {"stream": ["maybe"], "include[]": ["x"]}
    world.tables.touched.clear()
    assert (await ask(world, ONE, wrong, response_id=made["id"])).status == 400
    stranger = await world.attacker.send("GET", ONE, path={"response_id": made["id"]}, query=wrong, anonymous=True)
    assert stranger.status == 401
    assert world.tables.touched == set()


async def test_names_that_are_not_known_are_ignored(world: Secured) -> None:
    made = await world.victim.create("hi")
    query = {"api-version": ["preview"], "background": ["maybe"], "beta": ["true"]}
    assert (await ask(world, ONE, query, response_id=made["id"])).status == 200
