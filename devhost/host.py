"""devhost itself: everything put together, started in order and stopped in the opposite one."""

import asyncio
import contextlib
import json
import os
import secrets
import socket
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from aiohttp import web

from devhost import admin, durable_http
from devhost.azurite import Azurite, AzuriteError, run_azurite
from devhost.background import Background
from devhost.config import DEVELOPMENT_STORAGE, AppConfig, load_config
from devhost.console import Console
from devhost.durable import DurablePump, client_binding
from devhost.errors import DevHostError
from devhost.front import Front
from devhost.functions import DURABLE_CLIENT, Function
from devhost.hub import TaskHub
from devhost.keys import Keys
from devhost.options import Options
from devhost.proxy import open_session
from devhost.routes import Router
from devhost.timers import Timers
from devhost.worker_process import WorkerOptions
from devhost.workers import Workers

__all__ = ["run"]

_ROOT = Path(__file__).resolve().parent.parent


async def run(
    options: Options, config: AppConfig, listener: socket.socket, console: Console, stop: asyncio.Event
) -> None:
    """Run the app on the listener until `stop` is set. Raises DevHostError when it can't be started."""
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(listener.close)
        host = _Host(options, config, console, listener)
        stack.push_async_callback(host.close)
        starting = asyncio.create_task(host.start())
        # Before host.close, and one thing at a time: a start that is cancelled has processes to end by itself.
        stack.push_async_callback(_cancel, starting)
        stopped = asyncio.create_task(stop.wait())
        stack.push_async_callback(_cancel, stopped)
        await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if stopped.done():
            return
        starting.result()
        if options.reload:
            stack.push_async_callback(_cancel, Background(console).spawn(host.reload_on_change(stop)))
        await stop.wait()
        console.say("stopping")


async def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait({task})


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
        self._timers = Timers(config, [], self._workers, self._inputs, console)
        self._background = Background(console)
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
            admin.PREFIX: admin.Admin(self._workers, self._pump, lambda: self._timers, self._background).handle,
            durable_http.PREFIX: durable_http.DurableHttp(self._hub).handle,
        }
        self._front = Front(self._workers, session, self._inputs, self._keys, reserved, self._console)
        server = web.Server(
            self._front.handle, handler_cancellation=True, access_log=None, lingering_time=0, auto_decompress=False
        )
        runner = web.ServerRunner(server, shutdown_timeout=1)
        await runner.setup()
        self._cleanup.push_async_callback(runner.cleanup)
        self._cleanup.push_async_callback(self._workers.stop)
        await self._workers.start()
        self._use(self._workers.functions)
        site = web.SockSite(runner, self._listener)
        await site.start()
        self._cleanup.push_async_callback(site.stop)
        self._pump.start()
        self._cleanup.callback(self._pump.stop)
        self._timers.start()
        self._cleanup.callback(lambda: self._timers.stop())
        self._announce()

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

    # Reload.

    async def reload_on_change(self, stop: asyncio.Event) -> None:
        """Load the app again whenever one of its files changes. A version that does not load changes nothing."""
        from devhost.reload import source_changes

        folder = self._config.app_dir
        try:
            async for paths in source_changes(folder, stop):
                names = sorted(str(path.relative_to(folder)) for path in paths)
                self._console.say(f"{', '.join(names[:3])}{', ...' if len(names) > 3 else ''} changed, loading the app")
                try:
                    await self._reload()
                except DevHostError as error:
                    self._console.failure(error)
                    self._console.error("the version before goes on; the next change is tried again")
        except DevHostError as error:
            self._console.failure(error)

    async def _reload(self) -> None:
        before = self._config, self._front.router, self._timers
        self._config = load_config(self._options.app_dir)
        try:
            await self._workers.replace(self._use)
        except BaseException:
            self._config, self._front.router, self._timers = before
            raise
        before[2].stop()
        self._timers.start()
        self._console.say("loaded")

    def _use(self, functions: list[Function]) -> None:
        """Take routes and timers from these functions. Raises DevHostError when one of them can't be read."""
        enabled = [function for function in functions if not self._config.is_disabled(function.name)]
        self._front.router = Router(enabled, self._config.host_json.route_prefix)
        self._timers = Timers(self._config, enabled, self._workers, self._inputs, self._console)

    # What people and tests see.

    def _announce(self) -> None:
        say = self._console.say
        for function, path, methods in self._front.router.listing():
            verbs = "ANY" if len(methods) > 5 else ",".join(methods) or "ANY"
            say(f"  {function.name}: [{verbs}] {self._base_url}{path}")
        for function in self._workers.functions:
            if not function.emulated:
                self._console.error(f"{function.name} will not run: devhost does not emulate {function.kind}")
            elif function.kind != "http" and not function.name.startswith("BuiltIn__"):
                schedule = self._config.resolve(str(function.trigger.get("schedule", "")))
                say(f"  {function.name}: {function.kind} {schedule}".rstrip())
            for kind in function.unsupported_bindings:
                self._console.error(f"{function.name}: devhost does not emulate its {kind} binding")
        for worker in self._workers.all:
            say(f"  worker {worker.number}: pid {worker.pid}")
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
