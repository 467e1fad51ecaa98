"""HTTP through devhost to an app with the FastAPI extension."""

import asyncio
import hashlib
import io
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import ClientSession, ClientTimeout

from devhost.testing import DevHost
from tests.devhost.conftest import App, eventually


@pytest.fixture
async def client(host: DevHost) -> AsyncIterator[ClientSession]:
    async with ClientSession(host.base_url, timeout=ClientTimeout(total=30)) as session:
        yield session


async def get_json(client: ClientSession, method: str, path: str, **options: Any) -> tuple[int, Any]:
    async with client.request(method, path, **options) as response:
        return response.status, await response.json(content_type=None)


async def test_function_answers_under_the_route_prefix(client: ClientSession):
    status, content = await get_json(client, "GET", "/svc/hello?name=you")
    assert (status, content["hello"]) == (200, "you")


async def test_route_parameters_reach_the_function(client: ClientSession):
    assert await get_json(client, "GET", "/svc/items/7") == (200, {"item": "7"})
    assert await get_json(client, "GET", "/svc/items/seven") == (200, {"named": "seven"})


async def test_verbs_of_one_path_go_to_their_functions(client: ClientSession):
    async with client.put("/svc/items/7") as response:
        assert await response.text() == "PUT 7"
    async with client.delete("/svc/items/7") as response:
        assert await response.text() == "DELETE 7"


async def test_catch_all_answers_unknown_paths_and_verbs(client: ClientSession):
    assert await get_json(client, "GET", "/svc/no/such") == (404, {"lost": "no/such", "method": "GET"})
    assert await get_json(client, "PATCH", "/svc/items/7") == (404, {"lost": "items/7", "method": "PATCH"})


async def test_no_function_gives_404_without_a_body(client: ClientSession):
    async with client.get("/elsewhere") as response:
        assert (response.status, await response.read()) == (404, b"")


async def test_request_arrives_as_it_was_sent(host: DevHost):
    reader, writer = await asyncio.open_connection("127.0.0.1", int(host.base_url.rpartition(":")[2]))
    head = (
        "POST /svc/echo/a%20b?x=1&x=2&y=%2F HTTP/1.1\r\nHost: example.test:99\r\nX-Twice: one\r\nX-Twice: two\r\n"
        "Connection: close, X-Hop\r\nX-Hop: 1\r\nTE: trailers\r\nX-Ms-Invocation-Id: forged\r\nContent-Length: 4\r\n\r\nbody"
    )
    writer.write(head.encode())
    answer = (await reader.read()).decode()
    writer.close()
    seen = json.loads(answer[answer.index("{") : answer.rindex("}") + 1])
    headers = [tuple(pair) for pair in seen["headers"]]
    assert seen["target"] == "/svc/echo/a%20b?x=1&x=2&y=%2F"
    assert ("host", "example.test:99") in headers
    assert seen["tail"] == "a b"
    assert seen["query"] == [["x", "1"], ["x", "2"], ["y", "/"]]
    assert seen["body"] == "body"
    assert [value for name, value in headers if name == "x-twice"] == ["one", "two"]
    assert not {"x-hop", "te"} & {name for name, _ in headers}
    assert [value for name, value in headers if name == "x-ms-invocation-id"] != ["forged"]
    # Nothing is added that a client did not send, but for the invocation.
    assert {name for name, _ in headers} == {"host", "x-twice", "content-length", "x-ms-invocation-id"}


async def test_response_headers_arrive_as_they_were_sent(client: ClientSession):
    async with client.get("/svc/echo/x") as response:
        assert response.headers.getall("set-cookie") == ["a=1; Path=/", "b=2; Path=/"]
        assert response.headers["x-one"] == "1"
        assert response.headers["x-devhost-worker"] == "1"
        assert len(response.headers.getall("server")) == len(response.headers.getall("date")) == 1


async def test_no_content_type_is_made_up(client: ClientSession):
    async with client.get("/svc/untyped") as response:
        assert "content-type" not in response.headers
        assert await response.read() == b"bytes of no type"


async def test_head_has_the_headers_and_no_body(client: ClientSession):
    async with client.head("/svc/echo/x") as response:
        assert (response.status, await response.read()) == (200, b"")
        assert int(response.headers["content-length"]) > 0


async def test_options_reaches_the_function(client: ClientSession):
    status, content = await get_json(client, "OPTIONS", "/svc/echo/x")
    assert (status, content["method"]) == (200, "OPTIONS")


@pytest.mark.parametrize("code", [204, 304, 307, 418, 503])
async def test_status_passes_through(client: ClientSession, code: int):
    async with client.get(f"/svc/status/{code}", allow_redirects=False) as response:
        assert (response.status, await response.read()) == (code, b"")


async def test_failing_function_gives_500_and_shows_in_the_log(client: ClientSession, host: DevHost):
    async with client.get("/svc/fail") as response:
        assert response.status == 500
        assert "secret" not in await response.text()
    await asyncio.to_thread(host.wait_for_log, "the handler's secret")


async def test_response_streams(client: ClientSession):
    # Buffered, nothing of it would arrive: it has no end.
    async with client.get("/svc/stream/ticks?n=1000000&pause=0.1&tag=endless") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        for number in range(3):
            assert (await response.content.readline()).startswith(b"data: %d " % number)
            assert await response.content.readline() == b"\n"
        response.close()


async def test_response_streams_to_its_end(client: ClientSession):
    async with client.get("/svc/stream/ticks?n=8&pause=0.01") as response:
        text = await response.text()
    assert [line.split()[1] for line in text.splitlines() if line] == [str(number) for number in range(8)]


async def test_request_body_streams(client: ClientSession, foreign: App):
    parts = [bytes([number]) * 10_000 for number in range(6)]
    arrived = foreign.journal / "upload-began-parts"

    async def body() -> AsyncIterator[bytes]:
        yield parts[0]
        # Buffered, it would never be there: the rest is sent only then.
        await asyncio.to_thread(eventually, arrived.exists, "the first part to be in the function")
        for part in parts[1:]:
            yield part

    _, content = await get_json(client, "POST", "/svc/upload?tag=parts", data=body())
    assert content["sha256"] == hashlib.sha256(b"".join(parts)).hexdigest()


async def test_large_bodies_pass(client: ClientSession):
    body = b"0123456789abcdef" * (20 * 1024 * 1024 // 16)
    _, content = await get_json(client, "POST", "/svc/upload", data=io.BytesIO(body))
    assert content["size"] == len(body)
    assert content["sha256"] == hashlib.sha256(body).hexdigest()


async def test_body_over_the_limit_of_the_front_end_is_refused(host: DevHost):
    reader, writer = await asyncio.open_connection("127.0.0.1", int(host.base_url.rpartition(":")[2]))
    writer.write(f"POST /svc/upload HTTP/1.1\r\nHost: x\r\nContent-Length: {300 * 1024 * 1024}\r\n\r\n".encode())
    assert (await reader.readline()).split()[1] == b"413"
    writer.close()


async def test_client_that_expects_continue_is_told_to(host: DevHost):
    reader, writer = await asyncio.open_connection("127.0.0.1", int(host.base_url.rpartition(":")[2]))
    head = b"POST /svc/upload HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: 3\r\n\r\n"
    writer.write(head)
    assert (await reader.readline()).split()[1] == b"100"
    writer.write(b"abc")
    assert hashlib.sha256(b"abc").hexdigest().encode() in await reader.read()
    writer.close()


async def test_client_that_leaves_a_stream_is_felt_by_the_app(host: DevHost, foreign: App):
    async with ClientSession(host.base_url) as client:
        # By itself it would end long after the test.
        response = await client.get("/svc/stream/ticks?n=1000000&pause=0.05&tag=left")
        await response.content.readline()
        response.close()
    await asyncio.to_thread(eventually, lambda: "end left" in foreign.lines("stream"), "the stream to end")


async def test_client_that_does_not_wait_is_felt_by_the_app(host: DevHost, foreign: App):
    async with ClientSession(host.base_url) as client:
        asked = asyncio.create_task(client.get("/svc/slow?seconds=60&tag=gone"))
        began = foreign.journal / "slow-began-gone"
        await asyncio.to_thread(eventually, began.exists, "the request to be in the function")
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
    await asyncio.to_thread(eventually, lambda: (foreign.journal / "slow-gone-gone").exists(), "it to be noticed")
    await asyncio.to_thread(host.wait_for_log, "GET /svc/slow 499")


async def test_many_requests_at_once(client: ClientSession):
    started = time.monotonic()
    answers = await asyncio.gather(*(get_json(client, "GET", f"/svc/slow?seconds=1&tag=m{n}") for n in range(40)))
    assert {status for status, _ in answers} == {200}
    assert time.monotonic() - started < 25  # 40, one after the other


async def test_settings_reach_the_app(client: ClientSession):
    assert await get_json(client, "GET", "/svc/env/FROM_FILE") == (200, "file")
    assert await get_json(client, "GET", "/svc/env/AZURE_FUNCTIONS_ENVIRONMENT") == (200, "Development")
    assert await get_json(client, "GET", "/svc/env/FUNCTIONS_WORKER_RUNTIME") == (200, "python")


async def test_keys_are_not_asked_for_unless_told_to(client: ClientSession):
    async with client.get("/svc/admin-only") as response:
        assert await response.text() == "admin"


async def test_host_status(client: ClientSession):
    status, content = await get_json(client, "GET", "/admin/host/status")
    assert (status, content["state"]) == (200, "Running")


async def test_worker_killed_before_it_answers_gives_502(host: DevHost, foreign: App):
    async with ClientSession(host.base_url) as client:
        asked = asyncio.create_task(client.get("/svc/slow?seconds=30&tag=doomed"))
        began = foreign.journal / "slow-began-doomed"
        await asyncio.to_thread(eventually, began.exists, "the request to be in the function")
        await host.kill_worker(1)
        async with await asked as response:
            assert response.status == 502
            assert "worker 1" in await response.text()


async def test_worker_killed_while_it_streams_cuts_the_body(host: DevHost):
    async with ClientSession(host.base_url) as client, client.get("/svc/stream/ticks?n=1000&pause=0.02") as response:
        first = await response.content.readline()
        assert first.startswith(b"data: 0")
        await host.kill_worker(1)
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()


async def test_request_waits_for_a_worker_that_is_being_restarted(host: DevHost):
    old = host.status()[1]["pid"]
    os.kill(old, signal.SIGKILL)
    async with ClientSession(host.base_url) as client:
        # The new one may be ready before anybody has looked.
        eventually(lambda: not host.status()[1]["ready"] or host.status()[1]["pid"] != old, "the death to be noticed")
        _, content = await get_json(client, "GET", "/svc/hello")
        assert content["pid"] not in {0, old}
