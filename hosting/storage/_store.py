"""The store: rows of typed fields and JSON documents, committed in atomic transactions. Everything else builds on it."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from hosting.gather import gather_all
from hosting.read_budget import charge

from ._commit import Commit
from ._errors import CorruptValue, RowChanged, RowMissing, StorageUnavailable
from ._limits import OPERATIONS
from ._meter import Meter
from ._packing import Delete, Operation
from ._seams import Blobs, RawEntity, Tables
from ._values import (
    FIELDS,
    SPILLED,
    BlobRef,
    Json,
    Scalar,
    columns_of,
    decode_document,
    decode_fields,
    decode_refs,
    inline_texts,
    outer_etag,
    readable_fields,
)

__all__ = ["Entity", "Store"]

_BLOBS_AT_ONCE = 16
_READS = 5


@dataclass(frozen=True, slots=True)
class Entity:
    """One version of one row.

    `etag` names the version; it is opaque, for Replace and Delete. `documents` has those that the read asked for and
    the row has.
    """

    partition: str
    row: str
    etag: str
    fields: Mapping[str, Scalar]
    documents: Mapping[str, Json]
    size: int = field(default=0, compare=False)
    """Of the documents as they are stored; about their bytes."""


class Store:
    """The rows of one table, and the blobs that hold what is too long for a row.

    Make one per process with `connect` or `memory_store`, use it from one event loop only (it keeps connections), and
    close it on shutdown. Any method may raise StorageUnavailable, StorageDenied or another StorageError.
    """

    def __init__(self, tables: Tables, blobs: Blobs, meter: Meter | None = None) -> None:
        self.meter = meter or Meter()
        self._tables, self._blobs = tables, blobs
        self._blob_slots = asyncio.Semaphore(_BLOBS_AT_ONCE)

    async def get(self, partition: str, row: str, *, documents: Collection[str] | None = None) -> Entity | None:
        """One row, or None: a point read, and a parallel blob read per spilled document.

        `documents` names the documents to read, None means all. It is a projection: the columns of the others are not
        transferred and their blobs not touched; the fields always come. Raises CorruptValue.
        """
        select = None if documents is None else columns_of(documents)
        gone: tuple[str, str] | None = None
        for _ in range(_READS):
            raw = await self._tables.get(partition, row, select)
            if raw is None:
                return None
            if gone is not None and gone[0] == raw.etag:
                raise CorruptValue(f"row {row!r} refers to blob {gone[1]!r}, which is not there")
            result = await self._decode(raw, _spilled(raw, documents))
            if isinstance(result, Entity):
                return result
            # Whoever replaced this version since we read it has removed its blobs: then there is a new one to read.
            gone = (raw.etag, result.name)
        raise StorageUnavailable(f"row {row!r} changes faster than it can be read")

    async def query(
        self,
        partition: str,
        first: str,
        last: str,
        *,
        documents: Collection[str] | None = None,
        limit: int | None = None,
    ) -> list[Entity]:
        """The rows with `first <= row key < last`, ascending, at most `limit`; `documents` as for `get`.

        One operation per 1,000 rows (or 4 MiB, or 5 s: the service decides). It is not a snapshot: rows of one
        transaction that is being applied meanwhile may show in part when they lie on two pages.
        """
        select = None if documents is None else columns_of(documents)
        rows = await self._tables.query(partition, first, last, select, limit)
        spilled = [_spilled(raw, documents) for raw in rows]  # of all rows: before the first blob is read
        results = await gather_all(*(self._decode(raw, refs) for raw, refs in zip(rows, spilled, strict=True)))
        entities: list[Entity] = []
        for raw, result in zip(rows, results, strict=True):
            # A row whose blob is gone was replaced or deleted since: `get` finds out which.
            entity = result if isinstance(result, Entity) else await self.get(partition, raw.row, documents=documents)
            if entity is not None:
                entities.append(entity)
        return entities

    async def query_fields(self, partition: str, first: str, last: str, *, limit: int | None = None) -> list[Entity]:
        """As `query` without documents, for rows that many depend on: a broken one hides no other. Its `fields` are empty when
        they can't be decoded, and its etag removes it."""
        rows = await self._tables.query(partition, first, last, columns_of(()), limit)
        return [
            Entity(
                raw.partition,
                raw.row,
                outer_etag(raw.etag, spilled=SPILLED in raw.properties),
                readable_fields(raw.properties, raw.row),
                {},
            )
            for raw in rows
        ]

    async def commit(
        self, partition: str, operations: Sequence[Operation], *, token: str | None = None
    ) -> dict[str, str]:
        """Apply all operations in one atomic transaction; returns the etag of each row written.

        One table write; besides that a blob write per spilled document before it (of a Replace: per one that has changed),
        one small read for each Put, each Delete without etag and each replaced or deleted version that had spilled documents,
        and the removal of blobs that nothing refers to after it. The reads are beside the blob writes, or before them where
        they may spare some.

        `token` names the transaction (one token, one transaction: not an owner, not a generation). It is stored with
        the rows. When a condition fails, one row is read to see whether the transaction was applied before, by an
        attempt whose answer was lost; then this is a success. Give a token that survives your crash to make a retry
        after it safe; without one, a random token covers the retries within this call. It can't cover a transaction
        that only deletes, nor tell when the row that is read (an inserted one if there is any) was changed since.

        Raises RowExists, RowChanged or RowMissing (nothing was applied, no blob is left behind), TransactionTooLarge
        and ValueError (nothing was even tried), StorageUnavailable (may or may not have been applied: try again with
        the same token). What a process that dies here leaves behind is at most a blob that no row refers to: written
        before a transaction that never came, or not yet removed after one that did. Retention sweeps those.
        """
        return await Commit(self._tables, self._blobs, self._blob_slots, partition, operations, token).run()

    async def delete_range(self, partition: str, first: str, last: str) -> int:
        """Remove the rows with `first <= row key < last` and their blobs; returns how many.

        In transactions of 100, so it is not atomic as a whole, and can be repeated after a failure.
        """
        removed = 0
        while rows := await self.query(partition, first, last, documents=(), limit=OPERATIONS):
            try:
                await self.commit(partition, [Delete(entity.row, entity.etag) for entity in rows])
            except (RowChanged, RowMissing):
                continue  # someone else was faster with one of them; look again
            removed += len(rows)
        return removed

    async def close(self) -> None:
        """Close connections. The store is not usable afterwards."""
        try:
            await self._tables.close()
        finally:
            await self._blobs.close()

    async def _decode(self, raw: RawEntity, refs: Mapping[str, BlobRef]) -> Entity | BlobRef:
        """The row with its spilled documents `refs`, or the reference to one whose blob is not there."""
        texts = inline_texts(raw.properties)
        values: dict[str, Json] = {name: decode_document(text, f"{raw.row}.{name}") for name, text in texts.items()}
        if refs:
            blobs = await gather_all(*(self._read(ref) for ref in refs.values()))
            for (name, ref), data in zip(refs.items(), blobs, strict=True):
                if data is None:
                    return ref
                values[name] = decode_document(ref.check(data), f"{raw.row}.{name}")
        fields = decode_fields(raw.properties.get(FIELDS, "{}"), raw.row)
        etag = outer_etag(raw.etag, spilled=bool(raw.properties.get(SPILLED)))
        size = sum(map(len, texts.values())) + sum(ref.length for ref in refs.values())
        return Entity(raw.partition, raw.row, etag, fields, values, size)

    async def _read(self, ref: BlobRef) -> bytes | None:
        async with self._blob_slots:
            return await self._blobs.get(ref.name)


def _spilled(raw: RawEntity, documents: Collection[str] | None) -> dict[str, BlobRef]:
    """The spilled ones among the documents, whose bytes are counted here. Raises CorruptValue and what `charge` raises."""
    refs = decode_refs(raw.properties.get(SPILLED), raw.row)
    wanted = {name: ref for name, ref in refs.items() if documents is None or name in documents}
    charge(sum(ref.length for ref in wanted.values()))
    return wanted
