"""What Azure Table Storage takes, measured as Azure measures it.

Azurite accepts more than Azure (bigger transactions among others), so both twins check with these functions, before
anything is sent. Source: "Understanding the Table service data model" and "Performing entity group transactions".
"""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from ._errors import TransactionTooLarge
from ._seams import RawOperation

__all__ = [
    "ENTITY_BYTES",
    "ENVELOPE_BYTES",
    "OPERATIONS",
    "PAYLOAD_BYTES",
    "PROPERTY_UNITS",
    "check_key",
    "check_transaction",
    "entity_bytes",
    "json_bytes",
    "utf16_units",
    "wire_bytes",
]

PROPERTY_UNITS = 32_767
"""A string property: 64 KiB of UTF-16."""
ENTITY_BYTES = 1_048_576
"""One row, names and values in UTF-16."""
OPERATIONS = 100
"""Operations per transaction."""
PAYLOAD_BYTES = 4 * 1_048_576
"""The body of a transaction's request."""
ENVELOPE_BYTES = 1_024
"""Counted for what a transaction's request has around its parts."""
_PROPERTIES = 252
_KEY_UNITS = 512
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}", re.ASCII)
_BAD_KEY = re.compile(r"[/\\#?\x00-\x1f\x7f-\x9f\ud800-\udfff]")
# The headers and boundaries of one part, with room for a long host name.
_PART_BYTES = 1_024


def utf16_units(text: str) -> int:
    """The length of `text` as Azure counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def check_key(key: str, name: str) -> None:
    """Raise ValueError when `key` can't be a PartitionKey or RowKey; `name` says which key it is."""
    if bad := _BAD_KEY.search(key):
        raise ValueError(f"{name} {key!r} has the character {bad[0]!r}, which Table Storage does not allow")
    if utf16_units(key) > _KEY_UNITS:
        raise ValueError(f"{name} has {utf16_units(key)} characters, Table Storage allows {_KEY_UNITS}")


def entity_bytes(partition: str, row: str, properties: Mapping[str, str]) -> int:
    """The size of a row, by the formula of the service: 4 + keys, and 8 + name + 4 + value per property, in UTF-16."""
    size = 4 + 2 * (utf16_units(partition) + utf16_units(row))
    return size + sum(12 + 2 * (len(name) + utf16_units(value)) for name, value in properties.items())


def json_bytes(text: str) -> int:
    """At least the UTF-8 length of `text` inside a JSON string literal."""
    length = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return length + text.count('"') + text.count("\\") + 2


def wire_bytes(partition: str, operation: RawOperation) -> int:
    """At least what one operation adds to a transaction's request body."""
    # The keys appear in the URL, where a quote is doubled and then both are escaped, and in the body.
    keys = sum(len(quote(key.replace("'", "''"), safe="")) + json_bytes(key) for key in (partition, operation.row))
    body = sum(len(name) + 6 + json_bytes(value) for name, value in operation.properties.items())
    return _PART_BYTES + keys + body


def check_transaction(partition: str, operations: Sequence[RawOperation]) -> int:
    """Refuse what Azure would refuse; returns the size of the request, in bytes, never too low.

    Raises TransactionTooLarge for sizes and counts, ValueError for keys, names and rows that appear twice.
    """
    check_key(partition, "PartitionKey")
    if not operations:
        raise ValueError("a transaction needs at least one operation")
    if len(operations) > OPERATIONS:
        raise TransactionTooLarge(f"{len(operations)} operations in one transaction, Table Storage allows {OPERATIONS}")
    rows: set[str] = set()
    payload = ENVELOPE_BYTES
    for operation in operations:
        _check_operation(partition, operation)
        if operation.row in rows:
            raise ValueError(f"row {operation.row!r} appears twice in one transaction")
        rows.add(operation.row)
        payload += wire_bytes(partition, operation)
    if payload > PAYLOAD_BYTES:
        raise TransactionTooLarge(f"a transaction of {payload:,} bytes, Table Storage allows {PAYLOAD_BYTES:,}")
    return payload


def _check_operation(partition: str, operation: RawOperation) -> None:
    check_key(operation.row, "RowKey")
    if operation.kind == "replace" and not operation.etag:
        raise ValueError(f"row {operation.row!r}: a replace needs the etag of the version it replaces")
    if len(operation.properties) > _PROPERTIES:
        raise TransactionTooLarge(
            f"row {operation.row!r} has {len(operation.properties)} properties, Table Storage allows {_PROPERTIES}"
        )
    for name, value in operation.properties.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"row {operation.row!r}: {name!r} can't be a property name")
        if (units := utf16_units(value)) > PROPERTY_UNITS:
            raise TransactionTooLarge(
                f"row {operation.row!r}: property {name!r} has {units} UTF-16 units, Table Storage allows {PROPERTY_UNITS}"
            )
    if (size := entity_bytes(partition, operation.row, operation.properties)) > ENTITY_BYTES:
        raise TransactionTooLarge(f"row {operation.row!r} has {size:,} bytes, Table Storage allows {ENTITY_BYTES:,}")
