"""An app without the FastAPI extension, and function keys."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from aiohttp import ClientSession

from devhost.testing import DevHost, start_devhost
from tests.devhost.conftest import App


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevHost]:
    app = App("plain_app", tmp_path_factory.mktemp("plain"))
    keys = ("--auth", "--function-key", "f-key", "--master-key", "m-key")
    with start_devhost(app.dir, storage="none", options=keys) as running:
        yield running


@pytest.fixture
async def client(plain: DevHost) -> AsyncIterator[ClientSession]:
    async with ClientSession(plain.base_url) as session:
        yield session


async def test_request_and_response(client: ClientSession, plain: DevHost):
    async with client.get("/api/greet/you?x=1") as response:
        assert (response.status, await response.text()) == (201, "hello you")
        assert response.headers["content-type"] == "text/plain; charset=utf-8"
        assert response.headers["x-method"] == "GET"
        assert response.headers["x-url"] == f"{plain.base_url}/api/greet/you?x=1"
        assert response.headers["x-devhost-worker"] == "1"
        assert response.headers.getall("set-cookie") == [
            "a=1; Max-Age=60; Path=/; HttpOnly; SameSite=Lax",
            "b=2; Secure",
        ]
    await asyncio.to_thread(plain.wait_for_log, "[w1] WARNING root: greeting you in greet")


async def test_query_and_body(client: ClientSession):
    async with client.get("/api/greet?name=a%20b") as response:
        assert await response.text() == "hello a b"
    async with client.post("/api/greet", data="body") as response:
        assert await response.text() == "hello body"
    async with client.post("/api/json", json={"n": 1}) as response:
        assert (await response.json()) == 2


async def test_bytes_pass_unchanged(client: ClientSession):
    async with client.post("/api/bytes", data=b"\xff\x00") as response:
        assert await response.read() == bytes(range(256)) + b"\xff\x00"


async def test_text_alone_is_a_response(client: ClientSession):
    async with client.get("/api/text") as response:
        assert (response.status, await response.text()) == (200, "only text")
        assert response.headers["content-type"] == "text/plain; charset=utf-8"


async def test_failure_gives_500_without_a_word_and_shows_in_the_log(client: ClientSession, plain: DevHost):
    async with client.get("/api/fail") as response:
        assert (response.status, await response.read()) == (500, b"")
    assert "function fail failed: RuntimeError: a failure of its own" in plain.logs
    assert "function_app.py" in plain.logs


async def test_no_function_and_wrong_verb_give_404_without_a_body(client: ClientSession):
    for method, path in (("GET", "/api/nowhere"), ("DELETE", "/api/greet"), ("GET", "/")):
        async with client.request(method, path) as response:
            assert (response.status, await response.read()) == (404, b"")


async def test_function_key_is_asked_for(client: ClientSession):
    async with client.get("/api/keyed") as response:
        assert (response.status, await response.read()) == (401, b"")
    async with client.get("/api/keyed?code=wrong") as response:
        assert response.status == 401
    async with client.get("/api/keyed?code=f-key") as response:
        assert await response.text() == "keyed"
    async with client.get("/api/keyed", headers={"x-functions-key": "m-key"}) as response:
        assert await response.text() == "keyed"


async def test_admin_level_takes_the_master_key_only(client: ClientSession):
    async with client.get("/api/master?code=f-key") as response:
        assert response.status == 401
    async with client.get("/api/master?code=m-key") as response:
        assert await response.text() == "master"


async def test_trigger_that_is_not_emulated_is_named(plain: DevHost):
    assert "from_queue will not run: devhost does not emulate queueTrigger" in plain.logs


async def test_function_that_ends_its_worker_gives_502(client: ClientSession, plain: DevHost):
    old = plain.status()[1]["pid"]
    async with client.get("/api/die") as response:
        assert response.status == 502
        assert "worker 1 ended with code 7" in await response.text()
    plain.wait_for_worker(1, instead_of=old)
