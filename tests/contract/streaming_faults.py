"""A storage account shared by several processes, which fails on command."""

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest

from hosting.storage import (
    AppendBlobs,
    BlobInfo,
    Chunk,
    MemoryAppendBlobs,
    Meter,
    StorageUnavailable,
    connect_append_blobs,
)
from hosting.streaming import StreamRegistry, StreamTuning
from tests.contract.streaming_kits import FAST, number

type Fault = Literal["ok", "lost", "refused", "twice"]


class FaultyBlobs:
    """`plan` says what happens to the coming appends: "lost" is applied and then times out, "refused" fails before it is
    applied, "twice" is applied, and applied again by something in between that repeats it. `down`: nothing works."""

    def __init__(self, inner: AppendBlobs) -> None:
        self.inner = inner
        self.plan: deque[Fault] = deque()
        self.down = False
        self.appended: list[bytes] = []
        self.before_append: Callable[[], Awaitable[None]] | None = None
        self.after_append: Callable[[], Awaitable[None]] | None = None

    async def create(self, name: str) -> bool:
        self._check()
        return await self.inner.create(name)

    async def append(self, name: str, data: bytes, position: int) -> int:
        self._check()
        if self.before_append is not None:
            await self.before_append()
        fault = self.plan.popleft() if self.plan else "ok"
        if fault == "refused":
            raise StorageUnavailable("503, before")
        count = await self.inner.append(name, data, position)
        self.appended.append(data)
        if fault == "lost":
            raise StorageUnavailable("timed out, after")
        if fault == "twice":
            return await self.inner.append(name, data, position)
        if self.after_append is not None:
            await self.after_append()
        return count

    async def read(self, name: str, offset: int, limit: int) -> Chunk | None:
        self._check()
        return await self.inner.read(name, offset, limit)

    async def list(self, prefix: str) -> list[BlobInfo]:
        self._check()
        return await self.inner.list(prefix)

    async def delete(self, name: str) -> bool:
        self._check()
        return await self.inner.delete(name)

    async def close(self) -> None:
        """A process ends; the storage that it shares with others stays."""

    def _check(self) -> None:
        if self.down:
            raise StorageUnavailable("503, down")


class RandomFaults(FaultyBlobs):
    """Any call fails with some probability, appends also after they were applied."""

    def __init__(self, inner: AppendBlobs, seed: int, rate: float) -> None:
        super().__init__(inner)
        self._random, self._rate = random.Random(seed), rate

    async def append(self, name: str, data: bytes, position: int) -> int:
        if self._random.random() < self._rate:
            self.plan.append(self._random.choice(["lost", "refused", "twice"]))
        await asyncio.sleep(self._random.random() * 0.002)
        return await super().append(name, data, position)

    def _check(self) -> None:
        if self._random.random() < self._rate / 2:
            raise StorageUnavailable("503, at random")


class Account:
    """One storage, and processes that use it, each through its own faults."""

    def __init__(self, blobs: AppendBlobs, meter: Meter | None = None) -> None:
        self.blobs, self.meter = blobs, meter or Meter()
        self.opened: list[StreamRegistry] = []

    def process(self, faults: FaultyBlobs | None = None, tuning: StreamTuning = FAST, **options: Any) -> StreamRegistry:
        registry = StreamRegistry()
        used = faults or FaultyBlobs(self.blobs)
        registry.use_blob_replay(lambda: used, **{"cursor_fn": number, "tuning": tuning} | options)
        self.opened.append(registry)
        return registry


@asynccontextmanager
async def open_account(kind: str, request: pytest.FixtureRequest) -> AsyncIterator[Account]:
    """`kind` is "memory" or "azurite". Names on Azurite are shared by all tests: name streams after the test."""
    meter = Meter()
    if kind == "memory":
        account = Account(MemoryAppendBlobs(meter), meter)
    else:
        env = {"AzureWebJobsStorage": request.getfixturevalue("azurite").connection_string}
        account = Account(connect_append_blobs(env, container="faults", meter=meter), meter)
    try:
        yield account
    finally:
        for registry in account.opened:
            await registry.shutdown()
        await account.blobs.close()
