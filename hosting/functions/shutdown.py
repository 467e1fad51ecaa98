"""What to do when the platform asks the process to end.

Python functions have no shutdown event. SIGTERM comes when a container is stopped, with little time or none before the
kill, and when a laptop's host stops. So nothing may rely on what is done here: it is courtesy (connections closed, leases
given back early), and every guarantee holds without it.
"""

import asyncio
import logging
import signal
import threading
from collections.abc import Awaitable, Callable
from types import FrameType

from hosting import telemetry

__all__ = ["Shutdown"]

_log = logging.getLogger(__name__)

type Hook = Callable[[], Awaitable[None]]


class Shutdown:
    """Runs hooks, once, when SIGTERM arrives: all at the same time, because the time may be short, then the last ones in their
    order."""

    def __init__(self) -> None:
        self._hooks: list[Hook] = []
        self._last: list[Hook] = []
        self._installed = False
        self._running: asyncio.Task[None] | None = None

    def add(self, hook: Hook, *, last: bool = False) -> None:
        """Have `hook` called; a `last` one when all others have ended, which may still use what it closes. What it raises is
        logged, and the others run all the same."""
        (self._last if last else self._hooks).append(hook)

    def install(self) -> None:
        """Listen for SIGTERM from now on. Call it inside the event loop of the app; further calls do nothing.

        The handler that was there before (uvicorn's, which stops listening and lets open requests finish) still runs.
        """
        if self._installed or threading.current_thread() is not threading.main_thread():
            return
        self._installed = True
        loop = asyncio.get_running_loop()
        previous = signal.getsignal(signal.SIGTERM)

        def on_sigterm(number: int, frame: FrameType | None) -> None:
            loop.call_soon_threadsafe(self._begin, previous is signal.SIG_DFL)
            if callable(previous):
                previous(number, frame)

        signal.signal(signal.SIGTERM, on_sigterm)

    def _begin(self, end_process: bool) -> None:
        if self._running is None:
            self._running = asyncio.create_task(self._run(end_process), name="shutdown")

    async def _run(self, end_process: bool) -> None:
        await asyncio.gather(*map(_call, self._hooks))
        for hook in self._last:
            await _call(hook)
        if end_process:  # without our handler the signal would have ended the process at once
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.raise_signal(signal.SIGTERM)


async def _call(hook: Hook) -> None:
    try:
        await hook()
    except Exception as error:
        _log.error("A shutdown hook failed: %s", telemetry.describe(error))
