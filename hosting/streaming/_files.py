"""Append blobs in files of this machine: the storage behind the file backing.

An append is written and synced before it returns. Processes exclude each other by a lock on the file, for the moment of
an append. File calls run in threads, they may take long.
"""

import asyncio
import builtins
import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hosting.storage import BLOCK_BYTES, AppendConflict, BlobInfo, BlobMissing, Chunk, Page, StorageError

try:
    import fcntl
except ImportError:  # Windows, where only one process may write to a directory
    fcntl = None

__all__ = ["FileAppendBlobs"]


class FileAppendBlobs:
    """See `hosting.storage.AppendBlobs`. A name is a path below `directory`, which is made when it is first written to."""

    def __init__(self, directory: Path, clock: Callable[[], float] = time.time) -> None:
        self._root, self._clock = directory, clock

    async def create(self, name: str) -> bool:
        """See `AppendBlobs.create`."""
        return await _in_thread(self._create, name)

    async def append(self, name: str, data: bytes, position: int) -> int:
        """See `AppendBlobs.append`. Files have no blocks: always 0."""
        if not 0 < len(data) <= BLOCK_BYTES:
            raise ValueError(f"an append takes 1 to {BLOCK_BYTES:,} bytes, not {len(data):,}")
        await _in_thread(self._append, name, data, position)
        return 0

    async def read(self, name: str, offset: int, limit: int) -> Chunk | None:
        """See `AppendBlobs.read`."""
        return await _in_thread(self._read, name, offset, limit)

    async def list(self, prefix: str) -> builtins.list[BlobInfo]:
        """See `AppendBlobs.list`."""
        return await _in_thread(self._list, prefix)

    async def page(self, prefix: str, token: str | None = None) -> Page[BlobInfo]:
        """See `AppendBlobs.page`. All in one."""
        return Page(await self.list(prefix), None)

    async def delete(self, name: str) -> bool:
        """See `AppendBlobs.delete`."""
        return await _in_thread(self._delete, name)

    async def close(self) -> None:
        """See `AppendBlobs.close`."""

    def _create(self, name: str) -> bool:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            return False
        os.close(descriptor)
        os.utime(path, (self._clock(), self._clock()))
        _sync_directory(path.parent)
        return True

    def _append(self, name: str, data: bytes, position: int) -> None:
        path = self._root / name
        try:
            file = path.open("r+b")
        except FileNotFoundError:
            raise BlobMissing(name) from None
        with file:
            _lock(file)
            if (size := os.fstat(file.fileno()).st_size) != position:
                raise AppendConflict(f"{name} ends at {size}, not at {position}")
            file.seek(position)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # One clock decides what has expired.
        with contextlib.suppress(FileNotFoundError):
            os.utime(path, (self._clock(), self._clock()))

    def _read(self, name: str, offset: int, limit: int) -> Chunk | None:
        try:
            file = (self._root / name).open("rb")
        except FileNotFoundError:
            return None
        with file:
            state = os.fstat(file.fileno())
            file.seek(offset)
            return Chunk(file.read(limit), state.st_size, f"{state.st_dev}-{state.st_ino}")

    def _list(self, prefix: str) -> builtins.list[BlobInfo]:
        folder = self._root / prefix.rpartition("/")[0]
        found: builtins.list[BlobInfo] = []
        for path in folder.rglob("*") if folder.is_dir() else ():
            name = path.relative_to(self._root).as_posix()
            with contextlib.suppress(FileNotFoundError):
                state = path.stat()
                if name.startswith(prefix) and path.is_file():
                    found.append(BlobInfo(name, state.st_size, state.st_mtime))
        return sorted(found)

    def _delete(self, name: str) -> bool:
        path = self._root / name
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        with contextlib.suppress(OSError):  # other files in it
            path.parent.rmdir()
        return True


async def _in_thread[T](call: Callable[..., T], *args: Any) -> T:
    try:
        return await asyncio.to_thread(call, *args)
    except OSError as error:
        raise StorageError(f"{error.strerror}: {error.filename}") from error


def _lock(file: Any) -> None:
    """Until the file is closed."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX)


def _sync_directory(path: Path) -> None:
    """So that the new file's name survives a power cut, too."""
    if os.name == "posix":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
