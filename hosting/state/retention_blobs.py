"""The sweep over spilled values: blobs that no row refers to.

A value is written before the transaction that refers to it, and removed after the one that does not any more. Where a process
died in between, a blob is left. Its name says which row it belonged to; no other one can ever refer to it.
"""

import logging
from collections.abc import Sequence
from functools import partial
from itertools import groupby

from hosting.gather import gather_at_most
from hosting.storage import Aging, CorruptValue, Store

__all__ = ["ORPHAN_SECONDS", "sweep_values"]

_log = logging.getLogger("hosting.retention")

ORPHAN_SECONDS = 24 * 3600.0
"""A blob as old as this that no row refers to was left: no transaction takes so long to come."""

PREFIX = "values/"
_AT_ONCE = 16


async def sweep_values(store: Store, token: str | None, *, now: float) -> tuple[str | None, int]:
    """Look at one page of the spilled values, and remove those that were left behind: the token of the next page (None after
    the last), and how many went. One read for each row that has some. Raises StorageError.
    """
    aging = Aging(store)
    page = await aging.blobs(PREFIX, token)
    old = [info for info in page.items if info.modified < now - ORPHAN_SECONDS]
    folders = groupby(old, lambda info: info.name.rpartition("/")[0])
    looks = [partial(_remove_orphans, aging, folder, [info.name for info in infos]) for folder, infos in folders]
    return page.next, sum(await gather_at_most(_AT_ONCE, looks))


async def _remove_orphans(aging: Aging, folder: str, names: Sequence[str]) -> int:
    """`values/<partition>/<row>`. A name that is none of ours is left alone; one with a digest for a key can't be looked up
    (no key that the app makes is so long), and finds no row: so it is left alone, too."""
    partition, separator, row = folder.removeprefix(PREFIX).partition("/")
    if not separator or "/" in row or "-" not in partition or "." not in row:
        return 0
    try:
        orphans = set(names) - await aging.blobs_of(partition, row)
    except (CorruptValue, ValueError) as error:
        _log.warning("the blobs of a row are left alone: %r", error)
        return 0
    await aging.discard(orphans)
    return len(orphans)
