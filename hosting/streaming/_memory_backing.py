"""The in-memory backings: which streams there are."""

from collections import deque
from collections.abc import Callable

from hosting.streaming._errors import EventStreamNotFoundError, StreamFenced
from hosting.streaming._memory import MemoryLog, MemoryStream
from hosting.streaming._options import Capabilities, CursorFn
from hosting.streaming._slots import Slots

__all__ = ["MemoryBacking"]

# A live stream has nothing to keep but the fact that it is closed.
_LIVE_KEPT = 1024


class MemoryBacking:
    """Live or replay. Streams of one process; a replay stream without `ttl_seconds` stays until it is deleted."""

    def __init__(
        self,
        *,
        replay: bool,
        cursor_fn: CursorFn | None = None,
        ttl_seconds: float | None = None,
        clock: Callable[[], float],
    ) -> None:
        self.capabilities = Capabilities(
            replay=replay,
            survives_restart=False,
            across_processes=False,
            emit_is_durable=True,
            any_cursor=True,
            event_ttl=replay,
            any_payload=True,
        )
        self._cursor_fn, self._ttl, self._clock = cursor_fn, ttl_seconds, clock
        self._slots = Slots[MemoryStream](None if replay else _LIVE_KEPT)
        self._expiries: deque[tuple[float, str, MemoryLog]] = deque()

    def holds(self, id: str) -> bool:
        """See `Backing.holds`."""
        self._prune()
        return self._slots.get(id) is not None

    def __len__(self) -> int:
        self._prune()
        return len(self._slots)

    async def get(self, id: str) -> MemoryStream:
        """See `Backing.get`."""
        self._prune()
        stream = self._slots.get(id)
        if stream is None:
            raise EventStreamNotFoundError(f"no stream {id!r}")
        return stream

    async def get_or_create(self, id: str) -> MemoryStream:
        """See `Backing.get_or_create`."""
        self._prune()
        return self._slots.get(id) or self._put(id, self._new_log(id))

    async def take_over(self, id: str, generation: int | None = None) -> MemoryStream:
        """See `Backing.take_over`."""
        self._prune()
        before = self._slots.get(id)
        if before is None:
            return self._put(id, self._new_log(id), generation)
        if before.generation is not None and generation is not None and generation < before.generation:
            raise StreamFenced(f"generation {before.generation} has taken the stream over")
        before.fenced = True
        return self._put(id, before.log, generation)

    async def delete(self, id: str) -> None:
        """See `Backing.delete`."""
        stream = self._slots.get(id)
        if stream is not None:
            stream.log.delete()
            self._slots.remove(id)

    async def shutdown(self) -> None:
        """See `Backing.shutdown`."""

    def _put(self, id: str, log: MemoryLog, generation: int | None = None) -> MemoryStream:
        stream = MemoryStream(log, generation)
        self._slots.put(id, stream)
        return stream

    def _new_log(self, id: str) -> MemoryLog:
        log = MemoryLog(
            replay=self.capabilities.replay,
            cursor_fn=self._cursor_fn,
            ttl_seconds=self._ttl,
            clock=self._clock,
            on_close=lambda expires: self._expiries.append((expires, id, log)),
        )
        return log

    def _prune(self) -> None:
        # All have the same time to live, so they expire in the order in which they were closed.
        while self._expiries and self._expiries[0][0] <= self._clock():
            _, id, log = self._expiries.popleft()
            log.delete()
            stream = self._slots.get(id)
            if stream is not None and stream.log is log:
                self._slots.remove(id)
