"""The body of an entity-group transaction (`POST /$batch`), and its answer.

The SDK writes and reads these with the standard library's email package, which costs six times the CPU of the rest of
the request (measured: 11 ms instead of 2 ms for five rows). The format is fixed and small, so it is written here.
Source: "Performing entity group transactions" of the Table service REST API.
"""

import json
import re
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote

from ._seams import RawOperation

__all__ = ["BatchAnswer", "encode_batch", "read_batch"]

_METHODS = {"insert": "POST", "put": "PUT", "replace": "PUT", "delete": "DELETE"}
_STATUS = re.compile(rb"^HTTP/1\.[01] +(\d{3})[^\r\n]*\r?\n", re.MULTILINE)
_ETAG = re.compile(rb"^etag: *([^\r\n]+?) *\r?$", re.MULTILINE | re.IGNORECASE)


class BatchAnswer(NamedTuple):
    """What became of a transaction: `etags` in the order of its operations, or why none was applied.

    `code` is the service's error code, "" for success; `failed` the index of the operation that did.
    """

    etags: list[str]
    status: int = 200
    code: str = ""
    message: str = ""
    failed: int = 0


def encode_batch(url: str, partition: str, operations: Sequence[RawOperation], boundary: str) -> bytes:
    """The request body; `url` is that of the table, `boundary` the random part of `batch_...` and `changeset_...`."""
    lines = [f"--batch_{boundary}", f"Content-Type: multipart/mixed; boundary=changeset_{boundary}", ""]
    for index, operation in enumerate(operations):
        lines += [f"--changeset_{boundary}", "Content-Type: application/http", "Content-Transfer-Encoding: binary"]
        lines += [f"Content-ID: {index}", "", *_request(url, partition, operation)]
    lines += [f"--changeset_{boundary}--", f"--batch_{boundary}--", ""]
    return "\r\n".join(lines).encode()


def _request(url: str, partition: str, operation: RawOperation) -> list[str]:
    target = url
    if operation.kind != "insert":
        target += f"(PartitionKey='{_quoted(partition)}',RowKey='{_quoted(operation.row)}')"
    lines = [f"{_METHODS[operation.kind]} {target} HTTP/1.1", "Accept: application/json;odata=minimalmetadata"]
    lines += ["DataServiceVersion: 3.0", "Prefer: return-no-content"]
    if operation.kind in ("replace", "delete"):
        lines.append(f"If-Match: {operation.etag or '*'}")
    if operation.kind == "delete":
        return [*lines, "", ""]
    entity = {"PartitionKey": partition, "RowKey": operation.row, **operation.properties}
    body = json.dumps(entity, ensure_ascii=False, separators=(",", ":"))
    lines += ["Content-Type: application/json;charset=utf-8", f"Content-Length: {len(body.encode())}", "", body]
    return lines


def _quoted(key: str) -> str:
    return quote(key.replace("'", "''"), safe="")


def read_batch(status: int, body: bytes) -> BatchAnswer:
    """Read an answer. A status other than 202 is about the request as a whole, its body is a plain error."""
    if status != 202:
        return _error(status, body)
    heads = list(_STATUS.finditer(body))
    etags: list[str] = []
    for number, head in enumerate(heads):
        end = heads[number + 1].start() if number + 1 < len(heads) else len(body)
        part = body[head.end() : end]
        if not 200 <= int(head[1]) < 300:
            return _error(int(head[1]), part)
        etag = _ETAG.search(part)
        etags.append(etag[1].decode() if etag else "")
    return BatchAnswer(etags)


def _error(status: int, body: bytes) -> BatchAnswer:
    text = body.decode(errors="replace")
    code, message = "", text.strip()[:500]
    try:
        error = json.loads(text[text.index("{") : text.rindex("}") + 1])["odata.error"]
        code, message = str(error["code"]), str(error["message"]["value"])
    except (ValueError, KeyError, TypeError):
        if match := re.search(r"<code>([^<]+)</code>", text, re.IGNORECASE):
            code = match[1]
    index = re.match(r"(\d+):", message)
    return BatchAnswer([], status, code or "Unknown", message, int(index[1]) if index else 0)
