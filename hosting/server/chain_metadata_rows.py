"""Where the metadata of a conversation chain is kept: one row a namespace, in the chain's partition."""

from collections.abc import Sequence
from typing import cast

from hosting.server.chain_metadata import ChainMetadata
from hosting.state import Turns
from hosting.storage import Json, Operation, Put, keys
from hosting.tasks import TaskMetadata
from hosting.tasks.engine import MetadataSpaces

__all__ = ["StoredChainMetadata"]


class StoredChainMetadata:
    """The metadata of one chain as one turn sees it.

    What has changed is written with the turn, in its transaction, or by `flush`. Of two turns that change one namespace at
    the same time the later write counts; turns of one conversation come one after the other.
    """

    def __init__(self, turns: Turns, chain: str, stored: dict[str, dict[str, Json]]) -> None:
        self._store = turns.store
        self._partition = keys.partition_key(turns.scope, chain)
        self._spaces = MetadataSpaces(stored, self._flush)

    @classmethod
    async def load(cls, turns: Turns, chain: str) -> "StoredChainMetadata":
        """One read. Raises StorageError."""
        partition = keys.partition_key(turns.scope, chain)
        rows = await turns.store.query(partition, *keys.chain_metadata_range(), documents=("values",))
        stored = {str(row.fields["name"]): cast("dict[str, Json]", row.documents.get("values") or {}) for row in rows}
        return cls(turns, chain, stored)

    @property
    def metadata(self) -> ChainMetadata:
        """What the handler gets."""
        return ChainMetadata(self._spaces.get(""))

    def operations(self) -> Sequence[Operation]:
        """The writes that are due. Raises TypeError or ValueError for values that are no JSON, or too large."""
        return [_row(name, values) for name, values in self._spaces.dirty().items()]

    async def save(self) -> None:
        """Write what is due now. Raises StorageError, and as `operations`."""
        changed = self._spaces.dirty()
        if changed:
            await self._store.commit(self._partition, [_row(name, values) for name, values in changed.items()])
            self._spaces.saved(changed)

    async def _flush(self, space: TaskMetadata) -> None:
        changed = {name: values for name, values in self._spaces.dirty().items() if name == space.name}
        if changed:
            await self._store.commit(self._partition, [_row(name, values) for name, values in changed.items()])
            self._spaces.saved(changed)


def _row(name: str, values: dict[str, Json]) -> Put:
    return Put(keys.chain_metadata_row(name), {"name": name}, {"values": values})
