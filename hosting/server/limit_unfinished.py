"""How many background runs of a caller wait or run, anywhere: counted in the index of active work.

The index is sharded by task, for the sake of writing, so one caller's rows can't be read alone: whoever counts one counts
all. That takes one query per shard, is kept for `_FRESH` seconds, and happens only while background runs come in. Between
two counts this process adds what it accepts; what others accept, and what ends, shows in the next one.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from hosting.gather import gather_all
from hosting.responses import ApiError
from hosting.storage import StorageError, Store
from hosting.tasks.engine import INDEX_PARTITIONS, INDEX_RANGE

__all__ = ["UnfinishedRuns"]

_log = logging.getLogger(__name__)

_FRESH: Final = 15.0
_MOST_PER_SHARD: Final = 1000
"""Rows read of a shard: one page, one operation. Above 16,000 runs in all this counts too few, so it is enough for a limit
of up to 10,000 only while one caller is the one that has too many."""


class UnfinishedRuns:
    """At most `limit` for each scope; 0 is no limit."""

    def __init__(
        self, limit: int, open_store: Callable[[], Store], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit, self._open_store, self._clock = limit, open_store, clock
        self._counts: Counter[str] = Counter()
        self._count_again_at = 0.0
        self._lock = asyncio.Lock()

    async def admit(self, scope: str) -> None:
        """Count one more run. Raises ApiError 429. When the index can't be read, the last count stands."""
        if not self._limit:
            return
        async with self._lock:
            now = self._clock()
            if not 0 < self._count_again_at - now <= _FRESH:
                self._count_again_at = now + _FRESH
                await self._count()
        if self._counts[scope] >= self._limit:
            wait = max(1.0, self._count_again_at - self._clock())
            raise ApiError.rate_limited(
                f"Too many unfinished background responses: the limit is {self._limit}. Please try again in {wait:.0f}s.",
                retry_after=wait,
            )
        self._counts[scope] += 1

    async def _count(self) -> None:
        store = self._open_store()
        try:
            shards = await gather_all(
                *(store.query_fields(partition, *INDEX_RANGE, limit=_MOST_PER_SHARD) for partition in INDEX_PARTITIONS)
            )
        except StorageError as error:
            _log.warning("The index of active work can't be counted: %r", error)
            return
        self._counts = Counter(str(row.fields.get("scope")) for rows in shards for row in rows)
