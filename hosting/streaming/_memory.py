"""Streams in this process's memory: live, and replay.

Both are one list that all subscribers read at their own position, so a slow subscriber costs no copies. Replay keeps
events until they expire; live keeps what an attached subscriber has not read, up to a limit.
"""

import copy
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any, cast

from hosting.streaming._errors import (
    EventStreamClosedError,
    EventStreamNotFoundError,
    StreamFenced,
    StreamLagged,
)
from hosting.streaming._options import CursorFn
from hosting.streaming._signal import Signal
from hosting.streaming._stream import one_by_one

__all__ = ["MemoryLog", "MemoryStream"]

_BATCH = 256
_LIVE_LIMIT = 10_000


@dataclass(slots=True, eq=False)
class _Entry:
    payload: Any
    cursor: Any
    expires: float


@dataclass(slots=True, eq=False)
class _Reader:
    position: int


class MemoryLog:
    """The events of one stream; `MemoryStream` objects are its writers and readers. No method awaits."""

    def __init__(
        self,
        *,
        replay: bool,
        cursor_fn: CursorFn | None,
        ttl_seconds: float | None,
        clock: Callable[[], float],
        on_close: Callable[[float], None] | None = None,
        live_limit: int = _LIVE_LIMIT,
    ) -> None:
        self.replay, self._limit = replay, live_limit
        self._cursor_fn, self._ttl, self._clock, self._on_close = cursor_fn, ttl_seconds, clock, on_close
        # Positions count all events there ever were; `_entries[_head]` is the first one kept, at position `_first`.
        self._entries: list[_Entry | None] = []
        self._head, self._first = 0, 0
        self._readers: set[_Reader] = set()
        self.changed = Signal()
        self.top: Any = None
        self.closed = self.deleted = False
        self.expires: float | None = None

    @property
    def end(self) -> int:
        """The position after the last event."""
        return self._first + len(self._entries) - self._head

    @property
    def gone(self) -> bool:
        """Deleted, or closed longer than its time to live."""
        if not self.deleted and self.expires is not None and self._clock() >= self.expires:
            self.delete()
        return self.deleted

    def check(self) -> None:
        """Raises EventStreamNotFoundError."""
        if self.gone:
            raise EventStreamNotFoundError("the stream was deleted or has expired")

    def add(self, payload: Any) -> None:
        """Keep a copy of an event. Nothing is kept when the copy or the cursor can't be made."""
        kept = copy.deepcopy(payload)
        cursor, top = None, self.top
        if self._cursor_fn is not None:
            cursor = self._cursor_fn(payload)
            top = cursor if top is None or cursor > top else top
        self.top = top
        self._entries.append(_Entry(kept, cursor, self._clock() + self._ttl if self._ttl is not None else float("inf")))
        self._trim()
        self.changed.fire()

    def close(self) -> None:
        """No event follows."""
        if not self.closed:
            self.closed = True
            if self._ttl is not None:
                self.expires = self._clock() + self._ttl
                if self._on_close is not None:
                    self._on_close(self.expires)
            self.changed.fire()

    def delete(self) -> None:
        """Drop everything; subscribers end."""
        self.deleted = True
        self._entries, self._head = [], 0
        self.changed.fire()

    def attach(self) -> _Reader:
        """A position at the first event for replay, behind the last one for live."""
        self._trim()
        reader = _Reader(self._first if self.replay else self.end)
        self._readers.add(reader)
        return reader

    def detach(self, reader: _Reader) -> None:
        """Events that only this reader was to read are dropped."""
        self._readers.discard(reader)
        self._trim()

    def read(self, reader: _Reader, after: Any) -> list[Any]:
        """Copies of the next events, none when there is nothing new. Raises StreamLagged."""
        payloads: list[Any] = []
        while not payloads and reader.position < self.end:
            if reader.position < self._first:
                raise StreamLagged(f"{self._first - reader.position} events were dropped before they were read")
            start = self._head + reader.position - self._first
            entries = cast("list[_Entry]", self._entries[start : start + _BATCH])
            reader.position += len(entries)
            if after is not None and self._cursor_fn is not None:
                entries = [entry for entry in entries if entry.cursor > after]
            payloads = [copy.deepcopy(entry.payload) for entry in entries]
        self._trim()
        return payloads

    def _trim(self) -> None:
        if self.replay:
            now, keep = self._clock(), self._first
            while keep < self.end and cast("_Entry", self._entries[self._head + keep - self._first]).expires <= now:
                keep += 1
        else:
            keep = min((reader.position for reader in self._readers), default=self.end)
            keep = max(keep, self.end - self._limit, self._first)
        for index in range(self._head, self._head + keep - self._first):
            self._entries[index] = None
        self._head, self._first = self._head + keep - self._first, keep
        if self._head > 1024 and self._head * 2 > len(self._entries):
            del self._entries[: self._head]
            self._head = 0


class MemoryStream:
    """An `EventStream` over a MemoryLog. A take-over makes a new one over the same log and fences this one."""

    def __init__(self, log: MemoryLog, generation: int | None = None) -> None:
        self.log, self.generation = log, generation
        self.fenced = False

    async def emit(self, payload: Any, *, close: bool = False) -> None:
        """See `EventStream.emit`."""
        self._check_writer()
        if self.log.closed:
            raise EventStreamClosedError("the stream is closed")
        self.log.add(payload)
        if close:
            self.log.close()

    async def flush(self) -> None:
        """See `EventStream.flush`."""
        self._check_writer()

    async def close(self) -> None:
        """See `EventStream.close`."""
        if not self.log.gone:
            self._check_writer()
            self.log.close()

    async def last_cursor(self) -> Any:
        """See `EventStream.last_cursor`."""
        self.log.check()
        return self.log.top

    def subscribe(self, *, after: Any = None) -> AsyncGenerator[Any]:
        """See `EventStream.subscribe`."""
        return one_by_one(self.batches(after=after))

    def batches(self, *, after: Any = None) -> AsyncGenerator[list[Any]]:
        """See `EventStream.batches`."""
        self.log.check()
        return self._follow(after)

    async def _follow(self, after: Any) -> AsyncGenerator[list[Any]]:
        reader = self.log.attach()
        try:
            while not self.log.gone:
                news = self.log.changed.next()
                payloads = self.log.read(reader, after)
                if payloads:
                    yield payloads
                elif self.log.closed:
                    return
                else:
                    await news.wait()
        finally:
            self.log.detach(reader)

    def _check_writer(self) -> None:
        self.log.check()
        if self.fenced:
            raise StreamFenced("another writer has taken the stream over")
