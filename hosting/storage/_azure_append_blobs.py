"""Seam 3 on Azure Blob Storage."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hosting.telemetry import observed, sources

from ._append_blobs import AppendConflict, BlobInfo, BlobMissing, Chunk, check_block
from ._azure_blobs import list_page
from ._azure_errors import azure_errors, error_code, failure
from ._connection import Connection
from ._meter import Meter
from ._seams import Page
from ._settings import Endpoints, read_settings

if TYPE_CHECKING:
    from ._blob_requests import Answer, BlobRequests

__all__ = ["AzureAppendBlobs", "connect_append_blobs"]


def connect_append_blobs(
    env: Mapping[str, str],
    *,
    name: str = "AzureWebJobsStorage",
    container: str = "agents",
    meter: Meter | None = None,
) -> "AzureAppendBlobs":
    """Append blobs in the storage account that the settings `name` and `name__...` describe, counted on `meter`.

    No network: the container is created when it is first written to. Use it from one event loop, and close it. Raises
    ConfigurationError.
    """
    blobs = AzureAppendBlobs(StreamConnection(read_settings(env, name), container), meter or Meter())
    if meter is None:  # else it is somebody else's, who sees to it
        sources.add(blobs.meter.counts)
    return blobs


class StreamConnection(Connection):
    """A connection that can also send single requests, over the same session and with the same credential."""

    def __init__(self, endpoints: Endpoints, container: str) -> None:
        super().__init__(endpoints, "unused", container)  # its table is never asked for
        self._requests: BlobRequests | None = None

    def requests(self) -> "BlobRequests":
        """The lean client of the container."""
        self._check_open()
        if self._requests is None:
            from ._blob_requests import BlobRequests

            self._requests = BlobRequests(
                self._transport(), self._credential(), self._endpoints.blob_url, self._container_name
            )
        return self._requests


class AzureAppendBlobs:
    """Append blobs in a storage account or Azurite."""

    def __init__(self, connection: StreamConnection, meter: Meter) -> None:
        self._connection, self.meter = connection, meter

    @observed("append.create", span=False)
    async def create(self, name: str) -> bool:
        """See `AppendBlobs.create`."""
        with azure_errors():
            from azure.core.exceptions import ResourceNotFoundError

            try:
                return await self._create(name)
            except ResourceNotFoundError as error:
                if error_code(error) != "ContainerNotFound":
                    raise
                await self._create_container()
                return await self._create(name)

    @observed("append.append", answers=(AppendConflict, BlobMissing), span=False)
    async def append(self, name: str, data: bytes, position: int) -> int:
        """See `AppendBlobs.append`."""
        check_block(data)
        self.meter.blob_writes += 1
        self.meter.bytes_out += len(data)
        with azure_errors():
            condition = {"x-ms-blob-condition-appendpos": str(position)}
            answer = await self._connection.requests().send("PUT", name, "?comp=appendblock", condition, data)
        if answer.status == 201:
            return int(answer.headers["x-ms-blob-committed-block-count"])
        if answer.code == "AppendPositionConditionNotMet":
            raise AppendConflict(f"{name} does not end at {position}")
        if answer.status == 404:
            raise BlobMissing(name)
        raise _failure(answer)

    @observed("append.read", span=False)
    async def read(self, name: str, offset: int, limit: int) -> Chunk | None:
        """See `AppendBlobs.read`."""
        self.meter.blob_reads += 1
        # From one byte earlier: a range that begins at the blob's end is an error, and a blob that has become shorter
        # is told from one that has not grown.
        start = max(0, offset - 1)
        with azure_errors():
            span = {"x-ms-range": f"bytes={start}-{offset + limit - 1}"}
            answer = await self._connection.requests().send("GET", name, "", span)
        if answer.status == 404:
            return None
        if answer.status == 416:
            return Chunk(b"", 0, "")  # empty, or shorter than `offset`
        if answer.status != 206:
            raise _failure(answer)
        data = answer.body[offset - start :]
        self.meter.bytes_in += len(data)
        total = int(answer.headers["Content-Range"].rpartition("/")[2])  # bytes 5-9/10
        return Chunk(data, total, answer.headers.get("x-ms-creation-time", ""))

    @observed("append.list", span=False)
    async def list(self, prefix: str) -> list[BlobInfo]:
        """See `AppendBlobs.list`."""
        found: list[BlobInfo] = []
        with azure_errors():
            from azure.core.exceptions import ResourceNotFoundError

            pages = self._connection.container().list_blobs(name_starts_with=prefix).by_page()
            try:
                async for page in pages:
                    self.meter.blob_reads += 1
                    found += [BlobInfo(it.name, it.size, it.last_modified.timestamp()) async for it in page]
            except ResourceNotFoundError:
                return []  # no container yet
        return found

    @observed("append.page", span=False)
    async def page(self, prefix: str, token: str | None = None) -> Page[BlobInfo]:
        """See `AppendBlobs.page`."""
        self.meter.blob_reads += 1
        return await list_page(self._connection.container(), prefix, token)

    @observed("append.delete", span=False)
    async def delete(self, name: str) -> bool:
        """See `AppendBlobs.delete`."""
        self.meter.blob_deletes += 1
        with azure_errors():
            from azure.core.exceptions import ResourceNotFoundError

            try:
                await self._connection.container().delete_blob(name)
            except ResourceNotFoundError:
                return False
        return True

    async def close(self) -> None:
        """See `AppendBlobs.close`."""
        await self._connection.close()

    async def _create(self, name: str) -> bool:
        from azure.core import MatchConditions
        from azure.core.exceptions import ResourceExistsError, ResourceModifiedError

        self.meter.blob_writes += 1
        client = self._connection.container().get_blob_client(name)
        try:
            await client.create_append_blob(match_condition=MatchConditions.IfMissing)
        except (ResourceExistsError, ResourceModifiedError) as error:
            if error_code(error) in ("BlobAlreadyExists", "ConditionNotMet"):
                return False
            raise
        return True

    async def _create_container(self) -> None:
        from azure.core.exceptions import ResourceExistsError

        self.meter.blob_writes += 1
        try:
            await self._connection.container().create_container()
        except ResourceExistsError as error:
            if error_code(error) != "ContainerAlreadyExists":  # ContainerBeingDeleted: up to the caller
                raise


def _failure(answer: "Answer") -> Exception:
    return failure(answer.status, answer.code, answer.body[:400].decode("utf-8", "replace"))
