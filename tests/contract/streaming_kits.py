"""The backings that the streaming suites run over, and what a test needs to play several processes and pass time."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from hosting.storage import AppendBlobs, MemoryAppendBlobs, Meter, connect_append_blobs
from hosting.streaming import EventStream, StreamRegistry, StreamTuning

BACKINGS = ["live", "memory", "file", "blob", "azurite"]
TTL = 1000.0

FAST = StreamTuning(
    flush_interval=timedelta(milliseconds=5),
    poll_active=timedelta(milliseconds=5),
    poll_idle=timedelta(milliseconds=40),
    poll_local=timedelta(milliseconds=40),
    give_up_after=timedelta(seconds=2),
)


def number(event: Any) -> Any:
    """The cursor function of most tests."""
    return event["n"]


@dataclass
class Kit:
    """A backing. `registry()` is a process; the same storage is behind all of them where a storage is."""

    name: str
    configure: Callable[[StreamRegistry], None]
    reconfigure: Callable[..., Callable[[StreamRegistry], None]]
    blobs: Callable[[], AppendBlobs] | None = None
    meter: Meter = field(default_factory=Meter)
    offset: float = 0.0
    opened: list[StreamRegistry] = field(default_factory=list[StreamRegistry])

    def clock(self) -> float:
        return time.time() + self.offset

    def age(self, seconds: float) -> None:
        """Let time pass, for what expires."""
        self.offset += seconds

    def registry(self, **options: Any) -> StreamRegistry:
        """A process; `options` instead of the usual ones."""
        made = StreamRegistry(clock=self.clock)
        (self.reconfigure(**options) if options else self.configure)(made)
        self.opened.append(made)
        return made


@asynccontextmanager
async def open_kit(
    name: str, request: pytest.FixtureRequest, tmp_path: Path, tuning: StreamTuning = FAST, **wrap: Any
) -> AsyncIterator[Kit]:
    """A kit for one test. `wrap_blobs` puts something between the streams and their storage."""
    kit: Kit
    wrap_blobs: Callable[[AppendBlobs], AppendBlobs] = wrap.get("wrap_blobs", lambda blobs: blobs)
    defaults: dict[str, Any] = {"cursor_fn": number, "ttl_seconds": TTL}

    def reconfigure(**options: Any) -> Callable[[StreamRegistry], None]:
        chosen = defaults | options

        def configure(registry: StreamRegistry) -> None:
            if name == "live":
                registry.use_in_memory_live()
            elif name == "memory":
                registry.use_in_memory_replay(**chosen)
            elif name == "file":
                registry.use_file_backed_replay(storage_dir=tmp_path / "streams", **chosen)
            else:
                assert kit.blobs is not None
                registry.use_blob_replay(kit.blobs, **{"prefix": prefix, "tuning": tuning} | chosen)

        return configure

    prefix = f"streams-{secrets.token_hex(6)}/"
    kit = Kit(name, reconfigure(), reconfigure)
    if name == "blob":
        shared = MemoryAppendBlobs(kit.meter, kit.clock)
        kit.blobs = lambda: wrap_blobs(shared)
    elif name == "azurite":
        env = {"AzureWebJobsStorage": request.getfixturevalue("azurite").connection_string}
        kit.blobs = lambda: wrap_blobs(connect_append_blobs(env, container="streams", meter=kit.meter))
    try:
        yield kit
    finally:
        for registry in kit.opened:
            await registry.shutdown()


def events(*numbers: int) -> list[dict[str, Any]]:
    return [{"n": n, "text": f"event {n}"} for n in numbers]


async def emit_all(stream: EventStream, *numbers: int, close: bool = False) -> None:
    for event in events(*numbers):
        await stream.emit(event)
    if close:
        await stream.close()


async def collect(stream: EventStream, after: Any = None, limit: int | None = None) -> list[Any]:
    """What a subscriber gets until the stream ends, or `limit` events are there."""
    found: list[Any] = []
    async with asyncio.timeout(20):
        iterator = stream.subscribe(after=after)
        if limit == 0:
            return found
        async for event in iterator:
            found.append(event)
            if len(found) == limit:
                await iterator.aclose()
                break
    return found


class Follower:
    """A subscriber that runs beside the test."""

    def __init__(self, stream: EventStream, after: Any = None) -> None:
        self.got: list[Any] = []
        self._attached = asyncio.Event()
        self.task = asyncio.create_task(self._run(stream, after))

    async def _run(self, stream: EventStream, after: Any) -> None:
        iterator = stream.subscribe(after=after)
        step = asyncio.ensure_future(anext(iterator, None))
        await asyncio.sleep(0)  # the iterator has begun and waits
        self._attached.set()
        while (event := await step) is not None:
            self.got.append(event)
            step = asyncio.ensure_future(anext(iterator, None))

    async def attached(self) -> "Follower":
        await self._attached.wait()
        return self

    async def ends(self) -> list[Any]:
        async with asyncio.timeout(20):
            await self.task
        return self.got

    async def has(self, count: int) -> list[Any]:
        await until(lambda: len(self.got) >= count)
        return self.got

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for something that must become true."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not condition():
        assert loop.time() < deadline, "it did not become true in time"
        await asyncio.sleep(0.002)


def slower(tuning: StreamTuning, **changes: Any) -> StreamTuning:
    return replace(tuning, **changes)
