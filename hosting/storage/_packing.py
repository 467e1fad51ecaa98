"""From operations on rows to raw operations and blobs: what stays inline, what spills, and whether it fits."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ._errors import TransactionTooLarge
from ._limits import (
    ENTITY_BYTES,
    ENVELOPE_BYTES,
    OPERATIONS,
    PAYLOAD_BYTES,
    PROPERTY_UNITS,
    check_transaction,
    entity_bytes,
    json_bytes,
    wire_bytes,
)
from ._seams import RawOperation
from ._values import (
    FIELDS,
    INLINE_CHUNKS,
    SPILLED,
    TOKEN,
    BlobRef,
    Json,
    Scalar,
    check_document_name,
    chunk_columns,
    encode_document,
    encode_fields,
    encode_refs,
    inner_etag,
)

__all__ = ["Delete", "Insert", "Operation", "Packed", "Put", "Replace", "pack"]


@dataclass(frozen=True, slots=True)
class Insert:
    """Write a new row; RowExists when it is taken. The cheapest write: nothing old has to be looked at."""

    row: str
    fields: Mapping[str, Scalar] = field(default_factory=dict[str, Scalar])
    documents: Mapping[str, Json] = field(default_factory=dict[str, Json])


@dataclass(frozen=True, slots=True)
class Put:
    """Write a row, whatever was there. One small read more than Insert, to learn which blobs the old version had."""

    row: str
    fields: Mapping[str, Scalar] = field(default_factory=dict[str, Scalar])
    documents: Mapping[str, Json] = field(default_factory=dict[str, Json])


@dataclass(frozen=True, slots=True)
class Replace:
    """Write a row over the version that `etag` names: RowChanged when it is another one, RowMissing when it is gone.

    The whole row is replaced: fields and documents that are not given here are gone afterwards.
    """

    row: str
    fields: Mapping[str, Scalar]
    documents: Mapping[str, Json]
    etag: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a row.

    Without etag the row is gone afterwards and that is all that counts: an absent row is no error (one small read more,
    which also says whether there is anything to do). With etag exactly that version is removed: RowChanged when it is
    another one, RowMissing when there is none, which after a lost answer can mean that it was us.
    """

    row: str
    etag: str | None = None


type Operation = Insert | Put | Replace | Delete

# Below this a document is hardly longer than the reference that would stand for it.
_WORTH_SPILLING = 1_024
_SAFE_SEGMENT = re.compile(r"[A-Za-z0-9_~-](?:[A-Za-z0-9_.~-]{0,198}[A-Za-z0-9_~-])?", re.ASCII)
_KINDS: dict[type, Literal["insert", "put", "replace", "delete"]] = {
    Insert: "insert",
    Put: "put",
    Replace: "replace",
    Delete: "delete",
}


class Packed(NamedTuple):
    """A transaction that fits, and the blobs (by name) that must be there before it."""

    operations: list[RawOperation]
    blobs: dict[str, bytes]


def pack(partition: str, operations: Sequence[Operation], token: str, attempt: str) -> Packed:
    """Encode operations so that every limit of Azure is kept.

    Documents spill, the largest first, until each row has its 1 MiB and the request its 4 MiB. `attempt` is unique to
    the call: it becomes part of the blob names, see `_blob_name`. Raises TransactionTooLarge and ValueError.
    """
    if len(operations) > OPERATIONS:
        raise TransactionTooLarge(f"{len(operations)} operations in one transaction, Table Storage allows {OPERATIONS}")
    rows = [_Row(partition, operation, token, attempt) for operation in operations]
    for row in rows:
        row.fit()
    total = ENVELOPE_BYTES + sum(row.wire for row in rows)
    while total > PAYLOAD_BYTES:
        row = max(rows, key=lambda row: row.largest()[1])
        name, _ = row.largest()
        if name is None:
            break  # whoever checks the transaction says how much is too much
        before = row.wire
        row.spill(name)
        total += row.wire - before
    raw = [row.raw() for row in rows]
    blobs = {name: data for row in rows for name, data in row.blobs.items()}
    if blobs:
        # `Tables.transact` checks everything again (sizes, keys, rows that appear twice), but then blobs are written.
        check_transaction(partition, raw)
    return Packed(raw, blobs)


class _Row:
    """One operation while it is being packed."""

    def __init__(self, partition: str, operation: Operation, token: str, attempt: str) -> None:
        self.partition, self.operation, self.attempt = partition, operation, attempt
        self.base: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self.sizes: dict[str, int] = {}
        self.columns: dict[str, dict[str, str]] = {}
        self.refs: dict[str, BlobRef] = {}
        self.blobs: dict[str, bytes] = {}
        if not isinstance(operation, Delete):
            self.base = {FIELDS: encode_fields(operation.fields, operation.row), TOKEN: token}
            for name, value in operation.documents.items():
                self._add(name, value)
        self.wire = wire_bytes(partition, self.raw())

    def _add(self, name: str, value: Json) -> None:
        check_document_name(name)
        text = encode_document(value, f"{self.operation.row}.{name}")
        if len(text) > INLINE_CHUNKS * PROPERTY_UNITS:  # there are at least as many units as characters
            # At once: of a large document there are then its value and its bytes, and neither its text nor its columns.
            self._spill(name, text)
            return
        self.texts[name] = text
        self.sizes[name] = json_bytes(text)
        self.columns[name] = chunk_columns(name, text)

    def raw(self) -> RawOperation:
        properties = dict(self.base)
        for columns in self.columns.values():
            properties |= columns
        if self.refs:
            properties[SPILLED] = encode_refs(self.refs)
        operation = self.operation
        etag = operation.etag if isinstance(operation, Replace | Delete) else None
        etag = None if etag is None else inner_etag(etag)
        return RawOperation(_KINDS[type(operation)], operation.row, properties, etag)

    def fit(self) -> None:
        """Spill what takes a column too many, because no pair is split, then the largest until the row has its size."""
        for name in [name for name, columns in self.columns.items() if len(columns) > INLINE_CHUNKS]:
            self.spill(name)
        while entity_bytes(self.partition, self.operation.row, self.raw().properties) > ENTITY_BYTES:
            name, _ = self.largest()
            if name is None:
                return
            self.spill(name)

    def largest(self) -> tuple[str | None, int]:
        """The inline document that gains most when it spills, and its bytes; (None, 0) when none is worth it."""
        name = max(self.sizes, key=lambda name: self.sizes[name], default=None)
        return (name, self.sizes[name]) if name is not None and self.sizes[name] >= _WORTH_SPILLING else (None, 0)

    def spill(self, name: str) -> None:
        self._spill(name, self.texts.pop(name))
        del self.sizes[name], self.columns[name]
        self.wire = wire_bytes(self.partition, self.raw())

    def _spill(self, name: str, text: str) -> None:
        data = text.encode()
        digest = hashlib.sha256(data).hexdigest()
        blob = _blob_name(self.partition, self.operation.row, name, digest, self.attempt)
        self.refs[name] = BlobRef(blob, len(data), digest)
        self.blobs[blob] = data


def _blob_name(partition: str, row: str, document: str, digest: str, attempt: str) -> str:
    """`values/<partition>/<row>/<document>-<digest>-<attempt>`.

    The digest says what is in it. The attempt makes the blob belong to one call of `commit`, which may so remove it when
    its transaction failed: with a name made of the content alone, two writers of the same value (a request and its
    retry, a zombie and its successor) share a blob, and the one that loses would take it from the one that wins,
    however carefully it looks first. The prefix lets lifecycle rules tell values from streams.
    """
    segments = [part if _SAFE_SEGMENT.fullmatch(part) else _digest(part) for part in (partition, row)]
    return f"values/{segments[0]}/{segments[1]}/{document}-{digest[:16]}-{attempt}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:40]
