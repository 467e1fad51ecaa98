"""The checkpoint of one run: read once before it, and held until the turn is stored.

agent-framework makes one at the start and one after every superstep. Only the last one counts here, because a turn that
did not end is run again from the turn before it: so a turn costs one checkpoint, in its own transaction, whatever the
number of its supersteps.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from agent_framework.exceptions import WorkflowCheckpointException

if TYPE_CHECKING:
    from agent_framework import WorkflowCheckpoint

__all__ = ["RunCheckpoint"]


class RunCheckpoint:
    """agent-framework's CheckpointStorage for one run; `start` is the checkpoint to restore, None for a fresh workflow."""

    def __init__(self, start: "WorkflowCheckpoint | None") -> None:
        # Every turn is a run of its own: without this, a long conversation would use up `max_iterations` for good.
        self._start = None if start is None else replace(start, iteration_count=0)
        self._latest: WorkflowCheckpoint | None = None

    def after(self, superstep: int) -> "WorkflowCheckpoint":
        """The checkpoint after the run's last superstep. Raises WorkflowCheckpointException when it could not be made: agent-
        framework logs why and goes on.
        """
        latest = self._latest
        if latest is None or latest.iteration_count != superstep:
            raise WorkflowCheckpointException("the state of the workflow could not be captured; see the log")
        return latest

    async def save(self, checkpoint: "WorkflowCheckpoint") -> str:
        """Hold it in the place of the one before."""
        self._latest = checkpoint
        return checkpoint.checkpoint_id

    async def load(self, checkpoint_id: str) -> "WorkflowCheckpoint":
        """The one to start from, or the one that is held."""
        for held in (self._start, self._latest):
            if held is not None and held.checkpoint_id == checkpoint_id:
                return held
        raise WorkflowCheckpointException(f"no checkpoint with the id {checkpoint_id!r} in this run")

    async def delete(self, checkpoint_id: str) -> bool:
        """Nothing is removed from a run."""
        return False

    async def get_latest(self, *, workflow_name: str) -> "WorkflowCheckpoint | None":
        """The one that is held."""
        return self._latest or self._start

    async def list_checkpoints(self, *, workflow_name: str) -> "list[WorkflowCheckpoint]":
        """The one that is held."""
        latest = await self.get_latest(workflow_name=workflow_name)
        return [] if latest is None else [latest]

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        """The id of the one that is held."""
        return [checkpoint.checkpoint_id for checkpoint in await self.list_checkpoints(workflow_name=workflow_name)]
