"""The seams to storage, with calls that go wrong as a test says."""

from collections.abc import Sequence

from hosting.storage import (
    Blobs,
    RawEntity,
    RawOperation,
    StorageError,
    StorageUnavailable,
    Tables,
)

__all__ = ["FaultyBlobs", "FaultyTables"]


class FaultyTables:
    """Tables whose next transactions go wrong as `before` and `after` say, in order; None lets one pass."""

    def __init__(self, inner: Tables) -> None:
        self.inner = inner
        self.before: list[StorageError | None] = []
        self.after: list[StorageError | None] = []
        self.transactions = 0

    async def get(self, partition: str, row: str, select: Sequence[str] | None = None) -> RawEntity | None:
        return await self.inner.get(partition, row, select)

    async def query(
        self, partition: str, first: str, last: str, select: Sequence[str] | None = None, limit: int | None = None
    ) -> list[RawEntity]:
        return await self.inner.query(partition, first, last, select, limit)

    async def transact(self, partition: str, operations: Sequence[RawOperation]) -> list[str]:
        self.transactions += 1
        if self.before and (error := self.before.pop(0)):
            raise error
        etags = await self.inner.transact(partition, operations)
        if self.after and (error := self.after.pop(0)):
            raise error
        return etags

    async def close(self) -> None:
        await self.inner.close()


class FaultyBlobs:
    """Blobs whose n-th put, and whose deletes, fail."""

    def __init__(self, inner: Blobs) -> None:
        self.inner = inner
        self.failing_puts: set[int] = set()
        self.failing_deletes = False
        self.puts = 0

    async def put(self, name: str, data: bytes) -> None:
        self.puts += 1
        if self.puts in self.failing_puts:
            raise StorageUnavailable("put")
        await self.inner.put(name, data)

    async def get(self, name: str) -> bytes | None:
        return await self.inner.get(name)

    async def delete(self, name: str) -> bool:
        if self.failing_deletes:
            raise StorageUnavailable("delete")
        return await self.inner.delete(name)

    async def list(self, prefix: str) -> list[str]:
        return await self.inner.list(prefix)

    async def close(self) -> None:
        await self.inner.close()
