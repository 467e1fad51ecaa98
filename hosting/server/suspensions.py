"""Refusing callers that an operator has suspended, without a request that pays for it.

A process knows the list as it was at most `seconds` ago, when requests come: the one that finds it older has it read again, in
the background, and goes by the old one. What can't be read changes nothing, and before the first read nobody is suspended.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from contextvars import Context

from hosting import telemetry
from hosting.identity import Caller
from hosting.responses import ApiError
from hosting.state.suspended import load_suspended
from hosting.storage import Store, keys

__all__ = ["Suspensions"]

_log = logging.getLogger(__name__)


class Suspensions:
    """The list of one process, for one event loop. `seconds` 0: nobody looks, and nobody is refused."""

    def __init__(
        self, open_store: Callable[[], Store], seconds: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._open_store, self._seconds, self._clock = open_store, seconds, clock
        self._scopes: Collection[str] = ()
        self._read_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None
        self._closed = False

    def check(self, caller: Caller, scope: str) -> None:
        """Raise ApiError 403 for a caller whose scope, or whose whole tenant, is suspended."""
        now = self._clock()
        if self._seconds and self._reading is None and now - self._read_at >= self._seconds and not self._closed:
            self._read_at = now
            # In a context of its own: it is no part of what the request reads, traces and answers for.
            self._reading = asyncio.create_task(self._read(), name="suspended tenants", context=Context())
        if self._scopes and (scope in self._scopes or keys.scope(caller.tenant, None) in self._scopes):
            raise ApiError.account_deactivated()

    async def close(self) -> None:
        """Read no more."""
        self._closed = True
        if (task := self._reading) is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _read(self) -> None:
        try:
            self._scopes = frozenset(await load_suspended(self._open_store()))
        except Exception as error:
            _log.warning("Who is suspended can't be read, the last list stands: %s", telemetry.describe(error))
        finally:
            self._reading = None
