"""How long a chain is needed by those that have grown out of it."""

from contextlib import suppress

from hosting.storage import Insert, RowExists, Store, keys

__all__ = ["keep_for_fork"]


async def keep_for_fork(store: Store, scope: str, chain: str, fork: str) -> None:
    """Have `chain` stay until the chain `fork`, which is about to grow out of it, is gone. One write. Raises StorageError.

    Call it before anything of the fork is stored. The row is a write to `chain`, too: so what a fork that is only beginning
    has read does not expire meanwhile. If the fork never comes, the row goes with its chain.
    """
    with suppress(RowExists):
        await store.commit(keys.partition_key(scope, chain), [Insert(keys.fork_row(fork))])
