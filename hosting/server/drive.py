"""Driving an answer in a task: to its natural end, or to an early one when the task is told to stop."""

import asyncio
import logging
from math import inf
from typing import Any

from hosting import telemetry
from hosting.read_budget import ReadTooLarge
from hosting.server.answer import Answer, Emit, StopCause
from hosting.server.stored_input import TOO_LONG
from hosting.storage import StorageUnavailable
from hosting.streaming import EventStreamError
from hosting.tasks import TaskContext

__all__ = ["drive"]

_log = logging.getLogger(__name__)

_STUBBORN = 10.0
"""Seconds that an answer has to end when its own task is cancelled."""

_LOOK = 0.5
"""Seconds between two looks for a stronger reason to stop, once an answer was told of one."""

_LAST = 4.0
"""Seconds in which an answer cleans up when its process stops. The engine waits 5 s for all of this."""


async def drive(answer: Answer, ctx: TaskContext[Any], emit: Emit, *, cancelled: asyncio.Event | None = None) -> bool:
    """Run the answer until its response is final. False: it was left to another process, nothing of it is final.

    `cancelled` says that the response was cancelled, when that is found out before the task hears of it.

    Raises EventStreamError and StorageUnavailable when its events or its state can't be stored or read. Does not return when
    the lease is lost.
    """
    run = asyncio.create_task(_run(answer, emit), name=f"answer {ctx.input_id}")
    try:
        cause = await _watch(answer, run, ctx, cancelled or asyncio.Event())
        if run.done() and not run.cancelled():
            error = run.exception()
            if error is None:
                return run.result()
            if isinstance(error, EventStreamError | StorageUnavailable):
                raise error  # not the agent's fault: the attempt is made again, or belongs to somebody else
        else:
            error = asyncio.CancelledError()
        if cause is None:  # a CancelledError too is the agent's own then
            _log.error("The agent failed in %s: %s", ctx.input_id, telemetry.describe(error))
        match cause:
            case "newer_input":
                await emit(answer.interrupt("steered"))
            case "cancel_requested":
                await emit(answer.cancel())
            case "timeout":
                await emit(answer.fail(message="The response took longer than it may."))
            case _:
                await emit(answer.fail(message=TOO_LONG if isinstance(error, ReadTooLarge) else None))
        return True
    except asyncio.CancelledError:
        # The process stops. Another one begins when our lease is released, and this run should be over by then.
        run.cancel()
        await asyncio.wait({run}, timeout=_LAST)
        raise
    finally:
        run.cancel()


async def _run(answer: Answer, emit: Emit) -> bool:
    try:
        return await answer.run(emit)
    except SystemExit as error:  # an agent's sys.exit() must not take the other runs of this process with it
        raise RuntimeError("the agent called sys.exit()") from error


async def _watch(
    answer: Answer, run: "asyncio.Task[bool]", ctx: TaskContext[Any], cancelled: asyncio.Event
) -> StopCause | None:
    """Wait for the run, and tell it when it has to end; the reason why its task was cancelled, if it was."""
    loop = asyncio.get_running_loop()
    signals = {asyncio.create_task(event.wait()) for event in (ctx.cancel, ctx.shutdown, cancelled)}
    told: StopCause | None = None
    deadline = inf
    try:
        while not run.done():
            await asyncio.wait({run, *signals}, timeout=_LOOK if told else None, return_when=asyncio.FIRST_COMPLETED)
            signals = {signal for signal in signals if not signal.done()}
            if run.done():
                break
            cause = ctx.cancel_cause or ("shutdown" if ctx.shutdown.is_set() else None)
            if cancelled.is_set() and cause != "lease_lost":
                cause = "cancel_requested"
            if cause == "lease_lost":
                await _give_up(run)
            elif cause is not None and cause != told:
                told, seconds = cause, answer.stop(cause)
                # A process that stops ends what runs in it itself; the next attempt goes on where it stood.
                deadline = inf if cause == "shutdown" else loop.time() + seconds
            if told and loop.time() >= deadline:
                run.cancel()
                await asyncio.wait({run}, timeout=_STUBBORN)
                return told
    finally:
        for signal in signals:
            signal.cancel()
    return None


async def _give_up(run: "asyncio.Task[bool]") -> None:
    """End a run whose lease is lost; does not return.

    Nobody has asked for an end. It may be that no other attempt has begun (this process was only slow), and then an answer
    of ours would count. So give none: the engine stops us, and the work is begun again.
    """
    run.cancel()
    await asyncio.wait({run}, timeout=_STUBBORN)
    await asyncio.get_running_loop().create_future()
