import pytest

from hosting import keys
from hosting.settings import ConfigurationError


def test_a_minted_key_is_accepted_and_names_its_tenant() -> None:
    key, kept = keys.mint_key("contoso", user="ada@contoso.com")
    found = keys.check_key(keys.parse_keys(kept.entry), key)
    assert found is not None
    assert (found.tenant, found.user) == ("contoso", "ada@contoso.com")


def test_the_setting_holds_neither_the_key_nor_its_secret() -> None:
    key, kept = keys.mint_key("contoso")
    assert key not in kept.entry
    assert key.split("-")[-1] not in kept.entry


def test_several_keys_of_several_tenants_are_told_apart() -> None:
    minted = [keys.mint_key(tenant) for tenant in ("contoso", "contoso", "fabrikam")]
    known = keys.parse_keys(",\n ".join(kept.entry for _, kept in minted))
    found = [keys.check_key(known, key) for key, _ in minted]
    assert [entry.tenant if entry else None for entry in found] == ["contoso", "contoso", "fabrikam"]


@pytest.mark.parametrize("change", ["last", "id", "empty", "other", "prefix", "unicode"])
def test_a_key_that_is_not_ours_is_refused(change: str) -> None:
    key, kept = keys.mint_key("contoso")
    other, _ = keys.mint_key("contoso")
    wrong = {
        "last": key[:-1] + ("A" if key[-1] != "A" else "B"),
        "id": "sk-" + "0" * 12 + key[15:],
        "empty": "",
        "other": other,
        "prefix": key.removeprefix("sk-"),
        "unicode": key[:-1] + "é",
    }[change]
    assert keys.check_key(keys.parse_keys(kept.entry), wrong) is None


def test_the_dummy_entry_for_unknown_ids_is_never_accepted() -> None:
    assert keys.check_key({}, "sk-" + "0" * 12 + "-" + "A" * 43) is None


@pytest.mark.parametrize("setting", ["nonsense", "contoso:abc:def:123", "a b:c", "tenant:" + "0" * 12])
def test_a_malformed_setting_names_the_entry_and_not_its_text(setting: str) -> None:
    with pytest.raises(ConfigurationError, match="HOSTING_API_KEYS: entry 1") as raised:
        keys.parse_keys(setting)
    assert setting not in str(raised.value)


def test_a_repeated_key_id_is_refused() -> None:
    _, kept = keys.mint_key("contoso")
    with pytest.raises(ConfigurationError, match="entry 2 repeats"):
        keys.parse_keys(f"{kept.entry},{kept.entry}")


@pytest.mark.parametrize("tenant", ["", "a:b", "a b", "x" * 65, "a,b", "ä"])
def test_a_tenant_that_the_format_cannot_hold_is_refused(tenant: str) -> None:
    with pytest.raises(ValueError, match="tenant takes"):
        keys.mint_key(tenant)


def test_the_command_prints_a_key_and_the_entry_that_accepts_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert keys.main(["new", "contoso"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    key = next(line for line in lines if line.startswith("sk-"))
    entry = next(line for line in lines if line.startswith("contoso:"))
    assert keys.check_key(keys.parse_keys(entry), key) is not None
