"""Connection settings: every documented form, and messages that say what to set."""

import asyncio

import pytest

from hosting.storage import ConfigurationError, connect
from hosting.storage._settings import AccountKey, Endpoints, Identity, SasToken, read_settings

NAME = "AzureWebJobsStorage"


def read(**parts: str) -> Endpoints:
    """The endpoints for `AzureWebJobsStorage__<part>` settings; `value` is the setting itself."""
    return read_settings({NAME + (f"__{key}" if key != "value" else ""): value for key, value in parts.items()}, NAME)


def test_development_storage_is_azurite_on_its_default_ports() -> None:
    found = read(value="UseDevelopmentStorage=true")
    assert found.table_url == "http://127.0.0.1:10002/devstoreaccount1"
    assert found.blob_url == "http://127.0.0.1:10000/devstoreaccount1"
    assert isinstance(found.credential, AccountKey)
    assert found.credential.account == "devstoreaccount1"


def test_development_storage_on_another_host() -> None:
    found = read(value="UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://azurite")
    assert found.table_url == "http://azurite:10002/devstoreaccount1"


def test_connection_string_with_account_and_key() -> None:
    found = read(
        value="DefaultEndpointsProtocol=https;AccountName=acc;AccountKey=a2V5PT0=;EndpointSuffix=core.windows.net"
    )
    assert (found.table_url, found.blob_url) == (
        "https://acc.table.core.windows.net",
        "https://acc.blob.core.windows.net",
    )
    assert isinstance(found.credential, AccountKey)
    assert (found.credential.account, found.credential.key) == ("acc", "a2V5PT0=")


def test_connection_string_of_a_sovereign_cloud() -> None:
    found = read(value="AccountName=acc;AccountKey=a2V5PT0=;EndpointSuffix=core.chinacloudapi.cn")
    assert found.blob_url == "https://acc.blob.core.chinacloudapi.cn"


def test_connection_string_with_endpoints_and_sas() -> None:
    found = read(
        value="BlobEndpoint=https://b.example/;TableEndpoint=https://t.example/;SharedAccessSignature=?sv=1&sig=a%3D"
    )
    assert (found.table_url, found.blob_url) == ("https://t.example", "https://b.example")
    assert isinstance(found.credential, SasToken)
    assert found.credential.token == "sv=1&sig=a%3D"


def test_secrets_are_in_no_repr() -> None:
    assert "c2VjcmV0" not in repr(read(value="AccountName=acc;AccountKey=c2VjcmV0"))
    assert "sig=" not in repr(read(value="AccountName=acc;SharedAccessSignature=sig=x"))


def test_account_name_uses_the_developers_identity() -> None:
    assert read(accountName="acc") == Endpoints(
        "https://acc.table.core.windows.net", "https://acc.blob.core.windows.net", Identity(managed=False)
    )


def test_managed_identity_system_and_user_assigned() -> None:
    assert read(accountName="acc", credential="managedidentity").credential == Identity(managed=True)
    assert read(accountName="acc", credential="managedIdentity", clientId="c").credential == Identity(True, "c")
    by_resource = read(accountName="acc", credential="managedidentity", managedIdentityResourceId="/r").credential
    assert by_resource == Identity(True, None, "/r")


def test_service_uris_win_over_the_account_name() -> None:
    found = read(accountName="acc", tableServiceUri="https://acc.table.core.usgovcloudapi.net/")
    assert found.table_url == "https://acc.table.core.usgovcloudapi.net"
    assert found.blob_url == "https://acc.blob.core.windows.net"


def test_service_uris_without_account_name() -> None:
    found = read(tableServiceUri="https://t.example", blobServiceUri="https://b.example")
    assert (found.table_url, found.blob_url) == ("https://t.example", "https://b.example")


def test_names_are_read_without_regard_to_case_and_empty_ones_do_not_count() -> None:
    found = read_settings({"AZUREWEBJOBSSTORAGE__ACCOUNTNAME": "acc", NAME: " "}, NAME)
    assert found.table_url == "https://acc.table.core.windows.net"


def test_another_name_reads_other_settings() -> None:
    found = read_settings({NAME: "UseDevelopmentStorage=true", "AgentStorage__accountName": "acc"}, "AgentStorage")
    assert found.table_url == "https://acc.table.core.windows.net"


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({}, r"set AzureWebJobsStorage to .* or AzureWebJobsStorage__accountName"),
        ({"value": ""}, "no storage account is configured"),
        ({"credential": "managedidentity"}, "AzureWebJobsStorage__accountName"),
        ({"value": "UseDevelopmentStorage=true", "accountName": "acc"}, "are both set"),
        ({"value": "no sense"}, "no connection string"),
        ({"value": "myaccount"}, "put it into AzureWebJobsStorage__accountName"),
        ({"value": "AccountName=acc"}, "without AccountKey"),
        ({"value": "AccountKey=k"}, "without AccountName and TableEndpoint"),
        ({"value": "TableEndpoint=https://t.example;SharedAccessSignature=s"}, "BlobEndpoint"),
        ({"value": "UseDevelopmentStorage=false"}, "without AccountName"),
        ({"accountName": "https://acc"}, "not the name of a storage account"),
        ({"accountName": "acc", "credential": "secret"}, "set it to managedidentity or remove it"),
        ({"accountName": "acc", "clientId": "c"}, "set AzureWebJobsStorage__credential to managedidentity"),
        (
            {"accountName": "a00", "credential": "managedidentity", "clientId": "c", "managedIdentityResourceId": "r"},
            "keep one",
        ),
        ({"tableServiceUri": "https://t.example"}, "set AzureWebJobsStorage__blobServiceUri as well"),
        ({"blobServiceUri": "https://b.example"}, "set AzureWebJobsStorage__tableServiceUri as well"),
        ({"accountName": "acc", "blobServiceUri": "http://b.example"}, "needs an https:// address"),
        ({"accountName": "acc", "blobServiceUri": "b.example"}, "needs an https:// address"),
        ({"accountName": "acc", "blobServiceUri": "https://[b"}, "needs an https:// address"),
        ({"accountName": "acc", "blobServiceUri": "https://b.example:port"}, "needs an https:// address"),
        ({"accountName": "acc", "blobServiceUri": "https://b.example/?sv=1&sig=x"}, "without a query"),
        ({"value": "AccountName=acc;AccountKey=cut"}, "AccountKey is not whole: it has 3 characters"),
        ({"value": "AccountName=a b;AccountKey=a2V5PT0="}, "AccountName, .* makes no https:// address"),
        ({"value": "TableEndpoint=t.example;BlobEndpoint=https://b;AccountName=a;AccountKey=a2V5"}, "TableEndpoint"),
        ({"value": "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://[x"}, "DevelopmentStorageProxyUri"),
    ],
)
def test_missing_and_contradictory_settings_say_what_to_set(parts: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        read(**parts)


_CONNECTION = (
    "DefaultEndpointsProtocol=https;AccountName=acc;AccountKey=c2VjcmV0c2VjcmV0;EndpointSuffix=core.windows.net"
)


@pytest.mark.parametrize("part", ["accountName", "tableServiceUri", "blobServiceUri", "credential"])
def test_a_connection_string_in_the_wrong_place_is_recognised_and_not_repeated(part: str) -> None:
    with pytest.raises(ConfigurationError, match="connection string: put that into AzureWebJobsStorage") as wrong:
        read(**{"accountName": "acc", part: _CONNECTION})
    assert f"AzureWebJobsStorage__{part}" in str(wrong.value)
    assert "c2VjcmV0" not in str(wrong.value)


def test_a_connection_string_in_place_of_a_settings_name_is_not_repeated() -> None:
    with pytest.raises(ConfigurationError, match="HOSTING_STORAGE_CONNECTION names a setting") as wrong:
        read_settings({"AgentStorage": _CONNECTION}, _CONNECTION)
    assert "c2VjcmV0" not in str(wrong.value)


@pytest.mark.parametrize("table", ["", "ab", "1abc", "with-dash", "x" * 64])
def test_table_names_are_checked(table: str) -> None:
    with pytest.raises(ConfigurationError, match="table"):
        connect({NAME: "UseDevelopmentStorage=true"}, table=table)


@pytest.mark.parametrize("container", ["", "ab", "Upper", "a--b", "-ab", "x" * 64])
def test_container_names_are_checked(container: str) -> None:
    with pytest.raises(ConfigurationError, match="container"):
        connect({NAME: "UseDevelopmentStorage=true"}, container=container)


async def test_identity_settings_make_working_clients_without_network() -> None:
    from hosting.storage._connection import Connection

    for parts in ({}, {"credential": "managedidentity"}, {"credential": "managedidentity", "clientId": "c"}):
        connection = Connection(read(accountName="acc", **parts), "agents", "agents")
        try:
            assert connection.table().url == "https://acc.table.core.windows.net"
            assert connection.container().url == "https://acc.blob.core.windows.net/agents"
            assert connection.table() is connection.table()
        finally:
            await connection.close()


async def test_sas_is_sent_with_every_request_and_never_as_a_second_question_mark() -> None:
    from hosting.storage._connection import Connection

    settings = read(value="AccountName=acc;SharedAccessSignature=sv=2024-01-01&sig=abc")
    connection = Connection(settings, "agents", "agents")
    try:
        assert connection.table().url == "https://acc.table.core.windows.net"
        assert connection.container().url == "https://acc.blob.core.windows.net/agents"
    finally:
        await connection.close()


def test_importing_and_connecting_load_no_azure_package() -> None:
    program = (
        "import sys; from hosting.storage import connect\n"
        "connect({'AzureWebJobsStorage': 'UseDevelopmentStorage=true'})\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('azure', 'aiohttp')])"
    )
    assert asyncio.run(_python(program)) == "[]"


async def _python(program: str) -> str:
    import sys

    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode().strip()
