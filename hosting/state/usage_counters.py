"""How much a tenant has used of what it may use a minute, counted by all processes together.

The count is a token bucket: permits flow in evenly, up to a minute's worth, and every run takes one. Its whole state is one
time, so the row needs no clean-up, no windows and no reset: a bucket that was not asked for a minute is full.
"""

import asyncio
import random
from dataclasses import dataclass
from math import floor
from typing import Final

from hosting.storage import Entity, Insert, Replace, RowConflict, Store, keys

__all__ = ["PERIOD", "SharedBucket", "TokenBucket"]

PERIOD: Final = 60.0
"""Seconds in which an empty bucket fills up."""

_ROUNDING = 1e-6
_ATTEMPTS = 8
_PAUSES = (0.0, 0.02, 0.04, 0.08, 0.16, 0.3)
"""Seconds between attempts, at most: each waits for a random part, so that the losers do not meet again."""
_SHARE = 8


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """The arithmetic. A bucket is known by when it is full again, in seconds of any clock; what is past is a full one."""

    size: int
    """Permits in a full bucket, which is also how many flow in per PERIOD. At least 1."""

    def free(self, full_at: float, now: float) -> int:
        """How many permits there are."""
        return floor(self.size * (PERIOD - self.full_in(full_at, now) + _ROUNDING) / PERIOD)

    def take(self, full_at: float, now: float, permits: int) -> float:
        """When it is full again after `permits` were taken, which the caller has found to be free."""
        return now + self.full_in(full_at, now) + permits * PERIOD / self.size

    def wait(self, full_at: float, now: float) -> float:
        """Seconds until there is a permit; 0 when there is one."""
        return max(0.0, self.full_in(full_at, now) - PERIOD + PERIOD / self.size)

    def full_in(self, full_at: float, now: float) -> float:
        """Seconds until it is full. A bucket that would take more than two periods is one that a wrong clock wrote: it counts
        as full, so that nobody is locked out for as long as that clock was ahead."""
        missing = full_at - now
        return missing if 0 < missing <= 2 * PERIOD else 0.0


class SharedBucket:
    """The bucket of one tenant, in the table. For one caller at a time; other processes have their own object for the row.

    Clocks of different machines are compared here: one that is ahead by a second sees a second's worth of permits too many.
    """

    def __init__(self, store: Store, tenant_scope: str, bucket: TokenBucket) -> None:
        self._store, self._bucket = store, bucket
        self._partition = keys.partition_key(tenant_scope, keys.chain_of("usage"))
        self._row = "usage.runs"
        self._known = False
        self._etag: str | None = None
        self._full_at = 0.0

    @property
    def full_at(self) -> float:
        """As it was last seen. It only ever moves on, so what is not free by this is not free at all."""
        return self._full_at

    async def take(self, wanted: int, now: float) -> int:
        """Take up to `wanted` permits (at least 1, at most an eighth of what is there, so that others get theirs).

        0: there is none, or others took them faster than we could. One write; a read before the first one and after one
        that another process came before; nothing at all when it is known that there is none. If the process dies after the
        write, the permits are lost, and flow in again. Raises StorageError.
        """
        if not self._known:
            self._remember(await self._store.get(self._partition, self._row, documents=()))
        for attempt in range(_ATTEMPTS):
            free = self._bucket.free(self._full_at, now)
            if free < 1:
                return 0
            permits = max(1, min(wanted, free // _SHARE))
            full_at = self._bucket.take(self._full_at, now, permits)
            try:
                etags = await self._store.commit(self._partition, [self._write(full_at)])
            except RowConflict:
                await asyncio.sleep(_PAUSES[min(attempt, len(_PAUSES) - 1)] * random.random())
                self._remember(await self._store.get(self._partition, self._row, documents=()))
            else:
                self._etag, self._full_at = etags[self._row], full_at
                return permits
        return 0

    def _write(self, full_at: float) -> Insert | Replace:
        fields = {"full_at": full_at}
        return Insert(self._row, fields) if self._etag is None else Replace(self._row, fields, {}, self._etag)

    def _remember(self, entity: Entity | None) -> None:
        self._known = True
        found = entity.fields.get("full_at") if entity is not None else None
        self._etag = entity.etag if entity is not None else None
        # Only a damaged row has anything else; it is written over.
        self._full_at = float(found) if isinstance(found, int | float) else 0.0
