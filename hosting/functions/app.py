"""From an agent to a Functions app."""

import logging
import os
from typing import Any

from hosting.functions.http import register_http
from hosting.functions.invocations import AgentApp
from hosting.functions.shutdown import Shutdown
from hosting.functions.tasks import register_tasks
from hosting.server import ResponsesServer, ResponsesServerOptions
from hosting.server.invocations import Invocations
from hosting.settings import load_settings
from hosting.state import AgentState
from hosting.storage import Store, check_connection, connect, connect_append_blobs
from hosting.streaming import streams
from hosting.tasks import current_scope

__all__ = ["agent_app"]


def agent_app(state: AgentState[Any], *, options: ResponsesServerOptions | None = None) -> AgentApp:
    """A Functions app that serves the agent of `state` over the OpenAI Responses API. Add functions of your own to it, and
    handlers of invocations.

    `options` switch on what the seed has off by default: running background responses again after a crash, and steering.
    The settings are checked here, so that a wrong one stops the app from loading and is named in its log. Raises
    ConfigurationError.
    """
    settings = load_settings()
    check_connection(os.environ, settings.storage_connection)
    # The SDK logs each request at INFO, and the Functions host sends INFO on to Application Insights, which bills it.
    logging.getLogger("azure.core.pipeline.policies.http_logging_policy").setLevel(logging.WARNING)
    shutdown = Shutdown()
    store: Store | None = None

    def open_store() -> Store:
        nonlocal store
        if store is None:
            # Called inside the event loop, at the first use of storage: the right moment for both.
            shutdown.install()
            store = connect(
                os.environ, name=settings.storage_connection, table=settings.table, container=settings.container
            )
        return store

    async def close_store() -> None:
        if store is not None:
            await store.close()

    invocations = Invocations(settings)
    app = AgentApp(invocations)
    server = ResponsesServer(state, settings, open_store, options)
    server.routes = {**server.routes, **invocations.routes}
    shutdown.add(server.close)
    register_http(app, server)
    register_tasks(app, open_store, shutdown)
    streams.use_blob_replay(
        lambda: connect_append_blobs(os.environ, name=settings.storage_connection, container=settings.container),
        scope=current_scope,
        cursor_fn=lambda event: event["sequence_number"],
    )
    shutdown.add(streams.shutdown)
    shutdown.add(close_store)  # the last one: the others still write
    return app
