"""The limits behind the real HTTP server of the worker: clients that send too slowly, and clients that go."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from azurefunctions.extensions.http import fastapi

from hosting.functions.http import _from_http, _to_http
from hosting.identity import Caller
from hosting.read_budget import charging
from hosting.responses import ApiError
from hosting.server import Request, Response
from hosting.server.http import json_response
from hosting.server.limits import Limits
from hosting.settings import load_settings
from hosting.storage import memory_store

CALLER = Caller("contoso")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.01)


@asynccontextmanager
async def serve(endpoint: Callable[[Request], Awaitable[Response]]) -> AsyncIterator[int]:
    """A port at which uvicorn, which the worker uses, serves an endpoint through our translation."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        request = _from_http(fastapi.Request(scope, receive))
        try:
            response = await endpoint(request)
        except ApiError as error:
            response = json_response(error.body(), error.status, error.headers)
        await _to_http(response)(scope, receive, send)

    server = uvicorn.Server(uvicorn.Config(app, port=0, lifespan="off", log_level="error", ws="none"))
    serving = asyncio.create_task(server.serve())
    try:
        await until(lambda: server.started)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await serving


def request(body: bytes, length: int) -> bytes:
    return b"POST / HTTP/1.1\r\nhost: server\r\ncontent-length: %d\r\n\r\n" % length + body


async def test_a_body_that_stops_half_way_is_a_408_and_the_connection_is_closed() -> None:
    limits = Limits(load_settings({"HOSTING_REQUEST_BODY_SECONDS": "0.2"}), memory_store)

    async def endpoint(request: Request) -> Response:
        await limits.guarded(request, CALLER).read_body(1000)
        return Response(200)

    async with serve(endpoint) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(b'{"input"', 100))
        answer = await asyncio.wait_for(reader.read(), 30)  # to the end of the connection
        writer.close()
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"code":"request_timeout"' in answer
    assert limits.seats["bodies"] == 0


async def test_a_follower_that_goes_gives_its_place_back() -> None:
    limits = Limits(load_settings({}), memory_store)

    async def frames() -> AsyncIterator[bytes]:
        while True:
            yield b": keep-alive\n"
            await asyncio.sleep(0.02)

    async def endpoint(request: Request) -> Response:
        with limits.follow(CALLER) as lease:
            return lease.answer(Response(200, frames(), media_type="text/event-stream"))

    async with serve(endpoint) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(b"", 0))
        await reader.readuntil(b"keep-alive")
        assert limits.seats["streams"] == 1
        writer.transport.abort()
        await until(lambda: limits.seats["streams"] == 0)


async def test_a_follower_that_stops_reading_gives_its_place_back_when_it_goes() -> None:
    limits = Limits(load_settings({}), memory_store)

    async def frames() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 1_000_000
            await asyncio.sleep(0)

    async def endpoint(request: Request) -> Response:
        with limits.follow(CALLER) as lease:
            return lease.answer(Response(200, frames()))

    async with serve(endpoint) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1000)
        writer.write(request(b"", 0))
        await until(lambda: limits.seats["streams"] == 1)
        await asyncio.sleep(0.2)  # the buffers of the connection fill up
        writer.transport.abort()
        await until(lambda: limits.seats["streams"] == 0)


async def test_bodies_that_arrive_are_counted_as_they_come_and_refused_when_it_is_too_much() -> None:
    limits = Limits(load_settings({"HOSTING_MAX_WORKING_BYTES_PER_TENANT": "100000"}), memory_store)

    async def endpoint(request: Request) -> Response:
        with limits.memory.share(CALLER.tenant) as share, charging(share.take):
            await limits.guarded(request, CALLER, json=False).read_body(1_000_000)
            return Response(200)

    async with serve(endpoint) as port:
        _, first = await asyncio.open_connection("127.0.0.1", port)
        first.write(request(b"x" * 60_000, 70_000))
        await until(lambda: limits.memory.in_use == 60_000)
        reader, second = await asyncio.open_connection("127.0.0.1", port)
        second.write(request(b"x" * 900_000, 900_000))
        await second.drain()  # it may send all of it, and is then told; a connection that is cut tells nothing
        assert (await asyncio.wait_for(reader.readline(), 30)).startswith(b"HTTP/1.1 429 ")
        assert limits.memory.in_use == 60_000
        first.transport.abort()
        await until(lambda: limits.memory.in_use == 0)
        second.close()
