"""The connection of a process to its storage account: one HTTP session, one credential, one client per service.

Nothing is imported from the azure packages, and nothing connects, before the first call (cold start is a feature).
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hosting.telemetry import sources

from ._azure_blobs import AzureBlobs
from ._azure_tables import AzureTables
from ._errors import ConfigurationError, StorageError
from ._meter import Meter
from ._settings import AccountKey, Endpoints, Identity, SasToken, read_settings
from ._store import Store

if TYPE_CHECKING:
    import aiohttp
    from azure.core.credentials_async import AsyncTokenCredential
    from azure.data.tables.aio import TableClient
    from azure.storage.blob.aio import ContainerClient

__all__ = ["Connection", "check_connection", "connect", "storage_address"]

_TABLE = re.compile(r"[A-Za-z][A-Za-z0-9]{2,62}", re.ASCII)
_CONTAINER = re.compile(r"(?=.{3,63}$)[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)

# A turn has a person waiting, and a commit repeats itself once more: so few retries, and quick ones. What is still
# unavailable after them is for the caller (a task's retry policy, the recovery scan) to come back to.
_RETRIES = 3
_BACKOFF = 0.2  # so the SDK waits 0 s, 0.4 s, 0.8 s
_CONNECT_SECONDS, _TABLE_SECONDS, _BLOB_SECONDS = 5, 15, 60


def connect(
    env: Mapping[str, str], *, name: str = "AzureWebJobsStorage", table: str = "agents", container: str = "agents"
) -> Store:
    """A store in the storage account that the settings `name` and `name__...` describe (`_settings.py` says which).

    No network: table and container are created when they are first written to. Use the store from one event loop, and
    close it. Raises ConfigurationError.
    """
    if not _TABLE.fullmatch(table):
        raise ConfigurationError("the table can't have that name: 3 to 63 letters and digits, a letter first")
    if not _CONTAINER.fullmatch(container):
        raise ConfigurationError(
            "the container can't have that name: 3 to 63 lower-case letters, digits and single hyphens"
        )
    meter = Meter()
    connection = Connection(read_settings(env, name), table, container)
    sources.add(meter.counts)
    return Store(AzureTables(connection, meter), AzureBlobs(connection, meter), meter)


def check_connection(env: Mapping[str, str], name: str = "AzureWebJobsStorage") -> None:
    """Raise ConfigurationError unless `connect` could make sense of these settings. No network."""
    read_settings(env, name)


def storage_address(env: Mapping[str, str], name: str = "AzureWebJobsStorage") -> str:
    """The address of the tables in the account that `connect` would use, for a person to check; nothing secret is in it. No
    network. Raises ConfigurationError."""
    return read_settings(env, name).table_url


class Connection:
    """Clients made on first use. No await in between, so concurrent first uses get the same ones."""

    def __init__(self, endpoints: Endpoints, table: str, container: str) -> None:
        self._endpoints, self._table_name, self._container_name = endpoints, table, container
        self._session: aiohttp.ClientSession | None = None
        self._identity: AsyncTokenCredential | None = None
        self._table: TableClient | None = None
        self._container: ContainerClient | None = None
        self._closed = False

    def table(self) -> "TableClient":
        """The client of the table."""
        self._check_open()
        if self._table is None:
            from azure.data.tables.aio import TableClient

            self._table = TableClient(
                self._endpoints.table_url,
                self._table_name,
                credential=self._credential(),
                transport=self._transport(),
                connection_timeout=_CONNECT_SECONDS,
                read_timeout=_TABLE_SECONDS,
                retry_total=_RETRIES,
                retry_backoff_factor=_BACKOFF,
                retry_backoff_max=2,
            )
        return self._table

    def container(self) -> "ContainerClient":
        """The client of the container."""
        self._check_open()
        if self._container is None:
            from azure.storage.blob.aio import ContainerClient, LinearRetry

            self._container = ContainerClient(
                self._endpoints.blob_url,
                self._container_name,
                credential=self._credential(),
                transport=self._transport(),
                connection_timeout=_CONNECT_SECONDS,
                read_timeout=_BLOB_SECONDS,
                retry_policy=LinearRetry(backoff=0.4, retry_total=_RETRIES, random_jitter_range=0.3),  # type: ignore[arg-type]
            )
        return self._container

    async def close(self) -> None:
        """Close the session and the credential; a second time does nothing."""
        self._closed = True
        session, identity = self._session, self._identity
        self._session = self._identity = None
        if session is not None:
            await session.close()
        if identity is not None:
            await identity.close()

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError("the store is closed")

    def _transport(self) -> Any:
        from ._transport import new_session, transport_over

        self._session = self._session or new_session()
        return transport_over(self._session)

    def _credential(self) -> Any:
        credential = self._endpoints.credential
        if isinstance(credential, AccountKey):
            from azure.core.credentials import AzureNamedKeyCredential

            return AzureNamedKeyCredential(credential.account, credential.key)
        if isinstance(credential, SasToken):
            from azure.core.credentials import AzureSasCredential

            return AzureSasCredential(credential.token)
        if self._identity is None:
            self._identity = _token_credential(credential)
        return self._identity


def _token_credential(identity: Identity) -> "AsyncTokenCredential":
    from azure.identity.aio import DefaultAzureCredential, ManagedIdentityCredential

    if not identity.managed:
        return DefaultAzureCredential()
    if identity.resource_id:
        return ManagedIdentityCredential(identity_config={"resource_id": identity.resource_id})
    return ManagedIdentityCredential(client_id=identity.client_id)
