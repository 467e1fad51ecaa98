"""Isolation per tenant and per user: who shares ids, and who does not, as HOSTING_ISOLATION says.

That users do not meet where it says `user` is in test_tenants.py, for every route.
"""

from collections.abc import Mapping

import pytest

from hosting.keys import mint_key
from hosting.settings import ConfigurationError, load_settings
from tests.security.world import Caller, Pair, Secured, principal, secured

_EASY = {"WEBSITE_AUTH_ENABLED": "true"}


def by_keys(*holders: tuple[str, str | None], isolation: str) -> tuple[list[dict[str, str]], dict[str, str]]:
    """A header for each holder of a key, and the settings."""
    minted = [mint_key(tenant, user) for tenant, user in holders]
    headers = [{"authorization": f"Bearer {key}"} for key, _ in minted]
    entries = " ".join(kept.entry for _, kept in minted)
    return headers, {"HOSTING_API_KEYS": entries, "HOSTING_ISOLATION": isolation}


async def sees(caller: Caller, identifier: str) -> bool:
    answer = await caller.send("GET", "v1/responses/{response_id}", path={"response_id": identifier})
    assert answer.status in (200, 404)
    return answer.status == 200


async def shared(headers: list[dict[str, str]], env: Mapping[str, str]) -> bool:
    """Whether the second caller sees what the first one has made."""
    async with secured(Pair(headers[0], headers[1], env)) as world:
        made = await world.victim.create("hi")
        assert await sees(world.victim, made["id"])
        return await sees(world.attacker, made["id"])


async def test_users_of_a_tenant_share_everything_by_default() -> None:
    headers, env = by_keys(("contoso", "ada"), ("contoso", "bob"), isolation="tenant")
    assert await shared(headers, env)
    assert await shared(headers, {**env, "HOSTING_ISOLATION": ""})


async def test_two_keys_of_one_user_are_one_user() -> None:
    headers, env = by_keys(("contoso", "ada"), ("contoso", "ada"), isolation="user")
    assert await shared(headers, env)


async def test_keys_without_a_user_are_the_tenant_itself_and_share() -> None:
    headers, env = by_keys(("contoso", None), ("contoso", None), isolation="user")
    assert await shared(headers, env)


@pytest.mark.parametrize(
    "holders",
    [
        [("contoso", "ada"), ("contoso", "bob")],
        [("contoso", "ada"), ("contoso", "Ada")],
        [("contoso", "ada"), ("contoso", None)],
        [("contoso", None), ("contoso", "ada")],
        [("contoso", "ada"), ("fabrikam", "ada")],
        [("contoso", "a"), ("contosoa", None)],
        [("a", "b@c"), ("a@b", "c")],
        [("contoso", "None"), ("contoso", None)],
        [("contoso", "null"), ("contoso", None)],
    ],
)
async def test_users_do_not_meet(holders: list[tuple[str, str | None]]) -> None:
    headers, env = by_keys(*holders, isolation="user")
    assert not await shared(headers, env)


@pytest.mark.parametrize("names", [("contoso", "Contoso"), ("a.b", "a_b"), ("a", "a."), ("1", "01"), ("-", "--")])
async def test_names_that_look_alike_are_two_tenants(names: tuple[str, str]) -> None:
    headers, env = by_keys((names[0], None), (names[1], None), isolation="tenant")
    assert not await shared(headers, env)


async def test_users_of_tokens_follow_the_setting_too() -> None:
    headers = [principal(tid="t", oid="ada"), principal(tid="t", oid="bob")]
    assert await shared(headers, _EASY)
    assert not await shared(headers, {**_EASY, "HOSTING_ISOLATION": "user"})


@pytest.mark.parametrize("name", ["user", "x-user-id", "x-agent-user-id", "x-ms-client-principal-name"])
async def test_a_user_is_who_the_key_says_and_not_who_the_request_says(name: str) -> None:
    """The fields that clients have for the user are for the model's provider, never for us."""
    headers, env = by_keys(("contoso", "ada"), ("contoso", "bob"), isolation="user")
    async with secured(Pair(headers[0], headers[1], env)) as world:
        made = await world.victim.create("hi", user="ada", safety_identifier="ada")
        body = {"input": "hi", "user": "ada", "safety_identifier": "ada", "previous_response_id": made["id"]}
        answer = await world.attacker.send("POST", "v1/responses", body, headers={name: "ada"}, query={name: ["ada"]})
        assert answer.error["code"] == "previous_response_not_found"


async def test_limits_are_the_tenants_however_many_users_it_has() -> None:
    headers, env = by_keys(("contoso", "ada"), ("contoso", "bob"), isolation="user")
    async with secured(Pair(headers[0], headers[1], env), env={"HOSTING_RUNS_PER_MINUTE": "2"}) as world:
        assert await statuses(world) == [200, 200, 429, 429]


async def statuses(world: Secured) -> list[int]:
    return [
        (await caller.send("POST", "v1/responses", {"input": "hi"})).status
        for caller in (world.victim, world.attacker, world.victim, world.attacker)
    ]


@pytest.mark.parametrize("value", ["users", "User", "none", "tenant,user", "0"])
def test_a_misspelt_isolation_stops_the_app_instead_of_weakening_it(value: str) -> None:
    with pytest.raises(ConfigurationError, match="HOSTING_ISOLATION"):
        load_settings({"HOSTING_ISOLATION": value})
