"""The writer of a stream in append blobs: claim, group commit, fence, roll.

One writer owns a stream at a time: the one whose `writer` line is the last in the segments. It knows where they end, and
every append says so (a condition that the storage checks). Whoever takes over appends a `writer` line of its own; then the
end is elsewhere, and each further append of the writer before fails: that is the fence. A writer whose append fails looks at
what lies there. If it is what it tried to append, an earlier try had been applied and only its answer was lost. A claim that
is cancelled may have left its line: whoever finds a line of its own claims once more.

If the process dies before an append, the events of that batch never existed; nobody has seen them. If it dies after it,
they are stored, and followers elsewhere find them; nothing depends on what this process would have done next.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from enum import Enum

from hosting.storage import BLOCK_BYTES, AppendConflict, BlobMissing
from hosting.streaming._errors import (
    EventStreamClosedError,
    EventStreamError,
    EventStreamNotFoundError,
    StreamFenced,
    StreamUnavailable,
)
from hosting.streaming._lines import Event, Owner, end_line, next_line, writer_line
from hosting.streaming._log import Log
from hosting.streaming._pending import Pending
from hosting.streaming._segments import Place, segment_name
from hosting.streaming._signal import Signal
from hosting.telemetry import describe, instruments

__all__ = ["Writer"]


class _Anybody(Enum):
    ANYBODY = 0


_ANYBODY = _Anybody.ANYBODY

_log = logging.getLogger(__name__)

_CLAIMS = 20
_CONTROL_BYTES = 256  # more than a writer's line and the one that ends a segment


class Writer:
    """Appends to one stream. Make a new one to take the stream over; this one then fails with StreamFenced."""

    def __init__(self, log: Log, generation: int | None = None) -> None:
        self._log, self._blobs, self._tuning = log, log.blobs, log.tuning
        self.owner = Owner(secrets.token_hex(8), generation)
        self._heir_of: Owner | _Anybody | None = _ANYBODY
        # Where the stream ends, as far as this writer knows, and what that end is.
        self._place = Place(segment_name(log.prefix, 0), 0, -1)
        self._appends = 0
        self._introduced = False  # this writer's line is in the segment
        self._batch_bytes = min(BLOCK_BYTES, log.tuning.segment_bytes)
        self.claimed = self.closed = False
        self._claiming = asyncio.Lock()
        self._pending = Pending()
        self._ending = False
        self.queued = -1  # the number of the last event emitted
        self._urgent = asyncio.Event()
        self._progress = Signal()
        self._running: asyncio.Task[None] | None = None
        self.holder: object = None
        """The stream object that this writer is of. While a batch is under way, it must not be forgotten: a second one
        for the same stream would fence this writer."""
        self._started = float("-inf")
        self._failure: EventStreamError | None = None

    @property
    def broken(self) -> bool:
        """It has lost the stream or the storage."""
        return self._failure is not None

    @property
    def idle(self) -> bool:
        """All that was emitted is stored."""
        return not self._pending and not (self._ending and not self.closed)

    @property
    def active(self) -> bool:
        """It has written, and it can go on."""
        written = self._introduced or self._place.last >= 0
        return self.claimed and written and not self.closed and not self.broken

    def begin(self) -> None:
        """Own a stream that this process has just made, and that is empty. The first append proves it, or fails."""
        self.claimed = True

    def give_way(self, generation: int | None) -> None:
        """Another writer of this process takes over. Raises StreamFenced when that one is the older of the two."""
        mine = self.owner.generation
        if not self.broken and mine is not None and generation is not None and generation < mine:
            raise StreamFenced(f"generation {mine} has taken the stream over")
        self.fail(StreamFenced("another writer has taken the stream over"))

    def inherit(self, owner: Owner | None) -> None:
        """Take over from `owner` only: if somebody else has done so before us, we are the one who is late."""
        self._heir_of = owner

    async def claim(self) -> None:
        """Take the stream over at its end. Raises StreamFenced, EventStreamNotFoundError, StreamUnavailable.

        Once; when the stream is closed, nothing is written, and `closed` says so.
        """
        async with self._claiming:
            self.check()
            for _ in range(_CLAIMS):
                if self.claimed:
                    return
                end = await self._retry(self._log.end)
                place, last = end.place, end.place.last
                if end.closed:
                    self.claimed = self.closed = True
                    self._place, self.queued = place, last
                    return
                self._check_right(end.owner)
                if not end.made:
                    await self._retry(lambda name=place.segment: self._blobs.create(name))
                if place.held:
                    _log.warning("%s ends in a torn line: its event was never complete", place.segment)
                self._place = place._replace(held=b"")
                try:
                    await self._append(writer_line(self.owner, last, torn=bool(place.held)))
                except StreamFenced:
                    continue  # the writer before was faster once more
                self.claimed = self._introduced = True
                self.queued = last
                self._log.publish(last, [], self._place, ended=False)
                return
            raise StreamUnavailable("other writers append to the stream faster than it can be taken over")

    def _check_right(self, owner: Owner | None) -> None:
        """Fail when we must not take over from `owner`."""
        if owner == self.owner:
            return  # a claim of ours that was cancelled when its line was stored already
        mine, theirs = self.owner.generation, owner.generation if owner else None
        late = mine < theirs if mine is not None and theirs is not None else self._heir_of not in (_ANYBODY, owner)
        if late:
            self.fail(StreamFenced("another writer has taken the stream over"))
            self.check()

    def put(self, data: bytes, seq: int, at: float | None) -> None:
        """Emit an event. Never waits."""
        self._pending.add(Event(seq, data, at))
        self.queued = seq
        self._go()

    def put_end(self) -> None:
        """Close the stream after what was emitted."""
        self._ending = True
        self._go()

    async def room(self) -> None:
        """Wait while the buffer is full. Raises what the writer failed with."""
        while not self.broken and self._pending.bytes > self._tuning.buffer_bytes:
            await self._progress.next().wait()
        self.check()

    async def flush(self) -> None:
        """Wait until all that is emitted is stored, without regard to the interval. Raises what the writer failed with."""
        target = self.queued
        while not self.broken and not (self._place.last >= target and (self.closed or not self._ending)):
            self._urgent.set()
            await self._progress.next().wait()
        self.check()

    def check(self) -> None:
        """Raises what the writer failed with."""
        if self._failure is not None:
            # A new object each time: one that is raised in several places collects their tracebacks.
            raise type(self._failure)(*self._failure.args) from self._failure

    def check_open(self) -> None:
        """Raises as `check`, and EventStreamClosedError."""
        self.check()
        if self._ending or self.closed:
            raise EventStreamClosedError("the stream is closed")

    def fail(self, error: EventStreamError) -> None:
        """Lose the stream: what is not stored yet will not be. The first failure counts."""
        if self._failure is None:
            self._failure = error
            self._log.written_here = False
            self._pending.clear()
            self._progress.fire()
            self._log.changed.fire()

    def _go(self) -> None:
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run(), name=f"stream {self._log.prefix}")

    async def _run(self) -> None:
        """Append until nothing is waiting. A task of its own: who emits may be cancelled at any time."""
        try:
            while not self.broken and not self.idle:
                await self._pause()
                if not self.broken:
                    await self._append_batch()
        except EventStreamError as error:
            # Being fenced out is the usual end of a writer whose response was cancelled, or begun again elsewhere.
            level = logging.INFO if isinstance(error, StreamFenced) else logging.WARNING
            _log.log(level, "Stream %s: %s", self._log.prefix, error)
            self.fail(error)
        except asyncio.CancelledError:
            self.fail(StreamUnavailable("the writer was stopped"))
            raise
        except Exception as error:
            _log.error("Stream %s: the writer has failed: %s", self._log.prefix, describe(error))
            self.fail(StreamUnavailable(f"the writer has failed: {error!r}"))

    async def _pause(self) -> None:
        """Let events gather until the interval is over, somebody flushes, or a block is full."""
        until = self._started + self._tuning.flush_interval.total_seconds()
        wait = until - asyncio.get_running_loop().time()
        if wait > 0 and not self._ending and self._pending.bytes < self._batch_bytes:
            try:
                async with asyncio.timeout(wait):
                    await self._urgent.wait()
            except TimeoutError:
                pass
        self._urgent.clear()
        self._started = asyncio.get_running_loop().time()

    async def _append_batch(self) -> None:
        since = self._pending.since
        events, data = self._pending.take(self._batch_bytes - _CONTROL_BYTES)
        before, last = self._place.last, events[-1].seq if events else self._place.last
        ending = self._ending and not self._pending
        full = (
            self._place.offset + len(data) >= self._tuning.segment_bytes
            or self._appends + 1 >= self._tuning.segment_appends
        )
        if ending:
            data += end_line(last)
        elif full:
            data += next_line(last + 1)
        if not self._introduced:
            data = writer_line(self.owner, before, torn=False) + data
        await self._append(data)
        self._introduced = True
        self._place = self._place._replace(last=last)
        if full and not ending:
            self._place = Place(segment_name(self._log.prefix, last + 1), 0, last)
            self._appends, self._introduced = 0, False
        # No await from the append to here: what is stored is shown, whoever is cancelled.
        self.closed = ending
        self._log.publish(before, events, self._place, ended=ending)
        self._progress.fire()
        if events:
            measured = instruments()
            measured.append_events.record(len(events))
            measured.append_delay.record(asyncio.get_running_loop().time() - since)
        if full and not ending:
            await self._retry(lambda: self._blobs.create(self._place.segment))

    async def _append(self, data: bytes) -> None:
        """Append `data` at our place, which moves; in several blocks if it must be. Raises StreamFenced and others."""
        for start in range(0, len(data), BLOCK_BYTES):
            block = data[start : start + BLOCK_BYTES]
            await self._retry(lambda block=block: self._append_block(block))
            self._place = self._place._replace(offset=self._place.offset + len(block))

    async def _append_block(self, block: bytes) -> None:
        try:
            self._appends = await self._blobs.append(self._place.segment, block, self._place.offset)
        except AppendConflict:
            there = await self._blobs.read(self._place.segment, self._place.offset, len(block))
            if there is None or there.data != block:
                raise StreamFenced("another writer has taken the stream over") from None
            self._appends += 1  # an earlier try of ours

    async def _retry[T](self, call: Callable[[], Awaitable[T]]) -> T:
        """`Log.retry`, until this writer has lost the stream in another way."""
        try:
            return await self._log.retry(call, self.check)
        except BlobMissing:
            self._log.delete()
            raise EventStreamNotFoundError("the stream was deleted") from None
