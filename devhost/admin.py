"""The /admin paths: what the Functions host has of them, and what devhost adds for tests.

- `GET /admin/host/status` and `GET /admin/host/ping`, as in the host;
- `POST /admin/functions/NAME` runs a timer function now, as in the host: 202;
- `GET /admin/devhost/status`: workers, their groups, process ids and whether they are ready;
- `POST /admin/devhost/durable/wipe` empties the task hub, as if it had been deleted.

Only requests from this machine are answered.
"""

import ipaddress
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from devhost.background import Background
from devhost.durable import DurablePump
from devhost.timers import Timers, timer_request
from devhost.workers import Workers

__all__ = ["PREFIX", "Admin"]

PREFIX = "/admin/"


class Admin:
    """Answers requests under /admin."""

    def __init__(
        self, workers: Workers, pump: DurablePump, timers: Callable[[], Timers], background: Background
    ) -> None:
        self._workers = workers
        self._pump = pump
        self._timers = timers
        self._background = background

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """The answer to one request."""
        if not ipaddress.ip_address(request.remote or "::").is_loopback:
            return web.Response(status=404)
        path = request.rel_url.raw_path.removeprefix(PREFIX).rstrip("/")
        match (request.method, *path.split("/")):
            case ("GET", "host", "status"):
                state = "Running" if any(worker.ready for worker in self._workers.all) else "Error"
                return web.json_response({"id": "devhost", "state": state, "version": "devhost"})
            case ("GET" | "POST", "host", "ping"):
                return web.Response()
            case ("POST", "functions", name):
                return self._run_timer(name)
            case ("GET", "devhost", "status"):
                return web.json_response(self.status())
            case ("POST", "devhost", "durable", "wipe"):
                self._pump.wipe()
                return web.Response(status=204)
        return web.Response(status=404)

    def status(self) -> dict[str, Any]:
        """The workers as they are now."""
        return {
            "workers": [
                {"number": w.number, "group": w.group, "pid": w.pid, "ready": w.ready} for w in self._workers.all
            ]
        }

    def _run_timer(self, name: str) -> web.Response:
        function = next((f for f in self._workers.functions if f.name.lower() == name.lower()), None)
        if function is None:
            return web.Response(status=404)
        if function.kind != "timer":
            message = json.dumps({"error": f"devhost can run timer functions this way; {name} is {function.kind}"})
            return web.Response(status=400, text=message, content_type="application/json")
        self._background.spawn(self._timers().run(function, timer_request(None, datetime.now(UTC))))
        return web.Response(status=202)
