"""Secrets of the app's own settings: in no answer, error or log line, whatever is wrong with them or with what they open."""

import asyncio
import base64
import json
import logging
from collections.abc import Mapping

import pytest

from hosting.models import model_arguments
from hosting.settings import ConfigurationError, Settings, load_settings
from hosting.storage import StorageError, connect, connect_append_blobs
from hosting.tasks._options import TaskOptions
from tests.security.routes import ROUTES, Sent
from tests.security.world import secured

_SECRET = "s3cr3tcanary"
_KEY = base64.b64encode(_SECRET.encode() * 4).decode()
_NOWHERE = "http://127.0.0.1:1/account"

_ACCOUNTS: Mapping[str, dict[str, str]] = {
    "a key": {
        "AzureWebJobsStorage": f"AccountName=account;AccountKey={_KEY};TableEndpoint={_NOWHERE};BlobEndpoint={_NOWHERE}"
    },
    "a signature": {
        "AzureWebJobsStorage": f"SharedAccessSignature=sv=2024-11-04&sig={_SECRET};TableEndpoint={_NOWHERE};"
        f"BlobEndpoint={_NOWHERE}"
    },
}


def _said(caplog: pytest.LogCaptureFixture) -> str:
    return " ".join(f"{record.getMessage()} {record.exc_info}" for record in caplog.records)


@pytest.mark.parametrize("name", [field.alias for field in Settings.model_fields.values()])
def test_a_setting_that_is_wrong_is_named_and_not_repeated(name: str) -> None:
    """Somebody who puts a secret into the wrong setting must not find it in a log."""
    for value in (_SECRET, f"{_SECRET}\n", f"{_SECRET}:::", f"contoso:{_SECRET}", f"{_SECRET};{_KEY}"):
        try:
            settings = load_settings({name: value})
        except ConfigurationError as error:
            assert name in str(error)
            assert _SECRET not in str(error)
        else:
            assert settings is not None  # any text will do there


@pytest.mark.parametrize("value", [_SECRET, f"{_SECRET};{_KEY}", f"AccountKey={_KEY}", f"AccountName=a;{_SECRET}"])
def test_a_connection_string_that_is_wrong_is_not_repeated(value: str) -> None:
    with pytest.raises(ConfigurationError) as wrong:
        connect({"AzureWebJobsStorage": value})
    assert _SECRET not in str(wrong.value)
    assert _KEY not in str(wrong.value)


@pytest.mark.parametrize(
    "part", ["accountName", "tableServiceUri", "blobServiceUri", "credential", "clientId", "managedIdentityResourceId"]
)
def test_a_secret_in_a_setting_of_an_identity_is_not_repeated(part: str) -> None:
    for value in (
        _SECRET,
        f"AccountName=a;AccountKey={_KEY}",
        f"https://a.example/?sig={_SECRET}",
        f"https://[{_SECRET}",
    ):
        env = {"accountName": "account", "tableServiceUri": "http://a.example", part: value}
        with pytest.raises(ConfigurationError) as wrong:
            connect({f"AzureWebJobsStorage__{name}": given for name, given in env.items()})
        assert _SECRET not in str(wrong.value)
        assert _KEY not in str(wrong.value)


@pytest.mark.parametrize("name", TaskOptions.settings())
def test_a_secret_in_a_setting_of_tasks_is_not_repeated(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name) as wrong:
        TaskOptions.from_environment({name: _SECRET})
    assert _SECRET not in str(wrong.value)


def test_names_of_table_and_container_are_not_repeated() -> None:
    for names in ({"table": f"-{_SECRET}"}, {"container": f"-{_SECRET}"}):
        with pytest.raises(ConfigurationError) as wrong:
            connect({"AzureWebJobsStorage": "UseDevelopmentStorage=true"}, **names)
        assert _SECRET not in str(wrong.value)


def test_half_a_models_configuration_does_not_show_its_key() -> None:
    azure, other = "AZURE_OPENAI_ENDPOINT", "OPENAI_BASE_URL"  # a key may be in the place of an address, too
    for env in ({"AZURE_OPENAI_API_KEY": _SECRET}, {"OPENAI_API_KEY": _SECRET}, {azure: _SECRET}, {other: _SECRET}):
        with pytest.raises(ConfigurationError) as wrong:
            model_arguments(env)
        assert _SECRET not in str(wrong.value)


@pytest.mark.parametrize("account", _ACCOUNTS)
async def test_a_storage_account_that_is_away_is_not_told_with_its_key(
    caplog: pytest.LogCaptureFixture, account: str
) -> None:
    caplog.set_level(logging.DEBUG)
    store, blobs = connect(_ACCOUNTS[account]), connect_append_blobs(_ACCOUNTS[account])
    try:
        failures = await asyncio.gather(
            store.get("p", "r"), blobs.read("name", 0, 10), blobs.append("name", b"x", 0), return_exceptions=True
        )
    finally:
        await store.close()
        await blobs.close()
    assert all(isinstance(failure, StorageError) for failure in failures), failures
    for failure in failures:
        assert isinstance(failure, StorageError)
        for error in (failure, failure.__cause__):
            assert _SECRET not in f"{error!r} {error}"
            assert _KEY not in f"{error!r} {error}"
    assert _SECRET not in _said(caplog)
    assert _KEY not in _said(caplog)


async def test_no_route_shows_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "AzureWebJobsStorage",
        "AZURE_OPENAI_API_KEY",
        "OPENAI_API_KEY",
        "APPLICATIONINSIGHTS_CONNECTION_STRING",
    ):
        monkeypatch.setenv(name, _SECRET)
    async with secured(env={"HOSTING_CONTAINER": _SECRET, "HOSTING_TABLE": f"t{_SECRET}"}) as world:
        own = await world.victim.furnished()
        hidden = (_SECRET, json.dumps(world.settings.api_keys)[1:-1], "contoso", "fabrikam", "HOSTING_")
        for route in sorted(ROUTES.values(), key=lambda route: (route.method == "DELETE", -len(route.template))):
            for sent, anonymous in ((Sent(route.own(own)), False), (Sent({}), True)):
                answer = await route.send(world.victim, sent, anonymous=anonymous)
                for word in hidden:
                    assert word not in answer.text, (route.name, word)
