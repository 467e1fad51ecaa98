"""Every HTTP request that reaches devhost: find the function, check the key, hand it to a worker, log it."""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import ClientSession, web

from devhost.console import Console
from devhost.errors import WorkerDied
from devhost.functions import Function
from devhost.keys import Keys
from devhost.proxy import MAX_BODY_BYTES, WORKER_HEADER, Refused, forward, no_answer
from devhost.routes import Match, Router
from devhost.rpc_http import http_value, read_whole_body, respond
from devhost.worker_process import WorkerProcess
from devhost.workers import Workers

__all__ = ["Front"]

# How long a request waits for a worker while the only one is being restarted.
_WAIT_SECONDS = 60.0

type Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class _Served:
    """What the log says of a request. 499 is what nginx calls a client that did not wait."""

    status: int = 499
    worker: int | None = None


class Front:
    """The HTTP side of devhost."""

    def __init__(
        self,
        workers: Workers,
        session: ClientSession,
        inputs: Callable[[Function], dict[str, dict[str, Any] | None]],
        keys: Keys | None,
        reserved: Mapping[str, Handler],
        console: Console,
    ) -> None:
        """`reserved` are path prefixes that functions never see, with what answers them; without `keys` none is asked."""
        self.router = Router([], "")
        self._workers = workers
        self._session = session
        self._inputs = inputs
        self._keys = keys
        self._reserved = reserved
        self._console = console

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request. Cancelled when its client goes away."""
        for prefix, handler in self._reserved.items():
            if request.rel_url.raw_path.startswith(prefix):
                return await handler(request)
        started = time.monotonic()
        served = _Served()
        try:
            response = await self._answer(request, served)
            served.status = response.status
            return response
        except web.HTTPException as error:
            served.status = error.status
            raise
        finally:
            self._console.request(request.method, request.rel_url.raw_path, served.status, started, served.worker)

    async def _answer(self, request: web.BaseRequest, served: _Served) -> web.StreamResponse:
        match = self.router.match(request.method, request.rel_url.raw_path)
        if match is None:
            return web.Response(status=404)
        if self._keys and not self._keys.allow(request, match.function):
            return web.Response(status=401)
        if (request.content_length or 0) > MAX_BODY_BYTES:
            raise web.HTTPRequestEntityTooLarge(max_size=MAX_BODY_BYTES, actual_size=request.content_length or 0)
        number = self._wanted_worker(request)
        while True:
            try:
                worker = await self._workers.acquire("http", number=number, seconds=_WAIT_SECONDS)
            except TimeoutError:
                return web.Response(status=503, text="devhost: no worker is ready; see its output\n")
            served.worker = worker.number
            try:
                with worker.request_open():
                    response = await self._run(request, match, worker)
            except Refused:
                # It stopped listening: somebody sent it SIGTERM. Nothing of the request was sent, so another may have it.
                worker.retire()
                continue
            response.headers.setdefault(WORKER_HEADER, str(worker.number))
            return response

    def _wanted_worker(self, request: web.BaseRequest) -> int | None:
        wanted = request.headers.get(WORKER_HEADER)
        if wanted is None:
            return None
        group = self._workers.group_for("http")
        numbers = {str(worker.number) for worker in self._workers.all if worker.group == group}
        if wanted not in numbers:
            raise web.HTTPBadRequest(
                text=f"devhost: {WORKER_HEADER} must be one of {', '.join(sorted(numbers))}, the workers that serve HTTP\n"
            )
        return int(wanted)

    async def _run(self, request: web.BaseRequest, match: Match, worker: WorkerProcess) -> web.StreamResponse:
        function = match.function
        invocation_id = str(uuid.uuid4())
        body = None if worker.http_uri else await read_whole_body(request)
        invocation = worker.begin(
            function,
            {function.trigger["name"]: http_value(request, match.params, body), **self._inputs(function)},
            invocation_id=invocation_id,
            traceparent=request.headers.get("traceparent"),
        )
        if worker.http_uri:
            return await forward(request, self._session, worker, invocation_id, invocation)
        try:
            result = await asyncio.shield(invocation)
        except WorkerDied as error:
            return await no_answer(worker, error)
        if not result.ok:
            self._console.error(f"function {function.name} failed: {result.error}\n{result.stack.rstrip()}")
        output = next((b["name"] for b in function.bindings if b["type"].lower() == "http"), None)
        return respond(result, output)
