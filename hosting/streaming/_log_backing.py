"""Streams in append blobs: opening, creating, taking over, deleting, expiring. Behind the blob and the file backing."""

import asyncio
import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from weakref import WeakValueDictionary

from hosting.storage import AppendBlobs, BlobInfo, StorageError
from hosting.storage.keys import encode_key
from hosting.streaming._errors import (
    EventStreamError,
    EventStreamNotFoundError,
    StreamUnavailable,
)
from hosting.streaming._lines import is_end
from hosting.streaming._log import Log
from hosting.streaming._log_stream import LogStream, Rules
from hosting.streaming._options import Capabilities, StreamTuning
from hosting.streaming._segments import Place, segment_name
from hosting.streaming._slots import Slots

__all__ = ["LogBacking"]

_log = logging.getLogger(__name__)

# Times `window_bytes`: the memory that streams may take which nobody uses at the moment.
_KEPT = 128
_SHUTDOWN_SECONDS = 10.0


class LogBacking:
    """`root` is a function, because it may depend on the caller: the part of the names before the stream's, with a slash
    at its end, or "". `ttl_seconds` counts from the last append of a closed stream; an open one does not expire."""

    def __init__(
        self,
        open_blobs: Callable[[], AppendBlobs],
        root: Callable[[], str],
        rules: Rules,
        tuning: StreamTuning,
        *,
        ttl_seconds: float | None,
        capabilities: Capabilities,
    ) -> None:
        self.capabilities = capabilities
        self._open_blobs, self._root, self._rules, self._tuning = open_blobs, root, rules, tuning
        self._ttl = ttl_seconds
        self._blobs: AppendBlobs | None = None
        self._slots = Slots[LogStream](_KEPT)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def holds(self, id: str) -> bool:
        """See `Backing.holds`."""
        return self._slots.get(self._prefix(id)) is not None

    def __len__(self) -> int:
        return len(self._slots)

    async def get(self, id: str) -> LogStream:
        """See `Backing.get`. No request while this process writes the stream, else one."""
        prefix = self._prefix(id)
        async with self._lock(prefix):
            if (writing := self._writing(prefix)) is not None:
                return writing
            known = self._tail(prefix)
            with _storage_errors():
                infos = await self._store().list(prefix)
                if not infos or await self._expired(infos):
                    self._forget(prefix)
                    raise EventStreamNotFoundError(f"no stream {id!r}")
            return self._open(prefix, infos, known)

    async def get_or_create(self, id: str) -> LogStream:
        """See `Backing.get_or_create`. Requests as `get`, and one to create or to see who writes."""
        prefix = self._prefix(id)
        async with self._lock(prefix):
            if (writing := self._writing(prefix)) is not None:
                return writing
            stream, infos = await self._existing_or_new(prefix)
            if infos and not stream.writer.claimed:
                with _storage_errors():
                    stream.writer.inherit((await stream.log.end(infos)).owner)
            return stream

    async def take_over(self, id: str, generation: int | None = None) -> LogStream:
        """See `Backing.take_over`. Three or four requests."""
        prefix = self._prefix(id)
        async with self._lock(prefix):
            held = self._slots.get(prefix)
            if held is not None:
                # Here and now: the storage would tell it only at its next append.
                held.writer.give_way(generation)
            stream, _ = await self._existing_or_new(prefix, generation)
            await stream.writer.claim()
            return stream

    async def delete(self, id: str) -> None:
        """See `Backing.delete`. A request to list, before and after, and one for each segment.

        If the process dies half-way, the later segments are left, and with them the end of the stream: subscribers get
        StreamCorrupt and do not wait forever. Repeat it.
        """
        prefix = self._prefix(id)
        async with self._lock(prefix):
            self._forget(prefix)
            with _storage_errors():
                await self._remove(prefix)

    async def shutdown(self) -> None:
        """See `Backing.shutdown`. Waits 10 s at most; what a writer could not store by then is lost."""
        writers = [stream.writer for stream in self._slots.values() if not stream.writer.idle]
        if writers:
            flushes = [asyncio.ensure_future(writer.flush()) for writer in writers]
            done, late = await asyncio.wait(flushes, timeout=_SHUTDOWN_SECONDS)
            for flush in late:
                flush.cancel()
            failed = len(late) + sum(1 for flush in done if flush.exception() is not None)
            if failed:
                _log.warning("%d of %d streams could not be flushed", failed, len(flushes))
        self._slots = Slots[LogStream](_KEPT)
        blobs, self._blobs = self._blobs, None
        if blobs is not None:
            await blobs.close()

    def _prefix(self, id: str) -> str:
        return f"{self._root()}{encode_key(id)}/"

    def _lock(self, prefix: str) -> asyncio.Lock:
        lock = self._locks.get(prefix)
        if lock is None:
            lock = self._locks[prefix] = asyncio.Lock()
        return lock

    def _store(self) -> AppendBlobs:
        if self._blobs is None:
            self._blobs = self._open_blobs()
        return self._blobs

    def _writing(self, prefix: str) -> LogStream | None:
        """The stream, if this process writes it: then it knows what there is."""
        stream = self._slots.get(prefix)
        return stream if stream is not None and stream.writer.active and not stream.log.deleted else None

    async def _existing_or_new(
        self, prefix: str, generation: int | None = None
    ) -> tuple[LogStream, Sequence[BlobInfo]]:
        """The stream, and what is stored of it. A new writer, if one is made, gets `generation`."""
        known = self._tail(prefix)
        with _storage_errors():
            infos = await self._store().list(prefix)
            if infos and await self._expired(infos):
                await self._remove(prefix)
                infos = []
            if infos:
                return self._open(prefix, infos, known, generation), infos
            self._forget(prefix)
            created = await self._store().create(segment_name(prefix, 0))
        stream = self._open(prefix, [], None, generation)
        if created:
            stream.log.begin()
            stream.writer.begin()
        else:  # by another process, this very moment
            stream.writer.inherit(None)
        return stream, []

    def _tail(self, prefix: str) -> Place | None:
        """How far this process has come. Ask it before a listing: while that is on its way, reading goes on."""
        held = self._slots.get(prefix)
        return held.log.recent.tail if held is not None else None

    def _open(
        self, prefix: str, infos: Sequence[BlobInfo], known: Place | None, generation: int | None = None
    ) -> LogStream:
        """`known` is what `_tail` said before `infos` were listed."""
        held = self._slots.get(prefix)
        if held is not None and (held.log.deleted or _is_another(known, infos)):
            self._forget(prefix)
            held = None
        log = held.log if held is not None else Log(self._store(), prefix, self._tuning)
        log.listed(infos)
        if held is not None and not held.writer.broken:
            return held
        stream = LogStream(log, self._rules, generation)
        self._slots.put(prefix, stream)
        return stream

    def _forget(self, prefix: str) -> None:
        held = self._slots.get(prefix)
        if held is not None:
            self._slots.remove(prefix)
            held.writer.fail(EventStreamNotFoundError("the stream was deleted or has expired"))
            held.log.delete()

    async def _expired(self, infos: Sequence[BlobInfo]) -> bool:
        last = infos[-1]
        if self._ttl is None or last.modified + self._ttl > self._rules.clock():
            return False
        tail = await self._store().read(last.name, max(0, last.size - 64), 64)
        return tail is not None and is_end(tail.data)

    async def _remove(self, prefix: str) -> None:
        # Again, for a segment that a writer made meanwhile. One that is faster than this leaves a piece behind, which
        # the container's lifecycle rule removes.
        for _ in range(3):
            infos = await self._store().list(prefix)
            if not infos:
                return
            for info in infos:
                await self._store().delete(info.name)


def _is_another(known: Place | None, infos: Sequence[BlobInfo]) -> bool:
    """Whether the stream in the store can't be the one of which this process knew `known`: deleted and made anew
    elsewhere."""
    if known is None or known.offset == 0:
        return False
    return all(info.name != known.segment or info.size < known.offset for info in infos)


@contextmanager
def _storage_errors() -> Generator[None]:
    try:
        yield
    except EventStreamError:
        raise
    except StorageError as error:
        raise StreamUnavailable(f"the stream can't be opened: {error}") from error
