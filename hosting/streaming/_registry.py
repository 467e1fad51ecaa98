"""The registry: which backing new streams have, and where the streams are."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hosting.streaming._memory_backing import MemoryBacking
from hosting.streaming._options import Capabilities, CursorFn, StreamTuning
from hosting.streaming._stream import Backing, EventStream

if TYPE_CHECKING:
    from hosting.storage import AppendBlobs

__all__ = ["StreamRegistry"]

_FILE_TTL = 600.0
_BLOB_TTL = 24 * 3600.0


class StreamRegistry:
    """Pick a backing once, at start-up; live is the default. Streams that are in hand keep the backing they have.

    A program needs one, `streams`; tests make their own. Use it from one event loop.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._backings: list[Backing] = []
        self.use_in_memory_live()

    def use_in_memory_live(self) -> None:
        """No replay: a subscriber gets what is emitted while it iterates."""
        self._use(MemoryBacking(replay=False, clock=self._clock))

    def use_in_memory_replay(self, *, cursor_fn: CursorFn | None = None, ttl_seconds: float | None = None) -> None:
        """Replay while the process lives.

        `cursor_fn` gives an event's cursor, and is what `after` and `last_cursor` need. Each event expires `ttl_seconds`
        after its emit, and a closed stream that long after its close; without it both stay until `delete`.
        """
        self._use(
            MemoryBacking(replay=True, cursor_fn=cursor_fn, ttl_seconds=_positive(ttl_seconds), clock=self._clock)
        )

    def use_file_backed_replay(
        self,
        *,
        storage_dir: str | os.PathLike[str] | None = None,
        cursor_fn: CursorFn | None = None,
        ttl_seconds: float | None = None,
        serializer: Callable[[Any], bytes | str] | None = None,
        deserializer: Callable[[bytes], Any] | None = None,
    ) -> None:
        """Replay from files of this machine, also after a restart and in other processes. `emit` returns when it is synced.

        `storage_dir` is `$AGENTSERVER_STATE_ROOT/streams` (`~/.agentserver/streams`) by default; `ttl_seconds` as for
        `use_in_memory_replay`, 600 by default. Payloads are JSON values, unless `serializer` and `deserializer` are given:
        payload to bytes and back. Raises ValueError for one without the other.
        """
        from hosting.streaming._codec import CustomCodec, JsonCodec
        from hosting.streaming._files import FileAppendBlobs
        from hosting.streaming._log_backing import LogBacking
        from hosting.streaming._log_stream import Rules

        if (serializer is None) != (deserializer is None):
            raise ValueError("serializer and deserializer: give both or none")
        root = os.environ.get("AGENTSERVER_STATE_ROOT") or Path.home() / ".agentserver"
        directory = Path(storage_dir) if storage_dir is not None else Path(root) / "streams"
        codec = CustomCodec(serializer, deserializer) if serializer and deserializer else JsonCodec()
        ttl = _positive(_FILE_TTL if ttl_seconds is None else ttl_seconds)
        tuning = replace(
            StreamTuning(),
            flush_interval=timedelta(0),
            poll_idle=timedelta(milliseconds=250),
            poll_local=timedelta(seconds=1),
            segment_bytes=8 * 1024 * 1024,
        )
        self._use(
            LogBacking(
                lambda: FileAppendBlobs(directory, self._clock),
                str,
                Rules(codec, cursor_fn, self._clock, numbered=False, durable_emit=True, event_ttl=ttl),
                tuning,
                ttl_seconds=ttl,
                capabilities=Capabilities(
                    replay=True,
                    survives_restart=True,
                    across_processes=True,
                    emit_is_durable=True,
                    any_cursor=True,
                    event_ttl=True,
                    any_payload=serializer is not None,
                ),
            )
        )

    def use_blob_replay(
        self,
        open_blobs: "Callable[[], AppendBlobs]",
        *,
        scope: Callable[[], str] | None = None,
        prefix: str = "streams/",
        cursor_fn: CursorFn | None = None,
        ttl_seconds: float | None = _BLOB_TTL,
        tuning: StreamTuning | None = None,
    ) -> None:
        """Replay from append blobs: on every instance, while a stream is written and after it, whatever restarts.

        - `open_blobs` makes the storage, once, at first use inside the event loop: `hosting.storage.connect_append_blobs`
          or `MemoryAppendBlobs`. `shutdown` closes it.
        - `scope` says on whose behalf the calling code runs (`hosting.storage.keys.scope`): ids of one scope do not exist
          in another. Called in every `get`, `get_or_create`, `take_over` and `delete`.
        - `cursor_fn` gives the number of an event, an integer greater than the one before: `after` and `last_cursor` need
          it. Payloads are JSON values.
        - A closed stream expires `ttl_seconds` after its last append, None is never. An open one does not.

        The names of the blobs are `<prefix><scope>/<id>/<first number>.jsonl`.
        """
        from hosting.storage.keys import encode_key
        from hosting.streaming._codec import JsonCodec
        from hosting.streaming._log_backing import LogBacking
        from hosting.streaming._log_stream import Rules

        def root() -> str:
            return prefix if scope is None else f"{prefix}{encode_key(scope())}/"

        self._use(
            LogBacking(
                open_blobs,
                root,
                Rules(JsonCodec(), cursor_fn, self._clock, numbered=True, durable_emit=False, event_ttl=None),
                tuning or StreamTuning(),
                ttl_seconds=_positive(ttl_seconds),
                capabilities=Capabilities(
                    replay=True,
                    survives_restart=True,
                    across_processes=True,
                    emit_is_durable=False,
                    any_cursor=False,
                    event_ttl=False,
                    any_payload=False,
                ),
            )
        )

    @property
    def capabilities(self) -> Capabilities:
        """What streams that are created now can do."""
        return self._backings[0].capabilities

    async def get(self, id: str) -> EventStream:
        """An existing stream. Raises EventStreamNotFoundError for one that was never created, is deleted, or expired."""
        return await self._backing(id).get(id)

    async def get_or_create(self, id: str) -> EventStream:
        """The stream, new if there is none. The same object for all that ask in this process.

        Where streams outlive a process: the first `emit` or `close` of an object that did not create the stream takes it
        over at its stored end, and raises StreamFenced if somebody else has done so since this call. Subscribing does not.
        """
        return await self._backing(id).get_or_create(id)

    async def take_over(self, id: str, *, generation: int | None = None) -> EventStream:
        """The stream, new if there is none, with this caller as its only writer. Call it when a run is recovered.

        When this returns, no event of the writer before will be added any more, in this process or another: its calls
        raise StreamFenced, and what it had not stored is lost. `last_cursor` says where to go on.

        `generation` orders writers that may take over in any order, however late (the generation of a task's lease):
        one that is lower than the present writer's raises StreamFenced. Raises StreamUnavailable.
        """
        return await self._backing(id).take_over(id, generation)

    async def delete(self, id: str) -> None:
        """Remove a stream with all it has stored; its subscribers end. One that does not exist: nothing happens."""
        await self._backing(id).delete(id)

    async def shutdown(self) -> None:
        """Flush all writers (10 s at most) and release connections. No stream is closed: a recovered run goes on."""
        for backing in self._backings:
            await backing.shutdown()

    def _use(self, backing: Backing) -> None:
        self._backings = [backing, *(before for before in self._backings if len(before))]

    def _backing(self, id: str) -> Backing:
        if not id:
            raise ValueError("a stream's id can't be empty")
        return next((backing for backing in self._backings if backing.holds(id)), self._backings[0])


def _positive(ttl_seconds: float | None) -> float | None:
    if ttl_seconds is not None and not ttl_seconds > 0:
        raise ValueError(f"ttl_seconds is {ttl_seconds}: it must be greater than 0")
    return ttl_seconds
