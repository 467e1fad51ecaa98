"""One attempt: from the lease to a stored outcome, with everything that may go wrong in between."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, cast

from hosting.storage import (
    Delete,
    Insert,
    Operation,
    Put,
    Replace,
    RowConflict,
    StorageError,
    TransactionTooLarge,
)
from hosting.tasks._attempt_rows import AttemptRows, metadata_values
from hosting.tasks._caller import use_scope
from hosting.tasks._codec import JSONValue
from hosting.tasks._context import DEFERRED, TaskContext
from hosting.tasks._events import Finish, Release, Retry, Touch
from hosting.tasks._held import Held
from hosting.tasks._keeper import Keeper
from hosting.tasks._metadata import MetadataSpaces, TaskMetadata
from hosting.tasks._outcome import CANCELLED, Outcome, completed, exhausted_dict, failed
from hosting.tasks._record import Record, Refused, Slot, Transition
from hosting.tasks._registry import Declared
from hosting.tasks._rows import Key
from hosting.tasks._seams import Verdict
from hosting.telemetry import AttemptSpan, describe, detached, error_type

if TYPE_CHECKING:
    from hosting.tasks._engine import Engine

__all__ = ["Attempt", "TerminalRows"]

_log = logging.getLogger("hosting.tasks")

type TerminalRows = Callable[[Outcome, RowConflict | None], Sequence[Operation]]
"""Rows of the caller to be written in the same transaction as the outcome; see `Engine.commit_with_outcome`."""

_FIRST_PAUSE, _LAST_PAUSE = 0.1, 2.0
_STUBBORN = 5.0
"""Seconds that a cancelled handler has to be gone. What it does later nobody waits for."""


class Attempt:
    """Runs the handler for the active input of a record whose lease has just been taken.

    If the process dies anywhere in here, the record is in progress under a lease that lapses, and another attempt enters
    the handler again. The outcome, the end of the input, the metadata and the promotion of the next input are one
    transaction: there is no state in which some of them hold.
    """

    def __init__(self, engine: "Engine", key: Key, declared: Declared, record: Record, etag: str) -> None:
        self._engine, self._clock, self._options = engine, engine.clock, engine.options
        slot = cast("Slot", record.active)
        self._key, self._declared, self.slot = key, declared, slot
        self._held = Held(engine.store, key, record, etag)
        self._input_etag: str | None = None
        self._metadata_etags: dict[str, str] = {}
        self._spaces = MetadataSpaces({}, self._flush)
        self._terminal_rows: TerminalRows | None = None
        self._context: TaskContext[Any] | None = None
        self._span = AttemptSpan(
            declared.name,
            key.task_id,
            key.scope,
            generation=record.generation,
            recoveries=record.recovery_count,
            retries=record.retry_attempt,
        )
        self.keeper = Keeper(self._held, slot, declared, engine.clock, engine.options)

    @property
    def metadata(self) -> TaskMetadata:
        """The live metadata, for handles in this process."""
        return self._spaces.get("")

    def runs(self, context: TaskContext[Any]) -> bool:
        return self._context is context

    def add_terminal_rows(self, rows: TerminalRows) -> None:
        self._terminal_rows = rows

    async def run(self, rows: "asyncio.Task[AttemptRows]") -> Verdict:
        """Run to the end of the attempt; `rows` are being read.

        Raises CancelledError when the platform cancels the call; the lease is released then.
        """
        background: list[asyncio.Task[None]] = []
        try:
            try:
                document = self._take(await rows)
            except StorageError as error:
                _log.warning(
                    "task %s: its input can't be read, trying again: %r",
                    self._key.task_id,
                    error,
                    extra=self._key.log_fields(),
                )
                return await self._release(pause=1.0)
            value, invalid = self._decode(document)
            if invalid is not None:
                return await self._finish(failed(invalid))
            if self._engine.shutdown.is_set():
                return await self._release(pause=1.0)
            context = self._context = self._make_context(value)
            self.keeper.attach(context)
            with detached():  # a heartbeat every few seconds is no part of the work's trace
                background = [asyncio.create_task(watch) for watch in self.keeper.watches()]
            return await self._end(await self._call(context))
        except asyncio.CancelledError:
            # The invocation itself is cancelled: the process goes down. Whatever the handler did, it has not finished.
            await asyncio.shield(self._release())
            raise
        finally:
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            self._span.end()

    def _take(self, rows: AttemptRows) -> JSONValue:
        """Take over what was read; the stored input."""
        self._spaces = MetadataSpaces({name: metadata_values(row) for name, row in rows.metadata.items()}, self._flush)
        self._metadata_etags = {name: row.etag for name, row in rows.metadata.items()}
        accepted = rows.accepted_at
        self._span.begin(rows.traceparent, None if accepted is None else self._clock.now() - accepted)
        if rows.input is None:
            return None
        self._input_etag = rows.input.etag
        return cast("JSONValue", rows.input.documents.get("input"))

    def _decode(self, document: JSONValue) -> tuple[Any, Exception | None]:
        if self._input_etag is None:
            return None, LookupError(f"the stored input of {self._key.task_id!r} is gone")
        try:
            return self._declared.input.decode(document, "input"), None
        except ValueError as error:  # the annotated type has changed since: running again would not help
            return None, error

    def _make_context(self, value: Any) -> TaskContext[Any]:
        record = self._held.record
        return TaskContext[Any](
            task_id=self._key.task_id,
            input_id=self.slot.input_id,
            input=value,
            metadata=self._spaces.get(""),
            entry_mode="recovered" if record.recovery_count else self.slot.entry,
            retry_attempt=record.retry_attempt,
            recovery_count=record.recovery_count,
            is_steered_turn=self.slot.steered,
            shutdown=self._engine.shutdown,
            pending=lambda: self.keeper.pending,
        )

    async def _call(self, context: TaskContext[Any]) -> "asyncio.Task[Any] | None":
        """Run the handler until it ends; None when it had to be stopped, whatever it then did."""
        with use_scope(self._key.scope):
            handler = asyncio.create_task(
                cast("Coroutine[Any, Any, Any]", self._declared.handler(context)), name=f"task {self._key.task_id}"
            )
        stopped = asyncio.create_task(self.keeper.stopped.wait())
        try:
            await asyncio.wait({handler, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not handler.done():
                await self._stop(handler)
                return None
            return handler
        except asyncio.CancelledError:
            await asyncio.shield(self._stop(handler))
            raise
        finally:
            stopped.cancel()

    async def _stop(self, handler: "asyncio.Task[Any]") -> None:
        handler.cancel()
        await asyncio.wait({handler}, timeout=_STUBBORN)
        if not handler.done():
            _log.warning("task %s: its handler goes on although it was cancelled", self._key.task_id)
        elif not handler.cancelled():
            handler.exception()  # seen: its end has no meaning any more

    async def _end(self, handler: "asyncio.Task[Any] | None") -> Verdict:
        """From how the handler left to what is stored."""
        if handler is None:
            verdict = await self._release()
            if self._engine.shutdown.is_set():
                self._engine.waiters.defer(self._key, self.slot.seq)
            elif self._held.record.status != "deleted":
                self._span.result("lease_lost")
            return verdict
        if handler.cancelled():
            return await self._finish(CANCELLED)
        error = handler.exception()
        if error is None:
            if (value := handler.result()) is DEFERRED:
                self._span.result("deferred")
                verdict = await self._release(keep_metadata=True)
                self._engine.waiters.defer(self._key, self.slot.seq)
                return verdict
            return await self._finish(completed(value, self._declared.output))
        if not isinstance(error, Exception):
            raise error  # the interpreter is told to exit: as in a crash, the lease lapses
        if (delay := self._retry_delay(error)) is not None:
            return await self._retry(error, delay)
        return await self._finish(self._failure(error))

    def _retry_delay(self, error: Exception) -> float | None:
        policy, context = self._declared.retry, self._context
        if policy is None or context is None or context.cancel_requested or context.timeout_exceeded:
            return None  # a turn that was told to stop is not tried again
        if not policy.should_retry(context.retry_attempt, error):
            return None
        delay = policy.compute_delay(context.retry_attempt)
        in_time = self._clock.now() + delay < self.keeper.deadline
        return delay if in_time else None

    def _failure(self, error: Exception) -> Outcome:
        policy, attempt = self._declared.retry, self._held.record.retry_attempt
        if policy is not None and attempt > 0 and policy.retries_on(error) and not policy.allows_another(attempt):
            return Outcome("failed", error=dict(exhausted_dict(error, attempt + 1)))
        return failed(error)

    async def _retry(self, error: Exception, delay: float) -> Verdict:
        try:
            changed = self._spaces.dirty()
        except (TypeError, ValueError) as unstorable:
            return await self._finish(failed(unstorable))
        _log.info("task %s: attempt failed, again in %.1f s: %s", self._key.task_id, delay, describe(error))
        self._span.result("retry", error_type(error))
        event = Retry(self._clock.now(), self._held.generation, delay, self._names(changed))
        result = await self._write_patiently(event, lambda transition: self._metadata_rows(transition, changed))
        if isinstance(result, Refused) and result.reason == "told_to_stop":
            return await self._finish(self._failure(error))
        if isinstance(result, Refused):
            self._span.result("lease_lost")
        return Verdict("again", delay if isinstance(result, Transition) else 0.0)

    async def _finish(self, outcome: Outcome) -> Verdict:
        """Store the outcome; when that is refused, the work belongs to somebody else and the outcome counts for nothing."""
        changed: dict[str, dict[str, JSONValue]] = {}
        try:
            changed = self._spaces.dirty()
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
            _log.warning("task %s: the lease was lost, what the attempt did does not count", self._key.task_id)
            self._span.result("lease_lost")
            return Verdict("again")
        self._span.result(outcome.kind, _error_type(outcome))
        self._spaces.saved(changed)
        self._engine.waiters.announce(self._key, self.slot.seq, outcome)
        await self._engine.drop_index(self._key, self.slot)
        ended = isinstance(result, Transition) and result.record.status != "in_progress"
        return Verdict("done" if ended else "again")

    async def _store_failure(self, outcome: Outcome) -> Transition | Refused:
        """With the rows that the caller has for a failure, and without them when those can't be written either."""
        try:
            return await self._store_outcome(outcome, {})
        except (TransactionTooLarge, ValueError, TypeError, LookupError, AttributeError):
            self._terminal_rows = None
            return await self._store_outcome(outcome, {})

    async def _store_outcome(
        self, outcome: Outcome, changed: dict[str, dict[str, JSONValue]], conflict: RowConflict | None = None
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
        self,
        transition: Transition,
        outcome: Outcome,
        changed: dict[str, dict[str, JSONValue]],
        conflict: RowConflict | None,
    ) -> list[Operation]:
        now, retention = self._clock.now(), self._options.retention.total_seconds()
        operations: list[Operation] = [
            outcome.row(self._key, self.slot, self._held.generation, now, retention),
        ]
        if self._input_etag is not None:
            operations.append(Delete(self._key.input_row(self.slot.seq), self._input_etag))
        if transition.drop_metadata:
            epoch, names = transition.record.epoch, self._held.record.namespaces
            rows = {name: self._key.metadata_row(epoch, name) for name in names}
            operations += [Delete(row, self._metadata_etags.get(name)) for name, row in rows.items()]
        else:
            operations += self._metadata_rows(transition, changed)
        if self._terminal_rows is not None:
            operations += self._terminal_rows(outcome, conflict)
        return operations

    async def _was_stored(self) -> bool:
        """After a refusal: whether the outcome is ours after all, and only the answer of the write was lost."""
        row = self._key.outcome_row(self.slot.input_id, self.slot.seq)
        try:
            entity = await self._engine.store.get(self._key.partition, row, documents=())
        except StorageError:
            return False
        return entity is not None and entity.fields.get("generation") == self._held.generation

    async def _release(self, pause: float = 0.0, *, keep_metadata: bool = False) -> Verdict:
        """End without an outcome. If that can't be written, the lease lapses by itself.

        Metadata is stored only where the handler itself has come to an end: half a turn's would be there twice afterwards.
        """
        changed: dict[str, dict[str, JSONValue]] = {}
        if keep_metadata:
            with contextlib.suppress(TypeError, ValueError):
                changed = self._spaces.dirty()
        event = Release(self._clock.now(), self._held.generation, self._names(changed))
        try:
            await self._held.write(event, lambda transition: self._metadata_rows(transition, changed))
        except StorageError as error:
            _log.warning("task %s: its lease could not be released: %r", self._key.task_id, error)
        return Verdict("again", pause)

    async def _flush(self, space: TaskMetadata) -> None:
        values = {name: content for name, content in self._spaces.dirty().items() if name == space.name}
        if not values:
            return
        event = Touch(self._clock.now(), self._held.generation, self._names(values))
        result = await self._held.write(event, lambda transition: self._metadata_rows(transition, values))
        if isinstance(result, Refused):
            raise RuntimeError("this attempt has lost its lease: its metadata can't be stored any more")
        self._spaces.saved(values)

    def _names(self, changed: dict[str, dict[str, JSONValue]]) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self._held.record.namespaces, *changed)))

    def _metadata_rows(self, transition: Transition, changed: dict[str, dict[str, JSONValue]]) -> list[Operation]:
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
                if self._clock.now() >= give_up or self.keeper.stopped.is_set():
                    _log.error("task %s: its outcome could not be stored: %r", self._key.task_id, error)
                    return Refused("fenced")
            await self._clock.sleep(pause)
            pause = min(pause * 2, _LAST_PAUSE)


def _error_type(outcome: Outcome) -> str | None:
    error = outcome.error
    return None if error is None else str(error.get("last_error_type") or error.get("type"))
