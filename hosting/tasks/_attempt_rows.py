"""What an attempt reads before it begins."""

import asyncio
from dataclasses import dataclass
from typing import cast

from hosting.storage import Entity, Store
from hosting.tasks._codec import JSONValue
from hosting.tasks._record import Record, Slot
from hosting.tasks._rows import Key

__all__ = ["AttemptRows", "load_rows", "metadata_values"]


@dataclass(frozen=True, slots=True)
class AttemptRows:
    """What an attempt needs to begin, besides the record."""

    input: Entity | None
    metadata: dict[str, Entity]


async def load_rows(store: Store, key: Key, record: Record) -> AttemptRows:
    """Input and metadata: one round trip, and none for metadata that is not there. Raises StorageError."""
    names, slot = record.namespaces, cast("Slot", record.active)
    rows = [key.input_row(slot.seq), *(key.metadata_row(record.epoch, name) for name in names)]
    found = await asyncio.gather(*(store.get(key.partition, row) for row in rows))
    metadata = {name: row for name, row in zip(names, found[1:], strict=True) if row is not None}
    return AttemptRows(found[0], metadata)


def metadata_values(row: Entity) -> dict[str, JSONValue]:
    """The content of a metadata row."""
    return cast("dict[str, JSONValue]", row.documents.get("values") or {})
