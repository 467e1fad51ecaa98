"""Who may not call for the time being: one row for the whole app, that an operator writes and processes look at.

    suspended / tenants     the document `since`: scope to when it was suspended, in seconds since the epoch

A scope is that of a tenant without a user, which stands for all its users, or that of one user.
"""

from typing import Any, cast

from hosting.storage import Insert, Operation, Replace, RowConflict, Store

__all__ = ["load_suspended", "resume", "suspend"]

PARTITION, ROW = "suspended", "tenants"
_DOCUMENT = "since"


async def load_suspended(store: Store) -> dict[str, float]:
    """Scopes, and since when. One read. Raises StorageError."""
    found = await store.get(PARTITION, ROW)
    return {} if found is None else _scopes(found.documents.get(_DOCUMENT))


async def suspend(store: Store, scope: str, now: float) -> bool:
    """Add a scope; False when it was there. Raises StorageError."""
    return await _change(store, scope, now)


async def resume(store: Store, scope: str) -> bool:
    """Take a scope out; False when it was not there. Raises StorageError."""
    return await _change(store, scope, None)


async def _change(store: Store, scope: str, since: float | None) -> bool:
    while True:
        found = await store.get(PARTITION, ROW)
        scopes = {} if found is None else _scopes(found.documents.get(_DOCUMENT))
        if (scope in scopes) == (since is not None):
            return False
        changed = {**scopes, scope: since} if since is not None else {s: t for s, t in scopes.items() if s != scope}
        document: dict[str, Any] = {_DOCUMENT: changed}
        write: Operation = Insert(ROW, {}, document) if found is None else Replace(ROW, {}, document, found.etag)
        try:
            await store.commit(PARTITION, [write])
        except RowConflict:  # another operator was faster: of both changes none may get lost
            continue
        return True


def _scopes(document: object) -> dict[str, float]:
    return {str(scope): float(since) for scope, since in cast("dict[str, float]", document or {}).items()}
