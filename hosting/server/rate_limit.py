"""Runs per minute of a tenant: a token bucket in this process, or one for all processes in the table.

A shared bucket is not asked for every run: a process takes several permits at a time and hands them out by itself. It takes
one at first, twice as many when those were used up within `_HOLD`, and never more than an eighth of what is left; so what
it sits on is never much more than it has just used, and a bucket that runs dry is shared out singly.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from hosting.responses import ApiError
from hosting.state.usage_counters import PERIOD, SharedBucket, TokenBucket
from hosting.storage import StorageError, Store, keys

__all__ = ["RateLimit", "reset_time"]

_log = logging.getLogger(__name__)

_HOLD = 10.0
"""Seconds after which permits that were taken and not used are given up. They flow in again by themselves."""

_MOST_AT_ONCE = 64

_PATIENCE = 3.0
"""Seconds for the table to answer, whoever asks it. Counting must not take longer than a short run does."""

_REST = 5.0
"""Seconds that a table which has failed is not asked again, so that not every run waits for it."""

_CROWDED = 0.5
"""Seconds to wait when there are permits and others took them faster."""


class RateLimit:
    """At most `per_minute` runs at once and as many a minute in the long run, for each tenant; 0 is no limit.

    With `open_store` all processes share that. Then, if the table does not answer, this process counts alone for a while.
    Memory: the tenants of the last two minutes.
    """

    def __init__(
        self,
        per_minute: int,
        open_store: Callable[[], Store] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock` gives seconds; of the epoch where processes share."""
        self._bucket = TokenBucket(per_minute) if per_minute else None
        self._open_store, self._clock = open_store, clock
        self._alone: dict[str, float] = {}
        self._shared: dict[str, _Shared] = {}
        self._sweep_at = 0.0
        self._warned_at = -math.inf

    async def admit(self, tenant: str) -> dict[str, str]:
        """Count a run; the rate-limit headers of its answer. Raises ApiError 429, which has them too. Nothing waits for a
        permit; asking the table takes one write now and then."""
        bucket = self._bucket
        if bucket is None:
            return {}
        self._forget_idle(bucket)
        if self._open_store is None:
            return self._admit_alone(bucket, tenant)
        shared = self._shared.get(tenant)
        if shared is None:
            row = SharedBucket(self._open_store(), keys.scope(tenant, None), bucket)
            shared = self._shared[tenant] = _Shared(row)
        try:
            headers = await self._admit_shared(bucket, shared)
        except (StorageError, TimeoutError) as error:
            shared.failed_at = self._clock()
            self._warn(error)
            headers = None
        return self._admit_alone(bucket, tenant) if headers is None else headers

    @property
    def tenants(self) -> int:
        """How many are remembered."""
        return len(self._alone) + len(self._shared)

    def _admit_alone(self, bucket: TokenBucket, tenant: str) -> dict[str, str]:
        now, full_at = self._clock(), self._alone.get(tenant, 0.0)
        if not bucket.free(full_at, now):
            raise _refused(bucket, bucket.wait(full_at, now), _headers(bucket, full_at, now))
        full_at = self._alone[tenant] = bucket.take(full_at, now, 1)
        return _headers(bucket, full_at, now)

    async def _admit_shared(self, bucket: TokenBucket, shared: "_Shared") -> dict[str, str] | None:
        """None when the table is not to be asked now. Raises StorageError and TimeoutError when it does not answer."""
        shared.asked_at = self._clock()
        shared.waiting += 1
        try:
            if not shared.use(self._clock()):
                if shared.is_away(self._clock()):
                    return None
                # One request takes permits for all that wait here. The time that they wait for it counts, too.
                async with asyncio.timeout(_PATIENCE), shared.lock:
                    now = self._clock()
                    if shared.rests(now):
                        return None  # it failed for the one before
                    if not shared.use(now):
                        await shared.fetch(now)
                        if not shared.use(now):
                            wait = bucket.wait(shared.row.full_at, now) or _CROWDED
                            raise _refused(bucket, wait, _headers(bucket, shared.row.full_at, now))
        finally:
            shared.waiting -= 1
        now = self._clock()
        return _headers(bucket, shared.row.full_at, now, shared.left(now))

    def _forget_idle(self, bucket: TokenBucket) -> None:
        """Once a minute. A bucket that is full is the same as none, and a row can be read again."""
        now = self._clock()
        if 0 <= self._sweep_at - now <= PERIOD:
            return
        self._sweep_at = now + PERIOD
        self._alone = {tenant: full_at for tenant, full_at in self._alone.items() if bucket.full_in(full_at, now)}
        self._shared = {
            tenant: shared
            for tenant, shared in self._shared.items()
            if shared.waiting or 0 <= now - shared.asked_at <= PERIOD
        }

    def _warn(self, error: Exception) -> None:
        now = self._clock()
        if not 0 <= now - self._warned_at < PERIOD:
            self._warned_at = now
            _log.warning("The table can't be asked for permits, this process counts runs alone: %r", error)


@dataclass(slots=True)
class _Shared:
    """What this process has of a tenant's bucket."""

    row: SharedBucket
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    permits: int = 0
    until: float = 0.0
    batch: int = 0
    waiting: int = 0
    asked_at: float = 0.0
    failed_at: float | None = None
    """When the table did not answer; None when it did, the last time."""

    def left(self, now: float) -> int:
        return self.permits if 0 <= self.until - now <= _HOLD else 0

    def use(self, now: float) -> bool:
        """Use one of the permits that are here already."""
        if not self.left(now):
            return False
        self.permits -= 1
        return True

    def rests(self, now: float) -> bool:
        """Whether the table failed a moment ago."""
        return self.failed_at is not None and 0 <= now - self.failed_at < _REST

    def is_away(self, now: float) -> bool:
        """Whether it failed a moment ago, or longer ago and somebody is finding out about it now."""
        return self.rests(now) or (self.failed_at is not None and self.lock.locked())

    async def fetch(self, now: float) -> None:
        """Take permits out of the table, as many as are likely to be used."""
        used_up = self.permits == 0 and 0 <= self.until - now <= _HOLD
        wanted = min(_MOST_AT_ONCE, max(self.batch * 2 if used_up else 1, self.waiting))
        self.batch = self.permits = await self.row.take(wanted, now)
        self.until, self.failed_at = now + _HOLD, None


def reset_time(seconds: float) -> str:
    """A duration as OpenAI writes it: 250ms, 1s, 1.5s, 6m0s."""
    milliseconds = math.ceil(seconds * 1000)
    if milliseconds < 1000:
        return f"{milliseconds}ms" if milliseconds > 0 else "0s"
    minutes, rest = divmod(milliseconds, 60_000)
    return (f"{minutes}m" if minutes else "") + f"{rest / 1000:g}s"


def _headers(bucket: TokenBucket, full_at: float, now: float, held: int = 0) -> dict[str, str]:
    return {
        "x-ratelimit-limit-requests": str(bucket.size),
        "x-ratelimit-remaining-requests": str(min(bucket.size, bucket.free(full_at, now) + held)),
        "x-ratelimit-reset-requests": reset_time(bucket.full_in(full_at, now)),
    }


def _refused(bucket: TokenBucket, wait: float, headers: dict[str, str]) -> ApiError:
    wait = math.ceil(wait * 1000) / 1000
    error = ApiError.rate_limited(
        # Codex reads the time from this sentence.
        f"Rate limit reached: {bucket.size} runs per minute. Please try again in {wait:g}s.",
        retry_after=wait,
    )
    error.headers.update(headers)
    return error
