"""What an attempt writes: metadata, a retry, the outcome, or nothing but that it gives its lease back.

Each is one transaction with the record, on the condition that the lease is still this attempt's. A refusal therefore says
that the work belongs to somebody else, and that nothing was stored.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from hosting.storage import (
    Delete,
    Insert,
    Operation,
    Put,
    Replace,
    RowConflict,
    StorageError,
    Store,
    TransactionTooLarge,
)
from hosting.tasks._attempt_rows import AttemptRows, metadata_values
from hosting.tasks._codec import JSONValue
from hosting.tasks._dropped_metadata import metadata_deletes, sweep_metadata
from hosting.tasks._events import Finish, Release, Retry, Touch
from hosting.tasks._held import Held
from hosting.tasks._metadata import MetadataSpaces, TaskMetadata
from hosting.tasks._options import TaskOptions
from hosting.tasks._outcome import Outcome, failed
from hosting.tasks._record import Slot
from hosting.tasks._rows import Key
from hosting.tasks._seams import Clock
from hosting.tasks._transitions import Refused, Transition
from hosting.telemetry import describe

__all__ = ["AttemptWrites", "Finished", "TerminalRows"]

_log = logging.getLogger("hosting.tasks")

type TerminalRows = Callable[[Outcome, RowConflict | None], Sequence[Operation]]
"""Rows of the caller to be written in the same transaction as the outcome; see `Engine.commit_with_outcome`."""

type _Changed = dict[str, dict[str, JSONValue]]
"""Metadata that differs from what is stored: namespace to content."""

_FIRST_PAUSE, _LAST_PAUSE = 0.1, 2.0


class Finished(NamedTuple):
    """An outcome that is stored, maybe another one than was to be; `was_last`: no input waits behind it."""

    outcome: Outcome
    was_last: bool


class AttemptWrites:
    """See the module. `stopped` ends all patience: the process is about to go."""

    def __init__(
        self,
        store: Store,
        key: Key,
        slot: Slot,
        held: Held,
        clock: Clock,
        options: TaskOptions,
        stopped: asyncio.Event,
    ) -> None:
        self._store, self._key, self._slot, self._held = store, key, slot, held
        self._clock, self._options, self._stopped = clock, options, stopped
        self.metadata = MetadataSpaces({}, self._flush)
        self._metadata_etags: dict[str, str] = {}
        self._input_etag: str | None = None
        self._terminal_rows: TerminalRows | None = None
        self._metadata_left = False
        self._epoch = held.record.epoch  # of this life of the task: what is held may come to be a later one

    def take_over(self, rows: AttemptRows) -> None:
        """Go on from what was read: writes replace these rows."""
        self.metadata = MetadataSpaces({name: metadata_values(row) for name, row in rows.metadata.items()}, self._flush)
        self._metadata_etags = {name: row.etag for name, row in rows.metadata.items()}
        self._input_etag = None if rows.input is None else rows.input.etag

    def add_terminal_rows(self, rows: TerminalRows) -> None:
        """Rows of the caller, to go with the outcome."""
        self._terminal_rows = rows

    async def finish(self, outcome: Outcome) -> Finished | None:
        """Store the outcome; one that can't be stored becomes a failure. None when it counts for nothing. Raises
        StorageError."""
        changed: _Changed = {}
        try:
            changed = self.metadata.dirty()
        except (TypeError, ValueError) as unstorable:
            if outcome.kind != "failed":
                outcome = failed(unstorable)
        try:
            result = await self._store_outcome(outcome, changed)
        except Exception as error:
            if isinstance(error, StorageError) and not isinstance(error, TransactionTooLarge):
                raise
            # Too large even with everything in blobs, or rows of the caller that can't be written: trying again is no use.
            _log.error("task %s: its outcome can't be stored: %s", self._key.task_id, describe(error))
            outcome, changed = failed(error), {}
            result = await self._store_failure(outcome)
        if isinstance(result, Refused) and not await self._was_stored():
            return None
        self.metadata.saved(changed)
        if self._metadata_left:
            await self._sweep_metadata()
        return Finished(outcome, isinstance(result, Transition) and result.record.status != "in_progress")

    async def retry(self, delay: float, changed: _Changed) -> Transition | Refused:
        """Have the input run again after `delay` seconds, with this metadata."""
        event = Retry(self._clock.now(), self._held.generation, delay, self._names(changed))
        return await self._write_patiently(event, lambda transition: self._metadata_rows(transition, changed))

    async def release(self, *, keep_metadata: bool = False) -> None:
        """End without an outcome. If that can't be written, the lease lapses by itself.

        Metadata is stored only where the handler itself has come to an end: half a turn's would be there twice afterwards.
        """
        changed: _Changed = {}
        if keep_metadata:
            with contextlib.suppress(TypeError, ValueError):
                changed = self.metadata.dirty()
        event = Release(self._clock.now(), self._held.generation, self._names(changed))
        try:
            await self._held.write(event, lambda transition: self._metadata_rows(transition, changed))
        except StorageError as error:
            _log.warning("task %s: its lease could not be released: %r", self._key.task_id, error)

    async def _flush(self, space: TaskMetadata) -> None:
        values = {name: content for name, content in self.metadata.dirty().items() if name == space.name}
        if not values:
            return
        event = Touch(self._clock.now(), self._held.generation, self._names(values))
        result = await self._held.write(event, lambda transition: self._metadata_rows(transition, values))
        if isinstance(result, Refused):
            raise RuntimeError("this attempt has lost its lease: its metadata can't be stored any more")
        self.metadata.saved(values)

    async def _store_failure(self, outcome: Outcome) -> Transition | Refused:
        """With the rows that the caller has for a failure, and without them when those can't be written either."""
        try:
            return await self._store_outcome(outcome, {})
        except (TransactionTooLarge, ValueError, TypeError, LookupError, AttributeError):
            self._terminal_rows = None
            return await self._store_outcome(outcome, {})

    async def _store_outcome(
        self, outcome: Outcome, changed: _Changed, conflict: RowConflict | None = None
    ) -> Transition | Refused:
        event = Finish(self._clock.now(), self._held.generation, outcome.kind, self._names(changed))
        try:
            return await self._write_patiently(
                event, lambda transition: self._terminal(transition, outcome, changed, conflict)
            )
        except RowConflict as error:  # a row of the caller's own: it may know what to do, once
            if self._terminal_rows is None or (conflict is not None and conflict.row == error.row):
                raise
            return await self._store_outcome(outcome, changed, error)

    def _terminal(
        self, transition: Transition, outcome: Outcome, changed: _Changed, conflict: RowConflict | None
    ) -> list[Operation]:
        now, retention = self._clock.now(), self._options.retention.total_seconds()
        operations: list[Operation] = [
            outcome.row(self._key, self._slot, self._held.generation, now, retention),
        ]
        if self._input_etag is not None:
            operations.append(Delete(self._key.input_row(self._slot.seq), self._input_etag))
        if self._terminal_rows is not None:
            operations += self._terminal_rows(outcome, conflict)
        self._metadata_left = False
        if transition.drop_metadata:
            beside = len(operations) + 1  # the record
            deletes, self._metadata_left = metadata_deletes(self._key, self._held.record, beside, self._metadata_etags)
            operations += deletes
        else:
            operations += self._metadata_rows(transition, changed)
        return operations

    async def _sweep_metadata(self) -> None:
        try:
            await sweep_metadata(self._store, self._key, self._epoch)
        except StorageError as error:  # the outcome is stored: what is left goes with the chain
            _log.warning("task %s: some of its metadata stays: %r", self._key.task_id, error)

    async def _was_stored(self) -> bool:
        """After a refusal: whether the outcome is ours after all, and only the answer of the write was lost."""
        row = self._key.outcome_row(self._slot.input_id, self._slot.seq)
        try:
            entity = await self._store.get(self._key.partition, row, documents=())
        except StorageError:
            return False
        return entity is not None and entity.fields.get("generation") == self._held.generation

    def _names(self, changed: _Changed) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self._held.record.namespaces, *changed)))

    def _metadata_rows(self, transition: Transition, changed: _Changed) -> list[Operation]:
        operations: list[Operation] = []
        for name, values in changed.items():
            row = self._key.metadata_row(transition.record.epoch, name)
            # Taken out: if the write succeeds the version is another one, if its answer is lost it may be.
            etag = self._metadata_etags.pop(name, None)
            documents: Any = {"values": values}
            fields = {"namespace": name}
            if etag is not None:
                operations.append(Replace(row, fields, documents, etag))
            elif name in self._held.record.namespaces:
                operations.append(Put(row, fields, documents))
            else:  # the first of its name, which needs no look at what it replaces
                operations.append(Insert(row, fields, documents))
        return operations

    async def _write_patiently(
        self, event: Finish | Retry, extra: Callable[[Transition], Sequence[Operation]]
    ) -> Transition | Refused:
        """Write while storage is away. The keeper goes on renewing the lease, so that nobody else begins meanwhile.

        After `commit_patience`, or when the process is stopped, it counts as refused: the input will run again.
        """
        give_up = self._clock.now() + self._options.commit_patience.total_seconds()
        pause = _FIRST_PAUSE
        while True:
            try:
                return await self._held.write(event, extra)
            except (RowConflict, TransactionTooLarge):
                raise
            except StorageError as error:
                if self._clock.now() >= give_up or self._stopped.is_set():
                    _log.error("task %s: its outcome could not be stored: %r", self._key.task_id, error)
                    return Refused("fenced")
            await self._clock.sleep(pause)
            pause = min(pause * 2, _LAST_PAUSE)
