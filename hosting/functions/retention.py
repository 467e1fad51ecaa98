"""The timer of retention: which things expire, and when it goes through them."""

import logging
import os
import time
from collections.abc import Callable, Mapping

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
_CHAINS, _CONVERSATIONS = "HOSTING_RETENTION_DAYS", "HOSTING_CONVERSATION_DAYS"
"""As they are named in the log, and in the row that says which ones were used."""


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
    chosen = limits or TickLimits(seconds=settings.retention_seconds)
    # Streams, outcomes and keys are not on the brake: they live for a day or a week, what a stream says of a response is in
    # the response, and readers of a stream go by the setting itself.
    wanted = {_CHAINS: settings.retention_days, _CONVERSATIONS: settings.conversation_days}

    async def runs(scope: str, identifier: str) -> bool | None:
        return await response_runs(store, scope, identifier)

    async def values(token: str | None) -> tuple[str | None, int]:
        return await sweep_values(store, token, now=clock())

    def sweeps(days: Mapping[str, float]) -> list[Sweep]:
        lifetimes = Lifetimes(
            chains=days[_CHAINS] * _DAY or None,
            conversations=days[_CONVERSATIONS] * _DAY or None,
            outcomes=options.retention.total_seconds(),
            idempotency=settings.idempotency_hours * _HOUR,
        )

        async def streams(token: str | None) -> tuple[str | None, int]:
            now = clock()
            abandoned = None if lifetimes.chains is None else now - lifetimes.chains
            before = now - settings.stream_hours * _HOUR
            return await expire_streams(blobs, token, before=before, abandoned_before=abandoned, runs=runs)

        rows = RowSweep(store, TaskRows(), lifetimes, clock)
        return [Sweep("rows", rows.page), Sweep("streams", streams), Sweep("values", values)]

    return Retention(
        store,
        sweeps,
        lifetimes=wanted,
        shrink_seconds=settings.retention_shrink_hours * _HOUR,
        limits=chosen,
        clock=clock,
    )
