"""The handle of an accepted input."""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, cast

from hosting.tasks._attempt_rows import metadata_values
from hosting.tasks._helping import current_helper
from hosting.tasks._metadata import MetadataSpaces, TaskMetadata
from hosting.tasks._rows import Key, task_rows_range

if TYPE_CHECKING:
    from hosting.tasks._engine import Engine
    from hosting.tasks._registry import Declared

__all__ = ["TaskRun"]


class TaskRun[Output]:
    """Follow, await or cancel one input. It holds no state of the run: any process can have one, at any time.

    `await run` is `await run.result()`.
    """

    def __init__(
        self,
        engine: "Engine",
        declared: "Declared",
        key: Key,
        input_id: str,
        seq: int,
        *,
        queued: bool = False,
        fresh: bool,
    ) -> None:
        self._engine, self._declared, self._key, self._seq = engine, declared, key, seq
        self._input_id, self._queued, self._fresh = input_id, queued, fresh
        self._detached: TaskMetadata | None = None

    @property
    def task_id(self) -> str:
        """The id of the task, or of the chain that the turn is one of."""
        return self._key.task_id

    @property
    def input_id(self) -> str:
        """The id of the input: as it was given to `start`, or made by it."""
        return self._input_id

    @property
    def is_queued(self) -> bool:
        """Whether the input waits behind an active turn: false from the moment it is known here to have left the queue.

        A turn that runs in this process is known at once; `await run.refresh()` asks the store.
        """
        if self._queued and self._engine.live(self._key, self._seq) is not None:
            self._queued = False
        return self._queued

    @property
    def metadata(self) -> TaskMetadata:
        """The metadata of the task. While the turn runs in this process, the very object that the handler has; else a copy
        as of the last `refresh()`, which can't be flushed."""
        attempt = self._engine.live(self._key, self._seq)
        if attempt is not None:
            self._detached = attempt.metadata
        if self._detached is None:
            self._detached = MetadataSpaces({}, _detached_flush).get("")
        return self._detached

    async def refresh(self) -> None:
        """Bring `is_queued` and `metadata` up to date with the store. Raises StorageError. (Not in the published package.)"""
        record = await self._engine.record(self._key)
        self._queued = record is not None and any(slot.seq == self._seq for slot in record.queue)
        if record is None or self._engine.live(self._key, self._seq) is not None:
            return
        names = {self._key.metadata_row(record.epoch, name): name for name in record.namespaces}
        first, last = task_rows_range(self._key, "task-metadata")
        rows = await self._engine.store.query(self._key.partition, first, last) if names else []
        stored = {names[row.row]: metadata_values(row) for row in rows if row.row in names}
        self._detached = MetadataSpaces(stored, _detached_flush).get("")

    async def result(self) -> Output:
        """Wait for the output; from any process, also after a restart, as long as the outcome is kept.

        Cancelling the wait (a timeout, say) has no effect on the run or on other waits. Raises TaskFailed, TaskCancelled,
        and TaskDeferred when the attempt in this process gave the work back: then another process goes on, and waiting
        again finds its result. Inside a task, what nobody takes up for `TaskOptions.help_after` is run in this process.
        """
        fresh, self._fresh = self._fresh, False
        outcome = await self._engine.wait(self._key, self._input_id, self._seq, fresh=fresh, helper=current_helper())
        self._queued = False
        return cast("Output", outcome.value(self._declared.output))

    async def cancel(self) -> None:
        """Cancel: an input that waits in the queue ends at once, as cancelled, and never runs; so does one that waits for
        its next try. A running one is told (`ctx.cancel`, `ctx.cancel_requested`), and how its handler leaves decides.

        Returns when that is stored. Nothing happens to an input that has ended. Raises StorageError.
        """
        await self._engine.cancel(self._key, self._seq)

    def __await__(self) -> Generator[Any, Any, Output]:
        return self.result().__await__()

    def __repr__(self) -> str:
        return f"TaskRun(task_id={self.task_id!r}, input_id={self.input_id!r})"


async def _detached_flush(space: TaskMetadata) -> None:
    raise RuntimeError("metadata is stored by the running attempt only, and it does not run in this process")
