"""Guessing API keys: every wrong one costs the same work and gets the same answer, and what is stored of one is no key."""

import hashlib
import hmac
import logging
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from hosting import keys
from hosting.identity import Identity, NotAuthenticated
from hosting.keys import ApiKey, check_key, mint_key, parse_keys
from hosting.settings import load_settings
from tests.security.world import PAIRS, PRODUCTION, Pair, secured

KEY, KEPT = mint_key("contoso", "ada")
OTHER, OTHER_KEPT = mint_key("fabrikam")
KNOWN: Mapping[str, ApiKey] = {KEPT.key_id: KEPT, OTHER_KEPT.key_id: OTHER_KEPT}

_SECRET = KEY.rpartition(f"{KEPT.key_id}-")[2]
_FLIPPED = "A" if _SECRET[-1] != "A" else "B"

WRONG: dict[str, str] = {
    "another secret": f"sk-{KEPT.key_id}-{'A' * 43}",
    "the last character is another": KEY[:-1] + _FLIPPED,
    "the first character of the secret is another": KEY.replace(
        f"-{_SECRET}", f"-{'x' if _SECRET[0] != 'x' else 'y'}{_SECRET[1:]}"
    ),
    "an unknown id": f"sk-{'0' * 12}-{_SECRET}",
    "the id of another tenant's key": f"sk-{OTHER_KEPT.key_id}-{_SECRET}",
    "cut off": KEY[:-1],
    "one character more": KEY + "A",
    "twice": KEY + KEY,
    "in capitals": KEY.upper(),
    "without its prefix": KEY.removeprefix("sk-"),
    "the secret alone": _SECRET,
    "the id alone": KEPT.key_id,
    "what is stored of it": KEPT.entry,
    "the hash": KEPT.digest,
    "the salt": KEPT.salt,
    "id and hash": f"sk-{KEPT.key_id}-{KEPT.digest[:43]}",
    "a line end behind it": KEY + "\n",
    "NUL behind it": KEY + "\x00",
    "NUL inside": KEY[:20] + "\x00" + KEY[20:],
    "a full-width digit": KEY.replace("sk-", "ｓｋ-"),
    "a look-alike": KEY.replace("k", "к", 1),
    "a combining mark": KEY + "\u0301",
    "the direction turned": "\u202e" + KEY,
    "in quotes": f'"{KEY}"',
    "a list": f"{KEY},{OTHER}",
    "nothing": " ",
    "10 kB": "sk-" + "a" * 10_000,
    "half a character": KEY + "\ud800",
    "a pattern": "sk-.*",
    "OData": "' or 1 eq 1 or '",
}


@pytest.mark.parametrize("presented", WRONG.values(), ids=WRONG.keys())
def test_what_is_nearly_a_key_is_none(presented: str) -> None:
    assert check_key(dict(KNOWN), presented) is None


@pytest.mark.parametrize("presented", WRONG.values(), ids=WRONG.keys())
def test_every_guess_costs_one_hash_and_one_comparison_of_whole_hashes(
    presented: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted, not timed: the work does not depend on whether the id exists, nor on how much of the secret is right."""
    hashed: list[int] = []
    compared: list[tuple[int, int]] = []

    def sha256(data: bytes) -> Any:
        hashed.append(len(data))
        return hashlib.sha256(data)

    def compare(one: str, other: str) -> bool:
        compared.append((len(one), len(other)))
        return hmac.compare_digest(one, other)

    monkeypatch.setattr(keys, "hashlib", SimpleNamespace(sha256=sha256))
    monkeypatch.setattr(keys, "hmac", SimpleNamespace(compare_digest=compare))
    check_key(dict(KNOWN), presented)
    assert hashed == [16 + len(presented.encode("utf-8", "surrogatepass"))]
    assert compared == [(64, 64)]


def test_an_unknown_id_is_compared_with_a_hash_that_no_key_has() -> None:
    assert check_key({}, f"sk-{'0' * 12}-{'A' * 43}") is None
    assert check_key({"0" * 12: ApiKey("x", "0" * 12, "0" * 32, "0" * 64)}, f"sk-{'0' * 12}-{'A' * 43}") is None


async def test_all_wrong_keys_get_the_same_answer_on_both_headers() -> None:
    async with secured(PAIRS["tenants by key"]) as world:
        bodies = set[bytes]()
        for presented in WRONG.values():
            for headers in ({"authorization": f"Bearer {presented}"}, {"api-key": presented}):
                if not presented.strip():
                    continue  # nothing was presented: that is said
                answer = await world.attacker.send("GET", "v1/models", headers=headers, anonymous=True)
                assert answer.status == 401
                bodies.add(answer.body)
        assert len(bodies) == 1


@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "Bearer  "])
def test_the_scheme_of_the_header_is_read_as_http_says(scheme: str) -> None:
    identity = Identity(load_settings({**PRODUCTION, "HOSTING_API_KEYS": KEPT.entry}))
    assert identity.caller({"authorization": f"{scheme} {KEY}"}).tenant == "key:contoso"


@pytest.mark.parametrize("header", ["Token {key}", "Basic {key}", "Bearer", "{key}", "Bearer{key}", "Bearer: {key}"])
def test_a_key_in_another_scheme_is_none(header: str) -> None:
    identity = Identity(load_settings({**PRODUCTION, "HOSTING_API_KEYS": KEPT.entry}))
    with pytest.raises(NotAuthenticated):
        identity.caller({"authorization": header.format(key=KEY)})


def test_a_wrong_bearer_is_not_saved_by_a_right_api_key() -> None:
    identity = Identity(load_settings({**PRODUCTION, "HOSTING_API_KEYS": f"{KEPT.entry} {OTHER_KEPT.entry}"}))
    with pytest.raises(NotAuthenticated):
        identity.caller({"authorization": "Bearer wrong", "api-key": OTHER})
    assert identity.caller({"authorization": f"Bearer {KEY}", "api-key": OTHER}).tenant == "key:contoso"


async def test_a_key_that_was_taken_back_is_worth_nothing_at_once() -> None:
    async with secured(Pair({"api-key": KEY}, {}, {"HOSTING_API_KEYS": OTHER_KEPT.entry})) as world:
        assert (await world.victim.send("GET", "v1/models")).status == 401


def test_nothing_about_keys_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        identity = Identity(load_settings({**PRODUCTION, "HOSTING_API_KEYS": KEPT.entry}))
        identity.caller({"api-key": KEY})
        for presented in WRONG.values():
            with pytest.raises(NotAuthenticated):
                identity.caller({"api-key": presented})
    assert not caplog.records


def test_what_is_kept_of_a_key_does_not_show_it() -> None:
    assert _SECRET not in repr(KEPT)
    assert _SECRET not in KEPT.entry
    assert len(bytes.fromhex(KEPT.salt)) == 16
    assert KEPT.salt != OTHER_KEPT.salt


def test_a_thousand_keys_have_a_thousand_secrets() -> None:
    minted = {mint_key("contoso")[0] for _ in range(1000)}
    assert len({key.split("-", 2)[2] for key in minted}) == 1000
    assert all(len(key) == 3 + 12 + 1 + 43 for key in minted)


def test_entries_of_a_thousand_tenants_are_told_apart() -> None:
    minted = [mint_key(f"tenant-{n}") for n in range(1000)]
    known = parse_keys(",".join(kept.entry for _, kept in minted))
    for key, kept in minted[::100]:
        found = check_key(known, key)
        assert found is not None
        assert found.tenant == kept.tenant
