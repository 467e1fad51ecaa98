"""What an attempt reads before it begins."""

from dataclasses import dataclass
from typing import cast

from hosting.gather import gather_all
from hosting.storage import Entity, Scalar, Store
from hosting.tasks._codec import JSONValue
from hosting.tasks._record import Record, Slot
from hosting.tasks._rows import Key
from hosting.telemetry import traceparent

__all__ = ["AttemptRows", "input_fields", "load_rows", "metadata_values"]


def input_fields(input_id: str, now: float) -> dict[str, Scalar]:
    """The fields of an input's row, when it is accepted now: with the trace of whoever starts it, which its attempts go on
    with in any process."""
    fields: dict[str, Scalar] = {"input_id": input_id, "accepted_at": now}
    if (trace := traceparent()) is not None:
        fields["traceparent"] = trace
    return fields


@dataclass(frozen=True, slots=True)
class AttemptRows:
    """What an attempt needs to begin, besides the record."""

    input: Entity | None
    metadata: dict[str, Entity]

    @property
    def traceparent(self) -> str | None:
        """The trace that the input belongs to."""
        value = None if self.input is None else self.input.fields.get("traceparent")
        return value if isinstance(value, str) else None

    @property
    def accepted_at(self) -> float | None:
        """Seconds since the epoch; None in a row of an older version."""
        value = None if self.input is None else self.input.fields.get("accepted_at")
        return value if isinstance(value, float) else None


async def load_rows(store: Store, key: Key, record: Record) -> AttemptRows:
    """Input and metadata: one round trip, and none for metadata that is not there. Raises StorageError."""
    names, slot = record.namespaces, cast("Slot", record.active)
    rows = [key.input_row(slot.seq), *(key.metadata_row(record.epoch, name) for name in names)]
    found = await gather_all(*(store.get(key.partition, row) for row in rows))
    metadata = {name: row for name, row in zip(names, found[1:], strict=True) if row is not None}
    return AttemptRows(found[0], metadata)


def metadata_values(row: Entity) -> dict[str, JSONValue]:
    """The content of a metadata row."""
    return cast("dict[str, JSONValue]", row.documents.get("values") or {})
