"""The Azure twin behind a network that breaks: a proxy in front of Azurite that lies, drops and refuses."""

import asyncio
import io
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from devhost.azurite import Azurite
from hosting.storage import (
    Insert,
    Replace,
    RowExists,
    StorageDenied,
    StorageError,
    StorageUnavailable,
    Store,
    connect,
)
from hosting.storage import _connection as connection_module
from tests.contract.storage_twins import fresh

type Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
type Fault = Callable[[web.Request, Handler], Awaitable[web.StreamResponse]]


class Proxy:
    """Passes requests to one Azurite port; each request first takes the next of `faults`, if there is one."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self.faults: list[Fault] = []
        self.requests: list[tuple[str, str, int]] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.requests.append((request.method, request.path, len(body)))
        if self.faults:
            response = await self.faults.pop(0)(request, self.forward)
        else:
            response = await self.forward(request)
        return response

    async def forward(self, request: web.Request) -> web.StreamResponse:
        url = URL(f"http://127.0.0.1:{self.target}{request.raw_path}", encoded=True)
        body = io.BytesIO(await request.read())
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.request(
                request.method, url, headers=request.headers, data=body, skip_auto_headers=["Content-Type"]
            ) as answer,
        ):
            headers = {
                k: v for k, v in answer.headers.items() if k.lower() not in ("content-length", "transfer-encoding")
            }
            return web.Response(status=answer.status, headers=headers, body=await answer.read())


async def answer_500(request: web.Request, forward: Handler) -> web.StreamResponse:
    return web.Response(status=500, headers={"x-ms-error-code": "OperationTimedOut"})


async def answer_503(request: web.Request, forward: Handler) -> web.StreamResponse:
    return web.Response(status=503, headers={"x-ms-error-code": "ServerBusy"})


async def apply_then_500(request: web.Request, forward: Handler) -> web.StreamResponse:
    await forward(request)
    return await answer_500(request, forward)


async def drop(request: web.Request, forward: Handler) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def apply_then_drop(request: web.Request, forward: Handler) -> web.StreamResponse:
    await forward(request)
    return await drop(request, forward)


async def answer_403(request: web.Request, forward: Handler) -> web.StreamResponse:
    return web.Response(status=403, headers={"x-ms-error-code": "AuthorizationPermissionMismatch"})


async def being_deleted(request: web.Request, forward: Handler) -> web.StreamResponse:
    kind = "Container" if "restype" in request.query else "Table"
    return web.Response(status=409, headers={"x-ms-error-code": f"{kind}BeingDeleted"})


@asynccontextmanager
async def listening(proxy: Proxy) -> AsyncIterator[Proxy]:
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", proxy.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    proxy.port = runner.addresses[0][1]
    try:
        yield proxy
    finally:
        await runner.cleanup()


@pytest.fixture
async def tables(azurite: Azurite) -> AsyncIterator[Proxy]:
    async with listening(Proxy(azurite.table_port)) as proxy:
        yield proxy


@pytest.fixture
async def blobs(azurite: Azurite) -> AsyncIterator[Proxy]:
    async with listening(Proxy(azurite.blob_port)) as proxy:
        yield proxy


@pytest.fixture
async def store(azurite: Azurite, tables: Proxy, blobs: Proxy) -> AsyncIterator[Store]:
    proxied = azurite.connection_string.replace(f":{azurite.table_port}/", f":{tables.port}/")
    proxied = proxied.replace(f":{azurite.blob_port}/", f":{blobs.port}/")
    opened = connect({"AzureWebJobsStorage": proxied}, table="network", container="network")
    await opened.commit(fresh(), [Insert("a", {}, {"doc": "x" * 400_000})])  # table and container exist
    tables.requests.clear()
    blobs.requests.clear()
    try:
        yield opened
    finally:
        await opened.close()


@pytest.fixture
def partition() -> str:
    return fresh()


@pytest.mark.parametrize("fault", [answer_500, answer_503, drop, apply_then_500, apply_then_drop])
async def test_insert_succeeds_once_whatever_happened_to_the_first_attempt(
    store: Store, tables: Proxy, partition: str, fault: Fault
) -> None:
    tables.faults = [fault]
    etags = await store.commit(partition, [Insert("a", {"n": 1}), Insert("b", {"n": 1})])
    assert {entity.row: entity.etag for entity in await store.query(partition, "", "~")} == etags


@pytest.mark.parametrize("fault", [answer_500, drop, apply_then_500, apply_then_drop])
async def test_replace_succeeds_once_whatever_happened_to_the_first_attempt(
    store: Store, tables: Proxy, partition: str, fault: Fault
) -> None:
    etags = await store.commit(partition, [Insert("a", {"n": 1})])
    tables.faults = [fault]
    moved = await store.commit(partition, [Replace("a", {"n": 2}, {}, etags["a"])])
    entity = await store.get(partition, "a")
    assert entity is not None
    assert (entity.fields, entity.etag) == ({"n": 2}, moved["a"])


async def test_conflict_after_a_repetition_is_still_a_conflict(store: Store, tables: Proxy, partition: str) -> None:
    await store.commit(partition, [Insert("a", {"n": 1})])
    tables.faults = [answer_500]
    with pytest.raises(RowExists):
        await store.commit(partition, [Insert("a", {"n": 2})])


@pytest.mark.parametrize("fault", [answer_503, drop])
async def test_reads_are_repeated(store: Store, tables: Proxy, partition: str, fault: Fault) -> None:
    await store.commit(partition, [Insert("a", {"n": 1})])
    tables.faults = [fault]
    assert await store.get(partition, "a") is not None
    tables.faults = [fault]
    assert len(await store.query(partition, "", "~")) == 1


@pytest.mark.parametrize("fault", [answer_503, drop, apply_then_drop])
async def test_blobs_are_repeated(store: Store, blobs: Proxy, partition: str, fault: Fault) -> None:
    blobs.faults = [fault]
    await store.commit(partition, [Insert("a", {}, {"doc": "x" * 400_000})])
    blobs.faults = [fault]
    entity = await store.get(partition, "a")
    assert entity is not None
    assert entity.documents == {"doc": "x" * 400_000}


@pytest.fixture
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "_BACKOFF", 0)


@pytest.mark.usefixtures("no_backoff")
async def test_storage_that_stays_busy_is_unavailable_after_a_few_attempts(
    store: Store, tables: Proxy, partition: str
) -> None:
    tables.faults = [answer_503] * 100
    with pytest.raises(StorageUnavailable, match="ServerBusy") as caught:
        await store.get(partition, "a")
    assert caught.value.__cause__ is not None
    assert len(tables.requests) == 1 + connection_module._RETRIES


@pytest.mark.usefixtures("no_backoff")
async def test_nothing_listening_is_unavailable(azurite: Azurite, partition: str) -> None:
    with socket.socket() as deaf:  # holds its port, so that nobody else comes to listen there
        deaf.bind(("127.0.0.1", 0))
        nowhere = azurite.connection_string.replace(f":{azurite.table_port}/", f":{deaf.getsockname()[1]}/")
        store = connect({"AzureWebJobsStorage": nowhere})
        try:
            with pytest.raises(StorageUnavailable) as caught:
                await store.get(partition, "a")
            assert caught.value.__cause__ is not None
        finally:
            await store.close()


async def test_refused_identity_is_denied_and_names_the_roles(store: Store, tables: Proxy, partition: str) -> None:
    tables.faults = [answer_403]
    with pytest.raises(StorageDenied, match="Storage Table Data Contributor"):
        await store.get(partition, "a")
    tables.faults = [answer_403]
    with pytest.raises(StorageDenied, match="Storage Table Data Contributor"):
        await store.query(partition, "", "~")
    tables.faults = [answer_403]
    with pytest.raises(StorageDenied, match="Storage Table Data Contributor"):
        await store.commit(partition, [Insert("a")])


# The SDK reads the XML of this error in a way that Python 3.13 frowns upon.
@pytest.mark.filterwarnings("ignore:Testing an element's truth value:DeprecationWarning")
async def test_wrong_key_is_denied(azurite: Azurite, partition: str) -> None:
    store = connect({"AzureWebJobsStorage": azurite.connection_string.replace("AccountKey=Eby8", "AccountKey=AAAA")})
    try:
        with pytest.raises(StorageDenied):
            await store.get(partition, "a")
        with pytest.raises(StorageDenied):
            await store.commit(partition, [Insert("a", {}, {"doc": "x" * 400_000})])
    finally:
        await store.close()


async def test_table_and_container_that_are_being_deleted_are_unavailable(
    azurite: Azurite, tables: Proxy, blobs: Proxy, partition: str
) -> None:
    proxied = azurite.connection_string.replace(f":{azurite.table_port}/", f":{tables.port}/")
    proxied = proxied.replace(f":{azurite.blob_port}/", f":{blobs.port}/")
    name = fresh("d")
    store = connect({"AzureWebJobsStorage": proxied}, table=name, container=name)

    async def forward(request: web.Request, forward: Handler) -> web.StreamResponse:
        return await forward(request)

    try:
        tables.faults = [forward, being_deleted] * 2  # a commit tries twice
        with pytest.raises(StorageUnavailable, match="TableBeingDeleted"):
            await store.commit(partition, [Insert("a")])
        blobs.faults = [forward, being_deleted]
        with pytest.raises(StorageUnavailable, match="ContainerBeingDeleted"):
            await store.commit(partition, [Insert("a", {}, {"doc": "x" * 400_000})])
    finally:
        await store.close()


@pytest.mark.parametrize("text", ["x", '"\\', "é", "漢", "\U0001f600"])
async def test_request_is_never_longer_than_what_was_counted(
    store: Store, tables: Proxy, partition: str, text: str
) -> None:
    key = "it's é" * 20
    before = store.meter.copy()
    await store.commit(
        partition + key, [Insert(f"{key}{n}", {"t": text * 100}, {"doc": text * 20_000}) for n in range(9)]
    )
    counted = (store.meter - before).bytes_out
    [(_, _, sent)] = tables.requests
    assert 0.5 * counted < sent <= counted


async def test_many_concurrent_calls_share_the_connections(store: Store, partition: str) -> None:
    await asyncio.gather(*(store.commit(partition, [Insert(f"r{n:03d}")]) for n in range(60)))
    assert len(await store.query(partition, "", "~")) == 60


async def test_a_large_binary_blob_is_sent_whole(store: Store, blobs: Proxy, partition: str) -> None:
    text = os.urandom(1_500_000).hex()
    await store.commit(partition, [Insert("a", {}, {"doc": text})])
    [(method, _, sent)] = blobs.requests
    assert (method, sent) == ("PUT", len(text) + 2)
    entity = await store.get(partition, "a")
    assert entity is not None
    assert entity.documents == {"doc": text}


async def test_closed_store_says_so(azurite: Azurite, partition: str) -> None:
    store = connect({"AzureWebJobsStorage": azurite.connection_string})
    assert await store.get(partition, "a") is None
    await store.close()
    await store.close()
    with pytest.raises(StorageError, match="closed"):
        await store.get(partition, "a")


async def test_store_that_was_never_used_closes_quietly(azurite: Azurite) -> None:
    await connect({"AzureWebJobsStorage": azurite.connection_string}).close()
