"""What can happen to a task. Times are seconds since the epoch; `now` is the clock of whoever brings the event."""

from dataclasses import dataclass
from typing import Literal

__all__ = [
    "Accept",
    "CancelInput",
    "DeleteTask",
    "Event",
    "Finish",
    "Heartbeat",
    "Kind",
    "OutcomeKind",
    "Release",
    "Retry",
    "TakeLease",
    "Touch",
]

type Kind = Literal["one_shot", "multi_turn"]
type OutcomeKind = Literal["completed", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Accept:
    """`start`: a new input."""

    now: float
    name: str
    title: str
    kind: Kind
    steerable: bool
    input_id: str
    nonce: str
    if_last_input_id: str | None = None
    index_etag: str = ""


@dataclass(frozen=True, slots=True)
class TakeLease:
    """An attempt wants to begin. `seconds` is the length of the lease, `skew` what clocks may differ by."""

    now: float
    owner: str
    seconds: float
    skew: float = 0.0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The attempt with this generation is alive."""

    now: float
    generation: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Touch:
    """The attempt with this generation stores metadata; `namespaces` are those that have a row afterwards."""

    now: float
    generation: int
    namespaces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finish:
    """The attempt with this generation has an outcome for its input."""

    now: float
    generation: int
    outcome: OutcomeKind
    namespaces: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    """The attempt with this generation has failed and is to be repeated after `delay` seconds."""

    now: float
    generation: int
    delay: float
    namespaces: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """The attempt with this generation ends without an outcome (deferred, or stopped with its process): the work stays in
    progress, and another process may go on at once."""

    now: float
    generation: int
    namespaces: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class CancelInput:
    """`run.cancel()` on the input with this number."""

    now: float
    seq: int


@dataclass(frozen=True, slots=True)
class DeleteTask:
    """`delete`: the chain goes, whatever it is doing."""

    now: float


type Event = Accept | TakeLease | Heartbeat | Touch | Finish | Retry | Release | CancelInput | DeleteTask
