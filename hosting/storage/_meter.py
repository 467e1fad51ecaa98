"""Counts of what storage was asked to do; for benchmarks and metrics."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

__all__ = ["Meter"]


@dataclass(slots=True)
class Meter:
    """Operations and payload bytes since the store was made.

    One operation is one request as Azure bills it: a point read, one page of a query, one transaction, one blob call.
    Requests that the SDK repeats on its own (throttling, 5xx) count once. Bytes are those of keys and values, without
    headers; what is read is counted in characters, which for non-ASCII text is a little less.
    """

    table_reads: int = 0
    table_writes: int = 0
    blob_reads: int = 0
    blob_writes: int = 0
    blob_deletes: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    @property
    def operations(self) -> int:
        """All operations of every kind."""
        return self.table_reads + self.table_writes + self.blob_reads + self.blob_writes + self.blob_deletes

    def counts(self) -> Mapping[str, int]:
        """The counts by name; for telemetry, which reads them when it exports."""
        return asdict(self)

    def copy(self) -> "Meter":
        """The counts as they are now."""
        return Meter(*(getattr(self, item.name) for item in fields(self)))

    def __sub__(self, earlier: "Meter") -> "Meter":
        """What happened since `earlier`, a copy of this meter."""
        return Meter(*(getattr(self, item.name) - getattr(earlier, item.name) for item in fields(self)))
