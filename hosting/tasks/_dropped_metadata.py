"""Removing the metadata of a task that has ended: in the transaction that ends it as far as that has room, the rest after it.

If the process dies in between, rows are left that nothing refers to: a task that begins anew under the id has an epoch of its
own. They go with the next `delete`, or with the chain.
"""

from collections.abc import Mapping

from hosting.storage import Delete, Store
from hosting.tasks._record import Record
from hosting.tasks._rows import Key, metadata_until

__all__ = ["metadata_deletes", "sweep_metadata"]

_OPERATIONS = 100
"""Of one transaction."""


def metadata_deletes(
    key: Key, record: Record, beside: int, etags: Mapping[str, str] | None = None
) -> tuple[list[Delete], bool]:
    """The operations that remove the metadata of `record`, for a transaction that has `beside` others, and whether some of it
    is left for `sweep_metadata`. `etags` are known versions, by namespace: without one, removing takes a look."""
    room, known = max(0, _OPERATIONS - beside), etags or {}
    names = record.namespaces
    deletes = [Delete(key.metadata_row(record.epoch, name), known.get(name)) for name in names[:room]]
    return deletes, len(names) > room


async def sweep_metadata(store: Store, key: Key, epoch: int) -> None:
    """Remove all metadata that the task has had up to this epoch, and none of a later one. Raises StorageError."""
    await store.delete_range(key.partition, *metadata_until(key, epoch))
