"""What of the tasks' rows may be forgotten, and when: for the retention timer, and for whoever deletes a response."""

from collections.abc import Mapping

from hosting.storage import Delete, Scalar, Store
from hosting.tasks._rows import Key

__all__ = ["TaskRows", "forget_outcome"]


class TaskRows:
    """See `hosting.state.retention_rows.TaskRows`, which this is."""

    outcomes = ("task-outcome.", "task-outcome/")
    """The row keys of all outcomes: `first <= row < last`."""

    def record_row(self, scope: str, task_id: str) -> str:
        """The row of a task's record, in the partition of its chain."""
        return Key(scope, task_id).record_row

    def is_record(self, row: str) -> bool:
        """Whether a row is the record of a task."""
        return row.startswith("task.")

    def in_progress(self, fields: Mapping[str, Scalar]) -> bool:
        """Whether the task of a record has an input that has not ended: it runs, waits for its turn or for a driver."""
        return fields.get("status") == "in_progress"

    def expires(self, fields: Mapping[str, Scalar]) -> float:
        """When an outcome may go, in seconds since the epoch; at once for one that does not say so."""
        expires = fields.get("expires")
        return float(expires) if isinstance(expires, int | float) else 0.0


async def forget_outcome(store: Store, scope: str, task_id: str, input_id: str, seq: int) -> None:
    """Remove the outcome of an input that has ended: an error in it may quote what a user sent. Raises StorageError."""
    key = Key(scope, task_id)
    await store.commit(key.partition, [Delete(key.outcome_row(input_id, seq))])
