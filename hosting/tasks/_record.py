"""What is known of a task: the record, and the inputs that wait in it. `_transitions` says how it may change.

Times are seconds since the epoch.
"""

from dataclasses import dataclass
from typing import Literal

from hosting.tasks._events import Kind

__all__ = ["Record", "Slot", "Status", "idle_since", "slots"]

type Status = Literal["in_progress", "suspended", "completed", "deleted"]


@dataclass(frozen=True, slots=True)
class Slot:
    """An accepted input: the active one, or one in the queue. Told apart by `seq`, never by value."""

    seq: int
    """Number of the input within its task, from 1, never used twice."""
    input_id: str
    nonce: str
    """Identifies the call of `start`, so that it knows its own input again after a lost answer."""
    entry: Literal["fresh", "resumed"]
    steered: bool = False
    index_etag: str = ""
    """Version of the index row, so that removing it needs no look at it first."""


@dataclass(frozen=True, slots=True)
class Record:
    """All that is known of a task apart from its inputs, outputs and metadata, which have rows of their own."""

    name: str
    title: str
    kind: Kind
    status: Status
    active: Slot | None
    queue: tuple[Slot, ...] = ()
    next_seq: int = 1
    last_input_id: str | None = None
    activation: int = 1
    """Grows whenever an idle task gets work; names the orchestration that drives it."""
    epoch: int = 1
    """The activation at which the task was last created anew; its metadata rows carry it."""
    generation: int = 0
    """Number of the lease. Never decreases: an attempt that holds an older one can't write."""
    lease_owner: str | None = None
    lease_expires: float = 0.0
    begun: bool = False
    """An attempt at the active input has begun and has not said how it ended."""
    recovery_count: int = 0
    """Attempts at the active input that ended without an outcome: processes that died, and those that gave the work back."""
    crashes: int = 0
    """Those of them that ended without a word: the lease lapsed. Only they are a sign that the input kills processes; but a
    process that could not reach storage for longer than its lease counts, too."""
    retry_attempt: int = 0
    not_before: float = 0.0
    """End of the back-off before the next attempt."""
    turn_started_at: float | None = None
    """When the handler was first entered for the active input: where its timeout starts."""
    cancel_requested: bool = False
    namespaces: tuple[str, ...] = ()
    """Metadata namespaces that have a row."""
    created_at: float = 0.0
    updated_at: float = 0.0
    schema: int = 1


def slots(record: Record) -> tuple[Slot, ...]:
    """The inputs that have not ended: the active one, then the queue."""
    return (*((record.active,) if record.active else ()), *record.queue)


def idle_since(record: Record, skew: float = 0.0) -> float | None:
    """Since when the record has waited for somebody to take its lease; in the future while it need not; None when there
    is nothing to do."""
    if record.status != "in_progress":
        return None
    free = record.lease_expires + skew if record.lease_owner is not None else 0.0
    return max(record.updated_at, record.not_before, free)
