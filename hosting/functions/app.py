"""From an agent to a Functions app."""

import os
from collections.abc import Mapping
from datetime import timedelta

from hosting.functions.app_object import AgentApp
from hosting.functions.http import register_http
from hosting.functions.log_levels import set_log_levels
from hosting.functions.recovery_watch import RecoveryWatch
from hosting.functions.retention import register_retention
from hosting.functions.settings_check import check_settings
from hosting.functions.shutdown import Shutdown
from hosting.functions.tasks import recover_if_overdue, recovery_is_off, register_tasks
from hosting.functions.telemetry import set_up_telemetry
from hosting.server import ResponsesServer, ResponsesServerOptions
from hosting.server.invocations import Invocations
from hosting.server.suspensions import Suspensions
from hosting.server.targets import Hosted
from hosting.settings import load_settings
from hosting.storage import Store, check_connection, connect, connect_append_blobs
from hosting.streaming import StreamTuning, streams
from hosting.tasks import current_scope

__all__ = ["agent_app"]


def agent_app(
    hosted: Hosted | Mapping[str, Hosted] | None = None, *, options: ResponsesServerOptions | None = None
) -> AgentApp:
    """A Functions app that serves the OpenAI Responses API. Add functions of your own to it, and handlers of invocations.

    `hosted` is an AgentState or a WorkflowState, which answers whatever `model` a request names; or a mapping of them by
    name, from which `model` chooses (none: the first); or None, for an app that answers by itself, with
    `@app.response_handler`.

    `options` switch on what the seed has off by default: running background responses again after a crash, and steering.
    The settings are checked here, so that a wrong one stops the app from loading and is named in its log; one that nothing
    reads, and a model that is half configured, are warnings there. Raises ConfigurationError.
    """
    settings = load_settings()
    check_connection(os.environ, settings.storage_connection)
    flush_telemetry = set_up_telemetry(os.environ, development=settings.development)
    set_log_levels()
    check_settings(os.environ)  # after telemetry, which takes its warnings along
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

    suspensions = Suspensions(open_store, settings.suspended_seconds)
    server = ResponsesServer(hosted, settings, open_store, options, suspensions=suspensions)
    invocations = Invocations(settings, server.limits)
    app = AgentApp(server.targets, invocations)
    server.routes = {**server.routes, **invocations.routes}
    shutdown.add(server.close)
    overdue = 0.0 if recovery_is_off(os.environ) else settings.recovery_overdue_seconds
    watch = RecoveryWatch(overdue, lambda: recover_if_overdue(overdue), lambda: any(server.limits.seats.values()))
    shutdown.add(watch.close)
    register_http(app, server, watch.served)
    register_tasks(app, open_store, shutdown, marked=overdue > 0)
    register_retention(app, settings, open_store, shutdown)
    streams.use_blob_replay(
        lambda: connect_append_blobs(os.environ, name=settings.storage_connection, container=settings.container),
        scope=current_scope,
        cursor_fn=lambda event: event["sequence_number"],
        ttl_seconds=settings.stream_hours * 3600,
        tuning=StreamTuning(flush_interval=timedelta(seconds=settings.stream_flush_seconds)),
    )
    shutdown.add(streams.shutdown, last=True)
    shutdown.add(close_store, last=True)
    shutdown.add(flush_telemetry, last=True)
    return app
