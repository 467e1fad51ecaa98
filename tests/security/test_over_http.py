"""The app on devhost and Azurite, attacked through sockets: what no HTTP client would send.

devhost's front end is not Azure's: what these tests prove is about the worker and the app behind it.
"""

import contextlib
import gzip
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from devhost.azurite import Azurite
from devhost.testing import DevHost, start_devhost
from hosting.keys import mint_key
from tests.conftest import ROOT

_CONTOSO, _KEPT = mint_key("contoso")
_FABRIKAM, _OTHER = mint_key("fabrikam")
_FOLLOWERS = 20


@pytest.fixture(scope="module")
def host(azurite: Azurite) -> Iterator[DevHost]:
    env = {
        "HOSTING_API_KEYS": f"{_KEPT.entry},{_OTHER.entry}",
        "HOSTING_REQUEST_BODY_SECONDS": "3",
        "HOSTING_MAX_STREAMS_PER_TENANT": str(_FOLLOWERS),
    }
    with start_devhost(ROOT, env=env, storage=azurite.connection_string, grace=0.5) as running:
        yield running


@dataclass(frozen=True, slots=True)
class Answer:
    """The head of an answer as it came, and its body."""

    status: int
    head: str
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def exchange(host: DevHost, raw: bytes, *, seconds: float = 60) -> Answer:
    """Send bytes, read to the end of the connection. Status 0: the connection was closed without an answer."""
    address = urlsplit(host.base_url)
    received = b""
    with socket.create_connection((address.hostname, address.port), timeout=seconds) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(raw)
            while chunk := connection.recv(65536):
                received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    if not head:
        return Answer(0, "", b"")
    if b"chunked" in head.lower():
        body = _unchunked(body)
    return Answer(int(head.split()[1]), head.decode("latin-1"), body)


def _unchunked(body: bytes) -> bytes:
    joined = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size or b"0", 16)
        joined, body = joined + body[:length], body[length + 2 :]
    return joined


def raw(method: str, path: str | bytes, body: bytes = b"", *, key: str = _CONTOSO, more: bytes = b"") -> bytes:
    target = path if isinstance(path, bytes) else path.encode()
    head = b"%s %s HTTP/1.1\r\nhost: app\r\nconnection: close\r\n" % (method.encode(), target)
    head += b"authorization: Bearer %s\r\ncontent-length: %d\r\n" % (key.encode(), len(body))
    return head + more + b"\r\n" + body


def create(host: DevHost, key: str = _CONTOSO, **body: Any) -> Any:
    answer = exchange(host, raw("POST", "/v1/responses", json.dumps({"input": "hello", **body}).encode(), key=key))
    assert answer.status == 200, answer.body
    return answer.json


def still_answers(host: DevHost) -> None:
    assert create(host)["status"] == "completed"


PATHS = [
    *(
        b"/v1/responses/resp_%00",
        b"/v1/responses/resp_\x00",
        b"/v1/responses/%2e%2e%2fmodels",
        b"/v1/responses/resp_%2f..%2f",
    ),
    *(
        b"/v1/responses/..%5c..%5cresp_1",
        b"/v1/responses/resp_%0d%0ax-evil:%201",
        b"/v1/responses/resp_%0aforged",
        b"/%00",
    ),
    *(b"/v1/responses/resp_%ff%fe", b"/v1/responses/resp_%c0%af", b"/v1/responses/resp_%", b"/v1/responses/resp_%zz"),
    *(
        b"/v1/responses/resp_%27%20or%20PartitionKey%20ne%20%27",
        b"/v1/responses/resp_1%23",
        b"/v1/responses/resp_1%3fa=b",
    ),
    *(
        b"/v1/responses/" + b"resp_" + b"a" * 6_000,
        b"//v1//responses",
        b"/v1/../v1/responses/resp_1",
        b"/v1/responses/%252e",
    ),
    *(
        b"/v1/responses/resp_%e2%80%ae",
        b"/v1/responses/\xff",
        b"/v1/responses?\x00",
        b"/v1/models/%00",
        b"/v1/conversations/conv_%00",
    ),
    *(b"*", b"http://169.254.169.254/metadata", b"/v1/responses/resp_{0}%s%n${jndi:ldap://x}"),
]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: ascii(path[:40]))
def test_a_hostile_path_is_an_error_of_the_client(host: DevHost, path: bytes) -> None:
    for method in ("GET", "DELETE"):
        answer = exchange(host, raw(method, path))
        assert answer.status == 0 or 400 <= answer.status < 500, (answer.status, answer.body[:300])
        assert "x-evil" not in answer.head.lower()
        assert len(answer.body) < 10_000
        assert b"Traceback" not in answer.body


HEADERS = [
    b"idempotency-key: a\r\n b: folded\r\n",
    b"idempotency-key: \x00\r\n",
    b"idempotency-key: a%0d%0ax-evil: 1\r\n",
    b"idempotency-key: \xff\xfe\r\n",
    b"x-request-id: a\r\n\tx-evil: 1\r\n",
    b"x-client-note: \xe2\x80\xa8x-evil: 1\r\n",
    b"traceparent: 00-" + b"x" * 5_000 + b"\r\n",
    b"last-event-id: 1\nx-evil: 1\r\n",
    b"x-ms-client-principal: e30=\r\nx-ms-client-principal-id: admin\r\n",
    b"content-length: 1\r\n",
    b"transfer-encoding: chunked\r\n",
    b"transfer-encoding: gzip, chunked\r\n",
    b"x-evil header: 1\r\n",
    b"x-big: " + b"a" * 20_000 + b"\r\n",
    b"".join(b"x-%d: a\r\n" % number for number in range(300)),
]


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: ascii(header[:30]))
def test_a_hostile_header_is_never_in_the_answer_and_never_an_error_of_the_server(host: DevHost, header: bytes) -> None:
    answer = exchange(host, raw("POST", "/v1/responses", b'{"input":"hello"}', more=header))
    assert answer.status == 0 or answer.status == 200 or 400 <= answer.status < 500, (answer.status, answer.body[:300])
    assert "\r\nx-evil" not in answer.head.lower()
    still_answers(host)


def test_a_body_that_stops_is_a_408_and_the_connection_is_closed(host: DevHost) -> None:
    stalled = raw("POST", "/v1/responses", b"").replace(b"content-length: 0", b"content-length: 1000") + b'{"input":'
    began = time.monotonic()
    answer = exchange(host, stalled)
    assert answer.status == 408, answer
    assert answer.json["error"]["code"] == "request_timeout"
    assert time.monotonic() - began < 60


def test_bodies_that_trickle_keep_nobody_else_waiting(host: DevHost) -> None:
    address = urlsplit(host.base_url)
    stalled = raw("POST", "/v1/responses", b"").replace(b"content-length: 0", b"content-length: 1000") + b"{"
    connections = [socket.create_connection((address.hostname, address.port), timeout=60) for _ in range(60)]
    try:
        for connection in connections:
            connection.sendall(stalled)
        still_answers(host)
        assert {connection.recv(12) for connection in connections} == {b"HTTP/1.1 408"}
    finally:
        for connection in connections:
            connection.close()


def test_followers_beyond_the_limit_are_turned_away_and_places_come_back(host: DevHost) -> None:
    body = json.dumps({"input": "[[slow 2400 50]]", "background": True, "stream": True}).encode()
    address = urlsplit(host.base_url)
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        connection.sendall(raw("POST", "/v1/responses", body))
        received = b""
        while b'"id":"' not in received:
            received += connection.recv(65536)
    identifier = received.split(b'"id":"')[1].split(b'"')[0].decode()
    follow = raw("GET", f"/v1/responses/{identifier}?stream=true")
    connections = [
        socket.create_connection((address.hostname, address.port), timeout=60) for _ in range(2 * _FOLLOWERS)
    ]
    try:
        for connection in connections:
            connection.sendall(follow)
        statuses = [connection.recv(12) for connection in connections]
        assert statuses.count(b"HTTP/1.1 429") >= _FOLLOWERS
        assert set(statuses) == {b"HTTP/1.1 200", b"HTTP/1.1 429"}
        still_answers(host)
    finally:
        for connection in connections:
            connection.close()
    deadline = time.monotonic() + 45
    while True:  # until the worker has noticed
        with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
            connection.sendall(follow)
            if connection.recv(12) == b"HTTP/1.1 200":
                break
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert exchange(host, raw("POST", f"/v1/responses/{identifier}/cancel")).json["status"] == "cancelled"


def test_a_follower_that_asks_for_the_head_only_is_answered_at_once(host: DevHost) -> None:
    running = create(host, input="[[slow 2400 50]]", background=True)
    began = time.monotonic()
    answer = exchange(host, raw("HEAD", f"/v1/responses/{running['id']}"))
    assert (answer.status, answer.body) == (200, b"")
    assert time.monotonic() - began < 60
    exchange(host, raw("POST", f"/v1/responses/{running['id']}/cancel"))


def test_nobody_without_a_key_has_a_body_read(host: DevHost) -> None:
    stalled = raw("POST", "/v1/responses", b"", key="sk-000000000000-" + "a" * 43)
    answer = exchange(host, stalled.replace(b"content-length: 0", b"content-length: 1000") + b"{")
    assert answer.status == 401  # and no 408, which would come after three seconds of waiting


def test_a_tenants_key_does_not_open_what_is_another_tenants(host: DevHost) -> None:
    mine = create(host, metadata={"note": "canary"})
    running = create(host, input="[[slow 2400 50]]", background=True)
    for identifier in (mine["id"], running["id"]):
        for method, tail in (
            *(("GET", ""), ("GET", "?stream=true"), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/input_items")),
        ):
            answer = exchange(host, raw(method, f"/v1/responses/{identifier}{tail}", key=_FABRIKAM))
            assert answer.status == 404, (method, tail, answer.body)
            assert b"canary" not in answer.body
        body = json.dumps({"input": "go on", "previous_response_id": identifier}).encode()
        assert exchange(host, raw("POST", "/v1/responses", body, key=_FABRIKAM)).status == 400
    assert exchange(host, raw("GET", f"/v1/responses/{mine['id']}")).json["metadata"] == {"note": "canary"}
    assert exchange(host, raw("POST", f"/v1/responses/{running['id']}/cancel")).json["status"] == "cancelled"


@pytest.mark.parametrize("keys", [(_CONTOSO, _FABRIKAM), (_FABRIKAM, _CONTOSO)], ids=["one", "the other"])
def test_two_keys_on_the_wire_are_a_400(host: DevHost, keys: tuple[str, str]) -> None:
    first, second = keys
    answer = exchange(host, raw("GET", "/v1/models", key=first, more=b"authorization: Bearer %s\r\n" % second.encode()))
    assert (answer.status, answer.json["error"]["param"]) == (400, "authorization")
    assert b"sk-" not in answer.body


@pytest.mark.parametrize(
    "authorization",
    [
        b"",
        b"Bearer",
        b"Bearer ",
        b"Basic YTpi",
        b"Bearer %s",
        b"Bearer \xff",
        b"Bearer null",
        b"Bearer " + b"a" * 7_000,
    ],
)
def test_what_is_no_key_is_a_401(host: DevHost, authorization: bytes) -> None:
    request = (
        b"GET /v1/models HTTP/1.1\r\nhost: app\r\nconnection: close\r\nauthorization: %s\r\n\r\n"
        % authorization.replace(b"%s", _CONTOSO[:-1].encode())
    )
    answer = exchange(host, request)
    assert answer.status == 401, answer
    assert _CONTOSO[:-1].encode() not in answer.body


def resident(host: DevHost) -> float:
    """Megabytes of the worker."""
    (pid,) = host.workers
    return int(Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0]) / 1024


def hostile(number: int) -> bytes:
    """One of many kinds of request, none of which may cost anything for long."""
    big = b'{"input":"a","x":[' + b"{}," * 300_000 + b"0]}"
    odd = [
        raw("POST", "/v1/responses", b"[" * 200_000),
        raw("POST", "/v1/responses", big),
        raw("POST", "/v1/responses", gzip.compress(b" " * 1_000_000), more=b"content-encoding: gzip\r\n"),
        raw("POST", "/v1/responses", json.dumps({"input": "a" * 500_000, "temperature": 9}).encode()),
        raw(
            "POST",
            "/v1/responses",
            json.dumps({"input": "a", "x": {f"{number}-{n}": n for n in range(9_000)}}).encode(),
        ),
        raw("GET", f"/v1/responses/resp_{number}" + "%00" * 1_000),
        raw("POST", "/v1/responses", b"\xff" * 300_000),
        raw("GET", "/v1/models", key=f"sk-{number:012x}-" + "a" * 43),
        raw("POST", "/v1/responses", b'{"input":"a"}', more=b"idempotency-key: " + b"k" * 5_000 + b"\r\n"),
        b"\x00\x16\x03\x01\r\n\r\n",
    ]
    return odd[number % len(odd)]


def test_300_hostile_requests_leave_the_process_small_and_at_work(host: DevHost) -> None:
    for number in range(20):  # what is made once, such as the largest buffers, is not growth
        exchange(host, hostile(number))
    still_answers(host)
    (worker,), before = host.workers, resident(host)
    statuses = {exchange(host, hostile(number)).status for number in range(300)}
    still_answers(host)
    assert not [status for status in statuses if status >= 500], statuses
    assert host.workers == [worker]  # it was not replaced
    assert resident(host) - before < 60


def test_the_log_has_neither_keys_nor_lines_that_an_attacker_wrote(host: DevHost) -> None:
    exchange(host, raw("GET", "/v1/responses/resp_%0aCRITICAL%20forged%20line"))
    exchange(host, raw("POST", "/v1/responses", b'{"input":"canary-in-a-log","temperature":"x"}'))
    log = host.logs
    assert _CONTOSO not in log
    assert _FABRIKAM not in log
    assert "canary-in-a-log" not in log
    assert not [line for line in log.splitlines() if line.startswith("CRITICAL forged")]
