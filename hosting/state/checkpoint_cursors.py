"""Which checkpoint a session continues from: `session_id -> checkpoint_id`, per scope.

A response that is hosted here needs no cursor: its own row names its checkpoint (see server/workflow_run.py). These are for
an app that owns its routes and its sessions.
"""

from collections.abc import Callable
from typing import Final

from hosting.storage import Delete, Entity, Insert, Operation, Put, Replace, RowConflict, Store, keys

__all__ = ["ANY", "CheckpointCursors", "CursorChanged"]


class _Any:
    """No condition."""


ANY: Final = _Any()


class CursorChanged(Exception):
    """The cursor is not where the caller thought: another run of the session was faster. Nothing was written."""


class CheckpointCursors:
    """The scope says whose sessions they are, `hosting.storage.keys.scope(tenant, user)`; give a function to take it from the
    request that is running. Every method raises ValueError for an empty session_id, and StorageError when storage does.
    """

    def __init__(self, store: Store, scope: str | Callable[[], str]) -> None:
        """Raises ValueError for a scope that `keys.scope` did not make."""
        if isinstance(scope, str):
            keys.partition_key(scope, keys.chain_of("any"))
        self._store = store
        self._scope = scope

    async def get(self, session_id: str) -> str | None:
        """The checkpoint id, or None when the session has none."""
        entity = await self._entity(*self._key(session_id))
        return str(entity.fields["checkpoint_id"]) if entity is not None else None

    async def set(self, session_id: str, checkpoint_id: str, *, expected: "str | _Any | None" = ANY) -> None:
        """Point the session at a checkpoint.

        `expected` is the id that `get` gave before the run, None for no cursor: then CursorChanged is raised when it is another
        one by now. After StorageUnavailable it may be set; setting it again is safe.
        """
        partition, row = self._key(session_id)
        fields = {"checkpoint_id": checkpoint_id}
        operation: Operation = Put(row, fields)
        if not isinstance(expected, _Any):
            entity = await self._entity(partition, row)
            current = None if entity is None else str(entity.fields["checkpoint_id"])
            if current == checkpoint_id:
                return  # perhaps by an attempt of ours whose answer was lost
            if current != expected:
                raise CursorChanged(session_id)
            operation = Insert(row, fields) if entity is None else Replace(row, fields, {}, entity.etag)
        try:
            await self._store.commit(partition, [operation])
        except RowConflict:
            raise CursorChanged(session_id) from None

    async def delete(self, session_id: str) -> None:
        """Forget the session; unknown ones are no error. Its checkpoints stay."""
        partition, row = self._key(session_id)
        await self._store.commit(partition, [Delete(row)])

    async def _entity(self, partition: str, row: str) -> Entity | None:
        return await self._store.get(partition, row, documents=())

    def _key(self, session_id: str) -> tuple[str, str]:
        if not session_id:
            raise ValueError("session_id must be a non-empty string")
        scope = self._scope if isinstance(self._scope, str) else self._scope()
        return keys.partition_key(scope, keys.chain_of(session_id)), f"cursor.{keys.encode_key(session_id)}"
