"""Two headers where one is meant: the front end believes one of them, the app the other."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from azurefunctions.extensions.http import fastapi

from hosting.functions.http import _from_http
from hosting.identity import Identity
from hosting.server import Request
from hosting.server.single_headers import check_single_headers
from hosting.settings import load_settings
from tests.security.world import Answer, Secured, secured

type Headers = list[tuple[bytes, bytes]]


def from_wire(headers: Headers, body: bytes = b"") -> Request:
    """What the trigger makes of a request with these headers, in this order."""

    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> dict[str, object]:
        for message in messages:
            return message
        return await asyncio.Future()  # the client stays

    scope = {"type": "http", "method": "POST", "path": "/v1/responses", "query_string": b"", "headers": headers}
    return _from_http(fastapi.Request(scope, receive))


@pytest.fixture
async def world() -> AsyncIterator[Secured]:
    async with secured() as made:
        yield made


def wire(headers: dict[str, str]) -> Headers:
    return [(name.encode(), value.encode()) for name, value in headers.items()]


async def answer(world: Secured, headers: Headers, route: str | None = "v1/responses") -> Answer:
    response = await world.server.handle(route, from_wire(headers, b'{"input":"hello"}'))
    assert isinstance(response.body, bytes)
    return Answer(response.status, response.headers, response.body)


@pytest.mark.parametrize("first", ["victim", "attacker"])
async def test_two_keys_are_a_400_whichever_comes_first(world: Secured, first: str) -> None:
    one, other = world.victim.headers["authorization"], f"Bearer {world.attacker.headers['api-key']}"
    keys = (one, other) if first == "victim" else (other, one)
    refused = await answer(world, [(b"authorization", key.encode()) for key in keys])
    assert (refused.status, refused.error["param"]) == (400, "authorization")
    assert refused.error["type"] == "invalid_request_error"
    assert not any(key.removeprefix("Bearer ") in refused.text for key in keys)
    assert world.tables.touched == set()


@pytest.mark.parametrize(
    "name",
    [
        *("authorization", "api-key", "sec-fetch-site"),
        *(
            "x-ms-client-principal",
            "x-ms-client-principal-id",
            "x-ms-client-principal-name",
            "x-ms-client-principal-idp",
        ),
        *("idempotency-key", "content-length", "last-event-id"),
        *("x-agent-invocation-id", "x-agent-session-id", "x-agent-foundry-call-id"),
    ],
)
async def test_what_may_come_once_is_a_400_when_it_comes_twice(world: Secured, name: str) -> None:
    given = [*wire(world.victim.headers), (name.encode(), b"17"), (name.title().encode(), b"17")]
    refused = await answer(world, [(header.lower(), value) for header, value in given])
    assert (refused.status, refused.error["param"], refused.error["code"]) == (400, name, "invalid_value")


@pytest.mark.parametrize("route", ["v1/models", "v1/invocations", "v1/responses/{response_id}", "readiness", None])
async def test_it_is_refused_on_every_route(world: Secured, route: str | None) -> None:
    doubled = wire(world.victim.headers) * 2
    assert (await answer(world, doubled, route)).status == 400


async def test_lists_and_headers_of_the_app_may_come_twice(world: Secured) -> None:
    names = (b"accept", b"x-client-note", b"tracestate", b"forwarded", b"x-forwarded-for")
    made = await answer(world, [*wire(world.victim.headers), *((name, b"1") for name in names * 2)])
    assert made.status == 200


def test_the_values_of_a_repeated_header_are_joined() -> None:
    request = from_wire([(b"x-client-note", b"a"), (b"x-client-other", b"c"), (b"x-client-note", b"b")])
    assert request.headers == {"x-client-note": "a, b", "x-client-other": "c"}
    assert request.repeated == {"x-client-note"}


async def test_a_second_content_encoding_does_not_hide_the_first(world: Secured) -> None:
    codings = [(b"content-encoding", b"gzip"), (b"content-encoding", b"identity")]
    assert (await answer(world, [*wire(world.victim.headers), *codings])).status == 415


def test_no_header_that_identity_reads_may_come_twice() -> None:
    """Whatever the settings: a header that is read some day and not listed is found here."""

    class Spy(dict[str, str]):
        def get(self, key: str, default: str = "") -> str:  # type: ignore[override]
            asked.add(key)
            return default

        def __contains__(self, key: object) -> bool:
            asked.add(str(key))
            return False

        def __getitem__(self, key: str) -> str:
            asked.add(key)
            raise KeyError(key)

    asked: set[str] = set()
    for env in ({}, {"AZURE_FUNCTIONS_ENVIRONMENT": "Development"}, {"WEBSITE_AUTH_ENABLED": "true"}):
        try:
            Identity(load_settings(env)).caller(Spy())
        except Exception as error:
            assert type(error).__name__ == "NotAuthenticated", error
    assert asked >= {"authorization", "api-key", "x-ms-client-principal", "sec-fetch-site"}
    for name in asked:
        with pytest.raises(ValueError, match="more than once"):
            check_single_headers(Request("GET", "/", repeated=frozenset({name})))


async def test_a_refusal_is_small_whatever_the_name(world: Secured) -> None:
    name = b"x-ms-client-principal-" + b"a" * 20_000
    refused = await answer(world, [*wire(world.victim.headers), (name, b"1"), (name, b"2")])
    assert refused.status == 400
    assert len(json.dumps(refused.json)) < 1_000
