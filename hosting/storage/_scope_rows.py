"""All rows of one scope, whatever chains they lie in: for an operator, who has no ids. No client's request reads like this."""

from collections.abc import Collection

from . import keys
from ._errors import CorruptValue
from ._seams import DatedRow, Older, Page
from ._store import Entity, Store
from ._values import (
    FIELDS,
    SPILLED,
    Json,
    Scalar,
    columns_of,
    decode_document,
    decode_fields,
    inline_texts,
    outer_etag,
)

__all__ = ["ScopeRows"]

_AT_ANY_TIME = 253_402_300_799.0  # the last second of the year 9999: what was written before it is everything


class ScopeRows:
    """Reads the rows of `scope` and of no other. Raises ValueError for what is no scope."""

    def __init__(self, store: Store, scope: str) -> None:
        self._tables, self._partitions = store._tables, keys.partition_range(scope)  # pyright: ignore[reportPrivateUsage]

    async def page(
        self, token: str | None = None, *, first: str = "", last: str = "~", documents: Collection[str] = ()
    ) -> Page[Entity]:
        """A page, at most 1,000, of the rows with `first <= row key < last`, by partition and row. `token` is the `next` of the
        page before.

        One request, whatever is broken: `fields` is empty when they can't be decoded, and of `documents` those are there
        that lie in the row itself and can be decoded. Raises StorageError.
        """
        older = [Older(first, last, _AT_ANY_TIME)]
        found = await self._tables.scan(older, token, partitions=self._partitions, select=columns_of(documents))
        return Page([_entity(row) for row in found.items], found.next)


def _entity(row: DatedRow) -> Entity:
    raw = row.raw
    documents: dict[str, Json] = {}
    fields: dict[str, Scalar] = {}
    try:
        fields = decode_fields(raw.properties.get(FIELDS, "{}"), raw.row)
        for name, text in inline_texts(raw.properties).items():
            documents[name] = decode_document(text, raw.row)
    except CorruptValue:
        pass  # a broken row can be seen and removed like any other
    etag = outer_etag(raw.etag, spilled=SPILLED in raw.properties)
    return Entity(raw.partition, raw.row, etag, fields, documents)
