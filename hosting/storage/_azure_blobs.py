"""Seam 2 on Azure Blob Storage, through the SDK's container client."""

from typing import TYPE_CHECKING, Any, Protocol

from hosting.telemetry import observed

from ._append_blobs import BlobInfo
from ._azure_errors import azure_errors, error_code
from ._meter import Meter
from ._seams import Page

if TYPE_CHECKING:
    from azure.storage.blob.aio import ContainerClient

__all__ = ["AzureBlobs", "list_page"]

_PAGE = 1_000


class ContainerSource(Protocol):
    """What makes the client on first use: a Connection."""

    def container(self) -> "ContainerClient":
        """The client of the container."""
        ...

    async def close(self) -> None:
        """Close what was opened."""
        ...


class AzureBlobs:
    """Blobs in a storage account or Azurite."""

    def __init__(self, source: ContainerSource, meter: Meter) -> None:
        self._source, self._meter = source, meter

    @observed("blob.put")
    async def put(self, name: str, data: bytes) -> None:
        """See `Blobs.put`. One request up to 64 MiB."""
        self._meter.blob_writes += 1
        self._meter.bytes_out += len(data)
        with azure_errors():
            from azure.core.exceptions import ResourceNotFoundError

            container = self._source.container()
            try:
                await container.upload_blob(name, data, overwrite=True)
            except ResourceNotFoundError as error:
                if error_code(error) != "ContainerNotFound":
                    raise
                await self._create()
                self._meter.blob_writes += 2
                await container.upload_blob(name, data, overwrite=True)

    @observed("blob.get")
    async def get(self, name: str) -> bytes | None:
        """See `Blobs.get`. One request up to 32 MiB."""
        self._meter.blob_reads += 1
        with azure_errors():
            from azure.core.exceptions import ResourceNotFoundError

            try:
                download = await self._source.container().download_blob(name)
                data = await download.readall()
            except ResourceNotFoundError:
                return None  # no blob, or no container yet
        self._meter.bytes_in += len(data)
        return data

    @observed("blob.delete")
    async def delete(self, name: str) -> bool:
        """See `Blobs.delete`."""
        self._meter.blob_deletes += 1
        with azure_errors():
            from azure.core.exceptions import ResourceNotFoundError

            try:
                await self._source.container().delete_blob(name)
            except ResourceNotFoundError:
                return False
        return True

    @observed("blob.list")
    async def list(self, prefix: str) -> list[str]:
        """See `Blobs.list`."""
        names: list[str] = []
        with azure_errors():
            from azure.core.exceptions import ResourceNotFoundError

            pages = self._source.container().list_blobs(name_starts_with=prefix).by_page()
            try:
                async for page in pages:
                    self._meter.blob_reads += 1
                    names += [blob.name async for blob in page]
            except ResourceNotFoundError:
                return []  # no container yet
        return names

    @observed("blob.page")
    async def page(self, prefix: str, token: str | None = None) -> Page[BlobInfo]:
        """See `Blobs.page`."""
        self._meter.blob_reads += 1
        return await list_page(self._source.container(), prefix, token)

    async def close(self) -> None:
        """See `Blobs.close`."""
        await self._source.close()

    async def _create(self) -> None:
        from azure.core.exceptions import ResourceExistsError

        try:
            await self._source.container().create_container()
        except ResourceExistsError as error:
            if error_code(error) != "ContainerAlreadyExists":  # ContainerBeingDeleted: up to the caller
                raise


async def list_page(container: "ContainerClient", prefix: str, token: str | None) -> Page[BlobInfo]:
    """One page of a listing of blobs of any type."""
    with azure_errors():
        from azure.core.exceptions import ResourceNotFoundError

        found = container.list_blobs(name_starts_with=prefix, results_per_page=_PAGE)
        pages: Any = found.by_page(continuation_token=token)
        try:
            page = await anext(pages)
            infos = [BlobInfo(it.name, it.size, it.last_modified.timestamp()) async for it in page]
        except ResourceNotFoundError:
            return Page([], None)  # no container yet
    return Page(infos, pages.continuation_token or None)
