"""When the recovery scan came to its end the last time, in whatever process: one row of its own.

    recovery / scan     `ended`: the end of the last scan; `taken`: when a process took an overdue one over

Both are in seconds since the epoch.

Whoever finds it overdue takes it with a conditional write: of many that look at once, one scans. If that one dies, the next one
may take it when `taken` is as old.
"""

from typing import cast

from hosting.storage import Insert, Operation, Put, Replace, RowConflict, Store

__all__ = ["mark_scanned", "take_overdue_scan"]

PARTITION, ROW = "recovery", "scan"


async def mark_scanned(store: Store, now: float) -> None:
    """A scan has come to its end. A read and a write. Raises StorageError."""
    await store.commit(PARTITION, [Put(ROW, {"ended": now, "taken": 0.0})])


async def take_overdue_scan(store: Store, now: float, overdue: float) -> float | None:
    """Take the scan over if none has ended, and nobody has taken it, for `overdue` seconds: the seconds since one has ended,
    infinite if that is not known; None when it is not ours to do. A read, and a write when it is. Raises StorageError."""
    found = await store.get(PARTITION, ROW, documents=())
    ended = taken = 0.0
    if found is not None:
        ended, taken = (float(cast("float", found.fields.get(name, 0.0))) for name in ("ended", "taken"))
        # A time that lies far ahead is that of a clock that was wrong: it must not keep everybody away until then.
        if abs(now - max(ended, taken)) < overdue:
            return None
    fields = {"ended": ended, "taken": now}
    write: Operation = Insert(ROW, fields) if found is None else Replace(ROW, fields, {}, found.etag)
    try:
        await store.commit(PARTITION, [write])
    except RowConflict:  # somebody was faster
        return None
    return now - ended if ended else float("inf")
