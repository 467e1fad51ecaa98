"""The only code that knows Azure Tables and Blobs.

`connect` and `memory_store` make a `Store`: rows with typed fields and JSON documents, written in atomic transactions.
Importing this package is cheap: the twins are imported when they are asked for, the azure packages at the first call.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._append_blobs import BLOCK_BYTES, AppendBlobs, AppendConflict, BlobInfo, BlobMissing, Chunk
from ._errors import (
    ConfigurationError,
    CorruptValue,
    RowChanged,
    RowConflict,
    RowExists,
    RowMissing,
    StorageDenied,
    StorageError,
    StorageUnavailable,
    TransactionTooLarge,
)
from ._meter import Meter
from ._packing import Delete, Insert, Operation, Put, Replace
from ._seams import Blobs, DatedRow, Older, Page, RawEntity, RawOperation, Tables
from ._store import Entity, Store
from ._values import Json, Scalar

if TYPE_CHECKING:
    from ._aging import AgedEntity, Aging
    from ._azure_append_blobs import connect_append_blobs
    from ._connection import check_connection, connect, storage_address
    from ._memory import MemoryBlobs, MemoryTables, memory_store
    from ._memory_append_blobs import MemoryAppendBlobs
    from ._scope_rows import ScopeRows

__all__ = [
    "BLOCK_BYTES",
    "AgedEntity",
    "Aging",
    "AppendBlobs",
    "AppendConflict",
    "BlobInfo",
    "BlobMissing",
    "Blobs",
    "Chunk",
    "ConfigurationError",
    "CorruptValue",
    "DatedRow",
    "Delete",
    "Entity",
    "Insert",
    "Json",
    "MemoryAppendBlobs",
    "MemoryBlobs",
    "MemoryTables",
    "Meter",
    "Older",
    "Operation",
    "Page",
    "Put",
    "RawEntity",
    "RawOperation",
    "Replace",
    "RowChanged",
    "RowConflict",
    "RowExists",
    "RowMissing",
    "Scalar",
    "ScopeRows",
    "StorageDenied",
    "StorageError",
    "StorageUnavailable",
    "Store",
    "Tables",
    "TransactionTooLarge",
    "check_connection",
    "connect",
    "connect_append_blobs",
    "memory_store",
    "storage_address",
]

_LATER = {
    "AgedEntity": "_aging",
    "Aging": "_aging",
    "check_connection": "_connection",
    "connect": "_connection",
    "connect_append_blobs": "_azure_append_blobs",
    "memory_store": "_memory",
    "MemoryAppendBlobs": "_memory_append_blobs",
    "MemoryBlobs": "_memory",
    "MemoryTables": "_memory",
    "ScopeRows": "_scope_rows",
    "storage_address": "_connection",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_LATER[name]}", __name__), name)
