"""A stream in append blobs, as this process reads it: from the store, from memory, and by waiting for news."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import NamedTuple

from hosting.storage import AppendBlobs, AppendConflict, BlobInfo, BlobMissing, StorageError, StorageUnavailable
from hosting.streaming._errors import EventStreamNotFoundError, StreamCorrupt, StreamUnavailable
from hosting.streaming._lines import Damage, Event, Owner, Portion, parse
from hosting.streaming._options import StreamTuning
from hosting.streaming._pace import Pace
from hosting.streaming._recent import Recent
from hosting.streaming._segments import Place, find, first_of, segment_name
from hosting.streaming._signal import Signal
from hosting.telemetry import instruments

__all__ = ["End", "Log"]

_log = logging.getLogger(__name__)

_LISTING_SECONDS = 2.0
_FIRST_RETRY, _LONGEST_RETRY = 0.1, 5.0

READ_BYTES = 4 * 1024 * 1024
"""One read takes up to this: a whole segment as a rule."""


class End(NamedTuple):
    """The end of a stream: its place, whether there is a blob yet, whether the stream is closed, and whose it is (None:
    nobody has written)."""

    place: Place
    made: bool
    closed: bool
    owner: Owner | None


class Log:
    """The stored events of one stream. All writers and subscribers of this process share the object."""

    def __init__(self, blobs: AppendBlobs, prefix: str, tuning: StreamTuning) -> None:
        self.blobs, self.prefix, self.tuning = blobs, prefix, tuning
        self.recent = Recent(tuning.window_bytes)
        self.changed = Signal()
        self.deleted = False
        self.written_here = False
        """The last news came from a writer of this process."""
        self._pace = Pace(tuning)
        self._looking = asyncio.Lock()
        self._looks = 0
        self._silent_since: float | None = None
        self._listing: tuple[float, Sequence[BlobInfo]] = (float("-inf"), ())

    def begin(self) -> None:
        """The stream is new, and empty."""
        self.recent.restart(Place(segment_name(self.prefix, 0), 0, -1), ended=False)

    def listed(self, infos: Sequence[BlobInfo]) -> None:
        """The segments, as somebody has just seen them: saves the next subscriber a request."""
        self._listing = asyncio.get_running_loop().time(), infos

    def publish(self, before: int, events: Sequence[Event], tail: Place, *, ended: bool) -> None:
        """Show events that a writer of this process has stored, the first of which follows number `before`."""
        self.written_here = not ended
        self.recent.extend(before, events, tail, ended=ended)
        self.changed.fire()

    def delete(self) -> None:
        """The stream is gone; subscribers end."""
        self.deleted = True
        self.changed.fire()

    def check(self) -> None:
        """Raises EventStreamNotFoundError."""
        if self.deleted:
            raise EventStreamNotFoundError("the stream was deleted or has expired")

    async def retry[T](self, call: Callable[[], Awaitable[T]], check: Callable[[], None]) -> T:
        """Repeat a call, each time the very same, until the storage answers; `check` may raise in between.

        Raises StreamUnavailable when that takes too long or is hopeless. AppendConflict and BlobMissing are answers.
        """
        loop = asyncio.get_running_loop()
        deadline, delay = loop.time() + self.tuning.give_up_after.total_seconds(), _FIRST_RETRY
        while True:
            try:
                return await call()
            except (AppendConflict, BlobMissing):
                raise
            except StorageError as error:
                check()
                if not isinstance(error, StorageUnavailable) or loop.time() + delay > deadline:
                    raise StreamUnavailable(f"the storage does not take the call: {error}") from error
            await asyncio.sleep(delay)
            delay = min(delay * 2, _LONGEST_RETRY)

    async def end(self, infos: Sequence[BlobInfo] = ()) -> End:
        """Where the stream ends in the store. `infos` is a listing, if the caller has one.

        One read for a segment of the usual size, and the listing. Raises EventStreamNotFoundError, and StorageError.
        """
        infos = infos or await self.blobs.list(self.prefix)
        if not infos:
            self.delete()
        self.check()
        end = await self._end_from(infos[-1])
        if end.owner is None and len(infos) > 1:  # a segment was made and not yet written to: the one before knows
            end = await self._end_from(infos[-2])
        if self.recent.tail is None:
            self.recent.restart(end.place, ended=end.closed)
        return end

    async def _end_from(self, info: BlobInfo) -> End:
        place, owner = find([info], first_of(info.name)), None
        while (read := await self._read(place)) is not None:
            portion, place, more = read
            owner = portion.owner or owner
            if portion.ended or not more:
                return End(place, True, portion.ended, owner)
        return End(place, False, False, owner)

    async def follow(self, after: int, *, wait: bool = True) -> AsyncGenerator[list[Event]]:
        """The events with numbers greater than `after`, in lists as they come; with `wait`, also those still to come.

        Ends with the stream. Raises StreamCorrupt, StreamUnavailable.
        """
        last, place = after, None
        while not self.deleted:
            news = self.changed.next()
            if self.recent.covers(last):
                place, items = self.recent.tail, self.recent.after(last)
                if not items:
                    if self.recent.ended or not wait:
                        return
                    await self._news(news)
            else:
                place, items = await self._advance(place, last)
            damage = next((item for item in items if isinstance(item, Damage)), None)
            events = [item for item in items if isinstance(item, Event) and (damage is None or item.seq <= damage.seq)]
            if events:
                last = events[-1].seq
                yield events
            if damage is not None:
                raise self._corrupt("lines can't be read", damage.seq)

    async def _advance(self, place: Place | None, last: int) -> tuple[Place | None, list[Event | Damage]]:
        """Read on in the store, for a subscriber that has all up to `last`: where it then is, and what it found."""
        try:
            if place is None:
                place = await self._find(last)
            read = None if place is None else await self._read(place)
            if place is not None and read is None:
                place = await self._missing(place, last)
        except StorageError as error:
            await self._failed(error)
            return place, []
        self._silent_since = None
        if place is None:
            self.delete()
            return None, []
        items: list[Event | Damage] = []
        if read is not None:
            portion, place, more = read
            items = [item for item in portion.items if item.seq > last]
            if more or portion.next is not None:
                return place, items
        self._caught_up(place, ended=read is not None and read[0].ended)
        if not items and not self.recent.covers(last):
            await asyncio.sleep(self._pace.wait)  # the window is ahead of what this read could see
        return place, items

    def _caught_up(self, place: Place, *, ended: bool) -> None:
        # The first subscriber that comes to the end opens the window there; from then on all wait together. Anew, when
        # the window ends before a place that holds more than it knows.
        if self.recent.tail is None or self.recent.tail.last < place.last:
            self.recent.restart(place, ended=ended)

    async def _news(self, news: asyncio.Event) -> None:
        """Wait until there may be something new, at most as long as the pace says; then one of all that wait looks."""
        looks, since = self._looks, asyncio.get_running_loop().time()
        seconds = self.tuning.poll_local.total_seconds() if self.written_here else self._pace.wait
        try:
            async with asyncio.timeout(seconds):
                await news.wait()
            return
        except TimeoutError:
            pass
        async with self._looking:
            if self._looks == looks and not news.is_set():
                await self._look(since)

    async def _look(self, since: float) -> None:
        """Read what is new at the end; whoever asks has had nothing to read since then (by the loop's clock)."""
        place = self.recent.tail
        if place is None:
            return
        try:
            read = await self._read(place)
            found = await self._missing(place, place.last) if read is None else place
        except StorageError as error:
            self._looks += 1
            await self._failed(error)
            return
        self._looks += 1
        self._silent_since = None
        if found is None:
            self.delete()
            return
        if read is None:
            self._pace.looked(news=False)
            return
        portion, tail, _ = read
        self._pace.looked(news=bool(portion.items) or portion.next is not None)
        if self.recent.tail is not None and tail.last > self.recent.tail.last:
            self.written_here = False  # a writer of this process would have shown it
        self.recent.extend(place.last, portion.items, tail, ended=portion.ended)
        if portion.items or portion.ended:
            self.changed.fire()
        if portion.items:
            instruments().stream_lag.record(asyncio.get_running_loop().time() - since)

    async def _read(self, place: Place) -> tuple[Portion, Place, bool] | None:
        """What lies behind `place`, the place after it, and whether the segment has more; None when it is not there."""
        chunk = await self.blobs.read(place.segment, place.offset, READ_BYTES)
        if chunk is None or chunk.size < place.offset or (place.born and chunk.born and place.born != chunk.born):
            return None
        portion = parse(place.held, chunk.data, place.last)
        last = portion.items[-1].seq if portion.items else place.last
        if portion.next is not None:
            return portion, Place(segment_name(self.prefix, portion.next), 0, portion.next - 1), True
        offset = place.offset + len(chunk.data)
        return portion, Place(place.segment, offset, last, portion.held, chunk.born or place.born), offset < chunk.size

    async def _find(self, last: int) -> Place | None:
        seen, infos = self._listing
        # Not for long: in a growing stream the place would be ever further from where an old listing points.
        if not infos or asyncio.get_running_loop().time() - seen > _LISTING_SECONDS:
            infos = await self.blobs.list(self.prefix)
        if not infos:
            return None
        place = find(infos, last)
        if place.last > last:
            return await self._gap("the segments before are gone", place.last)
        return place

    async def _missing(self, place: Place, last: int) -> Place | None:
        """A segment is not as it was: not made yet (the place again), or the stream is gone (None).

        Raises StreamCorrupt when only this segment is gone.
        """
        infos = await self.blobs.list(self.prefix)
        later = [first_of(info.name) for info in infos if info.name > place.segment]
        if later and all(info.name != place.segment for info in infos):
            return await self._gap(f"segment {place.segment} is gone", max(last, later[0] - 1))
        # Read from once and now absent, or shorter, or another blob: deleted, and maybe made anew.
        return place if infos and place.offset == 0 else None

    async def _gap(self, what: str, resume_after: int) -> None:
        """Segments are missing in front of others: None if that is a deletion under way. Raises StreamCorrupt."""
        await asyncio.sleep(self.tuning.poll_idle.total_seconds())
        if await self.blobs.list(self.prefix):
            raise self._corrupt(what, resume_after)

    def _corrupt(self, what: str, resume_after: int) -> StreamCorrupt:
        _log.error("Stream %s is damaged: %s", self.prefix, what)
        return StreamCorrupt(what, resume_after)

    async def _failed(self, error: StorageError) -> None:
        """Wait before the next try. Raises StreamUnavailable when there is no point, or it has been too long already."""
        now = asyncio.get_running_loop().time()
        if self._silent_since is None:
            self._silent_since = now
        silent = now - self._silent_since
        if not isinstance(error, StorageUnavailable) or silent >= self.tuning.give_up_after.total_seconds():
            self._silent_since = None
            raise StreamUnavailable(f"the stream can't be read: {error}") from error
        self._pace.looked(news=False)
        await asyncio.sleep(self._pace.wait)
