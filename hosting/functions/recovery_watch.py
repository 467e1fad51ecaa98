"""The recovery scan in a process that serves requests, when timers do not fire.

On Flex Consumption it has happened that timers stopped after a deployment, while HTTP went on (azure-functions-host #11828).
Then nothing would start work again whose process has died. So while requests come, their process looks now and then, in the
background, whether any process has scanned; if not for too long, one of those that look does it.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from contextvars import Context

from hosting import telemetry

__all__ = ["RecoveryWatch"]

_log = logging.getLogger("hosting.tasks")

_FIRST = (0.02, 0.2)
"""Until the first look, as parts of `overdue`: soon, because a process that serves one request may not live for long, but not
beside that request, and not all processes of a burst at once."""
_PAUSE = (0.4, 0.8)
"""Between two looks."""


class RecoveryWatch:
    """Calls `look` now and then, from the first request on, until none has come for `overdue` seconds and nothing is `busy`."""

    def __init__(
        self,
        overdue: float,
        look: Callable[[], Awaitable[None]],
        busy: Callable[[], bool] = lambda: False,
        *,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        between: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._overdue, self._look, self._busy = overdue, look, busy
        self._now, self._sleep, self._between = now, sleep, between
        self._served = self._looked = 0.0
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def served(self) -> None:
        """A request has come. Takes no time."""
        self._served = self._now()
        if self._task is None and not self._closed and self._overdue > 0:
            # In a context of its own: it is no part of what the request reads, traces and answers for.
            self._task = asyncio.create_task(self._run(), name="recovery watch", context=Context())

    async def close(self) -> None:
        """Look no more; a scan that is at it ends where it is."""
        self._closed = True
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            pause = self._pause(_FIRST)
            # A process whose requests are far apart begins here with each of them.
            pause = max(pause, self._looked + self._pause(_PAUSE) - self._now())
            while True:
                await self._sleep(pause)
                self._looked = self._now()
                try:
                    await self._look()
                except Exception as error:  # whatever it is, the next look may do better
                    _log.warning("the recovery watch could not look: %s", telemetry.describe(error))
                if self._now() - self._served >= self._overdue and not self._busy():
                    return
                pause = self._pause(_PAUSE)
        finally:
            self._task = None

    def _pause(self, parts: tuple[float, float]) -> float:
        return self._overdue * self._between(*parts)
