"""devhost itself: everything put together, started in order and stopped in the opposite one."""

import asyncio
import contextlib
import errno
import json
import os
import secrets
import socket
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from devhost import admin, durable_http
from devhost.azurite import Azurite, AzuriteError, run_azurite
from devhost.config import DEVELOPMENT_STORAGE, AppConfig, load_config
from devhost.console import Console
from devhost.durable import DurablePump, client_binding
from devhost.errors import AppLoadError, DevHostError
from devhost.front import Front
from devhost.functions import DURABLE_CLIENT, Function
from devhost.hub import TaskHub
from devhost.keys import Keys
from devhost.proxy import open_session
from devhost.routes import Router
from devhost.timers import Timers
from devhost.worker_process import WorkerOptions
from devhost.workers import Workers

__all__ = ["Options", "run"]

_ROOT = Path(__file__).resolve().parent.parent
_FIRST_PORT = 7071


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says; see `python -m devhost --help`."""

    app_dir: Path
    port: int | None = None
    host: str = "127.0.0.1"
    workers: int = 1
    flex: bool = False
    reload: bool = False
    # "disk" keeps Azurite's data in the app's folder, "memory" nowhere, "none" starts no Azurite.
    azurite: str = "disk"
    grace: float = 5.0
    auth: bool = False
    function_key: str | None = None
    master_key: str | None = None
    log_level: str = "info"
    quiet: bool = False
    ready_file: Path | None = None
    hint: Path | None = None


async def run(options: Options, console: Console, stop: asyncio.Event) -> None:
    """Run the app until `stop` is set. Raises DevHostError when it can't be started."""
    config = load_config(options.app_dir)
    port = options.port if options.port is not None else config.local_port or _FIRST_PORT
    listener = _bind(options.host, port)
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(listener.close)
        host = _Host(options, config, console, listener)
        stack.push_async_callback(host.close)
        starting = asyncio.create_task(host.start())
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if stopped.done():
            starting.cancel()
            await asyncio.wait({starting})
            return
        stopped.cancel()
        starting.result()
        reloading = asyncio.create_task(host.reload_on_change(stop)) if options.reload else None
        await stop.wait()
        console.say("stopping")
        if reloading:
            reloading.cancel()
            await asyncio.wait({reloading})


def _bind(host: str, port: int) -> socket.socket:
    """A socket on the port, not listening yet: a busy port shows before anything is started."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        # A second bind to the port succeeds until one of the two listens.
        listener.listen(128)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise DevHostError(f"port {port} is in use: stop what uses it, or choose another with --port") from None
        raise DevHostError(f"can't listen on {host} port {port}: {error.strerror or error}") from None
    return listener


class _Host:
    def __init__(self, options: Options, config: AppConfig, console: Console, listener: socket.socket) -> None:
        self._options = options
        self._config = config
        self._console = console
        self._listener = listener
        name = "127.0.0.1" if options.host in {"0.0.0.0", "127.0.0.1"} else options.host
        self._port = listener.getsockname()[1]
        self._base_url = f"http://[{name}]:{self._port}" if ":" in name else f"http://{name}:{self._port}"
        self._azurite: Azurite | None = None
        self._hub = TaskHub(config.host_json.overridable_states)
        self._rpc_address = ""
        self._workers = Workers(options.workers, options.flex, self._worker_options, console)
        self._pump = DurablePump(self._hub, self._workers, lambda: self._config.host_json, self._inputs, console)
        self._timers = self._new_timers()
        self._keys = _keys(options) if options.auth else None
        self._cleanup = contextlib.AsyncExitStack()

    # Start and stop.

    async def start(self) -> None:
        """Start Azurite, the task hub, the workers and the HTTP side, in this order."""
        self._azurite = await self._cleanup.enter_async_context(self._run_azurite())
        self._rpc_address = self._hub.serve()
        self._cleanup.callback(self._hub.close)
        session = await self._cleanup.enter_async_context(open_session())
        reserved = {
            admin.PREFIX: admin.Admin(self._workers, self._pump, lambda: self._timers).handle,
            durable_http.PREFIX: durable_http.DurableHttp(self._hub).handle,
        }
        self._front = Front(self._workers, session, self._inputs, self._keys, reserved, self._console)
        server = web.Server(self._front.handle, handler_cancellation=True, access_log=None, lingering_time=0)
        runner = web.ServerRunner(server, shutdown_timeout=1)
        await runner.setup()
        self._cleanup.push_async_callback(runner.cleanup)
        self._cleanup.push_async_callback(self._workers.stop)
        await self._workers.start()
        self._front.router = self._new_router()
        site = web.SockSite(runner, self._listener)
        await site.start()
        self._cleanup.push_async_callback(site.stop)
        self._pump.start()
        self._cleanup.callback(self._pump.stop)
        self._announce()
        self._timers.start()
        self._cleanup.callback(lambda: self._timers.stop())

    async def close(self) -> None:
        """Take no more requests, let what is under way finish within the grace, end workers, hub and Azurite."""
        await self._cleanup.aclose()

    @contextlib.asynccontextmanager
    async def _run_azurite(self) -> AsyncIterator[Azurite | None]:
        wanted = self._config.settings.get("AzureWebJobsStorage") == DEVELOPMENT_STORAGE
        if self._options.azurite == "none" or not wanted:
            yield None
            return
        location = self._config.app_dir / ".azurite" if self._options.azurite == "disk" else None
        try:
            async with run_azurite(_ROOT, location) as azurite:
                yield azurite
        except AzuriteError as error:
            raise DevHostError(str(error)) from None

    # What the parts ask for.

    def _worker_options(self) -> WorkerOptions:
        options, config = self._options, self._config
        env = {
            **config.settings,
            # What Core Tools sets.
            "AZURE_FUNCTIONS_ENVIRONMENT": config.settings.get("AZURE_FUNCTIONS_ENVIRONMENT", "Development"),
            "FUNCTIONS_WORKER_RUNTIME": "python",
            "FUNCTIONS_CORETOOLS_ENVIRONMENT": "True",
            "AzureWebJobsScriptRoot": str(config.app_dir),
            "WEBSITE_HOSTNAME": f"localhost:{self._port}",
        }
        if options.reload:
            # Compiled files are told apart by second and size: two quick edits could look the same.
            env["PYTHONDONTWRITEBYTECODE"] = "1"
        if self._azurite:
            emulated = {n: self._azurite.connection_string for n, v in env.items() if v == DEVELOPMENT_STORAGE}
            env = {**env, **emulated}
        return WorkerOptions(config.app_dir, config.script_file, env, options.log_level, self._console, options.grace)

    def _inputs(self, function: Function) -> dict[str, dict[str, Any] | None]:
        """Values of the bindings beside the trigger: durable clients."""
        host_json = self._config.host_json
        return {
            binding["name"]: {
                "string": client_binding(
                    str(binding.get("taskHub") or host_json.hub_name),
                    self._rpc_address,
                    self._base_url,
                    host_json.max_grpc_message_bytes,
                )
            }
            for binding in function.bindings
            if binding["type"].lower() == DURABLE_CLIENT.lower()
        }

    def _new_router(self) -> Router:
        enabled = [f for f in self._workers.functions if not self._config.is_disabled(f.name)]
        return Router(enabled, self._config.host_json.route_prefix)

    def _new_timers(self) -> Timers:
        return Timers(self._config, self._workers, self._inputs, self._console)

    # Reload.

    async def reload_on_change(self, stop: asyncio.Event) -> None:
        """Load the app again whenever one of its files changes. A version that does not load changes nothing."""
        from watchfiles import awatch

        from devhost.reload import SourceFilter

        async for changes in awatch(
            self._config.app_dir,
            watch_filter=SourceFilter(self._config.app_dir),
            stop_event=stop,
            debounce=200,
            step=50,
        ):
            names = sorted({os.path.relpath(path, self._config.app_dir) for _, path in changes})
            self._console.say(f"{', '.join(names[:3])}{' and more' if len(names) > 3 else ''} changed, loading the app")
            try:
                await self._reload()
            except AppLoadError as error:
                self._console.app_error(error)
                self._console.error("the version before goes on; the next change is tried again")
            except DevHostError as error:
                self._console.error(f"{error}; the version before goes on")

    async def _reload(self) -> None:
        before = self._config
        self._config = load_config(self._options.app_dir)
        try:
            await self._workers.replace()
        except BaseException:
            self._config = before
            raise
        self._front.router = self._new_router()
        self._timers.stop()
        self._timers = self._new_timers()
        self._timers.start()
        self._console.say("loaded")

    # What people and tests see.

    def _announce(self) -> None:
        say = self._console.say
        for function, path, methods in self._front.router.listing():
            say(f"  {function.name}: [{','.join(methods) or 'ANY'}] {self._base_url}{path}")
        for function in self._workers.functions:
            if not function.emulated:
                self._console.error(f"{function.name} will not run: devhost does not emulate {function.kind}")
            elif function.kind != "http" and not function.name.startswith("BuiltIn__"):
                schedule = self._config.resolve(str(function.trigger.get("schedule", "")))
                say(f"  {function.name}: {function.kind} {schedule}".rstrip())
            for kind in function.unsupported_bindings:
                self._console.error(f"{function.name}: devhost does not emulate its {kind} binding")
        if self._keys:
            say(f"function key {self._keys.function}, master key {self._keys.master}")
        if self._azurite:
            say(f"storage: {self._azurite.connection_string}")
        say(f"ready on {self._base_url}")
        if self._options.hint:
            say(self._options.hint.read_text(encoding="utf-8").replace("{base_url}", self._base_url).rstrip())
        if self._options.ready_file:
            _write_whole(self._options.ready_file, self._ready())

    def _ready(self) -> Mapping[str, Any]:
        storage = self._worker_options().env.get("AzureWebJobsStorage")
        return {
            "base_url": self._base_url,
            "pid": os.getpid(),
            "azurite_pid": self._azurite.pid if self._azurite else None,
            "connection_string": storage,
            "workers": [{"number": w.number, "group": w.group, "pid": w.pid} for w in self._workers.all],
        }


def _keys(options: Options) -> Keys:
    return Keys(options.function_key or secrets.token_urlsafe(24), options.master_key or secrets.token_urlsafe(24))


def _write_whole(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file so that a reader finds it whole or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(content))
    part.replace(path)
