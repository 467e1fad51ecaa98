"""The worker process: loads the app with Microsoft's worker library and runs its functions for devhost.

The library (azure_functions_runtime) is the half of the Python worker that knows the app: it indexes functions, binds
arguments, runs the handlers and, for apps with the FastAPI extension, serves their HTTP. The other half speaks gRPC
with the Functions host; here plain objects take the place of its messages and devhost the place of the host.

How a stop goes, and what Azure does
    devhost stops sending work and tells the worker to stop. The worker raises SIGTERM on itself, so a handler that the
    app installed with `signal.signal` or `loop.add_signal_handler` runs, as does uvicorn's own, which stops listening
    and lets open requests finish. When nothing is under way any more, or the grace is over, devhost says exit: tasks
    that were started since the signal may finish, the rest are cancelled, atexit hooks run and the process ends with 0.
    A worker that is still there after the grace is killed.

    Azure promises less. The Functions host drains first (no new triggers, invocations under way may finish: on Flex
    Consumption up to an hour on scale-in) and then ends the worker with SIGKILL; its Python worker, as far as we
    know, does not take the WorkerTerminate message, so no handler runs. SIGTERM reaches a worker only when the
    platform stops the container, and without a handler of the app the process is gone at once. So a handler is
    worth having and nothing may rely on it. uvicorn's handler is there in Azure as well: it is installed after
    function_app.py was imported and replaces one set there with `signal.signal`, which then runs after uvicorn has
    drained.
"""

import asyncio
import contextlib
import functools
import logging
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from devhost import messages
from devhost.protocol import Channel

__all__ = ["main"]


def main(channel_fd: int, life_fd: int) -> None:
    """Run a worker on the socket `channel_fd` until devhost says exit; end at once when `life_fd` is closed."""
    for fd in (channel_fd, life_fd):
        os.set_inheritable(fd, False)
    threading.Thread(target=_die_with_devhost, args=(life_fd,), name="devhost-life", daemon=True).start()
    sock = socket.socket(fileno=channel_fd)
    sock.setblocking(False)
    asyncio.run(_Worker(sock).run())
    # The app's atexit hooks and thread pools run their course from here on.


def _die_with_devhost(life_fd: int) -> None:
    # A thread of its own: an app that blocks the event loop must not outlive a devhost that was killed.
    os.read(life_fd, 1)
    os._exit(1)


class _Worker:
    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._invocations: dict[str, asyncio.Task[None]] = {}
        self._before_stop: set[asyncio.Task[Any]] | None = None

    async def run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._channel = await Channel.over(self._sock)
        # Without a handler SIGTERM would end the process; the app may replace this one.
        signal.signal(signal.SIGTERM, self._handle_sigterm)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        init = await self._channel.receive()
        if init is None:
            return
        _set_up_logging(init["log_level"])
        try:
            loaded = await _load(init["app_dir"], init["script"])
        except Exception as error:  # Of the worker library itself: nothing of the app is in the traceback.
            loaded = {"type": "failed", "message": f"{type(error).__name__}: {error}", "details": []}
        for task in asyncio.all_tasks():
            # uvicorn ends on SIGTERM, also when a handler of the app has taken the place of ours.
            if getattr(task.get_coro(), "__qualname__", "") == "WebServer.serve":
                task.add_done_callback(lambda _: self._on_sigterm())
        self._channel.send(loaded)
        if loaded["type"] == "failed":
            await self._channel.receive()  # Until devhost has read it and closed its end.
            return
        while (message := await self._channel.receive()) is not None:
            match message["type"]:
                case "invoke":
                    task = asyncio.create_task(self._invoke(message))
                    self._invocations[message["id"]] = task
                    task.add_done_callback(functools.partial(self._ended, message["id"]))
                case "abandon":
                    self._abandon(message["id"])
                case "stop":
                    self._on_sigterm()
                    signal.raise_signal(signal.SIGTERM)
                case "exit":
                    await self._finish_clean_up(message["seconds"])
                    return

    def _handle_sigterm(self, *_: Any) -> None:
        with contextlib.suppress(RuntimeError):  # The loop is closed already.
            self._loop.call_soon_threadsafe(self._on_sigterm)

    def _on_sigterm(self) -> None:
        if self._before_stop is None:
            # Its lifespan task is cancelled with the loop, which it logs as an error with a traceback.
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
            self._before_stop = asyncio.all_tasks()
            self._channel.send({"type": "stopping"})

    async def _finish_clean_up(self, seconds: float) -> None:
        # A signal handler of the app may have started tasks; what ran before is the app's background work. Which is
        # which is not known when SIGTERM came from elsewhere and the app's handler has taken the place of ours.
        if self._before_stop is not None:
            late = asyncio.all_tasks() - self._before_stop - {asyncio.current_task()}
            if late:
                await asyncio.wait(late, timeout=seconds)

    def _abandon(self, invocation_id: str) -> None:
        # Only while the function still waits for its request: one that runs is not cancelled in Azure either.
        from azure_functions_runtime.http_v2 import http_coordinator

        waiting = http_coordinator._context_references.get(invocation_id)
        task = self._invocations.get(invocation_id)
        if task and (waiting is None or not waiting.http_request_available_event.is_set()):
            task.cancel()

    async def _invoke(self, message: dict[str, Any]) -> None:
        import azure_functions_runtime

        try:
            response = await azure_functions_runtime.invocation_request(messages.invocation_request(message))
            result = messages.invocation_result(response)
        except Exception as error:
            # The library raises where it can't even report, for instance when a binding is not sent.
            result = {"ok": False, "error": {"message": f"{type(error).__name__}: {error}", "stack": ""}}
        self._channel.send({"type": "result", "id": message["id"], **result})

    def _ended(self, invocation_id: str, task: asyncio.Task[None]) -> None:
        del self._invocations[invocation_id]
        if task.cancelled():  # Perhaps before it had begun.
            error = {"message": "CancelledError: the invocation was cancelled", "stack": ""}
            self._channel.send({"type": "result", "id": invocation_id, "ok": False, "error": error})


async def _load(app_dir: str, script: str) -> dict[str, Any]:
    for extra in (app_dir, os.path.join(app_dir, ".python_packages", "lib", "site-packages")):
        if extra not in sys.path and os.path.isdir(extra):
            sys.path.insert(0, extra)
    try:
        import azure_functions_runtime
    except ImportError as error:
        return {
            "type": "failed",
            "message": f"the worker library can't be imported: pip install azure-functions-runtime ({error})",
            "details": [],
        }
    azure_functions_runtime.start_threadpool_executor()
    response = await azure_functions_runtime.worker_init_request(messages.worker_init_request(app_dir))
    if response.result.status != messages.StatusResult.Success:
        message, details = app_error(response.result.exception, app_dir)
        return {"type": "failed", "message": message, "details": details}
    metadata = await azure_functions_runtime.functions_metadata_request(messages.metadata_request())
    functions = [
        {"name": f.name, "id": f.function_id, "bindings": f.raw_bindings}
        for f in metadata.function_metadata_results or []
    ]
    if not functions:
        return {"type": "failed", "message": f"{script} declares no functions", "details": []}
    # uvicorn configures its loggers when its server starts, which is after this.
    if "uvicorn" in sys.modules and logging.getLogger().level > logging.DEBUG:
        from uvicorn.config import LOGGING_CONFIG

        for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
            LOGGING_CONFIG["loggers"][name]["level"] = "WARNING"
        LOGGING_CONFIG["formatters"]["default"] = {"format": _FORMAT}
    return {"type": "loaded", "http_uri": response.capabilities.get("HttpUri"), "functions": functions}


_FORMAT = "%(levelname)s %(name)s: %(message)s"


def _set_up_logging(level: str) -> None:
    logging.basicConfig(level=level.upper(), format=_FORMAT, stream=sys.stderr)
    if level != "debug":
        # One line for every storage call and every invocation is not what one wants to read.
        for name in ("azure", "durabletask", "urllib3"):
            logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))


_CONFIGURATION = "ConfigurationError: "


def app_error(error: SimpleNamespace, app_dir: str) -> tuple[str, list[str]]:
    """What a load failure says to the author of the app: `file:line: error`, and the frames in the app's own files.

    An error called ConfigurationError is about settings, not code: its message is for whoever set them, and says it all.
    """
    message = error.message.split(". Cannot find module. Please check")[0]
    if message.startswith(_CONFIGURATION):
        return message.removeprefix(_CONFIGURATION), []
    root = str(Path(app_dir).resolve())
    frames: list[list[str]] = []
    for line in error.stack_trace.splitlines():
        if line.startswith('  File "'):
            frames.append([line])
        elif line.startswith("    ") and frames:
            frames[-1].append(line)
    own = [f for f in frames if _is_own(f[0], root)]
    if own:
        with contextlib.suppress(IndexError, ValueError):
            path, line_number = own[-1][0].split('"')[1], own[-1][0].split("line ")[1].split(",")[0]
            message = f"{os.path.relpath(path, root)}:{line_number}: {message}"
    return message, [line for frame in own for line in frame]


def _is_own(frame: str, root: str) -> bool:
    name = frame.split('"')[1]  # Also "<frozen importlib._bootstrap>" and the like.
    return os.path.isabs(name) and str(Path(name).resolve()).startswith(root + os.sep) and "site-packages" not in name
