"""The server behind ASGI, in this process and in memory: for tools that call an app without a socket.

Only the Functions host and the storage account are missing. Storage, tasks and streams are their in-memory twins, for as
long as the app's lifespan.
"""

import contextlib
from collections.abc import AsyncIterator, Callable

from starlette.applications import Starlette
from starlette.requests import Request as StarletteRequest
from starlette.responses import Response as StarletteResponse
from starlette.routing import Route

from hosting.functions.http import _from_http, _to_http
from hosting.server import ResponsesServer
from hosting.storage import MemoryAppendBlobs, Store, memory_store
from hosting.streaming import streams
from hosting.tasks import current_scope
from hosting.tasks.host import Engine, swap_engine
from hosting.tasks.local import LocalDriver

__all__ = ["asgi_app"]

_VERBS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]


def asgi_app(make_server: Callable[[Callable[[], Store]], ResponsesServer]) -> Starlette:
    """An app that answers as the Functions app does. `make_server` is called at its start-up with what opens the store."""
    server: ResponsesServer

    def endpoint(route: str | None) -> Callable[[StarletteRequest], AsyncIterator[StarletteResponse]]:
        async def answer(request: StarletteRequest) -> StarletteResponse:
            return _to_http(await server.handle(route, _from_http(request)))  # type: ignore[arg-type]

        return answer  # type: ignore[return-value]

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        nonlocal server
        store = memory_store()
        server = make_server(lambda: store)
        driver = LocalDriver()
        engine = Engine(store, driver)
        driver.bind(engine)
        undo = swap_engine(engine)
        streams.use_blob_replay(
            MemoryAppendBlobs, scope=current_scope, cursor_fn=lambda event: event["sequence_number"]
        )
        # The host takes the most specific route, so literal segments come before parameters.
        for route in [*sorted(server.routes, key=lambda path: path.replace("{", "~")), None]:
            path = "/{rest:path}" if route is None else f"/{route}"
            app.router.routes.append(Route(path, endpoint(route), methods=_VERBS))
        try:
            yield
        finally:
            await server.close(1.0)
            await engine.stop(1.0)
            await driver.close()
            await streams.shutdown()
            streams.use_in_memory_live()
            undo()
            await store.close()

    return Starlette(lifespan=lifespan)
