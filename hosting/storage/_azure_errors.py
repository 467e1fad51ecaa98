"""From the azure packages' exceptions, and the service's error codes, to ours."""

from collections.abc import Generator
from contextlib import contextmanager

from ._errors import StorageDenied, StorageError, StorageUnavailable, TransactionTooLarge

__all__ = ["azure_errors", "error_code", "failure"]

_TOO_LARGE = {"RequestBodyTooLarge", "ContentLengthExceeded", "EntityTooLarge", "PropertyValueTooLarge"}
_RETRY_LATER = {"TableBeingDeleted", "ContainerBeingDeleted", "OperationTimedOut", "ServerBusy", "InternalError"}


def failure(status: int | None, code: str, message: str) -> StorageError:
    """The exception for an answer that is none of the expected ones."""
    detail = f"{code or 'no error code'} (HTTP {status}): {message.splitlines()[0] if message else ''}"
    if status == 413 or code in _TOO_LARGE:
        return TransactionTooLarge(detail)
    if status is None or status in (408, 429) or status >= 500 or code in _RETRY_LATER:
        return StorageUnavailable(detail)
    if status in (401, 403):
        return StorageDenied(
            f"{detail} The app's identity needs the roles Storage Table Data Contributor and Storage Blob Data "
            "Contributor on the account; a connection string needs the right key."
        )
    return StorageError(detail)


def error_code(error: Exception) -> str:
    """The service's code in an azure exception: "TableNotFound" and the like, "" when there is none."""
    code = getattr(error, "error_code", None)
    return str(getattr(code, "value", code) or "")


@contextmanager
def azure_errors() -> Generator[None]:
    """Turn whatever the azure packages raise in the block into a StorageError with the original as cause."""
    try:
        yield
    except Exception as error:
        from aiohttp import ClientError
        from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError

        if isinstance(error, ClientAuthenticationError) and error.status_code is None:
            raise StorageDenied(f"no token for the storage account: {error}") from error  # from azure-identity
        if isinstance(error, HttpResponseError):
            raise failure(error.status_code, error_code(error), str(error.message)) from error
        if isinstance(error, AzureError | ClientError | OSError):
            raise StorageUnavailable(f"storage is not reachable: {error}") from error
        raise
