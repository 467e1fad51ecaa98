"""What the server needs of the engine, beyond the tasks' own surface: its rows in the engine's transactions, and the index."""

from hosting.tasks._acceptance import StartRequest
from hosting.tasks._current import current_engine
from hosting.tasks._metadata import MetadataSpaces
from hosting.tasks._outcome import Outcome
from hosting.tasks._record import Record, Slot
from hosting.tasks._rows import INDEX_PARTITIONS, INDEX_RANGE, Key

__all__ = [
    "INDEX_PARTITIONS",
    "INDEX_RANGE",
    "Key",
    "MetadataSpaces",
    "Outcome",
    "Record",
    "Slot",
    "StartRequest",
    "current_engine",
]
