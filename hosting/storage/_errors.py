"""What storage calls raise. Exceptions of the azure packages never leave this package; they stay as `__cause__`."""

from hosting.errors import ConfigurationError

__all__ = [
    "ConfigurationError",
    "CorruptValue",
    "RowChanged",
    "RowConflict",
    "RowExists",
    "RowMissing",
    "StorageDenied",
    "StorageError",
    "StorageUnavailable",
    "TransactionTooLarge",
]


class StorageError(Exception):
    """Base of everything this package raises, except ValueError for arguments that no storage could take."""


class RowConflict(StorageError):
    """A condition of one operation did not hold, so nothing of its transaction was applied; `row` is that operation's.

    After a success whose answer was lost, a retry conflicts with itself: `Store.commit` tells the two apart.
    """

    what = "is not what the transaction expected"

    def __init__(self, row: str) -> None:
        super().__init__(f"row {row!r} {self.what}")
        self.row = row


class RowExists(RowConflict):
    """An insert found its row taken."""

    what = "already exists"


class RowChanged(RowConflict):
    """The row has another version than the etag says."""

    what = "was changed by another writer"


class RowMissing(RowConflict):
    """The row to replace or delete is not there."""

    what = "does not exist"


class TransactionTooLarge(StorageError):
    """The transaction can't fit what Azure takes (100 rows, 4 MiB, 1 MiB per row), also with all its values spilled."""


class CorruptValue(StorageError):
    """A stored value is not what was written: broken text, or a blob that is gone or has another length or digest."""


class StorageUnavailable(StorageError):
    """Throttled, timed out or not reachable, after the retries. A write may or may not have been applied."""


class StorageDenied(StorageError):
    """The storage account refused our identity: wrong key, missing role, or a network rule."""
