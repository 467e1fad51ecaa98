"""The in-memory twins: what Azure does, without Azure. For tests, and for apps that keep nothing."""

import asyncio
import json
import time
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

from hosting.read_budget import charge
from hosting.telemetry import observed

from ._append_blobs import BlobInfo
from ._errors import RowChanged, RowConflict, RowExists, RowMissing, StorageError
from ._limits import check_key, check_transaction
from ._meter import Meter
from ._seams import DatedRow, Older, Page, RawEntity, RawOperation
from ._store import Store

__all__ = ["MemoryBlobs", "MemoryTables", "memory_store"]

_PAGE = 1_000


def memory_store(clock: Callable[[], float] = time.time) -> Store:
    """A store that lives in this process, with the limits and the error rules of Azure. `clock` dates what is written."""
    meter = Meter()
    return Store(MemoryTables(meter, clock), MemoryBlobs(meter, clock), meter)


@dataclass(slots=True)
class _Partition:
    rows: dict[str, RawEntity] = field(default_factory=dict[str, RawEntity])
    order: list[str] = field(default_factory=list[str])
    written: dict[str, float] = field(default_factory=dict[str, float])

    def write(self, entity: RawEntity, now: float) -> None:
        if entity.row not in self.rows:
            insort(self.order, entity.row)
        self.rows[entity.row] = entity
        self.written[entity.row] = now

    def remove(self, row: str) -> None:
        del self.rows[row]
        del self.written[row]
        del self.order[bisect_left(self.order, row)]


class MemoryTables:
    """Tables in a dictionary. Every call gives other tasks a turn before it acts, as a network would."""

    def __init__(self, meter: Meter | None = None, clock: Callable[[], float] = time.time) -> None:
        self._meter, self._clock = meter or Meter(), clock
        self._partitions: dict[str, _Partition] = {}
        self._versions = count(1)

    @observed("table.get")
    async def get(self, partition: str, row: str, select: Sequence[str] | None = None) -> RawEntity | None:
        """See `Tables.get`."""
        check_key(partition, "PartitionKey")
        check_key(row, "RowKey")
        await asyncio.sleep(0)
        self._meter.table_reads += 1
        held = self._partitions.get(partition)
        found = held.rows.get(row) if held else None
        return self._read(found, select) if found else None

    @observed("table.query")
    async def query(
        self, partition: str, first: str, last: str, select: Sequence[str] | None = None, limit: int | None = None
    ) -> list[RawEntity]:
        """See `Tables.query`."""
        check_key(partition, "PartitionKey")
        await asyncio.sleep(0)
        held = self._partitions.get(partition) or _Partition()
        keys = held.order[bisect_left(held.order, first) : bisect_left(held.order, last)][:limit]
        self._meter.table_reads += max(1, -(-len(keys) // _PAGE))
        return [self._read(held.rows[key], select) for key in keys]

    @observed("table.scan")
    async def scan(
        self,
        older: Sequence[Older] | None,
        token: str | None = None,
        *,
        partition: str | None = None,
        partitions: tuple[str, str] | None = None,
        select: Sequence[str] | None = None,
    ) -> Page[DatedRow]:
        """See `Tables.scan`. A page is 1,000 rows that were looked at, so that pages without a row are seen here, too."""
        await asyncio.sleep(0)
        self._meter.table_reads += 1
        begin, first = _read_token(token)
        found: list[DatedRow] = []
        looked = 0
        for name in sorted(self._partitions):
            if name < begin or partition not in (None, name):
                continue
            if partitions is not None and not partitions[0] <= name < partitions[1]:
                continue
            held = self._partitions[name]
            for row in held.order[bisect_left(held.order, first if name == begin else "") :]:
                if looked == _PAGE:
                    return Page(found, json.dumps([name, row]))
                looked += 1
                written = held.written[row]
                if older is None or any(it.first <= row < it.last and written < it.before for it in older):
                    found.append(DatedRow(self._read(held.rows[row], select), written))
        return Page(found, None)

    @observed("table.transact", answers=(RowConflict,))
    async def transact(self, partition: str, operations: Sequence[RawOperation]) -> list[str]:
        """See `Tables.transact`."""
        payload = check_transaction(partition, operations)
        await asyncio.sleep(0)
        self._meter.table_writes += 1
        self._meter.bytes_out += payload
        held = self._partitions.get(partition) or _Partition()
        for operation in operations:
            _check(operation, held.rows.get(operation.row))
        # Nothing can fail from here on, and nothing is awaited: that makes it atomic.
        return [self._apply(partition, operation) for operation in operations]

    async def close(self) -> None:
        """See `Tables.close`."""

    def _apply(self, partition: str, operation: RawOperation) -> str:
        held = self._partitions.setdefault(partition, _Partition())
        if operation.kind == "delete":
            held.remove(operation.row)
            return ""
        etag = f'W/"memory-{next(self._versions)}"'
        held.write(RawEntity(partition, operation.row, etag, dict(operation.properties)), self._clock())
        return etag

    def _read(self, entity: RawEntity, select: Sequence[str] | None) -> RawEntity:
        names = entity.properties if select is None else [name for name in select if name in entity.properties]
        properties = {name: entity.properties[name] for name in names}
        size = sum(len(name) + len(value) for name, value in properties.items())
        self._meter.bytes_in += size
        charge(size)
        return RawEntity(entity.partition, entity.row, entity.etag, properties)


def _check(operation: RawOperation, found: RawEntity | None) -> None:
    if operation.kind == "insert":
        if found:
            raise RowExists(operation.row)
    elif operation.kind != "put":
        if not found:
            raise RowMissing(operation.row)
        if operation.etag and operation.etag != found.etag:
            raise RowChanged(operation.row)


def _read_token(token: str | None) -> tuple[str, str]:
    if token is None:
        return "", ""
    try:
        partition, row = json.loads(token)
    except (TypeError, ValueError):
        raise StorageError(f"{token!r} is no continuation token") from None
    return partition, row


class MemoryBlobs:
    """Blobs in a dictionary."""

    def __init__(self, meter: Meter | None = None, clock: Callable[[], float] = time.time) -> None:
        self._meter, self._clock = meter or Meter(), clock
        self._blobs: dict[str, bytes] = {}
        self._written: dict[str, float] = {}

    @observed("blob.put")
    async def put(self, name: str, data: bytes) -> None:
        """See `Blobs.put`."""
        await asyncio.sleep(0)
        self._meter.blob_writes += 1
        self._meter.bytes_out += len(data)
        self._blobs[name] = bytes(data)
        self._written[name] = self._clock()

    @observed("blob.get")
    async def get(self, name: str) -> bytes | None:
        """See `Blobs.get`."""
        await asyncio.sleep(0)
        self._meter.blob_reads += 1
        data = self._blobs.get(name)
        self._meter.bytes_in += len(data or b"")
        return data

    @observed("blob.delete")
    async def delete(self, name: str) -> bool:
        """See `Blobs.delete`."""
        await asyncio.sleep(0)
        self._meter.blob_deletes += 1
        return self._blobs.pop(name, None) is not None

    @observed("blob.list")
    async def list(self, prefix: str) -> list[str]:
        """See `Blobs.list`."""
        await asyncio.sleep(0)
        self._meter.blob_reads += 1
        return sorted(name for name in self._blobs if name.startswith(prefix))

    @observed("blob.page")
    async def page(self, prefix: str, token: str | None = None) -> Page[BlobInfo]:
        """See `Blobs.page`."""
        await asyncio.sleep(0)
        self._meter.blob_reads += 1
        names = sorted(name for name in self._blobs if name.startswith(prefix) and name >= (token or ""))
        infos = [BlobInfo(name, len(self._blobs[name]), self._written[name]) for name in names[:_PAGE]]
        return Page(infos, names[_PAGE] if len(names) > _PAGE else None)

    async def close(self) -> None:
        """See `Blobs.close`."""
