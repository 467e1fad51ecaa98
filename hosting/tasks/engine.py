"""What the floors above need of the engine, beyond the tasks' own surface: their rows in its transactions."""

from hosting.tasks._acceptance import Accepted, StartRequest
from hosting.tasks._attempt import TerminalRows
from hosting.tasks._current import current_engine
from hosting.tasks._engine import Engine
from hosting.tasks._metadata import MetadataSpaces
from hosting.tasks._outcome import Outcome
from hosting.tasks._record import Slot
from hosting.tasks._retention import forget_outcome
from hosting.tasks._rows import Key

__all__ = [
    "Accepted",
    "Engine",
    "Key",
    "MetadataSpaces",
    "Outcome",
    "Slot",
    "StartRequest",
    "TerminalRows",
    "current_engine",
    "forget_outcome",
]
