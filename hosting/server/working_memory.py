"""How many bytes of bodies and stored data this process has in hand, for all requests and runs, and for each tenant's.

Places limit how many things go on at a time, and say nothing of their size: 250 bodies of 32 MiB are 8 GiB. Bytes are counted
as they are on the wire or in storage; in memory they take up to four times as much (docs/limits.md).

    with memory.share(tenant) as share, charging(share.take):
        ...                              # everything that is read in here counts, and may be refused

A request is refused, a background run waits. Who is alone gets what it wants: single bodies and histories have limits of
their own, and a limit below one of those must not make it impossible. And who wants little gets it: when all is taken, runs
can still be cancelled, and looked at, and do what the large ones may be waiting for.
"""

import asyncio
import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Self
from weakref import ReferenceType, WeakValueDictionary, ref

from hosting.responses import ApiError

__all__ = ["MemoryFull", "NothingToWaitFor", "Share", "WorkingMemory"]

_RETRY_AFTER = 1
"""Seconds, in the refusal of a request."""

_LITTLE = 1000
"""A share of up to this part of a limit is not refused: 128 KiB of 128 MiB. A thousand of them are the limit once more."""

_LONGEST_PAUSE = 5.0
"""Seconds between two looks of a run that waits."""

_PATIENCE = 60.0
"""Seconds after which a run that waits need not have room any more, unless there is such a run already: one gets on."""

_LOOK = 0.5
"""Seconds after which a run that waits looks whether it still has to."""


class MemoryFull(ApiError):
    """There is no room for now: 429 when the tenant has taken its part, 503 when the process is full."""


class NothingToWaitFor(Exception):
    """A run that waited for room need not be begun any more."""


class WorkingMemory:
    """`limit` bytes in this process, `per_tenant` of them for one tenant; 0 is no limit."""

    def __init__(self, limit: int, per_tenant: int) -> None:
        self._limit, self._per_tenant = limit, per_tenant
        self._tenants: Counter[str] = Counter()
        self._total = 0
        # Shares are forgotten in any thread (a tool's thread has a copy of the context), where a sum could lose an amount.
        self._forgotten: deque[tuple[str, int]] = deque()
        self._queues: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._late: ReferenceType[Share] | None = None

    def share(self, tenant: str) -> "Share":
        """What a request or a run of the tenant has. Nothing at first."""
        return Share(self, tenant)

    @property
    def in_use(self) -> int:
        """Bytes, of all together."""
        self._collect()
        return self._total

    def take(self, tenant: str, size: int, held: int, *, refuse: bool) -> None:
        """For Share alone, which has `held` already."""
        self._collect()
        if refuse and _too_much(self._per_tenant, self._tenants[tenant], size, held):
            raise MemoryFull(
                f"Too many bytes at a time: the limit is {self._per_tenant}. Please try again in {_RETRY_AFTER}s.",
                status=429,
                type="rate_limit_error",
                code="rate_limit_exceeded",
                headers={"retry-after": str(_RETRY_AFTER)},
            )
        if refuse and _too_much(self._limit, self._total, size, held):
            raise MemoryFull(
                "The server is overloaded for now. Please retry.",
                status=503,
                code="server_is_overloaded",
                headers={"retry-after": str(_RETRY_AFTER)},
            )
        self._count(tenant, size)

    def forget(self, tenant: str, held: int) -> None:
        """For Share alone. From any thread."""
        self._forgotten.append((tenant, held))

    def _collect(self) -> None:
        while self._forgotten:
            tenant, held = self._forgotten.popleft()
            self._count(tenant, -held)

    def _count(self, tenant: str, size: int) -> None:
        self._total += size
        self._tenants[tenant] += size
        if not self._tenants[tenant]:
            del self._tenants[tenant]

    def queue(self, tenant: str) -> asyncio.Lock:
        """Whoever of the tenant's runs tries again to get room holds it. One for each tenant: where there is room for the one,
        what another waits for does not matter."""
        return self._queues.setdefault(tenant, asyncio.Lock())

    def let_in(self, share: "Share") -> bool:
        """Whether a share that has waited for long may exceed the limits; no other may, until it is given back."""
        late = self._late() if self._late is not None else None
        if late is None or not late.in_use:
            self._late = ref(share)
            return True
        return late is share


def _too_much(limit: int, used: int, size: int, held: int) -> bool:
    alone, little = held == used, held + size <= limit // _LITTLE
    return 0 < limit < used + size and not alone and not little


class Share:
    """What one request or run has in hand. Given back when the last one that has entered it leaves it, or when it is forgotten:
    a run that outlives its request enters it, too."""

    def __init__(self, memory: WorkingMemory | None = None, tenant: str = "") -> None:
        """Without `memory` it counts for nobody."""
        self._memory, self._tenant = memory, tenant
        self._held = self._holders = 0
        self._admitted = self._late = False
        self._queue: asyncio.Lock | None = None
        self._when_admitted: Callable[[], None] | None = None

    @property
    def in_use(self) -> bool:
        """Whether somebody has entered it and not left."""
        return self._holders > 0

    def take(self, size: int) -> None:
        """Count `size` bytes; a negative size gives them back. Raises MemoryFull, before `admit`."""
        if self._memory is None or not self._holders:
            return  # a task that goes on when all is over: nobody would give it back
        size = max(size, -self._held)
        refuse = size > 0 and not (self._admitted or self._late)
        self._memory.take(self._tenant, size, self._held, refuse=refuse)
        self._held += size

    def admit(self) -> None:
        """From here on nothing is refused: the work has begun, and what it still reads has limits of its own."""
        self._admitted = True
        self._leave_queue()
        if self._when_admitted is not None:
            self._when_admitted()

    @contextmanager
    def when_admitted(self, call: Callable[[], None]) -> Generator[None]:
        """Have `call` called by `admit` inside. No longer: a share that refers to others is forgotten late."""
        self._when_admitted = call
        try:
            yield
        finally:
            self._when_admitted = None

    async def when_there_is_room[T](
        self, work: Callable[[], Awaitable[T]], over: Callable[[], Awaitable[bool]] | None = None
    ) -> T:
        """The result of `work`, which is begun again until it is admitted: it calls `admit` when it has read what it needs, and
        has changed nothing before. One at a time tries again, because what it reads in vain costs all the same.

        Raises NothingToWaitFor when `over` says so meanwhile, and what `over` raises."""
        pause, since = 0.0, asyncio.get_running_loop().time()
        try:
            while True:
                try:
                    return await work()
                except MemoryFull:
                    self.take(-self._held)
                pause = min(2 * pause + 0.1, _LONGEST_PAUSE)
                await self._wait(pause * random.uniform(0.5, 1.0), over)
                if self._memory is not None and asyncio.get_running_loop().time() - since > _PATIENCE:
                    self._late = self._memory.let_in(self)
        finally:
            self._leave_queue()

    async def _wait(self, seconds: float, over: Callable[[], Awaitable[bool]] | None) -> None:
        waiting = asyncio.ensure_future(self._wait_in_queue(seconds))
        try:
            while not waiting.done():
                await asyncio.wait({waiting}, timeout=_LOOK)
                if over is not None and await over():
                    raise NothingToWaitFor
        finally:
            waiting.cancel()
            await asyncio.wait({waiting})

    async def _wait_in_queue(self, seconds: float) -> None:
        if self._queue is None and self._memory is not None:
            queue = self._memory.queue(self._tenant)
            await queue.acquire()
            self._queue = queue
        await asyncio.sleep(seconds)

    def _leave_queue(self) -> None:
        if self._queue is not None:
            self._queue.release()
            self._queue = None

    def __enter__(self) -> Self:
        self._holders += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._holders == 1:
            self.take(-self._held)
        self._holders -= 1

    def __del__(self) -> None:
        if self._held and self._memory is not None:
            self._memory.forget(self._tenant, self._held)
