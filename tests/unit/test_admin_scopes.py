"""Whose rows a command is about."""

import base64
import json
from pathlib import Path

import pytest

from hosting.admin import command_line
from hosting.admin.account import read_settings
from hosting.admin.command_line import main
from hosting.admin.scopes import checked_scope, scope_of
from hosting.errors import ConfigurationError
from hosting.keys import mint_key
from hosting.server.caller import Callers
from hosting.server.http import Request
from hosting.settings import Settings, load_settings
from hosting.storage import StorageUnavailable, keys
from tests.conftest import ROOT

ACCOUNT = "AccountName=contoso;AccountKey=a2V5;EndpointSuffix=core.windows.net;DefaultEndpointsProtocol=https"
TENANT, USER = "72f988bf-86f1-41af-91ab-2d7cd011db47", "0a1b2c3d-0000-4000-8000-0123456789ab"


def easy_auth(settings: Settings) -> str:
    """The scope in which the app looks for the rows of a caller with an Entra token."""
    claims = [{"typ": "tid", "val": TENANT}, {"typ": "oid", "val": USER}]
    principal = base64.b64encode(json.dumps({"auth_typ": "aad", "claims": claims}).encode()).decode()
    return Callers(settings).scope(Request("GET", "/", {"x-ms-client-principal": principal}))


@pytest.mark.parametrize(("isolation", "user"), [("tenant", None), ("user", USER)])
def test_the_scope_of_a_caller_with_easy_auth_is_the_one_that_the_app_uses(isolation: str, user: str | None) -> None:
    settings = load_settings({"WEBSITE_AUTH_ENABLED": "true", "HOSTING_ISOLATION": isolation})
    assert scope_of(f"tid:{TENANT}", user, settings) == easy_auth(settings)


@pytest.mark.parametrize(("isolation", "user"), [("tenant", None), ("user", "ann")])
def test_the_scope_of_a_caller_with_a_key_is_the_one_that_the_app_uses(isolation: str, user: str | None) -> None:
    key, kept = mint_key("contoso", user)
    settings = load_settings({"HOSTING_API_KEYS": kept.entry, "HOSTING_ISOLATION": isolation})
    seen = Callers(settings).scope(Request("GET", "/", {"authorization": f"Bearer {key}"}))
    assert scope_of("key:contoso", user, settings) == seen


def test_the_scope_on_a_laptop_is_the_one_that_the_app_uses() -> None:
    settings = load_settings({"AZURE_FUNCTIONS_ENVIRONMENT": "Development"})
    assert scope_of("development", None, settings) == Callers(settings).scope(Request("GET", "/", {}))


@pytest.mark.parametrize(
    "tenant", ["contoso", "key:", "key:a b", "tid:contoso.com", f"tid:{TENANT.upper()}", "idp:", ""]
)
def test_a_tenant_that_no_caller_has_is_refused(tenant: str) -> None:
    with pytest.raises(ValueError, match="is no tenant: key:NAME"):
        scope_of(tenant, None, load_settings({}))


def test_a_user_is_refused_where_users_share_everything() -> None:
    with pytest.raises(ValueError, match="leave --user out"):
        scope_of("key:contoso", "ann", load_settings({}))


@pytest.mark.parametrize("digest", ["", "0" * 31, "0" * 33, "0" * 31 + "G", "A" * 32, "0" * 32 + "-"])
def test_what_is_no_digest_is_refused(digest: str) -> None:
    with pytest.raises(ValueError, match="is no scope"):
        checked_scope(digest)


def test_bounds_of_a_scope_hold_its_partitions_and_no_others() -> None:
    scope = "0123456789abcdef" * 2
    first, last = keys.partition_range(scope)
    assert first <= keys.partition_key(scope, "0" * 18) < last
    assert first <= keys.partition_key(scope, "f" * 18) < last
    for other in (scope, f"{scope}0-{'0' * 18}", f"{scope}.{'0' * 18}", f"{scope[:-1]}e-{'f' * 18}", f"{scope[:-1]}-"):
        assert not first <= other < last


def test_the_command_prints_the_digest(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["scope", "--tenant", "key:contoso"]) == 0
    assert capsys.readouterr().out == f"{keys.scope('key:contoso', None)}\n"
    monkeypatch.setenv("HOSTING_ISOLATION", "user")
    assert main(["scope", "--tenant", "key:contoso", "--user", "ann"]) == 0
    assert capsys.readouterr().out == f"{keys.scope('key:contoso', 'ann')}\n"


def test_a_tenant_without_its_users_is_pointed_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOSTING_ISOLATION", "user")
    assert main(["scope", "--tenant", "key:contoso"]) == 0
    assert "callers without a user" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["suspend", "resume"])
def test_to_suspend_a_tenant_is_about_all_its_users_and_not_those_without_one(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOSTING_ISOLATION", "user")
    assert main([command, "--tenant", "key:contoso"]) == 2  # no storage account is configured here
    assert "callers without a user" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["scope", "--tenant", "contoso"], "is no tenant"),
        (["scope", "--scope", "short"], "is no scope"),
        (["list", "--scope", "0" * 32, "--user", "ann"], "--user goes with --tenant"),
        (["erase", "--tenant", "key:contoso", "--user", "ann"], "leave --user out"),
        (["erase"], "one of the arguments --tenant --scope is required"),
        (["erase", "--tenant", "key:a", "--scope", "0" * 32], "not allowed with"),
        (["cancel", "--tenant", "key:a"], "RESPONSE_ID"),
        (["running", "--limit", "0"], "is no number from 1 on"),
        (["running", "--tenant", "key:a"], "unrecognized arguments"),
    ],
)
def test_wrong_words_end_with_2(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_settings_that_name_no_account_end_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--tenant", "key:contoso"]) == 2
    assert "no storage account is configured" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("connection", "said"),
    [("UseDevelopmentStorage=true", 'that it prints after "storage:"'), (ACCOUNT, "run it again")],
    ids=["laptop", "account"],
)
def test_storage_that_is_not_there_is_looked_for_beside_make_run_on_a_laptop(
    connection: str, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*args: object, **options: object) -> int:
        raise StorageUnavailable("not reachable")

    monkeypatch.setattr(command_line, "list_scope", away)
    monkeypatch.setenv("AzureWebJobsStorage", connection)
    assert main(["list", "--tenant", "key:contoso"]) == 1
    assert said in capsys.readouterr().err


def test_settings_can_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text('{"IsEncrypted": false, "Values": {"HOSTING_ISOLATION": "user"}}')
    assert read_settings(str(file)) == {"HOSTING_ISOLATION": "user"}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"Values": []}'])
def test_a_file_that_is_none_of_settings_is_named(text: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=r"settings\.json is not like"):
        read_settings(str(file))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.json can't be read"):
        read_settings(str(tmp_path / "none.json"))


def test_the_app_imports_nothing_of_it() -> None:
    files = [ROOT / "function_app.py", *(ROOT / "hosting").rglob("*.py")]
    found = [f for f in files if "hosting.admin" in f.read_text() and f.parent.name != "admin"]
    assert found == []
