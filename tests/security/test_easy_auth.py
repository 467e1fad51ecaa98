"""Easy Auth's headers: anybody's to forge, so they count only where the platform says that it has set them, and only whole."""

import base64
import json
import logging
from typing import Any

import pytest

from hosting.identity import Caller, Identity, NotAuthenticated
from hosting.keys import mint_key
from hosting.settings import load_settings
from tests.security.routes import ROUTES, Sent
from tests.security.world import PAIRS, PRODUCTION, Pair, principal, secured

_ON = {**PRODUCTION, "WEBSITE_AUTH_ENABLED": "true"}


def encoded(content: Any) -> str:
    return base64.b64encode(json.dumps(content).encode()).decode()


def claims(*pairs: tuple[str, Any], provider: Any = "aad") -> str:
    return encoded({"auth_typ": provider, "claims": [{"typ": typ, "val": val} for typ, val in pairs]})


_TID, _OID = ("tid", "t-1"), ("oid", "u-1")
_WHOLE = claims(_TID, _OID)

_PARTIAL: dict[str, dict[str, str]] = {
    "the id alone": {"x-ms-client-principal-id": "u-1"},
    "id, name and provider without the principal": {
        "x-ms-client-principal-id": "u-1",
        "x-ms-client-principal-name": "ada@contoso.com",
        "x-ms-client-principal-idp": "aad",
    },
    "empty": {"x-ms-client-principal": ""},
    "no base64": {"x-ms-client-principal": "{}"},
    "base64 of half of it": {"x-ms-client-principal": _WHOLE[: len(_WHOLE) // 2]},
    "base64 with something before it": {"x-ms-client-principal": "Bearer " + _WHOLE},
    "twice": {"x-ms-client-principal": f"{_WHOLE}, {_WHOLE}"},
    "two bytes of UTF-16": {"x-ms-client-principal": base64.b64encode('{"claims":[]}'.encode("utf-16")).decode()},
    "no JSON": {"x-ms-client-principal": base64.b64encode(b"tid=t-1&oid=u-1").decode()},
    "null": {"x-ms-client-principal": encoded(None)},
    "a list": {"x-ms-client-principal": encoded([{"typ": "tid", "val": "t"}])},
    "a text": {"x-ms-client-principal": encoded("claims")},
    "no claims": {"x-ms-client-principal": encoded({"auth_typ": "aad"})},
    "claims that are null": {"x-ms-client-principal": encoded({"auth_typ": "aad", "claims": None})},
    "claims by name": {"x-ms-client-principal": encoded({"auth_typ": "aad", "claims": {"tid": "t", "oid": "u"}})},
    "a claim that is none": {"x-ms-client-principal": encoded({"auth_typ": "aad", "claims": [_TID]})},
    "a claim without a value": {"x-ms-client-principal": encoded({"auth_typ": "aad", "claims": [{"typ": "oid"}]})},
    "a tenant without a user": {"x-ms-client-principal": claims(_TID)},
    "an empty user": {"x-ms-client-principal": claims(_TID, ("oid", ""))},
    "a user with spaces around the name of the claim": {"x-ms-client-principal": claims(_TID, (" oid ", "u"))},
    "a user in capitals": {"x-ms-client-principal": claims(_TID, ("OID", "u"))},
    "no provider": {"x-ms-client-principal": claims(_TID, _OID, provider=None)},
    "an empty provider": {"x-ms-client-principal": claims(_TID, _OID, provider="")},
    "deep": {"x-ms-client-principal": base64.b64encode(b'{"claims":' + b"[" * 20_000).decode()},
    "a number that is too long": {"x-ms-client-principal": base64.b64encode(b"9" * 5000).decode()},
    "NUL": {"x-ms-client-principal": "\x00"},
    "not ASCII": {"x-ms-client-principal": "é" * 10},
}


@pytest.mark.parametrize("headers", _PARTIAL.values(), ids=_PARTIAL.keys())
def test_headers_that_are_not_whole_are_nobodys(headers: dict[str, str]) -> None:
    with pytest.raises(NotAuthenticated):
        Identity(load_settings(_ON)).caller(headers)


@pytest.mark.parametrize("headers", _PARTIAL.values(), ids=_PARTIAL.keys())
def test_headers_that_are_not_whole_do_not_fall_back_to_a_key(headers: dict[str, str]) -> None:
    """Who has a key could otherwise send half of somebody's identity along and see what becomes of it."""
    key, kept = mint_key("contoso")
    identity = Identity(load_settings({**_ON, "HOSTING_API_KEYS": kept.entry}))
    with pytest.raises(NotAuthenticated):
        identity.caller({**headers, "authorization": f"Bearer {key}"})


async def test_no_route_takes_headers_that_are_not_whole() -> None:
    async with secured(Pair({}, {}, {"WEBSITE_AUTH_ENABLED": "true"})) as world:
        for route in (route for route in ROUTES.values() if not route.open):
            path = {part.strip("{}"): "x" for part in route.template.split("/") if part.startswith("{")}
            for name, headers in _PARTIAL.items():
                answer = await route.send(world.attacker, Sent(path, headers=headers))
                assert answer.status == 401, (route.name, name)
        assert world.tables.calls == []


async def test_with_the_switch_off_whole_ones_change_nothing_on_any_route() -> None:
    """A key's holder stays who the key says, and who has none stays nobody."""
    async with secured(PAIRS["tenants by key"]) as world:
        own = await world.attacker.furnished()
        forged = principal(tid="contoso", oid="admin")
        for route in (route for route in ROUTES.values() if not route.open and route.method == "GET"):
            sent = Sent(route.own(own), headers=forged)
            assert (await route.send(world.attacker, sent)).status == 200, route.name
            assert (await route.send(world.attacker, sent, anonymous=True)).status == 401, route.name


@pytest.mark.parametrize("value", ["", "false", "0", "no"])
async def test_only_the_platforms_switch_counts(value: str) -> None:
    forged = principal(tid="t", oid="u") | {"website_auth_enabled": "true", "x-website-auth-enabled": "true"}
    identity = Identity(load_settings({**PRODUCTION, "WEBSITE_AUTH_ENABLED": value}))
    with pytest.raises(NotAuthenticated):
        identity.caller(forged)


def test_a_forger_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    identity = Identity(load_settings(PRODUCTION))
    with caplog.at_level(logging.DEBUG):
        for n in range(100):
            with pytest.raises(NotAuthenticated):
                identity.caller(principal(tid=f"forged-{n}", oid="u"))
    assert len(caplog.records) == 1
    assert "forged" not in caplog.text


def test_another_providers_word_does_not_count_for_a_tenant_of_entra() -> None:
    """With two providers, who runs an account of the other one may be able to put any claim into its token."""
    identity = Identity(load_settings(_ON))
    entra = identity.caller(principal(tid="t-1", oid="u-1"))
    other = identity.caller(principal("sso", tid="t-1", oid="u-1"))
    assert (entra.tenant, other.tenant) == ("tid:t-1", "idp:sso/t-1")
    assert identity.caller(principal("sso", tid="t-2", oid="u-1")) != other


def test_tenants_of_tokens_keys_and_laptops_have_names_of_their_own() -> None:
    key, kept = mint_key("development")
    both = Identity(load_settings({**_ON, "HOSTING_API_KEYS": kept.entry}))
    laptop = Identity(load_settings({"AZURE_FUNCTIONS_ENVIRONMENT": "Development"}))
    found = {
        both.caller({"api-key": key}).tenant,
        both.caller(principal(tid="development", oid="u")).tenant,
        both.caller(principal("development", sub="u")).tenant,
        laptop.caller({}).tenant,
    }
    assert len(found) == 4


def test_claims_by_their_long_names_are_the_same_caller() -> None:
    identity = Identity(load_settings(_ON))
    long = {
        "http://schemas.microsoft.com/identity/claims/tenantid": "t-1",
        "http://schemas.microsoft.com/identity/claims/objectidentifier": "u-1",
    }
    assert identity.caller(principal("aad", **long)) == Caller("tid:t-1", "u-1")
    assert identity.caller(principal("AAD", **long)) == Caller("tid:t-1", "u-1")


def test_a_claim_of_any_length_and_alphabet_is_a_name_and_nothing_else() -> None:
    identity = Identity(load_settings(_ON))
    for value in ("x" * 60_000, "../../t-1", "t-1\x00", "t-1'; --", "t-1/u", "\ud800", "ｔ-1"):
        caller = identity.caller(principal(tid=value, oid=value))
        assert caller == Caller(f"tid:{value}", value)
