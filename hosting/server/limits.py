"""What a caller may ask of this process, and of all of them together. docs/limits.md says what each limit means and costs.

    request = limits.guarded(request, caller)
    async with limits.admit(caller, scope, background=..., stream=...) as lease:
        ...
        return lease.answer(response)

Everything is checked before anything is stored, so a request that is refused has changed nothing and can be repeated.
"""

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import cast

from hosting.identity import Caller
from hosting.responses import InvalidRequest
from hosting.server.http import Request
from hosting.server.limit_body import check_json_size, read_with_deadline
from hosting.server.limit_leases import Lease, Seats
from hosting.server.limit_unfinished import UnfinishedRuns
from hosting.server.rate_limit import RateLimit
from hosting.server.working_memory import WorkingMemory
from hosting.settings import Settings
from hosting.storage import Store

__all__ = ["Limits"]


class Limits:
    """The limits of one process, by its settings. One object for all routes; for one event loop."""

    def __init__(
        self, settings: Settings, open_store: Callable[[], Store], *, clock: Callable[[], float] = time.time
    ) -> None:
        """`clock` gives seconds of the epoch."""
        self._settings = settings
        self.memory = WorkingMemory(settings.max_working_bytes, settings.max_working_bytes_per_tenant)
        self._bodies = Seats("requests", settings.max_runs, settings.max_runs_per_tenant)
        self._runs = Seats("runs", settings.max_runs, settings.max_runs_per_tenant)
        self._streams = Seats("streams", settings.max_streams, settings.max_streams_per_tenant)
        self._rate = RateLimit(settings.runs_per_minute, open_store if settings.runs_per_minute_shared else None, clock)
        self._unfinished = UnfinishedRuns(settings.max_unfinished_runs_per_tenant, open_store, clock)

    def guarded(self, request: Request, caller: Caller, *, json: bool = True) -> Request:
        """The request, with a body that has to arrive in time and has a seat while it does. Reading it also raises ApiError
        408, 429 and 503, and with `json` 400 for one that would be too much when parsed."""

        async def read(longest: int) -> bytes:
            with self._bodies.take(caller.tenant):
                body = await read_with_deadline(request, longest, self._settings.request_body_seconds)
            if json:
                check_json_size(body)
            return body

        return replace(request, read=read)

    def check_items(self, body: object) -> None:
        """Raise InvalidRequest when the `input` of a parsed body has too many items."""
        given = cast("dict[str, object]", body).get("input") if isinstance(body, dict) else None
        limit = self._settings.max_input_items
        if isinstance(given, list) and (length := len(cast("list[object]", given))) > limit:
            raise InvalidRequest.array_too_long("input", limit, length)

    @asynccontextmanager
    async def admit(
        self, caller: Caller, scope: str, *, background: bool = False, stream: bool = False
    ) -> AsyncGenerator[Lease]:
        """Admit a request for a run. Inside, do what stores or claims anything. Raises ApiError 429 and 503.

        A foreground run has a seat among the runs. Of a background run, only its stream is here, and has one there.
        """
        if not background:
            lease = self.run(caller)
        else:
            lease = self.follow(caller) if stream else Lease()
        with lease:
            lease.headers = await self._rate.admit(caller.tenant)
            if background:
                await self._unfinished.admit(scope)
            yield lease

    def run(self, caller: Caller) -> Lease:
        """A seat among the runs of this process, without counting it. Raises ApiError 429 and 503."""
        return Lease(self._runs.take(caller.tenant))

    def follow(self, caller: Caller) -> Lease:
        """A seat among those who follow a stream. Raises ApiError 429 and 503."""
        return Lease(self._streams.take(caller.tenant))

    @property
    def seats(self) -> dict[str, int]:
        """How many seats are taken, by kind; for metrics."""
        return {"bodies": len(self._bodies), "runs": len(self._runs), "streams": len(self._streams)}
