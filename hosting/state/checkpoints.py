"""agent-framework's CheckpointStorage in the table.

Rows, in the partition of the session's chain, under a digest of the session id (`b`):

    checkpoint.<b>.id.<checkpoint id>                        document: checkpoint; what `load` reads
    checkpoint.<b>.at.<workflow>.<time, newest first>.<id>   no document; what `get_latest` and the listings read

Both are written in one transaction.
"""

import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from agent_framework.exceptions import WorkflowCheckpointException

from hosting.state.checkpoint_codec import decode_checkpoint, encode_checkpoint
from hosting.state.checkpoint_types import CheckpointTypes
from hosting.storage import Delete, Entity, Insert, Json, Operation, Put, RowConflict, RowExists, Store, keys

if TYPE_CHECKING:
    from agent_framework import WorkflowCheckpoint

__all__ = ["DEFAULT_KEEP", "TableCheckpointStorage"]

_log = logging.getLogger(__name__)

DEFAULT_KEEP = 50
"""Checkpoints that a session keeps of a workflow."""

_PRUNED_AT_ONCE = 20
"""Old checkpoints that a save removes at most: each costs two operations of its transaction."""

_ATTEMPTS = 5
_LAST = 2**60


class TableCheckpointStorage:
    """The checkpoints of one session (a conversation, say) of one caller. No other session or scope can reach them.

    Give it to `Workflow.run(checkpoint_storage=...)`; agent-framework logs what `save` raises and runs on, so look at
    `Workflow.get_last_checkpoint_id()` afterwards. Every method raises StorageError when storage does.
    """

    def __init__(
        self,
        store: Store,
        *,
        scope: str,
        session_id: str,
        allowed_types: Iterable[type] = (),
        keep: int | None = DEFAULT_KEEP,
    ) -> None:
        """`scope` is what `hosting.storage.keys.scope(tenant, user)` gives, `session_id` any text. `allowed_types` are
        classes of the app that may be in a checkpoint, beside those of agent-framework and those given to its
        `register_checkpoint_type`. `keep` is how many a session keeps of each workflow, the newest; None is all.

        Raises ValueError for a scope that is none, an empty session_id, and a `keep` under 1.
        """
        if not session_id:
            raise ValueError("session_id must be a non-empty string")
        if keep is not None and keep < 1:
            raise ValueError("keep must be at least 1, or None for all")
        self._store = store
        self._partition = keys.partition_key(scope, keys.chain_of(session_id))
        self._bucket = keys.checkpoint_bucket(session_id)
        self._types = CheckpointTypes(allowed_types)
        self._keep = keep

    async def save(self, checkpoint: "WorkflowCheckpoint") -> str:
        """Store the checkpoint as the newest of its workflow; its id. Removes old ones beyond `keep`, some at a time.

        One read and one transaction. Raises WorkflowCheckpointException for one that could not be loaded again, and
        StorageError; after StorageUnavailable it may be stored, and saving it again is safe.
        """
        document = encode_checkpoint(checkpoint, self._types)
        for attempt in range(_ATTEMPTS):
            newest, stale = await self._survey(checkpoint.workflow_name)
            saved_at = max(_microseconds(checkpoint.timestamp), newest + 1)
            old: list[Operation] = []
            if attempt == 0:
                others = (entity for entity in stale if entity.fields["checkpoint_id"] != checkpoint.checkpoint_id)
                old = [operation for entity in others for operation in self._removal(entity)]
            try:
                await self._store.commit(self._partition, [*self._rows(checkpoint, document, saved_at), *old])
            except RowExists:
                await self.delete(checkpoint.checkpoint_id)  # it was saved before: this takes its place
            except RowConflict:  # another save has removed the same old ones
                continue
            else:
                return checkpoint.checkpoint_id
        raise WorkflowCheckpointException(f"checkpoint {checkpoint.checkpoint_id!r} is being saved elsewhere, too")

    def rows(self, checkpoint: "WorkflowCheckpoint") -> list[Operation]:
        """The checkpoint as rows for a transaction of the caller's own, in the partition of the session's chain. Raises
        WorkflowCheckpointException for one that could not be loaded again.
        """
        return self._rows(checkpoint, encode_checkpoint(checkpoint, self._types), _microseconds(checkpoint.timestamp))

    async def load(self, checkpoint_id: str) -> "WorkflowCheckpoint":
        """Raises WorkflowCheckpointException for an id that is not in this session, and for a stored checkpoint that names a
        type that is not allowed.
        """
        entity = await self._store.get(self._partition, self._row(checkpoint_id))
        if entity is None:
            raise WorkflowCheckpointException(f"no checkpoint with the id {checkpoint_id!r} in this session")
        return self._decoded(entity)

    async def list_checkpoints(self, *, workflow_name: str) -> "list[WorkflowCheckpoint]":
        """All of the workflow that can be loaded, oldest first; others are logged and left out."""
        order = {
            id: position for position, id in enumerate(await self.list_checkpoint_ids(workflow_name=workflow_name))
        }
        found: dict[str, WorkflowCheckpoint] = {}
        for entity in await self._store.query(self._partition, f"{self._bucket}.id.", f"{self._bucket}.id/"):
            if entity.fields["checkpoint_id"] in order:
                try:
                    found[str(entity.fields["checkpoint_id"])] = self._decoded(entity)
                except WorkflowCheckpointException as error:
                    _log.warning("Left out of the list of checkpoints: %s", error)
        return sorted(found.values(), key=lambda checkpoint: order[checkpoint.checkpoint_id])

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        """Ids of the workflow's checkpoints, oldest first. Reads no checkpoint."""
        rows = await self._store.query(self._partition, *self._index(workflow_name), documents=())
        return [str(row.fields["checkpoint_id"]) for row in reversed(rows)]

    async def get_latest(self, *, workflow_name: str) -> "WorkflowCheckpoint | None":
        """The one that was saved last, or None. Reads one index row and one checkpoint; raises as `load`."""
        for _ in range(_ATTEMPTS):
            rows = await self._store.query(self._partition, *self._index(workflow_name), documents=(), limit=1)
            if not rows:
                return None
            entity = await self._store.get(self._partition, self._row(str(rows[0].fields["checkpoint_id"])))
            if entity is not None:  # else it was deleted in between
                return self._decoded(entity)
        return None

    async def delete(self, checkpoint_id: str) -> bool:
        """Whether there was one with this id."""
        entity = await self._store.get(self._partition, self._row(checkpoint_id), documents=())
        if entity is None:
            return False
        try:
            await self._store.commit(
                self._partition, [Delete(entity.row, entity.etag), Delete(str(entity.fields["index"]))]
            )
        except RowConflict:  # somebody else was faster
            return False
        return True

    async def clear(self) -> int:
        """Remove all of the session, of every workflow; how many rows. Can be repeated after a failure."""
        return await self._store.delete_range(self._partition, f"{self._bucket}.", f"{self._bucket}/")

    async def _survey(self, workflow_name: str) -> tuple[int, list[Entity]]:
        """When the newest was saved, and index rows that the next save makes superfluous."""
        limit = 1 if self._keep is None else self._keep + _PRUNED_AT_ONCE
        rows = await self._store.query(self._partition, *self._index(workflow_name), documents=(), limit=limit)
        newest = int(cast("int", rows[0].fields["saved_at"])) if rows else 0
        return newest, [] if self._keep is None else rows[self._keep - 1 :][:_PRUNED_AT_ONCE]

    def _removal(self, index: Entity) -> list[Operation]:
        return [Delete(index.row, index.etag), Delete(self._row(str(index.fields["checkpoint_id"])))]

    def _rows(self, checkpoint: "WorkflowCheckpoint", document: "dict[str, Json]", saved_at: int) -> list[Operation]:
        identifier, name = checkpoint.checkpoint_id, checkpoint.workflow_name
        first, _ = self._index(name)
        index = f"{first}{_LAST - saved_at:016x}.{keys.encode_key(identifier)}"
        return [
            Insert(self._row(identifier), {"checkpoint_id": identifier, "index": index}, {"checkpoint": document}),
            Put(index, {"checkpoint_id": identifier, "saved_at": saved_at}),
        ]

    def _row(self, checkpoint_id: str) -> str:
        return f"{self._bucket}.id.{keys.encode_key(checkpoint_id)}"

    def _index(self, workflow_name: str) -> tuple[str, str]:
        prefix = f"{self._bucket}.at.{keys.encode_key(workflow_name)}"
        return f"{prefix}.", f"{prefix}/"

    def _decoded(self, entity: Entity) -> "WorkflowCheckpoint":
        return decode_checkpoint(entity.documents.get("checkpoint"), self._types)


def _microseconds(timestamp: str) -> int:
    """Since 1970; now for a timestamp that is none."""
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        moment = datetime.now(UTC)
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return max(0, round(moment.timestamp() * 1_000_000))
