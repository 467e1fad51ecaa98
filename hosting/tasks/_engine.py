"""The task engine of a process: accepts inputs, runs attempts, answers for outcomes. All truth is in the store."""

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from typing import Any

from hosting.storage import (
    CorruptValue,
    Delete,
    Operation,
    Replace,
    RowConflict,
    StorageError,
    StorageUnavailable,
    Store,
)
from hosting.tasks import _registry
from hosting.tasks._acceptance import Acceptance, Accepted, StartRequest, drop_index_row, load_record
from hosting.tasks._attempt import Attempt
from hosting.tasks._attempt_rows import AttemptRows, load_rows
from hosting.tasks._attempt_writes import TerminalRows
from hosting.tasks._context import TaskContext
from hosting.tasks._dropped_metadata import metadata_deletes, sweep_metadata
from hosting.tasks._events import CancelInput, DeleteTask, TakeLease
from hosting.tasks._helping import Helper
from hosting.tasks._options import TaskOptions
from hosting.tasks._outcome import CANCELLED, Outcome
from hosting.tasks._record import Record, Slot
from hosting.tasks._registry import Declared
from hosting.tasks._rows import Key, decode_record, encode_record, outcome_range, outcome_seq, task_rows_range
from hosting.tasks._seams import Clock, Driver, SystemClock, Verdict
from hosting.tasks._transitions import Refused, Transition, apply
from hosting.tasks._wait import wait_for_outcome
from hosting.tasks._waiters import Waiters

__all__ = ["Engine"]

_log = logging.getLogger("hosting.tasks")


class Engine:
    """See the module. One per process, used from one event loop; `store` is not closed by it."""

    def __init__(
        self, store: Store, driver: Driver, *, options: TaskOptions | None = None, clock: Clock | None = None
    ) -> None:
        self.store, self.driver = store, driver
        self.options = options or TaskOptions()
        self.clock: Clock = clock or SystemClock()
        self.shutdown = asyncio.Event()
        self.waiters = Waiters()
        self._owner = secrets.token_hex(8)
        self._attempts: dict[Key, Attempt] = {}

    async def start(
        self, request: StartRequest, rows: Callable[[Slot], Sequence[Operation]] = lambda _: ()
    ) -> Accepted:
        """Store an input and see to it that it runs. `rows` gives rows of the caller for the same transaction; they must
        lie in `request.key.partition`.

        Raises TaskConflictError, LastInputIdPreconditionFailed, SteeringQueueFull; RowConflict for a row of the caller;
        StorageUnavailable when storage is away: the input may then have been accepted or not; CorruptValue.
        """
        accepted = await Acceptance(self.store, self.clock, self.options, request, rows).run()
        if accepted.queued:
            if (attempt := self._attempts.get(request.key)) is not None:
                attempt.keeper.observe(accepted.record)
        else:
            await self.drive(request.key, accepted.record)
        return accepted

    async def drive(self, key: Key, record: Record) -> bool:
        """See to it that a driver is at work, and say whether one is: if not, the recovery scan starts one later."""
        try:
            await self.driver.ensure(key, record.activation, record.generation)
        except Exception as error:
            _log.warning(
                "task %s: no driver could be started, the recovery scan will: %r",
                key.task_id,
                error,
                extra=key.log_fields(),
            )
            return False
        return True

    async def attempt(self, key: Key, activation: int) -> Verdict:
        """One attempt at the active input of a task, for whoever drives this activation of it.

        Never runs beside a live lease: then it says when to come again. Raises StorageError when it is not known how things
        stand; calling again is always safe.
        """
        owner = f"{self._owner}:{secrets.token_hex(6)}"
        while True:
            try:
                entity = await load_record(self.store, key)
                record = None if entity is None else decode_record(entity)
            except CorruptValue as error:  # of a later version, or damaged: that takes longer than an outage
                _log.error("task %s: its record can't be read: %r", key.task_id, error, extra=key.log_fields())
                return Verdict("again", self.options.unknown_task.total_seconds())
            if entity is None or record is None or record.status != "in_progress" or record.activation != activation:
                return Verdict("done")  # another activation has a driver of its own
            declared = _registry.find(record.name)
            if declared is None:
                _log.error(
                    "task %s: no task named %r is declared here", key.task_id, record.name, extra=key.log_fields()
                )
                return Verdict("again", self.options.unknown_task.total_seconds())
            if self.shutdown.is_set():
                return Verdict("again", 1.0)
            now = self.clock.now()
            if record.lease_owner == owner:  # taken, and only the answer was lost
                return await self._run(key, declared, record, entity.etag)
            event = TakeLease(now, owner, self.options.lease.total_seconds(), self.options.skew.total_seconds())
            transition = apply(record, event)
            if isinstance(transition, Refused):
                return Verdict("again", max(0.05, transition.until - now)) if transition.until else Verdict("done")
            taken = transition.record
            replace = Replace(key.record_row, encode_record(taken), {}, entity.etag)
            # The input is read meanwhile: one round trip less before the handler begins.
            rows = asyncio.create_task(load_rows(self.store, key, taken))
            try:
                etag = (await self.store.commit(key.partition, [replace]))[key.record_row]
            except RowConflict:
                await _drop(rows)
                continue
            except StorageUnavailable:
                await _drop(rows)
                await self.clock.sleep(0.2)
                continue
            except BaseException:
                await _drop(rows)
                raise
            return await self._run(key, declared, taken, etag, rows)

    async def _run(
        self, key: Key, declared: Declared, record: Record, etag: str, rows: "asyncio.Task[AttemptRows] | None" = None
    ) -> Verdict:
        attempt = Attempt(self, key, declared, record, etag)
        self._attempts[key] = attempt
        try:
            return await attempt.run(rows or asyncio.create_task(load_rows(self.store, key, record)))
        finally:
            if self._attempts.get(key) is attempt:
                del self._attempts[key]

    def live(self, key: Key, seq: int) -> Attempt | None:
        """The attempt at this input, if it runs in this process."""
        attempt = self._attempts.get(key)
        return attempt if attempt is not None and attempt.slot.seq == seq else None

    def commit_with_outcome(self, context: TaskContext[Any], rows: TerminalRows) -> None:
        """Have `rows(outcome, conflict)` written in the transaction that ends the turn of `context`: all or nothing, and
        fenced, so that a superseded attempt writes none of them. They must lie in the task's partition.

        It is called when the handler has ended (not before a retry or a deferral), and once more, with the conflict, when
        one of these rows did not fit.
        """
        self._attempt_of(context).add_terminal_rows(rows)

    def crashes(self, context: TaskContext[Any]) -> int:
        """How many processes have died at the input of `context`. Those that stopped in order are not among them."""
        return self._attempt_of(context).crashes

    def _attempt_of(self, context: TaskContext[Any]) -> Attempt:
        for attempt in self._attempts.values():
            if attempt.runs(context):
                return attempt
        raise RuntimeError("this context belongs to no running attempt of this process")

    # --- steering from outside -----------------------------------------------------------------------------------

    async def cancel(self, key: Key, seq: int) -> None:
        """Cancel an input: a queued one ends at once, the active one is told to. Nothing happens when it has ended."""
        transition = await self._change(key, lambda now: CancelInput(now, seq))
        if transition is not None and not transition.ended and (attempt := self.live(key, seq)) is not None:
            attempt.keeper.observe(transition.record)

    async def delete(self, key: Key) -> None:
        """Delete a chain in whatever state; its inputs that have not ended end as cancelled. Idempotent."""
        transition = await self._change(key, DeleteTask)
        attempt = self._attempts.get(key)
        if transition is not None and attempt is not None:
            attempt.keeper.observe(transition.record)
        deleted = transition.record if transition is not None else await self.record(key)
        if deleted is None or deleted.status != "deleted":
            return  # there was none, or a new one: whoever deleted the old one sees to the rest of it
        # After the transaction, so that nothing is written behind us; a crash here leaves rows that nothing refers to.
        # A chain that has begun anew since counts on: its rows have higher numbers.
        # Cancelled outcomes hold nothing of the user's, and somebody may be waiting for them.
        for row in await self.store.query_fields(key.partition, *task_rows_range(key, "task-outcome")):
            if outcome_seq(row.row) < deleted.next_seq and row.fields.get("kind") != "cancelled":
                await self.store.commit(key.partition, [Delete(row.row)])
        await sweep_metadata(self.store, key, deleted.epoch)

    async def _change(self, key: Key, event: Callable[[float], CancelInput | DeleteTask]) -> Transition | None:
        """Apply an event that anybody may cause; None when it does not apply. Raises StorageError."""
        while True:
            entity = await load_record(self.store, key)
            if entity is None:
                return None
            now = self.clock.now()
            record = decode_record(entity)
            transition = apply(record, event(now))
            if isinstance(transition, Refused):
                return None
            operations: list[Operation] = [
                Replace(key.record_row, encode_record(transition.record), {}, entity.etag),
            ]
            retention = self.options.retention.total_seconds()
            for end in transition.ended:
                outcome = Outcome(end.outcome)
                operations.append(outcome.row(key, end.slot, transition.record.generation, now, retention))
                operations.append(Delete(key.input_row(end.slot.seq)))
            left = False
            if transition.drop_metadata:
                deletes, left = metadata_deletes(key, record, len(operations))
                operations += deletes
            try:
                await self.store.commit(key.partition, operations)
            except RowConflict:
                continue
            for end in transition.ended:
                self.waiters.announce(key, end.slot.seq, CANCELLED)
                await self.drop_index(key, end.slot)
            if transition.ended and transition.record.status == "in_progress":
                await self.drive(key, transition.record)
            if left:
                await self._sweep_metadata(key, record.epoch)
            return transition

    async def _sweep_metadata(self, key: Key, epoch: int) -> None:
        try:
            await sweep_metadata(self.store, key, epoch)
        except StorageError as error:  # what happened to the task is stored all the same
            _log.warning("task %s: some of its metadata is left behind: %r", key.task_id, error, extra=key.log_fields())

    # --- answering -----------------------------------------------------------------------------------------------

    async def record(self, key: Key) -> Record | None:
        """The record as it is stored. Raises StorageError; CorruptValue, which is one, when it can't be read."""
        entity = await load_record(self.store, key)
        return None if entity is None else decode_record(entity)

    async def outcome(self, key: Key, input_id: str, seq: int) -> Outcome | None:
        """How an input ended; None when it has not, or when its outcome has expired. Raises StorageError."""
        entity = await self.store.get(key.partition, key.outcome_row(input_id, seq))
        return None if entity is None else Outcome.from_row(entity)

    async def last_seq(self, key: Key, input_id: str) -> int | None:
        """The number of the newest input with this id that has ended; None when there is none. Raises StorageError."""
        first, last = outcome_range(key, input_id)
        rows = await self.store.query(key.partition, first, last, documents=())
        return max((outcome_seq(row.row) for row in rows), default=None)

    async def wait(
        self, key: Key, input_id: str, seq: int, *, fresh: bool = False, helper: Helper | None = None
    ) -> Outcome:
        """Wait for an input to end: woken at once by an attempt in this process, else by looking, ever less often. `fresh`:
        it was accepted a moment ago, so that looking at once is not worth it. With a `helper`, what nobody takes up is run
        here.

        Raises TaskDeferred when the attempt in this process gave the work back, TaskFailed when the outcome is no longer
        kept, StorageDenied and CorruptValue. An outage of storage is waited out.
        """
        return await wait_for_outcome(self, key, input_id, seq, fresh=fresh, helper=helper)

    # --- the end -------------------------------------------------------------------------------------------------

    async def stop(self, grace: float | None = None) -> None:
        """Stop gracefully: tell every handler, wait, then release the leases of those that go on.

        Their records stay in progress as they are, and another process goes on at once: never worse than a kill.
        """
        self.shutdown.set()
        seconds = self.options.shutdown_grace.total_seconds() if grace is None else grace
        give_up = self.clock.now() + seconds
        while self._attempts and self.clock.now() < give_up:
            await self.clock.sleep(0.05)
        for attempt in self._attempts.values():
            attempt.keeper.stopped.set()
        give_up = self.clock.now() + 10.0
        while self._attempts and self.clock.now() < give_up:
            await self.clock.sleep(0.05)

    async def drop_index(self, key: Key, slot: Slot) -> None:
        """Remove the index row of an input that has ended. If that fails, the recovery scan does it later."""
        await drop_index_row(self.store, key, slot.nonce, slot.index_etag or None)


async def _drop(rows: "asyncio.Task[AttemptRows]") -> None:
    rows.cancel()
    await asyncio.gather(rows, return_exceptions=True)
