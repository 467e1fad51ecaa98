"""Two of the three seams to storage, and the raw rows that cross the first one. The third is in `_append_blobs`.

Each has an in-memory and an Azure twin; one contract suite (tests/contract) runs over both. Rows hold strings only:
which columns, and what they mean, is the business of `Store`. So the twins can't differ in how they treat types.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol

from ._append_blobs import BlobInfo

__all__ = ["Blobs", "DatedRow", "Older", "Page", "RawEntity", "RawOperation", "Tables"]


_NOTHING: Mapping[str, str] = MappingProxyType({})


class RawEntity(NamedTuple):
    """One version of one row. `properties` has no system columns; with a projection, only the columns asked for."""

    partition: str
    row: str
    etag: str
    properties: Mapping[str, str]


class RawOperation(NamedTuple):
    """One operation of a transaction.

    - insert: RowExists when the row is there;
    - put: writes the row, whatever was there before;
    - replace: needs `etag`; RowMissing or RowChanged when the row is not at that version;
    - delete: RowMissing when there is no row; RowChanged when `etag` is given and is not the row's.

    A write replaces the whole row: columns that `properties` does not have are gone.
    """

    kind: Literal["insert", "put", "replace", "delete"]
    row: str
    properties: Mapping[str, str] = _NOTHING
    etag: str | None = None


class Older(NamedTuple):
    """Rows with `first <= row key < last` that were last written before `before`, in seconds since the epoch."""

    first: str
    last: str
    before: float


class DatedRow(NamedTuple):
    """A row, and when it was last written, by the storage's clock: seconds since the epoch."""

    raw: RawEntity
    written: float


class Page[T](NamedTuple):
    """A part of a long list. `next` gets the part after it, None when there is none. A page that is not the last may have
    few items or none: the service stops where it likes."""

    items: list[T]
    next: str | None


class Tables(Protocol):
    """Seam 1: the rows of one table. The table itself appears when it is first written to."""

    async def get(self, partition: str, row: str, select: Sequence[str] | None = None) -> RawEntity | None:
        """The row, or None when there is none (or no table yet); `select` names the columns to read."""
        ...

    async def query(
        self, partition: str, first: str, last: str, select: Sequence[str] | None = None, limit: int | None = None
    ) -> list[RawEntity]:
        """The rows with `first <= row key < last`, in ascending order, at most `limit`; follows continuation tokens."""
        ...

    async def scan(
        self,
        older: Sequence[Older] | None,
        token: str | None = None,
        *,
        partition: str | None = None,
        partitions: tuple[str, str] | None = None,
        select: Sequence[str] | None = None,
    ) -> Page[DatedRow]:
        """A page, at most 1,000, of the rows that one of `older` takes (None: all), by partition and row: of the whole
        table, of one partition, or of those with `first <= partition < last`. One request, which may read past any number of
        other rows of what it goes through.

        `token` is the `next` of the page before, and can be kept for days. Raises StorageError for one that isn't.
        """
        ...

    async def transact(self, partition: str, operations: Sequence[RawOperation]) -> list[str]:
        """Apply all operations or none; returns their new etags in order, "" for a delete.

        Raises RowExists, RowChanged or RowMissing for the first operation that can't be applied, TransactionTooLarge
        and ValueError for what Azure would refuse, and StorageUnavailable when the outcome is not known.
        """
        ...

    async def close(self) -> None:
        """Release connections; the object is not usable afterwards."""
        ...


class Blobs(Protocol):
    """Seam 2: whole values by name, in one container."""

    async def put(self, name: str, data: bytes) -> None:
        """Write a blob, over whatever was there."""
        ...

    async def get(self, name: str) -> bytes | None:
        """The content, or None when there is no such blob (or no container yet)."""
        ...

    async def delete(self, name: str) -> bool:
        """Remove a blob; False when it was not there."""
        ...

    async def list(self, prefix: str) -> list[str]:
        """The names that start with `prefix`, in ascending order; follows continuation tokens."""
        ...

    async def page(self, prefix: str, token: str | None = None) -> Page[BlobInfo]:
        """A page, at most 1,000, of the blobs that start with `prefix`, by name. One request. `token`: as for `scan`."""
        ...

    async def close(self) -> None:
        """Release connections; the object is not usable afterwards."""
        ...
