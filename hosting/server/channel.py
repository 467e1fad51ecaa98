"""Events on their way from a run to the client that reads them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

__all__ = ["Channel"]

type Event = dict[str, Any]

# A client that reads slowly stops the run after this many unread events instead of filling memory.
_LIMIT = 256


class Channel:
    """One writer, one reader. What is waiting is handed over in one piece, so that a burst costs one write to the socket."""

    def __init__(self) -> None:
        self._waiting: list[Event] = []
        self._arrived = asyncio.Event()
        self._taken = asyncio.Event()
        self._closed = self._abandoned = False

    async def put(self, events: Sequence[Event]) -> None:
        """Hand over events; waits while the reader is far behind."""
        while len(self._waiting) >= _LIMIT and not self._abandoned:
            self._taken.clear()
            await self._taken.wait()
        await self.put_last(events)

    async def put_last(self, events: Sequence[Event]) -> None:
        """Hand over the few events that end a run, without waiting: the run must end also when its reader has stopped."""
        if self._abandoned:
            return
        self._waiting.extend(events)
        self._arrived.set()

    def abandon(self) -> None:
        """Nobody reads any more: what is put from now on is dropped, so that the writer never waits."""
        self._abandoned = True
        self._waiting.clear()
        self._taken.set()

    def close(self) -> None:
        """No event follows. Never waits."""
        self._closed = True
        self._arrived.set()

    async def read(self, idle_seconds: float) -> AsyncIterator[list[Event]]:
        """All events in order; an empty list each time nothing came for `idle_seconds`."""
        while True:
            if self._waiting:
                events, self._waiting = self._waiting, []
                self._taken.set()
                yield events
                continue
            if self._closed:
                return
            self._arrived.clear()
            try:
                async with asyncio.timeout(idle_seconds):
                    await self._arrived.wait()
            except TimeoutError:
                yield []
