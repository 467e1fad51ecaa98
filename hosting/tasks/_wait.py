"""Waiting for the outcome of an input: an attempt in this process tells it, else the table is asked, ever less often."""

import asyncio
import logging
import sys
from typing import TYPE_CHECKING, Any

from hosting.read_budget import read_at_most
from hosting.storage import StorageUnavailable
from hosting.tasks._exceptions import TaskDeferred
from hosting.tasks._helping import Helper
from hosting.tasks._outcome import Outcome
from hosting.tasks._record import slots
from hosting.tasks._rows import Key
from hosting.tasks._waiters import DEFERRED_HERE
from hosting.telemetry import detached

if TYPE_CHECKING:
    from hosting.tasks._engine import Engine

__all__ = ["wait_for_outcome"]

_log = logging.getLogger("hosting.tasks")

_EXPIRED = Outcome(
    "failed",
    error={"type": "OutcomeExpired", "message": "the outcome of this input is no longer kept", "traceback": ""},
)


async def wait_for_outcome(
    engine: "Engine", key: Key, input_id: str, seq: int, *, fresh: bool, helper: Helper | None = None
) -> Outcome:
    """See `Engine.wait`."""
    pause, longest = engine.options.poll_first.total_seconds(), engine.options.poll_last.total_seconds()
    mine = engine.waiters.add(key, seq)
    looks, look_after_it = 0, engine.clock.now() + engine.options.help_after.total_seconds()
    try:
        while True:
            try:
                if fresh:
                    await _sleep_unless_told(engine, mine, pause)
                    fresh = False
                with detached():  # a look is no part of the caller's trace: there may be hundreds
                    found = await engine.outcome(key, input_id, seq)
                    looks += 1
                    if found is None and looks % 8 == 0 and not await _is_open(engine, key, seq):
                        # Ended between the two looks, or long ago.
                        found = await engine.outcome(key, input_id, seq) or _EXPIRED
                    if found is None and helper is not None and engine.clock.now() >= look_after_it:
                        look_after_it = engine.clock.now() + await helper.look(key)
                if found is not None:
                    return found
            except StorageUnavailable as error:
                _log.warning("task %s: waiting for its outcome: %r", key.task_id, error, extra=key.log_fields())
            # A local attempt wakes us; then looking often is only a precaution.
            await _sleep_unless_told(engine, mine, longest if engine.live(key, seq) is not None else pause)
            if mine.done():
                result = mine.result()
                if result is DEFERRED_HERE:
                    raise TaskDeferred
                assert isinstance(result, Outcome)
                return result
            pause = min(pause * 1.5, longest)
    finally:
        engine.waiters.remove(key, seq, mine)


async def _sleep_unless_told(engine: "Engine", mine: "asyncio.Future[Any]", seconds: float) -> None:
    sleeper = asyncio.ensure_future(engine.clock.sleep(seconds))
    try:
        await asyncio.wait({mine, sleeper}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        sleeper.cancel()


async def _is_open(engine: "Engine", key: Key, seq: int) -> bool:
    with read_at_most(sys.maxsize) as look:  # whoever waits for days looks often, and keeps nothing of it
        record = await engine.record(key)
        look.refund()
    return record is not None and any(slot.seq == seq for slot in slots(record))
