"""The storage by age: what retention reads, and nothing else should, because it goes through everything there is."""

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from hosting.gather import gather_at_most

from ._append_blobs import BlobInfo
from ._seams import DatedRow, Older, Page
from ._store import Store
from ._values import FIELDS, SPILLED, Scalar, decode_refs, outer_etag, readable_fields

__all__ = ["AgedEntity", "Aging"]

_AT_ONCE = 16
_COLUMNS = [FIELDS, SPILLED]


@dataclass(frozen=True, slots=True)
class AgedEntity:
    """One version of one row without its documents, and when it was written: seconds since the epoch, the storage's clock.

    `etag` is for Replace and Delete. `fields` is empty when they can't be decoded: a broken row must stay deletable.
    """

    partition: str
    row: str
    etag: str
    fields: Mapping[str, Scalar]
    written: float


class Aging:
    """Reads over all of a store. Every method may raise StorageError."""

    def __init__(self, store: Store) -> None:
        self._tables, self._blobs, self._slots = store._tables, store._blobs, store._blob_slots  # pyright: ignore[reportPrivateUsage]

    async def scan(self, older: Sequence[Older], token: str | None = None) -> Page[AgedEntity]:
        """See `Tables.scan`, over the whole table."""
        page = await self._tables.scan(older, token, select=_COLUMNS)
        return Page([_entity(row) for row in page.items], page.next)

    async def partition(self, partition: str) -> AsyncGenerator[list[AgedEntity]]:
        """All rows of a partition, page by page."""
        token: str | None = None
        while True:
            page = await self._tables.scan(None, token, partition=partition, select=_COLUMNS)
            yield [_entity(row) for row in page.items]
            if page.next is None:
                return
            token = page.next

    async def is_empty(self, partition: str) -> bool:
        """Whether a partition has no row."""
        return not await self._tables.query(partition, "", "~", [FIELDS], limit=1)

    async def blobs(self, prefix: str, token: str | None = None) -> Page[BlobInfo]:
        """See `Blobs.page`."""
        return await self._blobs.page(prefix, token)

    async def blobs_of(self, partition: str, row: str) -> set[str]:
        """The names of the blobs that a row refers to; none when there is no such row. Raises CorruptValue."""
        found = await self._tables.get(partition, row, [SPILLED])
        refs = {} if found is None else decode_refs(found.properties.get(SPILLED), row)
        return {ref.name for ref in refs.values()}

    async def discard(self, names: Collection[str]) -> None:
        """Remove blobs. Only for those that no row can refer to any more: nothing checks that here."""
        await gather_at_most(_AT_ONCE, [partial(self._discard, name) for name in names])

    async def _discard(self, name: str) -> None:
        async with self._slots:
            await self._blobs.delete(name)


def _entity(row: DatedRow) -> AgedEntity:
    raw = row.raw
    etag = outer_etag(raw.etag, spilled=SPILLED in raw.properties)
    return AgedEntity(raw.partition, raw.row, etag, readable_fields(raw.properties, raw.row), row.written)
