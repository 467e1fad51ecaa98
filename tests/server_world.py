"""The whole server in this process, without HTTP and without Azurite: background, streams, crashes and graceful stops.

    async with serve(handler, resilient_background=True) as world:
        made = await world.create("hi", background=True)
        await world.kill()                     # as by kill -9: nothing that ran writes anything any more
        await world.restart()                  # another process on the same storage; the leases of the dead one have lapsed
        assert (await world.ended(made["id"]))["status"] == "completed"

One process lives at a time, because its task engine and its streams are those of the interpreter. Leases and retries see
virtual time (`world.advance`); what a handler and a follower wait for is real.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from hosting.server import Request, Response, ResponsesServer, ResponsesServerOptions
from hosting.server.foreground import _running  # pyright: ignore[reportPrivateUsage]
from hosting.server.targets import Acceptor, Hosted
from hosting.settings import load_settings
from hosting.storage import AppendBlobs, BlobInfo, Chunk, MemoryAppendBlobs, StorageError, Store, keys, memory_store
from hosting.streaming import StreamTuning, streams
from hosting.tasks import _current, current_scope
from hosting.tasks._options import TaskOptions
from hosting.tasks.engine import Key
from hosting.testing import TestEngine, VirtualClock
from tests.sse_reader import Json, Reader, until

__all__ = ["FINAL", "Json", "Reader", "World", "serve", "texts", "until"]

FINAL = ("completed", "failed", "incomplete", "cancelled")

_TUNING = StreamTuning(
    flush_interval=timedelta(milliseconds=2),
    poll_active=timedelta(milliseconds=2),
    poll_idle=timedelta(milliseconds=20),
    poll_local=timedelta(milliseconds=20),
    give_up_after=timedelta(milliseconds=300),
)


def texts(response: Mapping[str, Any]) -> list[str]:
    """The text of each message of a response."""
    return [item["content"][0]["text"] for item in response["output"] if item["type"] == "message"]


class _Nobody:
    """A driver that drives nothing."""

    async def ensure(self, key: Key, activation: int, generation: int) -> None:
        pass


class _Cable(AppendBlobs):
    """The connection of one process to append blobs that others use too."""

    def __init__(self, inner: AppendBlobs) -> None:
        self._inner, self.cut = inner, False

    def _blobs(self) -> AppendBlobs:
        if self.cut:
            raise StorageError("this process has been killed")
        return self._inner

    async def create(self, name: str) -> bool:
        return await self._blobs().create(name)

    async def append(self, name: str, data: bytes, position: int) -> int:
        return await self._blobs().append(name, data, position)

    async def read(self, name: str, offset: int, limit: int) -> Chunk | None:
        return await self._blobs().read(name, offset, limit)

    async def list(self, prefix: str) -> list[BlobInfo]:
        return await self._blobs().list(prefix)

    async def page(self, prefix: str, token: str | None = None) -> Any:
        return await self._blobs().page(prefix, token)

    async def delete(self, name: str) -> bool:
        return await self._blobs().delete(name)

    async def close(self) -> None:
        self.cut = True


class World:
    """A storage account, and the process that is alive."""

    def __init__(self, make_server: Callable[[Callable[[], Store]], ResponsesServer], store: Store, blobs: Any) -> None:
        self.store, self.blobs, self.clock = store, blobs, VirtualClock()
        self.tuning = _TUNING
        self.headers: dict[str, str] = {}
        """Sent with every request."""
        self._make_server = make_server
        self.server: ResponsesServer
        self.engine: TestEngine
        self._cable: _Cable

    # --- processes

    def boot(self, *, drives: bool = True) -> None:
        """A process starts. If not `drives`, it accepts work and runs none, as when the task hub is away."""
        self.engine = TestEngine(self.store, self.clock, TaskOptions())
        if not drives:
            self.engine.engine.driver = _Nobody()
        self.engine.install()
        self._cable = _Cable(self.blobs)
        streams._backings.clear()  # pyright: ignore[reportPrivateUsage]
        streams.use_blob_replay(
            lambda: self._cable,
            scope=current_scope,
            cursor_fn=lambda event: event["sequence_number"],
            tuning=self.tuning,
        )
        self.server = self._make_server(lambda: self.engine.engine.store)

    async def kill(self) -> None:
        """End the process as kill -9 does, for what can be seen of it from outside."""
        self._cable.cut = True
        await self.engine.kill()
        await _end(list(_running))

    async def stop(self, grace: float = 0.0) -> None:
        """Stop the process as the platform does on scale-in, in the order of the app's own hooks."""
        await asyncio.gather(self.server.close(grace), self.engine.stop(timedelta(seconds=grace)))
        await streams.shutdown()
        await self.kill()

    async def restart(self, seconds: float = 120.0) -> None:
        """Start a process after another one, so much later, and let it recover what there is."""
        self.boot()
        await self.engine.advance(timedelta(seconds=seconds))
        await self.engine.recover()
        await self.engine.settle()

    async def at_rest(self, identifier: str) -> None:
        """Wait until the task of a response that is not steered has stored its outcome: its run writes nothing after that."""

        async def rests() -> bool:
            record = await self.engine.engine.record(Key(keys.scope("development", None), identifier))
            return record is None or record.status != "in_progress"

        await until(rests)

    async def advance(self, seconds: float) -> None:
        """Let virtual time go by."""
        await self.engine.advance(timedelta(seconds=seconds))

    # --- requests

    async def post(
        self,
        input: Any = "hi",
        *,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, Sequence[str]] | None = None,
        disconnected: Callable[[], Awaitable[None]] | None = None,
        **body: Any,
    ) -> Response:
        """POST /v1/responses."""

        async def read(limit: int) -> bytes:
            return json.dumps({"input": input, **body}).encode()

        extra: dict[str, Any] = {} if disconnected is None else {"disconnected": disconnected}
        request = Request("POST", "/v1/responses", {**self.headers, **(headers or {})}, query or {}, read=read, **extra)
        return await self.server.handle("v1/responses", request)

    async def create(self, input: Any = "hi", *, status: int = 200, **given: Any) -> Json:
        """The same, for a JSON answer with this HTTP status."""
        return parsed(await self.post(input, **given), status)

    async def stream(self, input: Any = "hi", **given: Any) -> Reader:
        """The same, for events."""
        return reader(await self.post(input, stream=True, **given))

    async def get(self, identifier: str, *, status: int = 200) -> Json:
        """GET the response."""
        return parsed(await self._of(identifier), status)

    async def follow(
        self, identifier: str, after: int | None = None, headers: Mapping[str, str] | None = None
    ) -> Reader:
        """GET its events."""
        return reader(await self.followed(identifier, after, headers))

    async def followed(
        self, identifier: str, after: int | None = None, headers: Mapping[str, str] | None = None
    ) -> Response:
        """The same before anybody reads it."""
        query = {"stream": ["true"]} | ({} if after is None else {"starting_after": [str(after)]})
        return await self._of(identifier, query=query, headers=headers)

    async def cancel(self, identifier: str, *, status: int = 200) -> Json:
        """POST its cancel."""
        return parsed(await self._of(identifier, "POST", "/cancel"), status)

    async def delete(self, identifier: str, *, status: int = 200) -> Json:
        return parsed(await self._of(identifier, "DELETE"), status)

    async def input_items(self, identifier: str, *, status: int = 200, **query: str) -> Json:
        given = {name: [value] for name, value in query.items()}
        return parsed(await self._of(identifier, tail="/input_items", query=given), status)

    async def conversation(self) -> str:
        """The id of a new conversation."""

        async def read(limit: int) -> bytes:
            return b"{}"

        request = Request("POST", "/v1/conversations", self.headers, read=read)
        return parsed(await self.server.handle("v1/conversations", request))["id"]

    async def ended(self, identifier: str) -> Json:
        """Wait until the response is final; what GET then says."""

        async def final() -> bool:
            return (await self.get(identifier))["status"] in FINAL

        await until(final)
        return await self.get(identifier)

    async def _of(
        self,
        identifier: str,
        method: str = "GET",
        tail: str = "",
        query: Mapping[str, Sequence[str]] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        path = f"/v1/responses/{identifier}{tail}"
        sent = {**self.headers, **(headers or {})}
        request = Request(method, path, sent, query or {}, path_params={"response_id": identifier})
        return await self.server.handle(f"v1/responses/{{response_id}}{tail}", request)


def parsed(response: Response, status: int = 200) -> Json:
    """The JSON body of an answer with this status."""
    assert isinstance(response.body, bytes)
    assert response.status == status, (response.status, response.body)
    return json.loads(response.body)


def reader(response: Response) -> Reader:
    """Read an answer that is a stream."""
    assert not isinstance(response.body, bytes), (response.status, response.body)
    assert response.status == 200
    return Reader(response.body)


@asynccontextmanager
async def serve(
    handler: Callable[..., Any] | None = None,
    *,
    hosted: Hosted | Mapping[str, Hosted] | None = None,
    acceptor: Acceptor | None = None,
    env: Mapping[str, str] | None = None,
    store: Store | None = None,
    blobs: Any = None,
    tuning: StreamTuning | None = None,
    **options: Any,
) -> AsyncGenerator[World]:
    """A world with one process. `options` are those of ResponsesServerOptions, `env` settings of the app."""
    settings = load_settings({"AZURE_FUNCTIONS_ENVIRONMENT": "Development", **(env or {})})

    def make_server(open_store: Callable[[], Store]) -> ResponsesServer:
        server = ResponsesServer(hosted, settings, open_store, ResponsesServerOptions(**options))
        if handler is not None:
            server.targets.register_handler(handler)
        server.targets.acceptor = acceptor
        return server

    world = World(make_server, store or memory_store(), blobs or MemoryAppendBlobs())
    world.tuning = tuning or _TUNING
    undo = _current.swap_engine(TestEngine(world.store, world.clock, TaskOptions()).engine)
    world.boot()
    try:
        yield world
    finally:
        await world.kill()
        await streams.shutdown()
        streams._backings.clear()  # pyright: ignore[reportPrivateUsage]
        streams.use_in_memory_live()
        undo()
        await world.store.close()


async def _end(tasks: "list[asyncio.Task[Any]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
