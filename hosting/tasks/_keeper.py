"""What goes on beside a handler: the lease is renewed, and whatever concerns the handler is brought to it."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from hosting.storage import StorageError
from hosting.tasks._context import TaskContext
from hosting.tasks._events import Heartbeat
from hosting.tasks._held import Held
from hosting.tasks._options import TaskOptions
from hosting.tasks._record import Record, Slot
from hosting.tasks._registry import Declared
from hosting.tasks._seams import Clock
from hosting.tasks._transitions import Refused

__all__ = ["Keeper"]

_log = logging.getLogger("hosting.tasks")
_AFTER_ERROR = 1.0


class Keeper:
    """Renews the lease, watches the clock, and sets the signals of the context.

    `stopped` is set when the handler has to be cancelled: some time after the lease was lost, or at the end of the grace
    of a graceful stop.
    """

    def __init__(self, held: Held, slot: Slot, declared: Declared, clock: Clock, options: TaskOptions) -> None:
        self._held, self._slot, self._clock, self._options = held, slot, clock, options
        self.stopped = asyncio.Event()
        self.pending = len(held.record.queue)
        started = held.record.turn_started_at
        timeout = declared.timeout.total_seconds()
        # A clock that was ahead when the turn began must not lengthen it.
        self.deadline = min(started if started is not None else clock.now(), clock.now()) + timeout
        self._context: TaskContext[Any] | None = None
        self._lost = asyncio.Event()

    def attach(self, context: TaskContext[Any]) -> None:
        """Begin to bring signals to `context`: what is known already is set before the handler is entered."""
        self._context = context
        if self._clock.now() >= self.deadline:
            self._time_out()
        self.observe(self._held.record)

    def watches(self) -> list[Coroutine[Any, Any, None]]:
        """Coroutines to run beside the handler."""
        return [self._renew(), self._watch_lease(), self._watch_time(), self._stop_when_lost()]

    def observe(self, record: Record) -> None:
        """A version of the record is known. It may be older than ours: news can overtake each other within a process."""
        if record.generation < self._held.generation:
            return
        if not self._is_ours(record):
            self.lose()
            if record.status == "deleted":
                self.stopped.set()
            return
        context = self._context
        if context is None:
            return
        self.pending = len(record.queue)  # before `cancel`, for a handler that looks at it when it wakes
        if record.cancel_requested:
            context.cancel_requested = True
            context.cancel.set()
        if self.pending:
            context.cancel.set()

    def lose(self) -> None:
        """The lease is not ours any more, or can't be relied on."""
        self._lost.set()
        if self._context is not None:
            self._context._lose_lease()  # pyright: ignore[reportPrivateUsage]

    def _is_ours(self, record: Record) -> bool:
        return (
            record.status == "in_progress"
            and record.generation == self._held.generation
            and record.active is not None
            and record.active.seq == self._slot.seq
        )

    async def _renew(self) -> None:
        beat, look = self._options.heartbeat.total_seconds(), self._options.control.total_seconds()
        due = self._clock.now() + beat
        while not self._lost.is_set():
            await self._clock.sleep(min(look, max(0.0, due - self._clock.now())))
            try:
                if self._clock.now() >= due:
                    await self._beat()
                    due = self._clock.now() + beat
                else:
                    record = await self._held.refresh()
                    if record is None:
                        self.lose()
                    else:
                        self.observe(record)
            except StorageError as error:
                _log.warning("a lease could not be renewed, trying again: %r", error)
                await self._clock.sleep(min(look, _AFTER_ERROR))

    async def _beat(self) -> None:
        now, seconds = self._clock.now(), self._options.lease.total_seconds()
        result = await self._held.write(Heartbeat(now, self._held.generation, seconds))
        if isinstance(result, Refused):
            self.observe(self._held.record)
            self.lose()
        else:
            self.observe(result.record)

    async def _watch_lease(self) -> None:
        """Counts by our own clock, whatever a hanging write may still say: from its end on somebody else may run."""
        while (left := self._held.record.lease_expires - self._clock.now()) > 0:
            await self._clock.sleep(left)
        if self._is_ours(self._held.record):
            _log.warning("a lease could not be renewed before its end")
        self.lose()

    async def _watch_time(self) -> None:
        await self._clock.sleep(self.deadline - self._clock.now())
        self._time_out()

    def _time_out(self) -> None:
        if self._context is not None:
            self._context.timeout_exceeded = True
            self._context.cancel.set()

    async def _stop_when_lost(self) -> None:
        await self._lost.wait()
        await self._clock.sleep(self._options.lost_grace.total_seconds())
        self.stopped.set()
