"""Events between their emit and the append that stores them."""

import asyncio
from collections import deque

from hosting.streaming._lines import Event, event_line

__all__ = ["Pending"]


class Pending:
    """A queue of events, each with its line. Lost with the process: nobody has seen what is in here."""

    def __init__(self) -> None:
        self._events: deque[tuple[Event, bytes]] = deque()
        self.bytes = 0
        self.since = 0.0
        """When the oldest came, by the loop's clock."""

    def __bool__(self) -> bool:
        return bool(self._events)

    def add(self, event: Event) -> None:
        """Add an event at the end."""
        if not self._events:
            self.since = asyncio.get_running_loop().time()
        line = event_line(event.seq, event.data, event.at)
        self._events.append((event, line))
        self.bytes += len(line)

    def take(self, room: int) -> tuple[list[Event], bytes]:
        """The next events and their lines, as many as go into `room` bytes, one at least."""
        events: list[Event] = []
        lines: list[bytes] = []
        size = 0
        while self._events and (not lines or size + len(self._events[0][1]) <= room):
            event, line = self._events.popleft()
            events.append(event)
            lines.append(line)
            size += len(line)
        self.bytes -= size
        return events, b"".join(lines)

    def clear(self) -> None:
        """Forget all of them."""
        self._events.clear()
        self.bytes = 0
