"""Fields and documents as text, and text as columns.

A row has these columns, all strings:

- `fields`: the row's scalars, one JSON object; a datetime is `{"utc": "<ISO 8601>"}`;
- `d_<document>_<n>`: chunk n of a document's JSON text;
- `spilled`: `{"<document>": ["<blob name>", <bytes>, "<sha256>"]}` for the documents that live in Blob Storage;
- `committed_by`: the token of the transaction that wrote this version.

The scalars share one column because a projection ($select) can only list the columns it wants: so "all the fields and
one document" is a list that can be written down without knowing the fields.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

from ._errors import CorruptValue
from ._limits import PROPERTY_UNITS, utf16_units

__all__ = [
    "FIELDS",
    "INLINE_CHUNKS",
    "SPILLED",
    "TOKEN",
    "BlobRef",
    "Json",
    "Scalar",
    "check_document_name",
    "chunk_columns",
    "columns_of",
    "decode_document",
    "decode_fields",
    "decode_refs",
    "encode_document",
    "encode_fields",
    "encode_refs",
    "has_spilled",
    "inline_texts",
    "inner_etag",
    "outer_etag",
    "readable_fields",
]

type Scalar = str | int | float | bool | datetime
type Json = bool | int | float | str | list["Json"] | dict[str, "Json"] | None

FIELDS, SPILLED, TOKEN = "fields", "spilled", "committed_by"

INLINE_CHUNKS = 10
"""Longest inline document in columns of 32,767 UTF-16 units; a longer one spills.

The trade: an inline document costs no operation of its own, but travels with every read of its row that does not
leave it out, and takes from the row's 1 MiB and the transaction's 4 MiB. A spilled one costs a blob write before the
transaction, and a second round trip for the reader who wants it. About 320 thousand characters keep all but the rare
turn inline, and a row has room for one and a half of them. The bound also bounds the length of a projection.
"""

_DOCUMENT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}", re.ASCII)
_CHUNK_COLUMN = re.compile(r"d_([A-Za-z][A-Za-z0-9_]*)_([0-9]+)", re.ASCII)
# Lone surrogates have no UTF-8. The others are legal everywhere, but some parser on the way may take them for a line
# end or a byte order mark (Azurite's does), and JSON has an escape for them anyway.
_ESCAPED = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")
_INT64 = 2**63
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class BlobRef(NamedTuple):
    """Where a spilled document is and what it must be: the blob's name, its length in bytes, its SHA-256 in hex."""

    name: str
    length: int
    sha256: str

    def check(self, data: bytes) -> bytes:
        """`data` itself when it is what was written, else CorruptValue."""
        if len(data) != self.length:
            raise CorruptValue(f"blob {self.name!r} has {len(data)} bytes, {self.length} were written")
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise CorruptValue(f"blob {self.name!r} does not have the SHA-256 that was written")
        return data


def encode_document(value: Json, path: str) -> str:
    """Compact JSON text that has a UTF-8 form; ValueError, with the path of the offender, for what JSON can't say.

    A lone surrogate is escaped and comes back as it was. (A high one followed by a low one, as two characters, comes
    back as the one character they mean.)
    """
    try:
        text = _ENCODER.encode(value)
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise ValueError(_explain(value, path) or f"{path}: {error}") from None
    if text.isascii() and "\x7f" not in text:
        return text
    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _explain(value: Any, path: str) -> str | None:
    """Why `value` is no JSON, or None when nothing in it says so (it contains itself)."""
    waiting: list[tuple[Any, str]] = [(value, path)]
    seen: set[int] = set()
    while waiting:
        value, path = waiting.pop()
        if isinstance(value, float) and not math.isfinite(value):
            return f"{path} is {value}, which JSON does not have"
        if value is None or isinstance(value, str | int | float) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            items = list(cast("dict[Any, Any]", value).items())
            if wrong := [key for key, _ in items if not isinstance(key, str)]:
                return f"{path} has the key {wrong[0]!r}, JSON keys are strings"
            waiting += [(item, f"{path}.{key}") for key, item in reversed(items)]
        elif isinstance(value, list | tuple):
            items = list(enumerate(cast("Iterable[Any]", value)))
            waiting += [(item, f"{path}[{n}]") for n, item in reversed(items)]
        else:
            return f"{path} is a {type(value).__name__}, which JSON does not have"
    return None


def decode_document(text: str | bytes, path: str) -> Json:
    """The value of a document's text; CorruptValue when it is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptValue(f"{path} can't be decoded: {error}") from error


def encode_fields(fields: Mapping[str, Scalar], row: str) -> str:
    """The text of the column `fields`.

    Raises ValueError for an integer beyond 64 bits, a float that JSON does not have, a datetime without time zone,
    anything that is no scalar, and for more text than a column takes (32,767 UTF-16 units): long values are documents.
    """
    text = encode_document({name: _encode_scalar(value, f"{row}.{name}") for name, value in fields.items()}, row)
    if (units := utf16_units(text)) > PROPERTY_UNITS:
        raise ValueError(f"the fields of row {row!r} take {units} UTF-16 units, at most {PROPERTY_UNITS} are possible")
    return text


def _encode_scalar(value: Any, path: str) -> Json:
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise ValueError(f"{path} is a datetime without time zone")
        return {"utc": value.astimezone(UTC).isoformat()}
    if isinstance(value, bool | float | str):
        return value
    if isinstance(value, int):
        if not -_INT64 <= value < _INT64:
            raise ValueError(f"{path} is {value.bit_length()} bits long, integers have at most 64")
        return value
    raise ValueError(f"{path} is a {type(value).__name__}, a field is a str, int, float, bool or datetime")


def decode_fields(text: str, row: str) -> dict[str, Scalar]:
    """The scalars of a row; datetimes are in UTC. Raises CorruptValue."""
    try:
        return {name: _decode_scalar(value) for name, value in cast("dict[str, Any]", json.loads(text)).items()}
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise CorruptValue(f"the fields of row {row!r} can't be decoded: {error}") from error


def readable_fields(properties: Mapping[str, str], row: str) -> dict[str, Scalar]:
    """The scalars of a row, or none when they can't be decoded: for what many rows are read for, and a broken one hides no
    other and stays deletable."""
    try:
        return decode_fields(properties.get(FIELDS, "{}"), row)
    except CorruptValue:
        return {}


def _decode_scalar(value: Any) -> Scalar:
    return datetime.fromisoformat(cast("dict[str, str]", value)["utc"]) if isinstance(value, dict) else value


def encode_refs(refs: Mapping[str, BlobRef]) -> str:
    """The text of the column `spilled`."""
    return json.dumps({name: [ref.name, ref.length, ref.sha256] for name, ref in refs.items()}, separators=(",", ":"))


def decode_refs(text: str | None, row: str) -> dict[str, BlobRef]:
    """The spilled documents of a row, by name; none when the column is not there. Raises CorruptValue."""
    if not text:
        return {}
    try:
        return {name: BlobRef(*ref) for name, ref in cast("dict[str, list[Any]]", json.loads(text)).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptValue(f"the blob references of row {row!r} can't be decoded: {error}") from error


def check_document_name(name: str) -> None:
    """Raise ValueError unless `name` is a letter, then letters, digits and underscores, at most 64 in all."""
    if not _DOCUMENT_NAME.fullmatch(name):
        raise ValueError(f"{name!r} can't be the name of a document: a letter, then letters, digits, underscores")


def chunk_columns(name: str, text: str) -> dict[str, str]:
    """The columns of an inline document: chunks of at most 32,767 UTF-16 units, no surrogate pair is split."""
    if text.isascii():
        chunks = [text[at : at + PROPERTY_UNITS] for at in range(0, len(text), PROPERTY_UNITS)]
    else:
        chunks = list(_chunks(text.encode("utf-16-le")))
    return {f"d_{name}_{n}": chunk for n, chunk in enumerate(chunks)}


def _chunks(data: bytes) -> Iterable[str]:
    at = 0
    while at < len(data):
        end = min(at + 2 * PROPERTY_UNITS, len(data))
        if end < len(data) and 0xD8 <= data[end - 1] <= 0xDB:  # the last unit is the first half of a pair
            end -= 2
        yield data[at:end].decode("utf-16-le")
        at = end


def columns_of(documents: Iterable[str]) -> list[str]:
    """The columns to $select for all fields and these documents."""
    names = sorted(documents)
    for name in names:
        check_document_name(name)
    return [FIELDS, SPILLED, TOKEN, *(f"d_{name}_{n}" for name in names for n in range(INLINE_CHUNKS))]


def inline_texts(properties: Mapping[str, str]) -> dict[str, str]:
    """The text of each inline document of a row, by name."""
    chunks: dict[str, dict[int, str]] = {}
    for column, value in properties.items():
        if match := _CHUNK_COLUMN.fullmatch(column):
            chunks.setdefault(match[1], {})[int(match[2])] = value
    return {name: "".join(parts[n] for n in sorted(parts)) for name, parts in chunks.items()}


# The etag that callers see says whether that version has spilled documents. So a Replace or Delete of the usual row,
# which has none, needs no look at the old version, and a later process knows it too: nothing is remembered.
_SPILLED_MARK = "+blobs"


def outer_etag(etag: str, *, spilled: bool) -> str:
    """The etag for callers, from the table's."""
    return etag + _SPILLED_MARK if spilled else etag


def inner_etag(etag: str) -> str:
    """The table's etag, from a caller's."""
    return etag.removesuffix(_SPILLED_MARK)


def has_spilled(etag: str) -> bool:
    """Whether the version that a caller's etag names has spilled documents."""
    return etag.endswith(_SPILLED_MARK)
