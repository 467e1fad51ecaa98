"""The triggers of resilient tasks: an orchestration that drives, an activity that runs attempts, a timer that recovers.

The record in the table is the truth; the orchestration only sees to it that somebody looks at it. Its payloads carry keys,
never anything that a user sent.
"""

import logging
import os
import time
from collections.abc import Callable, Generator, Mapping
from datetime import timedelta
from typing import Any, cast

import azure.functions as func
from durabletask import task

from hosting.functions.durable_client import DurableApp, DurableClientHolder
from hosting.functions.shutdown import Shutdown
from hosting.storage import StorageError, Store
from hosting.tasks import resilient_tasks_enabled
from hosting.tasks.engine import Key, current_engine
from hosting.tasks.host import (
    Engine,
    TaskOptions,
    Verdict,
    installed_engine,
    mark_scanned,
    scan,
    set_engine,
    take_overdue_scan,
)

__all__ = ["DurableDriver", "recover_if_overdue", "recovery_is_off", "register_tasks"]

_log = logging.getLogger("hosting.tasks")

ORCHESTRATOR, ACTIVITY, TIMER = "task_orchestrator", "task_attempt", "task_recovery"
_SCHEDULE = "0 * * * * *"
_AT_ONCE = Verdict("again")
_LINGER = 60.0
"""Seconds after which an activity leaves further inputs to the next one: how long it may run is limited by the host."""
_AFTER_FAILURE = 2.0
"""Seconds before an attempt that could not begin, or whose process died, is made again."""


class DurableDriver:
    """Starts orchestrations. The instance id says what is driven, so that starting twice starts once."""

    def __init__(self, client: DurableClientHolder) -> None:
        self._client = client

    async def ensure(self, key: Key, activation: int, generation: int) -> None:
        """See to it that an orchestration drives this activation. Raises NoDurableClient, and what the client raises when it
        can't be started and does not run."""
        client = self._client.get()
        work = {"key": key.to_payload(), "activation": activation}
        instance = key.instance_id(activation, generation)
        try:
            await client.schedule_new_orchestration(ORCHESTRATOR, input=work, instance_id=instance)
        except Exception:
            # "It runs already" has no error of its own in all backends, so what counts is whether it does.
            state = await client.get_orchestration_state(instance, fetch_payloads=False)
            if state is None or state.runtime_status.name not in ("RUNNING", "PENDING", "CONTINUED_AS_NEW"):
                raise


def register_tasks(
    app: DurableApp,
    open_store: Callable[[], Store],
    shutdown: Shutdown,
    *,
    options: TaskOptions | None = None,
    marked: bool = False,
) -> None:
    """Add the functions that tasks need to `app`, and make tasks work in this process.

    `open_store` gives the store of the process; it is called inside the event loop, when a task is first started, driven or
    looked for. With `marked`, the timer stores when its scan has come to its end, for `recover_if_overdue`. On `shutdown`
    running handlers are told, and their leases given back. Raises ConfigurationError for a malformed `TASKS_*_SECONDS` setting.
    """
    chosen = options or TaskOptions.from_environment()
    driver = DurableDriver(app.durable_client)
    set_engine(lambda: Engine(open_store(), driver, options=chosen))

    async def stop() -> None:
        engine = installed_engine()
        if engine is not None:
            await engine.stop()
        await app.durable_client.close()

    async def recover(timer: func.TimerRequest) -> None:
        if not resilient_tasks_enabled():
            return
        engine = current_engine()
        try:
            await scan(engine)
        except StorageError as error:  # the next tick looks again
            _log.warning("the recovery scan could not read its index: %r", error)
            return
        try:
            if marked:
                await mark_scanned(engine.store, engine.clock.now())
        except StorageError as error:  # at worst a process that serves requests scans once more
            _log.warning("the recovery scan has ended, and that could not be noted: %r", error)

    shutdown.add(stop)
    app.function_name(ORCHESTRATOR)(app.orchestration_trigger(context_name="context")(_orchestrate))
    app.function_name(ACTIVITY)(app.activity_trigger(input_name="work", activity=ACTIVITY)(_attempt))
    app.function_name(TIMER)(
        app.timer_trigger(
            arg_name="timer", schedule=os.environ.get("TASKS_RECOVERY_SCHEDULE") or _SCHEDULE, run_on_startup=True
        )(recover)
    )


def _orchestrate(context: task.OrchestrationContext, work: dict[str, Any]) -> Generator[task.Task[Any], Any]:
    """Call the activity until it says "done". No policy in here, and a history of three events: each round starts anew."""
    try:
        verdict: dict[str, Any] = yield context.call_activity(ACTIVITY, input=work)
    except Exception:
        # The process of the activity died, or the host gave up on it: the record knows how far it came.
        verdict = {"next": "again", "seconds": _AFTER_FAILURE}
    if verdict["next"] == "done":
        return
    if verdict["seconds"] > 0:
        yield context.create_timer(timedelta(seconds=verdict["seconds"]))
    context.continue_as_new(work)


async def _attempt(work: object) -> object:  # the worker takes no generic annotation here
    wanted = cast("dict[str, Any]", work)
    key, activation = Key.from_payload(wanted["key"]), int(wanted["activation"])
    began = time.monotonic()
    try:
        verdict = await current_engine().attempt(key, activation)
        # The next input of the queue is taken up here, without the way through the orchestration that a user would wait for.
        while verdict == _AT_ONCE and time.monotonic() - began < _LINGER:
            verdict = await current_engine().attempt(key, activation)
    except StorageError as error:
        _log.warning("an attempt could not begin, again in %.0f s: %r", _AFTER_FAILURE, error)
        verdict = Verdict("again", _AFTER_FAILURE)
    return {"next": verdict.next, "seconds": verdict.seconds}


async def recover_if_overdue(overdue: float) -> None:
    """Do what the timer does, if no process has for `overdue` seconds. Raises StorageError."""
    if not resilient_tasks_enabled():
        return
    engine = current_engine()
    silent = await take_overdue_scan(engine.store, engine.clock.now(), overdue)
    if silent is None:
        return
    if silent != float("inf"):  # of a new app none is known
        _log.error("no recovery scan has come to its end for %.0f s, and one is made here: do timers fire?", silent)
    await scan(engine, measured=False)
    await mark_scanned(engine.store, engine.clock.now())


def recovery_is_off(env: Mapping[str, str]) -> bool:
    """Whether an operator has switched the timer off; then nothing else shall do what it does."""
    names = (f"AzureWebJobs.{TIMER}.Disabled", f"AzureWebJobs__{TIMER}__Disabled")
    return any(env.get(name, "").lower() in ("true", "1") for name in names)
