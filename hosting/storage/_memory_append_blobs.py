"""Append blobs in a dictionary, with the limits of Azure. Two apps that share one object share a storage account."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from hosting.telemetry import observed

from ._append_blobs import BLOCKS, AppendConflict, BlobInfo, BlobMissing, Chunk, check_block
from ._errors import StorageError
from ._meter import Meter
from ._seams import Page

__all__ = ["MemoryAppendBlobs"]

_PAGE = 1_000


@dataclass(slots=True)
class _Blob:
    born: str
    modified: float
    data: bytearray = field(default_factory=bytearray)
    blocks: int = 0


class MemoryAppendBlobs:
    """Every call gives other tasks a turn before it acts, as a network would."""

    def __init__(self, meter: Meter | None = None, clock: Callable[[], float] = time.time) -> None:
        self.meter = meter or Meter()
        self._clock = clock
        self._blobs: dict[str, _Blob] = {}
        self._births = count(1)

    @observed("append.create", span=False)
    async def create(self, name: str) -> bool:
        """See `AppendBlobs.create`."""
        await asyncio.sleep(0)
        self.meter.blob_writes += 1
        if name in self._blobs:
            return False
        self._blobs[name] = _Blob(f"memory-{next(self._births)}", self._clock())
        return True

    @observed("append.append", answers=(AppendConflict, BlobMissing), span=False)
    async def append(self, name: str, data: bytes, position: int) -> int:
        """See `AppendBlobs.append`."""
        check_block(data)
        await asyncio.sleep(0)
        self.meter.blob_writes += 1
        self.meter.bytes_out += len(data)
        blob = self._blobs.get(name)
        if blob is None:
            raise BlobMissing(name)
        if blob.blocks >= BLOCKS:
            raise StorageError(f"{name} has {BLOCKS} blocks")
        if len(blob.data) != position:
            raise AppendConflict(f"{name} ends at {len(blob.data)}, not at {position}")
        blob.data += data
        blob.blocks += 1
        blob.modified = self._clock()
        return blob.blocks

    @observed("append.read", span=False)
    async def read(self, name: str, offset: int, limit: int) -> Chunk | None:
        """See `AppendBlobs.read`."""
        await asyncio.sleep(0)
        self.meter.blob_reads += 1
        blob = self._blobs.get(name)
        if blob is None:
            return None
        data = bytes(blob.data[offset : offset + limit])
        self.meter.bytes_in += len(data)
        return Chunk(data, len(blob.data), blob.born)

    @observed("append.list", span=False)
    async def list(self, prefix: str) -> list[BlobInfo]:
        """See `AppendBlobs.list`."""
        await asyncio.sleep(0)
        self.meter.blob_reads += 1
        return [
            BlobInfo(name, len(blob.data), blob.modified)
            for name, blob in sorted(self._blobs.items())
            if name.startswith(prefix)
        ]

    @observed("append.page", span=False)
    async def page(self, prefix: str, token: str | None = None) -> Page[BlobInfo]:
        """See `AppendBlobs.page`."""
        infos = [info for info in await self.list(prefix) if info.name >= (token or "")]
        return Page(infos[:_PAGE], infos[_PAGE].name if len(infos) > _PAGE else None)

    @observed("append.delete", span=False)
    async def delete(self, name: str) -> bool:
        """See `AppendBlobs.delete`."""
        await asyncio.sleep(0)
        self.meter.blob_deletes += 1
        return self._blobs.pop(name, None) is not None

    async def close(self) -> None:
        """See `AppendBlobs.close`. What is stored stays: another app may share it."""
