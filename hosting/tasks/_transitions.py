"""The life of a task as pure functions: (record, event) -> new record and effects, or a refusal.

Nothing here reads a clock, waits or stores. Whoever handles an event loads the record, calls `apply`, and commits the new
record together with all its effects in ONE transaction, on the condition that the stored record is still the version that
was loaded. If it is not, the commit fails as a whole and the event is applied again, to the newer version. So between any
two writes a process may die, and what is stored is always one of the states below. Times are seconds since the epoch.

            Accept                        TakeLease
    (none) --------> in progress, idle <===============> in progress, leased --- Finish ---> completed (one-shot)
              ^        |    ^             Retry, Release           |                        suspended (chain)
              |        |    +--- (lease lapses) -------------------+                        in progress, idle (next input)
              +--------|------------- Accept -------------- suspended, completed, deleted
                       +------------- Delete, from everywhere ---> deleted
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from hosting.tasks._events import (
    Accept,
    CancelInput,
    DeleteTask,
    Event,
    Finish,
    Heartbeat,
    OutcomeKind,
    Release,
    Retry,
    TakeLease,
    Touch,
)
from hosting.tasks._options import QUEUE_LENGTH
from hosting.tasks._record import Record, Slot, slots

__all__ = ["Ended", "Refused", "Transition", "apply"]


@dataclass(frozen=True, slots=True)
class Ended:
    """Effect: the input has ended. Store its outcome; its row, and later its index row, are done with."""

    slot: Slot
    outcome: OutcomeKind


@dataclass(frozen=True, slots=True)
class Transition:
    """The record to store, and what to store with it."""

    record: Record
    accepted: Slot | None = None
    ended: tuple[Ended, ...] = ()
    drop_metadata: bool = False
    """All metadata of the task goes: it was a one-shot, or was deleted."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The event does not apply to this record; nothing is to be stored.

    conflict, precondition, queue_full: to the caller of `start`. not_active: there is no such work (any more).
    leased, too_early: try again at `until`. fenced: the lease is not this attempt's any more. told_to_stop: no retry.
    """

    reason: Literal[
        "conflict", "precondition", "queue_full", "not_active", "leased", "too_early", "fenced", "told_to_stop"
    ]
    until: float = 0.0


def apply(record: Record | None, event: Event) -> Transition | Refused:
    """What `event` makes of `record`; None stands for "there is no record"."""
    if isinstance(event, Accept):
        return _accept(record, event)
    if record is None:
        return Refused("not_active")
    return _HANDLERS[type(event)](record, event)


def _accept(record: Record | None, event: Accept) -> Transition | Refused:
    if record is None or record.status in ("completed", "deleted"):
        return _create(record, event)
    if record.name != event.name:  # another task lives under this id
        return Refused("conflict")
    if event.if_last_input_id is not None and record.last_input_id not in (None, event.if_last_input_id):
        return Refused("precondition")
    if record.status == "in_progress":
        return _enqueue(record, event)
    slot = Slot(record.next_seq, event.input_id, event.nonce, "resumed", index_etag=event.index_etag)
    resumed = replace(
        _with_active(record, slot),
        status="in_progress",
        activation=record.activation + 1,
        kind=event.kind,
        title=event.title,
    )
    return Transition(_accepted(resumed, slot, event), accepted=slot)


def _create(record: Record | None, event: Accept) -> Transition:
    """A new task; under an id that was used before, sequence, activation and generation go on, so that nothing which is
    left of the old one can be mistaken for it."""
    seq = record.next_seq if record else 1
    activation = record.activation + 1 if record else 1
    slot = Slot(seq, event.input_id, event.nonce, "fresh", index_etag=event.index_etag)
    created = Record(
        name=event.name,
        title=event.title,
        kind=event.kind,
        status="in_progress",
        active=slot,
        activation=activation,
        epoch=activation,
        generation=record.generation if record else 0,
        created_at=event.now,
    )
    return Transition(_accepted(created, slot, event), accepted=slot)


def _enqueue(record: Record, event: Accept) -> Transition | Refused:
    if not event.steerable or record.kind != "multi_turn":
        return Refused("conflict")
    if len(record.queue) >= QUEUE_LENGTH:
        return Refused("queue_full")
    slot = Slot(record.next_seq, event.input_id, event.nonce, "resumed", steered=True, index_etag=event.index_etag)
    return Transition(_accepted(replace(record, queue=(*record.queue, slot)), slot, event), accepted=slot)


def _accepted(record: Record, slot: Slot, event: Accept) -> Record:
    return replace(record, next_seq=slot.seq + 1, last_input_id=slot.input_id, updated_at=event.now)


def _with_active(record: Record, slot: Slot | None) -> Record:
    """The record with another active input, or none: what is known of the one before does not count for it."""
    return replace(
        record,
        active=slot,
        begun=False,
        recovery_count=0,
        crashes=0,
        retry_attempt=0,
        not_before=0.0,
        turn_started_at=None,
        cancel_requested=False,
    )


def _idle(record: Record) -> Record:
    return replace(_with_active(record, None), queue=())


def _released(record: Record, now: float) -> Record:
    return replace(record, lease_owner=None, lease_expires=0.0, updated_at=now)


def _take_lease(record: Record, event: TakeLease) -> Transition | Refused:
    if record.status != "in_progress":
        return Refused("not_active")
    if record.lease_owner is not None and event.now < record.lease_expires + event.skew:
        return Refused("leased", record.lease_expires + event.skew)
    if event.now < record.not_before:
        return Refused("too_early", record.not_before)
    taken = replace(
        record,
        generation=record.generation + 1,
        lease_owner=event.owner,
        lease_expires=event.now + event.seconds,
        recovery_count=record.recovery_count + (1 if record.begun else 0),
        crashes=record.crashes + (1 if record.lease_owner is not None else 0),  # whoever lives gives its lease back
        begun=True,
        not_before=0.0,
        turn_started_at=event.now if record.turn_started_at is None else record.turn_started_at,
        updated_at=event.now,
    )
    return Transition(taken)


def _holds(record: Record, generation: int) -> bool:
    return record.status == "in_progress" and record.lease_owner is not None and record.generation == generation


def _heartbeat(record: Record, event: Heartbeat) -> Transition | Refused:
    if not _holds(record, event.generation):
        return Refused("fenced")
    # Never backwards: the answer to an older beat may come in late.
    expires = max(record.lease_expires, event.now + event.seconds)
    return Transition(replace(record, lease_expires=expires, updated_at=event.now))


def _touch(record: Record, event: Touch) -> Transition | Refused:
    if not _holds(record, event.generation):
        return Refused("fenced")
    return Transition(replace(record, namespaces=event.namespaces, updated_at=event.now))


def _finish(record: Record, event: Finish) -> Transition | Refused:
    if not _holds(record, event.generation):
        return Refused("fenced")
    return _end_active(record, event.outcome, event.now, event.namespaces)


def _end_active(
    record: Record, outcome: OutcomeKind, now: float, namespaces: tuple[str, ...] | None = None
) -> Transition | Refused:
    """The active input ends, and in the same step the next one in the queue becomes active."""
    if record.active is None:  # no record in progress is without; a corrupt row must not crash the pure function
        return Refused("fenced")
    ended = (Ended(record.active, outcome),)
    ended_record = replace(_released(record, now), namespaces=record.namespaces if namespaces is None else namespaces)
    if record.queue:
        return Transition(replace(_with_active(ended_record, record.queue[0]), queue=record.queue[1:]), ended=ended)
    if record.kind == "one_shot":
        done = replace(_idle(ended_record), status="completed", namespaces=())
        return Transition(done, ended=ended, drop_metadata=True)
    return Transition(replace(_idle(ended_record), status="suspended"), ended=ended)


def _retry(record: Record, event: Retry) -> Transition | Refused:
    if not _holds(record, event.generation):
        return Refused("fenced")
    if record.cancel_requested:  # it came in after the attempt had decided: trying again is not wanted
        return Refused("told_to_stop")
    waiting = replace(
        _released(record, event.now),
        retry_attempt=record.retry_attempt + 1,
        not_before=event.now + event.delay,
        begun=False,
        namespaces=record.namespaces if event.namespaces is None else event.namespaces,
    )
    return Transition(waiting)


def _release(record: Record, event: Release) -> Transition | Refused:
    if not _holds(record, event.generation):
        return Refused("fenced")
    namespaces = record.namespaces if event.namespaces is None else event.namespaces
    return Transition(replace(_released(record, event.now), namespaces=namespaces))


def _cancel(record: Record, event: CancelInput) -> Transition | Refused:
    if record.status != "in_progress" or record.active is None:
        return Refused("not_active")
    if record.active.seq == event.seq:
        if record.not_before > 0 and record.lease_owner is None:
            # In back-off: nobody is there to come to an end, and trying again is what the caller does not want.
            return _end_active(record, "cancelled", event.now)
        return Transition(replace(record, cancel_requested=True))
    for slot in record.queue:
        if slot.seq == event.seq:
            rest = tuple(other for other in record.queue if other.seq != event.seq)
            return Transition(replace(record, queue=rest), ended=(Ended(slot, "cancelled"),))
    return Refused("not_active")


def _delete(record: Record, event: DeleteTask) -> Transition | Refused:
    if record.status == "deleted":
        return Refused("not_active")
    gone = replace(
        _idle(_released(record, event.now)),
        status="deleted",
        generation=record.generation + 1,  # fences out whoever holds the lease
        last_input_id=None,
        namespaces=(),
    )
    return Transition(gone, ended=tuple(Ended(slot, "cancelled") for slot in slots(record)), drop_metadata=True)


_HANDLERS: dict[type, Callable[..., Transition | Refused]] = {
    TakeLease: _take_lease,
    Heartbeat: _heartbeat,
    Touch: _touch,
    Finish: _finish,
    Retry: _retry,
    Release: _release,
    CancelInput: _cancel,
    DeleteTask: _delete,
}
