"""Seam 3: append blobs, which grow at their end and nowhere else. Streams are made of them.

Three twins: in memory, in Azure (or Azurite), and in files (`hosting/streaming/_files.py`); one contract suite.
"""

from typing import TYPE_CHECKING, NamedTuple, Protocol

from ._errors import StorageError

if TYPE_CHECKING:
    from ._seams import Page

__all__ = ["BLOCKS", "BLOCK_BYTES", "AppendBlobs", "AppendConflict", "BlobInfo", "BlobMissing", "Chunk"]

BLOCK_BYTES = 4 * 1024 * 1024
"""What one append takes everywhere. (Azure takes 100 MiB from service version 2022-11-02 on, 4 MiB before.)"""
BLOCKS = 50_000
"""Appends that one blob takes."""


class AppendConflict(StorageError):
    """The blob does not end where the append expected it to: somebody else, or an earlier try of ours, has appended."""


class BlobMissing(StorageError):
    """There is no blob to append to."""


class BlobInfo(NamedTuple):
    """What a listing says of a blob. `modified` is the storage's clock, seconds since the epoch; Azure rounds to seconds."""

    name: str
    size: int
    modified: float


class Chunk(NamedTuple):
    """A part of a blob: `data`, the `size` of the whole blob at that moment, and `born`, which tells this blob from an
    earlier one of the same name ("" where nothing was read)."""

    data: bytes
    size: int
    born: str


class AppendBlobs(Protocol):
    """Append blobs by name, in one container. Each call but `list` (a page each) is one request.

    Any call may raise StorageUnavailable (a write may or may not have been applied) and StorageDenied.
    """

    async def create(self, name: str) -> bool:
        """Make an empty blob; False, and nothing changed, when there is one of this name."""
        ...

    async def append(self, name: str, data: bytes, position: int) -> int:
        """Append 1 to BLOCK_BYTES bytes if the blob is `position` bytes long; the number of appends it has had.

        Atomic. Raises AppendConflict when it has another length, BlobMissing, ValueError for a wrong size, and
        StorageError when the blob has BLOCKS blocks already.
        """
        ...

    async def read(self, name: str, offset: int, limit: int) -> Chunk | None:
        """Up to `limit` bytes from `offset`, none at the end of the blob; None when there is no blob.

        A blob shorter than `offset` gives no bytes, and a `size` less than `offset`.
        """
        ...

    async def list(self, prefix: str) -> list[BlobInfo]:
        """The blobs whose names start with `prefix`, by name; follows continuation tokens (5,000 a page)."""
        ...

    async def page(self, prefix: str, token: str | None = None) -> "Page[BlobInfo]":
        """A page of that list, at most 1,000 where there are pages. `token`: as for `Blobs.page`."""
        ...

    async def delete(self, name: str) -> bool:
        """Remove a blob; False when it was not there."""
        ...

    async def close(self) -> None:
        """Release connections; the object is not usable afterwards."""
        ...


def check_block(data: bytes) -> None:
    """Raise ValueError for what can't be appended in one request."""
    if not 0 < len(data) <= BLOCK_BYTES:
        raise ValueError(f"an append takes 1 to {BLOCK_BYTES:,} bytes, not {len(data):,}")
