"""The wire format of transactions, against what the SDK writes and what the service documents as its answers."""

import asyncio
import contextlib
import email
import json
from email.message import Message
from typing import Any

from azure.core import MatchConditions
from azure.core.credentials import AzureNamedKeyCredential
from azure.core.pipeline.transport import AsyncHttpTransport
from azure.data.tables import UpdateMode
from azure.data.tables.aio import TableClient

from hosting.storage import RawOperation
from hosting.storage._batch import encode_batch, read_batch

ETAG = "W/\"datetime'2026-11-30T22%3A19%3A21.1075979Z'\""
PARTITION, ROW = "it's a/partition é", "row ' 1+2%"
OPERATIONS = [
    RawOperation("insert", "new", {"a": 'text "quoted" \\ é \U0001f600\r\n--changeset_x\r\n'}),
    RawOperation("put", ROW, {"a": "1", "b": ""}),
    RawOperation("replace", "three", {"a": "1"}, ETAG),
    RawOperation("delete", ROW + "x"),
    RawOperation("delete", "five", {}, ETAG),
]


class Recorder(AsyncHttpTransport[Any, Any]):
    """A transport that keeps the request's body and sends nothing."""

    body = b""

    async def send(self, request: Any, **kwargs: Any) -> Any:
        self.body = request.content if isinstance(request.content, bytes) else request.content.encode()
        raise ConnectionError("not sent")

    async def open(self) -> None: ...
    async def close(self) -> None: ...
    async def __aexit__(self, *args: object) -> None: ...


async def sdk_body() -> bytes:
    recorder = Recorder()
    client = TableClient(
        "https://acc.table.core.windows.net",
        "agents",
        credential=AzureNamedKeyCredential("acc", "a2V5"),
        transport=recorder,
    )
    moved = {"etag": ETAG, "match_condition": MatchConditions.IfNotModified}
    keys = [{"PartitionKey": PARTITION, "RowKey": operation.row} for operation in OPERATIONS]
    with contextlib.suppress(ConnectionError):
        await client.submit_transaction(
            [
                ("create", keys[0] | OPERATIONS[0].properties),
                ("upsert", keys[1] | OPERATIONS[1].properties, {"mode": UpdateMode.REPLACE}),
                ("update", keys[2] | OPERATIONS[2].properties, {"mode": UpdateMode.REPLACE} | moved),
                ("delete", keys[3]),
                ("delete", keys[4], moved),
            ]
        )
    return recorder.body


def parts_of(body: bytes) -> list[tuple[str, dict[str, str], Any]]:
    """Each part's request line, the headers that mean something, and its JSON without type annotations."""
    boundary = body.split(b"\r\n", 1)[0][2:].decode()
    message = email.message_from_bytes(f"Content-Type: multipart/mixed; boundary={boundary}\r\n\r\n".encode() + body)
    [changeset] = message.get_payload()
    assert isinstance(changeset, Message)
    parts: list[tuple[str, dict[str, str], Any]] = []
    for part in changeset.get_payload():
        assert isinstance(part, Message)
        assert part["Content-Type"] == "application/http"
        assert part["Content-Transfer-Encoding"] == "binary"
        raw = part.get_payload(decode=True)
        assert isinstance(raw, bytes)
        head, _, content = raw.partition(b"\r\n\r\n")
        line, _, rest = head.decode().partition("\r\n")
        headers = {key.lower(): value for key, value in email.message_from_string(rest).items()}
        entity = json.loads(content) if content.strip() else None
        if entity:
            assert int(headers["content-length"]) == len(content.strip(b"\r\n"))
            entity = {key: value for key, value in entity.items() if "@" not in key}
        kept = {key: headers[key] for key in ("if-match", "dataserviceversion") if key in headers}
        parts.append((line, kept, entity))
    return parts


def test_requests_say_what_the_sdks_requests_say() -> None:
    ours = encode_batch("https://acc.table.core.windows.net/agents", PARTITION, OPERATIONS, "b0undary")
    theirs = asyncio.run(sdk_body())
    assert len(parts_of(theirs)) == len(OPERATIONS)
    assert parts_of(ours) == parts_of(theirs)


def test_inserts_and_updates_ask_not_to_get_their_content_back() -> None:
    body = encode_batch("https://acc/agents", "p", OPERATIONS[:3], "b")
    assert body.count(b"Prefer: return-no-content") == 3


def answer(*parts: str) -> bytes:
    """An answer as the service documents it."""
    lines = ["--batchresponse_1", "Content-Type: multipart/mixed; boundary=changesetresponse_1", ""]
    for part in parts:
        lines += ["--changesetresponse_1", "Content-Type: application/http", "Content-Transfer-Encoding: binary", ""]
        lines += [part, ""]
    return "\r\n".join([*lines, "--changesetresponse_1--", "--batchresponse_1--", ""]).encode()


def success(etag: str | None) -> str:
    lines = ["HTTP/1.1 204 No Content", "X-Content-Type-Options: nosniff", "Cache-Control: no-cache"]
    lines += ["Preference-Applied: return-no-content", "DataServiceVersion: 3.0;"]
    lines += ["Location: https://acc/agents(PartitionKey='p',RowKey='ETag: no')"]
    return "\r\n".join([*lines, *([f"ETag: {etag}"] if etag else []), "", ""])


def failure(status: str, code: str, message: str) -> str:
    body = json.dumps({"odata.error": {"code": code, "message": {"lang": "en-US", "value": message}}})
    head = [f"HTTP/1.1 {status}", "Content-Type: application/json;odata=minimalmetadata;charset=utf-8", "", body]
    return "\r\n".join(head)


def test_success_has_the_etags_in_order_and_none_for_deletes() -> None:
    found = read_batch(202, answer(success(ETAG), success(None), success("W/2")))
    assert found.etags == [ETAG, "", "W/2"]
    assert found.code == ""


def test_failure_has_code_and_index() -> None:
    body = answer(failure("412 Precondition Failed", "UpdateConditionNotSatisfied", "12:The condition\nRequestId:1"))
    found = read_batch(202, body)
    assert (found.etags, found.status, found.code, found.failed) == ([], 412, "UpdateConditionNotSatisfied", 12)


def test_failure_without_index_is_about_the_first() -> None:
    found = read_batch(202, answer(failure("404 Not Found", "TableNotFound", "The table specified does not exist.")))
    assert (found.code, found.failed) == ("TableNotFound", 0)


def test_refusal_of_the_whole_request_is_read_from_json_xml_or_nothing() -> None:
    as_json = json.dumps({"odata.error": {"code": "InvalidInput", "message": {"lang": "", "value": "0:bad"}}}).encode()
    as_xml = (
        b'<?xml version="1.0"?><m:error><m:code>X</m:code></m:error><error><code>AuthenticationFailed</code></error>'
    )
    assert read_batch(400, as_json).code == "InvalidInput"
    assert read_batch(403, as_xml).code == "AuthenticationFailed"
    assert (read_batch(503, b"").code, read_batch(503, b"").status) == ("Unknown", 503)
