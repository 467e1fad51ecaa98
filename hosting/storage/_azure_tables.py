"""Seam 1 on Azure Table Storage: reads through the SDK's client, transactions through its pipeline."""

import json
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from hosting.read_budget import charge
from hosting.telemetry import observed

from ._azure_errors import azure_errors, error_code, failure
from ._batch import BatchAnswer, encode_batch, read_batch
from ._errors import RowChanged, RowConflict, RowExists, RowMissing, StorageError
from ._limits import check_key, check_transaction
from ._meter import Meter
from ._seams import DatedRow, Older, Page, RawEntity, RawOperation

__all__ = ["AzureTables"]

_PAGE = 1_000
_SYSTEM = ("PartitionKey", "RowKey", "Timestamp")
_CONFLICTS = {
    "EntityAlreadyExists": RowExists,
    "UpdateConditionNotSatisfied": RowChanged,
    "ConditionNotMet": RowChanged,
    "ResourceNotFound": RowMissing,
    "EntityNotFound": RowMissing,
}


class TableSource(Protocol):
    """What makes the client on first use: a Connection. (Any: the SDK's types are incomplete for a strict checker.)"""

    def table(self) -> Any:
        """The `azure.data.tables.aio.TableClient` of the table."""
        ...

    async def close(self) -> None:
        """Close what was opened."""
        ...


class AzureTables:
    """Tables in a storage account or Azurite."""

    def __init__(self, source: TableSource, meter: Meter) -> None:
        self._source, self._meter = source, meter

    @observed("table.get")
    async def get(self, partition: str, row: str, select: Sequence[str] | None = None) -> RawEntity | None:
        """See `Tables.get`."""
        check_key(partition, "PartitionKey")
        check_key(row, "RowKey")
        self._meter.table_reads += 1
        with azure_errors():
            from azure.core.exceptions import ResourceNotFoundError

            try:
                found = await self._source.table().get_entity(partition, row, select=_columns(select))
            except ResourceNotFoundError:
                return None  # no row, or no table yet
        return self._read(found, select)

    @observed("table.query")
    async def query(
        self, partition: str, first: str, last: str, select: Sequence[str] | None = None, limit: int | None = None
    ) -> list[RawEntity]:
        """See `Tables.query`."""
        check_key(partition, "PartitionKey")
        condition = (
            f"PartitionKey eq {_literal(partition)} and RowKey ge {_literal(first)} and RowKey lt {_literal(last)}"
        )
        rows: list[RawEntity] = []
        if limit == 0:
            return rows
        with azure_errors():
            from azure.core.exceptions import ResourceNotFoundError

            size = _PAGE if limit is None else min(limit, _PAGE)
            client = self._source.table()
            pages = client.query_entities(condition, select=_columns(select), results_per_page=size).by_page()
            try:
                async for page in pages:
                    self._meter.table_reads += 1
                    rows += [self._read(found, select) async for found in page]
                    if limit is not None and len(rows) >= limit:
                        break
            except ResourceNotFoundError:
                return []  # no table yet
        return rows[:limit]

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
        """See `Tables.scan`."""
        after = _read_token(token)
        self._meter.table_reads += 1
        with azure_errors():
            from azure.core.exceptions import ResourceNotFoundError

            found = self._source.table().query_entities(
                _scan_filter(older, partition, partitions), select=_columns(select), results_per_page=_PAGE
            )
            pages = found.by_page(continuation_token=after)
            try:
                page = await anext(pages)
                rows = [DatedRow(self._read(row, select), row.metadata["timestamp"].timestamp()) async for row in page]
            except ResourceNotFoundError:
                return Page([], None)  # no table yet
        token = json.dumps(pages.continuation_token) if pages.continuation_token else None
        return Page(rows, token)

    @observed("table.transact", answers=(RowConflict,))
    async def transact(self, partition: str, operations: Sequence[RawOperation]) -> list[str]:
        """See `Tables.transact`."""
        self._meter.bytes_out += check_transaction(partition, operations)
        self._meter.table_writes += 1
        answer = await self._send(partition, operations)
        if answer.code == "TableNotFound":
            await self._create()
            self._meter.table_writes += 2
            answer = await self._send(partition, operations)
        if not answer.code:
            return answer.etags
        if conflict := _CONFLICTS.get(answer.code):
            raise conflict(operations[min(answer.failed, len(operations) - 1)].row)
        raise failure(answer.status, answer.code, answer.message)

    async def close(self) -> None:
        """See `Tables.close`."""
        await self._source.close()

    async def _send(self, partition: str, operations: Sequence[RawOperation]) -> BatchAnswer:
        with azure_errors():
            from azure.core.rest import HttpRequest

            client = self._source.table()
            boundary = secrets.token_hex(16)
            base, _, query = client.url.partition("?")
            request = HttpRequest(
                "POST",
                f"{base}/$batch" + (f"?{query}" if query else ""),
                headers={
                    "Content-Type": f"multipart/mixed; boundary=batch_{boundary}",
                    "Accept": "application/json",
                    "DataServiceVersion": "3.0",
                    "MaxDataServiceVersion": "3.0;NetFx",
                    "x-ms-version": client.api_version,
                },
                content=encode_batch(f"{base}/{client.table_name}", partition, operations, boundary),
            )
            # The pipeline (signing, retries, user agent) is all that is wanted here, and the client hides it. `stream`
            # keeps the pipeline from decoding the body as JSON.
            response = await client._client.send_request(request, stream=True)
            body: bytes = await response.read()
        answer = read_batch(response.status_code, body)
        if not answer.code and len(answer.etags) != len(operations):
            raise failure(None, "", f"the answer to {len(operations)} operations has {len(answer.etags)} parts")
        return answer

    async def _create(self) -> None:
        with azure_errors():
            from azure.core.exceptions import ResourceExistsError

            try:
                await self._source.table().create_table()
            except ResourceExistsError as error:
                if error_code(error) != "TableAlreadyExists":  # TableBeingDeleted: about a minute, up to the caller
                    raise

    def _read(self, found: Any, select: Sequence[str] | None) -> RawEntity:
        wanted = None if select is None else set(select)
        properties = {
            name: value
            for name, value in found.items()
            if name not in _SYSTEM and value is not None and (wanted is None or name in wanted)
        }
        size = sum(len(name) + len(value) for name, value in properties.items())
        self._meter.bytes_in += size
        charge(size)
        return RawEntity(found["PartitionKey"], found["RowKey"], found.metadata["etag"], properties)


def _columns(select: Sequence[str] | None) -> list[str] | None:
    # Timestamp because the etag is made of it: a projection without it is not promised to have one.
    return None if select is None else [*_SYSTEM, *select]


def _literal(key: str) -> str:
    return "'" + key.replace("'", "''") + "'"


def _scan_filter(older: Sequence[Older] | None, partition: str | None, partitions: tuple[str, str] | None) -> str:
    """The condition of a scan, none as an empty text."""
    conditions = [] if partition is None else [f"PartitionKey eq {_literal(partition)}"]
    if partitions is not None:
        first, last = partitions
        conditions += [f"PartitionKey ge {_literal(first)}", f"PartitionKey lt {_literal(last)}"]
    if older is not None:
        conditions.append("(" + " or ".join(f"({_older(it)})" for it in older) + ")")
    return " and ".join(conditions)


def _older(it: Older) -> str:
    moment = datetime.fromtimestamp(it.before, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    rows = f"RowKey ge {_literal(it.first)} and " if it.first else ""
    return f"{rows}RowKey lt {_literal(it.last)} and Timestamp lt datetime'{moment}'"


def _read_token(token: str | None) -> dict[str, str] | None:
    if token is None:
        return None
    try:
        read = json.loads(token)
        return {"PartitionKey": read["PartitionKey"], "RowKey": read["RowKey"]}
    except (KeyError, TypeError, ValueError):
        raise StorageError(f"{token!r} is no continuation token") from None
