"""An `EventStream` over a Log and a Writer: payloads and cursors on the outside, numbered lines on the inside."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any

from hosting.streaming._codec import Codec
from hosting.streaming._errors import StreamCorrupt, StreamCursorError, StreamFenced, StreamUnavailable
from hosting.streaming._lines import MOST, Event, fits
from hosting.streaming._log import Log
from hosting.streaming._options import CursorFn
from hosting.streaming._stream import one_by_one
from hosting.streaming._writer import Writer

__all__ = ["LogStream", "Rules"]


@dataclass(frozen=True, slots=True)
class Rules:
    """How a backing sees its streams."""

    codec: Codec
    cursor_fn: CursorFn | None
    clock: Callable[[], float]
    numbered: bool
    """Cursors are the numbers in the store, so a resume finds its place at once. Else events are counted from 0, cursors
    are any values, and a resume reads from the start."""
    durable_emit: bool
    event_ttl: float | None


class LogStream:
    """A take-over makes a new one, with a new writer, over the same log."""

    def __init__(self, log: Log, rules: Rules, generation: int | None = None) -> None:
        self.log, self.writer = log, Writer(log, generation)
        self.writer.holder = self
        self._rules = rules
        self._scanned, self._top = -1, None  # without numbers: the greatest cursor up to an event

    async def emit(self, payload: Any, *, close: bool = False) -> None:
        """See `EventStream.emit`. An event whose emit is cancelled while it waits may still be stored."""
        self.log.check()
        self.writer.check_open()
        data = self._rules.codec.encode(payload)
        cursor = self._rules.cursor_fn(payload) if self._rules.cursor_fn else None
        if not self.writer.claimed:
            await self.writer.claim()
        self.writer.check_open()
        number: Any = cursor if self._rules.cursor_fn and self._rules.numbered else self.writer.queued + 1
        if not fits(number, self.writer.queued):
            raise StreamCursorError(
                f"cursor {cursor!r} does not follow {self.writer.queued}: cursors are integers from 0 to {MOST}, each "
                "greater than the one before"
            )
        self.writer.put(data, number, None if self._rules.event_ttl is None else self._rules.clock())
        if close:
            self.writer.put_end()
        if close or self._rules.durable_emit:
            await self.writer.flush()
        else:
            await self.writer.room()

    async def flush(self) -> None:
        """See `EventStream.flush`."""
        self.log.check()
        await self.writer.flush()

    async def close(self) -> None:
        """See `EventStream.close`."""
        if self.log.deleted:
            return
        if not self.writer.claimed:
            await self.writer.claim()
        if not self.writer.closed:
            self.writer.check()
            self.writer.put_end()
            await self.writer.flush()

    def subscribe(self, *, after: Any = None) -> AsyncGenerator[Any]:
        """See `EventStream.subscribe`."""
        return one_by_one(self.batches(after=after))

    def batches(self, *, after: Any = None) -> AsyncGenerator[list[Any]]:
        """See `EventStream.batches`."""
        self.log.check()
        if self._rules.cursor_fn is None:
            after = None
        if after is not None and self._rules.numbered and type(after) is not int:
            raise StreamCursorError(f"after={after!r}: cursors of this backing are integers")
        return self._follow(after)

    async def last_cursor(self) -> Any:
        """See `EventStream.last_cursor`."""
        self.log.check()
        if not self.writer.idle:
            # A writer that has failed stores no more, and the end is where the storage says, be it that of another writer.
            with suppress(StreamFenced, StreamUnavailable):
                await self.writer.flush()
        if self._rules.cursor_fn is None:
            return None
        if not self._rules.numbered:
            return await self._greatest()
        if self.writer.closed:
            last = self.writer.queued
        else:
            # Also while this process writes: it may have been taken over without having tried to write since.
            last = (await self.log.retry(self.log.end, self.log.check)).place.last
        return last if last >= 0 else None

    async def _follow(self, after: Any) -> AsyncGenerator[list[Any]]:
        start = max(after, -1) if after is not None and self._rules.numbered else -1
        async with aclosing(self.log.follow(start)) as batches:
            async for events in batches:
                payloads, damage = self._decode(events)
                if after is not None and not self._rules.numbered and self._rules.cursor_fn:
                    payloads = [payload for payload in payloads if self._rules.cursor_fn(payload) > after]
                if payloads:
                    yield payloads
                if damage is not None:
                    raise damage

    def _decode(self, events: list[Event]) -> tuple[list[Any], StreamCorrupt | None]:
        """The payloads up to one that can't be decoded."""
        payloads: list[Any] = []
        for event in events:
            if self._expired(event):
                continue
            try:
                payloads.append(self._rules.codec.decode(event.data))
            except Exception as error:
                damage = StreamCorrupt(f"event {event.seq} can't be decoded: {error}", event.seq)
                damage.__cause__ = error
                return payloads, damage
        return payloads, None

    def _expired(self, event: Event) -> bool:
        ttl = self._rules.event_ttl
        return ttl is not None and event.at is not None and event.at + ttl <= self._rules.clock()

    async def _greatest(self) -> Any:
        """The greatest cursor of all events, also of the expired ones: reads on from where the last call ended."""
        assert self._rules.cursor_fn is not None
        async with aclosing(self.log.follow(self._scanned, wait=False)) as batches:
            async for events in batches:
                for event in events:
                    cursor = self._rules.cursor_fn(self._rules.codec.decode(event.data))
                    self._top = cursor if self._top is None or cursor > self._top else self._top
                    self._scanned = event.seq
        return self._top
