"""The timer of retention: which things expire, and when it goes through them."""

import logging
import os
import time
from collections.abc import Callable

import azure.functions as func

from hosting.functions.durable_client import DurableApp
from hosting.functions.shutdown import Shutdown
from hosting.settings import Settings
from hosting.state.retention import Retention, Sweep, TickLimits
from hosting.state.retention_blobs import sweep_values
from hosting.state.retention_rows import Lifetimes, RowSweep, response_runs
from hosting.storage import AppendBlobs, StorageError, Store, connect_append_blobs
from hosting.streaming.expiry import expire_streams
from hosting.tasks.host import TaskOptions
from hosting.tasks.retention import TaskRows

__all__ = ["make_retention", "register_retention"]

_log = logging.getLogger("hosting.retention")

TIMER = "retention"
_DAY, _HOUR = 86_400.0, 3_600.0


def register_retention(
    app: DurableApp, settings: Settings, open_store: Callable[[], Store], shutdown: Shutdown
) -> None:
    """Add the timer to `app`. `open_store` gives the store of the process; it is called inside the event loop. Raises
    ConfigurationError for a malformed `TASKS_*_SECONDS` setting."""
    tasks = TaskOptions.from_environment()
    blobs: AppendBlobs | None = None

    async def retention(timer: func.TimerRequest) -> None:
        nonlocal blobs
        if blobs is None:
            blobs = connect_append_blobs(os.environ, name=settings.storage_connection, container=settings.container)
        try:
            await make_retention(settings, open_store(), blobs, tasks).run()
        except StorageError as error:  # nothing of it is lost: the next tick goes on
            _log.error("retention could not go on: %r", error)

    async def close() -> None:
        if blobs is not None:
            await blobs.close()

    shutdown.add(close, last=True)
    app.function_name(TIMER)(app.timer_trigger(arg_name="timer", schedule=settings.retention_schedule)(retention))


def make_retention(
    settings: Settings,
    store: Store,
    blobs: AppendBlobs,
    tasks: TaskOptions | None = None,
    *,
    clock: Callable[[], float] = time.time,
    limits: TickLimits | None = None,
) -> Retention:
    """The work of one tick: rows, then streams, then values that rows have left behind."""
    options = tasks or TaskOptions()
    lifetimes = Lifetimes(
        chains=settings.retention_days * _DAY or None,
        conversations=settings.conversation_days * _DAY or None,
        outcomes=options.retention.total_seconds(),
        idempotency=settings.idempotency_hours * _HOUR,
    )
    rows = RowSweep(store, TaskRows(), lifetimes, clock)

    async def runs(scope: str, identifier: str) -> bool | None:
        return await response_runs(store, scope, identifier)

    async def streams(token: str | None) -> tuple[str | None, int]:
        now = clock()
        abandoned = None if lifetimes.chains is None else now - lifetimes.chains
        before = now - settings.stream_hours * _HOUR
        return await expire_streams(blobs, token, before=before, abandoned_before=abandoned, runs=runs)

    async def values(token: str | None) -> tuple[str | None, int]:
        return await sweep_values(store, token, now=clock())

    sweeps = [Sweep("rows", rows.page), Sweep("streams", streams), Sweep("values", values)]
    chosen = limits or TickLimits(seconds=settings.retention_seconds)
    return Retention(store, sweeps, limits=chosen, clock=clock)
