"""One attempt: from the lease to a stored outcome, with everything that may go wrong in between."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, cast

from hosting.storage import Entity, StorageError, TransactionTooLarge
from hosting.tasks._attempt_rows import AttemptRows
from hosting.tasks._attempt_writes import AttemptWrites, TerminalRows
from hosting.tasks._caller import use_scope
from hosting.tasks._codec import JSONValue
from hosting.tasks._context import DEFERRED, TaskContext
from hosting.tasks._held import Held
from hosting.tasks._helping import helping
from hosting.tasks._keeper import Keeper
from hosting.tasks._metadata import TaskMetadata
from hosting.tasks._outcome import CANCELLED, Outcome, completed, exhausted_dict, failed
from hosting.tasks._record import Record, Slot
from hosting.tasks._registry import Declared
from hosting.tasks._rows import Key
from hosting.tasks._seams import Verdict
from hosting.tasks._transitions import Refused, Transition
from hosting.telemetry import AttemptSpan, describe, detached, error_type

if TYPE_CHECKING:
    from hosting.tasks._engine import Engine

__all__ = ["Attempt"]

_log = logging.getLogger("hosting.tasks")

_STUBBORN = 5.0
"""Seconds that a cancelled handler has to be gone. What it does later nobody waits for."""


class Attempt:
    """Runs the handler for the active input of a record whose lease has just been taken.

    If the process dies anywhere in here, the record is in progress under a lease that lapses, and another attempt enters
    the handler again. The outcome, the end of the input, the metadata and the promotion of the next input are one
    transaction: there is no state in which some of them hold.
    """

    def __init__(self, engine: "Engine", key: Key, declared: Declared, record: Record, etag: str) -> None:
        self._engine, self._clock = engine, engine.clock
        slot = cast("Slot", record.active)
        self._key, self._declared, self.slot = key, declared, slot
        self._held = Held(engine.store, key, record, etag)
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
        self._writes = AttemptWrites(
            engine.store, key, slot, self._held, engine.clock, engine.options, self.keeper.stopped
        )

    @property
    def metadata(self) -> TaskMetadata:
        """The live metadata, for handles in this process."""
        return self._writes.metadata.get("")

    @property
    def crashes(self) -> int:
        """How many attempts before this one ended without a word."""
        return self._held.record.crashes

    def runs(self, context: TaskContext[Any]) -> bool:
        return self._context is context

    def add_terminal_rows(self, rows: TerminalRows) -> None:
        self._writes.add_terminal_rows(rows)

    async def run(self, rows: "asyncio.Task[AttemptRows]") -> Verdict:
        """Run to the end of the attempt; `rows` are being read.

        Raises CancelledError when the platform cancels the call; the lease is released then.
        """
        background: list[asyncio.Task[None]] = []
        try:
            try:
                read = await rows
            except StorageError as error:
                _log.warning(
                    "task %s: its input can't be read, trying again: %r",
                    self._key.task_id,
                    error,
                    extra=self._key.log_fields(),
                )
                return await self._release(pause=1.0)
            self._take_over(read)
            value, invalid = self._decode(read.input)
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

    def _take_over(self, rows: AttemptRows) -> None:
        self._writes.take_over(rows)
        accepted = rows.accepted_at
        self._span.begin(rows.traceparent, None if accepted is None else self._clock.now() - accepted)

    def _decode(self, row: Entity | None) -> tuple[Any, Exception | None]:
        """The stored input, or what is wrong with it."""
        if row is None:
            return None, LookupError(f"the stored input of {self._key.task_id!r} is gone")
        try:
            return self._declared.input.decode(cast("JSONValue", row.documents.get("input")), "input"), None
        except ValueError as error:  # the annotated type has changed since: running again would not help
            return None, error

    def _make_context(self, value: Any) -> TaskContext[Any]:
        record = self._held.record
        return TaskContext[Any](
            task_id=self._key.task_id,
            input_id=self.slot.input_id,
            input=value,
            metadata=self._writes.metadata.get(""),
            entry_mode="recovered" if record.recovery_count else self.slot.entry,
            retry_attempt=record.retry_attempt,
            recovery_count=record.recovery_count,
            is_steered_turn=self.slot.steered,
            shutdown=self._engine.shutdown,
            pending=lambda: self.keeper.pending,
        )

    async def _call(self, context: TaskContext[Any]) -> "asyncio.Task[Any] | None":
        """Run the handler until it ends; None when it had to be stopped, whatever it then did."""
        with use_scope(self._key.scope), helping(self._engine):
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
            changed = self._writes.metadata.dirty()
        except (TypeError, ValueError) as unstorable:
            return await self._finish(failed(unstorable))
        _log.warning(
            "task %s: attempt failed, again in %.1f s: %s",
            self._key.task_id,
            delay,
            describe(error),
            extra=self._key.log_fields(),
        )
        self._span.result("retry", error_type(error))
        try:
            result = await self._writes.retry(delay, changed)
        except TransactionTooLarge as unstorable:  # too many namespaces at once: trying again would not help
            return await self._finish(failed(unstorable))
        if isinstance(result, Refused) and result.reason == "told_to_stop":
            return await self._finish(self._failure(error))
        if isinstance(result, Refused):
            self._span.result("lease_lost")
        return Verdict("again", delay if isinstance(result, Transition) else 0.0)

    async def _finish(self, outcome: Outcome) -> Verdict:
        """Store the outcome; when that is refused, the work belongs to somebody else and the outcome counts for nothing."""
        stored = await self._writes.finish(outcome)
        if stored is None:
            _log.warning("task %s: the lease was lost, what the attempt did does not count", self._key.task_id)
            self._span.result("lease_lost")
            return Verdict("again")
        self._span.result(stored.outcome.kind, _error_type(stored.outcome))
        self._engine.waiters.announce(self._key, self.slot.seq, stored.outcome)
        await self._engine.drop_index(self._key, self.slot)
        return Verdict("done" if stored.was_last else "again")

    async def _release(self, pause: float = 0.0, *, keep_metadata: bool = False) -> Verdict:
        await self._writes.release(keep_metadata=keep_metadata)
        return Verdict("again", pause)


def _error_type(outcome: Outcome) -> str | None:
    error = outcome.error
    return None if error is None else str(error.get("last_error_type") or error.get("type"))
