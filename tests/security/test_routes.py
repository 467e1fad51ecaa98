"""No route without an attack, and no route without a caller."""

from collections.abc import Mapping

import pytest

from hosting.server import Request
from tests.security.routes import ROUTES, Route, Sent
from tests.security.world import PAIRS, principal, secured

_CLOSED = [route for route in ROUTES.values() if not route.open]

_NOBODY: Mapping[str, Mapping[str, str]] = {
    "nothing": {},
    "an empty key": {"authorization": "Bearer "},
    "a key of nobody": {"authorization": "Bearer sk-000000000000-" + "A" * 43},
    "a laptop's habit": {"authorization": "Bearer any", "api-key": "any"},
    "another scheme": {"authorization": "Basic YWRtaW46YWRtaW4="},
    "forged Easy Auth headers": principal(tid="contoso", oid="admin"),
    "headers of proxies": {
        "x-forwarded-for": "127.0.0.1",
        "x-forwarded-user": "admin",
        "x-arr-clientcert": "MIIB",
        "x-functions-key": "master",
        "x-ms-auth-internal-token": "x",
        "x-agent-user-id": "admin",
        "host": "localhost",
    },
    "headers of Easy Auth's tokens": {
        "x-ms-token-aad-access-token": "eyJ0",
        "x-zumo-auth": "eyJ0",
        "cookie": "AppServiceAuthSession=x",
    },
}


def _own(route: Route) -> Sent:
    """A path with something in it."""
    return Sent({name.strip("{}"): "x" for name in route.template.split("/") if name.startswith("{")})


async def test_every_route_of_the_server_is_in_the_table_of_attacks() -> None:
    async with secured() as world:
        served = {f"{method} {path}" for path, methods in world.server.routes.items() for method in methods}
    assert served == set(ROUTES), "say in tests/security/routes.py where ids can stand in a request for a new route"


def test_every_parameter_of_a_path_is_attacked() -> None:
    for route in ROUTES.values():
        for part in route.template.split("/"):
            if part.startswith("{"):
                assert any(part.strip("{}") in place.name for place in route.places), (route.name, part)


@pytest.mark.parametrize("who", _NOBODY)
async def test_no_closed_route_answers_nobody_and_none_of_them_asks_storage_first(who: str) -> None:
    async with secured() as world:
        for route in _CLOSED:
            answer = await route.send(world.attacker, _own(route), anonymous=True)
            assert answer.status == 401, route.name
        for route in _CLOSED:
            sent = Sent(_own(route).path, headers=_NOBODY[who])
            answer = await route.send(world.attacker, sent, anonymous=True)
            assert answer.status == 401, route.name
            assert answer.error["type"] == "invalid_request_error"
            assert answer.headers["www-authenticate"] == "Bearer"
        assert world.tables.calls == []


async def test_nobody_is_told_before_a_byte_of_the_body_is_read() -> None:
    async with secured() as world:
        for route in _CLOSED:
            reads: list[int] = []

            async def read(limit: int, reads: list[int] = reads) -> bytes:
                reads.append(limit)
                return b"{}"

            request = Request(route.method, "/" + route.template, {}, {}, _own(route).path, read=read)
            assert (await world.server.handle(route.template, request)).status == 401
            assert reads == [], route.name


async def test_open_routes_say_nothing_about_the_app() -> None:
    async with secured() as world:
        for route in (it for it in ROUTES.values() if it.open):
            answer = await route.send(world.attacker, Sent(), anonymous=True)
            assert (answer.status, answer.json) == (200, {"status": "healthy"})


@pytest.mark.parametrize(
    "method", ["OPTIONS", "TRACE", "CONNECT", "PUT", "PATCH", "PROPFIND", "get", "", "GET\r\nx: y"]
)
async def test_a_verb_that_a_route_does_not_have_is_405_for_anybody(method: str) -> None:
    async with secured() as world:
        for route in ROUTES.values():
            origin = {"origin": "https://evil.example", "access-control-request-method": "POST"}
            answer = await world.attacker.send(method, route.template, path=_own(route).path, headers=origin)
            assert answer.status == 405, route.name
            assert answer.error["code"] == "method_not_allowed"
            assert set(answer.headers["allow"].split(", ")) <= {"GET", "POST", "DELETE"}


async def test_no_answer_lets_another_origin_read_it() -> None:
    async with secured() as world:
        own = await world.attacker.furnished()
        for route in ROUTES.values():
            sent = Sent(route.own(own), headers={"origin": "https://evil.example", "cookie": "a=b"})
            answer = await route.send(world.attacker, sent)
            assert answer.status < 500, route.name
            assert not [name for name in answer.headers if name.startswith("access-control-")], route.name
            assert "set-cookie" not in answer.headers


async def test_no_answer_may_be_kept_by_a_cache() -> None:
    """Caches skip answers to requests with `authorization`, but not those to requests with `api-key` or a cookie."""
    async with secured() as world:
        own = await world.attacker.furnished()
        for route in _CLOSED:
            answer = await route.send(world.attacker, Sent(route.own(own)))
            assert answer.headers.get("cache-control") in ("no-store", "no-cache"), route.name
            lost = await route.send(world.attacker, _own(route))
            assert lost.headers.get("cache-control") in ("no-store", "no-cache"), route.name


async def test_a_path_that_no_route_has_is_404_for_anybody_and_asks_nothing() -> None:
    async with secured() as world:
        for path in ("v1/admin", "admin/host/status", "runtime/webhooks/durabletask", "v1/responses/a/b/c", "..", ""):
            answer = await world.server.handle(None, Request("GET", "/" + path))
            assert answer.status == 404
        assert world.tables.calls == []


@pytest.mark.parametrize("pair", PAIRS)
async def test_every_route_answers_its_own_caller(pair: str) -> None:
    """Else the refusals of the rest of this suite prove nothing."""
    async with secured(PAIRS[pair]) as world:
        for caller in (world.victim, world.attacker):
            own = await caller.furnished()
            # What is deleted last has nothing in it any more.
            for route in sorted(ROUTES.values(), key=lambda route: (route.method == "DELETE", -len(route.template))):
                sent = Sent(route.own(own))
                if route.template.endswith("{response_id}/cancel"):
                    sent = Sent({"response_id": own.running})
                answer = await route.send(caller, sent)
                assert answer.status == 200, (route.name, answer.body)
