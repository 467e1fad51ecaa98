"""Running what one waits for.

A handler that waits for another task keeps its own place meanwhile, an activity of the durable backend. When all places are
taken by such handlers, what they wait for gets none, and none of them ever ends. So whoever waits inside an attempt looks after
a while whether anybody has taken the other task up, and if not, makes an attempt at it in this process. The lease keeps it from
running twice, and a driver that comes later finds it at work or done.
"""

import asyncio
import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING

from hosting.read_budget import read_at_most
from hosting.storage import StorageError
from hosting.tasks import _registry
from hosting.tasks._record import idle_since
from hosting.tasks._rows import Key
from hosting.tasks._seams import Verdict

if TYPE_CHECKING:
    from hosting.tasks._engine import Engine

__all__ = ["Helper", "current_helper", "helping"]

_log = logging.getLogger("hosting.tasks")

_AT_ONCE = Verdict("again")

_helper: "ContextVar[Helper | None]" = ContextVar("hosting.tasks.helper", default=None)

# Attempts that helpers make: asyncio itself keeps only weak references.
_made: set[asyncio.Task[None]] = set()


class Helper:
    """Of one attempt. It runs one other task at a time, so that who waits for hundreds does not run all of them here; and what
    it runs has a helper of its own, so that one of them always gets on, however deep they wait for each other."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._busy: asyncio.Task[None] | None = None

    async def look(self, key: Key) -> float:
        """Begin an attempt at this task if nobody has taken it up; the seconds until it is worth looking again. One read.
        Raises StorageError."""
        engine, options = self._engine, self._engine.options
        patience = options.help_after.total_seconds()
        if self._busy is not None and not self._busy.done():
            return patience
        with read_at_most(sys.maxsize) as read:  # nothing of it is kept, and who waits for days looks often
            record = await engine.record(key)
            read.refund()
        since = None if record is None else idle_since(record, options.skew.total_seconds())
        if record is None or since is None:
            return patience
        if _registry.find(record.name) is None:
            return options.unknown_task.total_seconds()
        waited = engine.clock.now() - since  # below 0 while somebody has the lease, or it is not due yet
        if waited < patience:
            return patience - waited
        if self._busy is None or self._busy.done():  # asked again: of several waits another may have been faster
            # In a context of its own: it is no part of what its caller reads, traces and answers for.
            attempt = self._attempt(key, record.activation)
            self._busy = asyncio.create_task(attempt, name=f"help {key.task_id}", context=Context())
            _made.add(self._busy)
            self._busy.add_done_callback(_made.discard)
        return patience

    async def _attempt(self, key: Key, activation: int) -> None:
        _log.info("task %s: run here, by one that waits for it", key.task_id, extra=key.log_fields())
        try:
            while await self._engine.attempt(key, activation) == _AT_ONCE:
                pass
        except StorageError as error:  # who waits looks again
            _log.warning("task %s: an attempt could not begin: %r", key.task_id, error, extra=key.log_fields())


@contextmanager
def helping(engine: "Engine") -> Generator[None]:
    """Waits in here help: the handler of an attempt."""
    token = _helper.set(Helper(engine))
    try:
        yield
    finally:
        _helper.reset(token)


def current_helper() -> Helper | None:
    """The helper of the attempt that this code is part of."""
    return _helper.get()
