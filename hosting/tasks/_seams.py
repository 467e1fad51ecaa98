"""The seams of the task engine, besides the Store: time, and who calls `Engine.attempt`. Each has a real and a test twin."""

import asyncio
import time
from dataclasses import dataclass
from typing import Literal, Protocol

from hosting.tasks._rows import Key

__all__ = ["Clock", "Driver", "SystemClock", "Verdict"]


class Clock(Protocol):
    """Time as the engine knows it."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after this time, at once for 0 or less."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the driver has to do after an attempt: nothing more, or call again after `seconds`."""

    next: Literal["done", "again"]
    seconds: float = 0.0


class Driver(Protocol):
    """Sees to it that `Engine.attempt` is called, in this process or another, until it says "done".

    It may be called more than once for the same work: whatever runs twice meets the lease.
    """

    async def ensure(self, key: Key, activation: int, generation: int) -> None:
        """Start driving, unless a driver with the same three is at it. May raise anything: the recovery scan tries again."""
        ...
