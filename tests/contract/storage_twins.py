"""The twins that the storage contract suites run over, opened in the event loop of the test that uses them."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from hosting.storage import Blobs, MemoryBlobs, MemoryTables, Meter, Store, Tables
from hosting.storage._azure_blobs import AzureBlobs
from hosting.storage._azure_tables import AzureTables
from hosting.storage._connection import Connection
from hosting.storage._settings import read_settings

TWINS = ["memory", "azurite"]


@dataclass(frozen=True)
class Twin:
    """Both seams over one account, and a store on top of them. All three count on one meter."""

    name: str
    tables: Tables
    blobs: Blobs
    store: Store


@asynccontextmanager
async def open_twin(kind: str, request: pytest.FixtureRequest, names: str | None = None) -> AsyncIterator[Twin]:
    """A twin; `names` is for table and container (Azurite is shared, so a test that wants an empty one says a new name)."""
    meter = Meter()
    if kind == "memory":
        tables, blobs = MemoryTables(meter), MemoryBlobs(meter)
        yield Twin(kind, tables, blobs, Store(tables, blobs, meter))
        return
    azurite = request.getfixturevalue("azurite")
    names = names or "contract"
    connection = Connection(
        read_settings({"AzureWebJobsStorage": azurite.connection_string}, "AzureWebJobsStorage"), names, names
    )
    azure_tables, azure_blobs = AzureTables(connection, meter), AzureBlobs(connection, meter)
    store = Store(azure_tables, azure_blobs, meter)
    try:
        yield Twin(kind, azure_tables, azure_blobs, store)
    finally:
        await store.close()


def fresh(prefix: str = "p") -> str:
    """A name that no other test uses."""
    return prefix + secrets.token_hex(8)
