"""What a handler gets."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from hosting.tasks._metadata import TaskMetadata

__all__ = ["DEFERRED", "CancelCause", "EntryMode", "TaskContext"]

type EntryMode = Literal["fresh", "resumed", "recovered"]
type CancelCause = Literal["cancel_requested", "timeout", "newer_input", "lease_lost"]


class _Deferred:
    """What `exit_for_recovery` returns and a handler must return in turn."""

    def __repr__(self) -> str:
        return "<deferred for recovery>"


DEFERRED: Final = _Deferred()


class TaskContext[Input]:
    """One attempt of one input (seed, "TaskContext").

    `cancel` asks the handler to come to an end, in a way of its own: what it returns or raises then counts. It is set for
    exactly one visible reason at a time, `cancel_cause`:

    - "cancel_requested": `run.cancel()`; also `cancel_requested` is True;
    - "timeout": the turn has had its time; also `timeout_exceeded` is True;
    - "newer_input": another input waits behind this turn; also `pending_input_count` is above 0;
    - "lease_lost": this attempt no longer owns the work (this process was cut off from storage, or the chain was deleted).
      Nothing it returns will count, and it is stopped soon.

    `shutdown` is an event of its own, and does not set `cancel`: a handler that comes to an early end when it is told to
    would turn every scale-in into a half-done turn. A handler that ignores it is entered again elsewhere.
    """

    __slots__ = (
        "_lease_lost",
        "_metadata",
        "_pending",
        "cancel",
        "cancel_requested",
        "entry_mode",
        "input",
        "input_id",
        "is_steered_turn",
        "recovery_count",
        "retry_attempt",
        "shutdown",
        "task_id",
        "timeout_exceeded",
    )

    def __init__(
        self,
        *,
        task_id: str,
        input_id: str,
        input: Input,
        metadata: "TaskMetadata",
        entry_mode: EntryMode = "fresh",
        retry_attempt: int = 0,
        recovery_count: int = 0,
        is_steered_turn: bool = False,
        cancel: asyncio.Event | None = None,
        shutdown: asyncio.Event | None = None,
        pending: Callable[[], int] | None = None,
    ) -> None:
        self.task_id = task_id
        """The durable identity of the work."""
        self.input_id = input_id
        """The identity of the input that this turn works on."""
        self.input = input
        """A copy of what the caller passed, decoded from what was stored."""
        self.entry_mode: EntryMode = entry_mode
        """fresh: first input of this task_id; resumed: a later turn of a chain; recovered: an earlier attempt at this input
        began and did not finish. A retry keeps the mode of the attempt that failed."""
        self.retry_attempt = retry_attempt
        """0 on the first try. Counts handler failures, not crashes; survives them."""
        self.recovery_count = recovery_count
        """How many attempts at this input ended without an outcome (crash, deferral); 0 again for the next input."""
        self.is_steered_turn = is_steered_turn
        """Whether this input waited behind another turn; stays true when it is recovered."""
        self.cancel = cancel or asyncio.Event()
        self.shutdown = shutdown or asyncio.Event()
        """Set when this process is stopping; shared by all contexts of the process."""
        self.cancel_requested = False
        self.timeout_exceeded = False
        self._metadata = metadata
        self._pending = pending
        self._lease_lost = False

    @property
    def metadata(self) -> "TaskMetadata":
        """Small durable state of the chain, or of this one-shot; see TaskMetadata."""
        return self._metadata

    @property
    def pending_input_count(self) -> int:
        """How many inputs wait behind this turn, as far as this process knows: its own at once, others after the next
        look at the record (`TaskOptions.control`)."""
        return self._pending() if self._pending is not None else 0

    @property
    def cancel_cause(self) -> CancelCause | None:
        """Why `cancel` is set; None while it is not. (Not in the published package, where causes can't be told apart.)"""
        if not self.cancel.is_set():
            return None
        if self._lease_lost:
            return "lease_lost"
        if self.cancel_requested:
            return "cancel_requested"
        return "timeout" if self.timeout_exceeded else "newer_input"

    async def exit_for_recovery(self) -> Any:
        """Give the work back for another process to go on with: `return await ctx.exit_for_recovery()`.

        The record stays in progress, its lease is released at once, and the next attempt is `recovered`. Raises
        RuntimeError unless `shutdown` is set.
        """
        if not self.shutdown.is_set():
            raise RuntimeError("exit_for_recovery() is for a process that shuts down: ctx.shutdown is not set")
        return DEFERRED

    def _lose_lease(self) -> None:  # pyright: ignore[reportUnusedFunction]
        """For the engine only."""
        self._lease_lost = True
        self.cancel.set()
