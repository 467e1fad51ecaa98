"""One worker process as devhost sees it: start it, run functions in it, stop it, notice its death."""

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devhost.background import Background
from devhost.console import Console
from devhost.errors import AppLoadError, WorkerDied
from devhost.functions import Function, parse_functions
from devhost.protocol import Channel

__all__ = ["InvocationResult", "WorkerOptions", "WorkerProcess"]

# The worker's sys.path holds the app and what is installed, not the folder of devhost: an app must not find modules
# here that it will not find in Azure. -P leaves the working directory out until the worker adds the app's.
_BOOTSTRAP = (
    "import sys; sys.path.insert(0, sys.argv[1]); from devhost.worker import main; "
    "sys.path.remove(sys.argv[1]); main(int(sys.argv[2]), int(sys.argv[3]))"
)
_ROOT = str(Path(__file__).resolve().parent.parent)


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """What every worker of an app is started with."""

    app_dir: Path
    script: str
    env: Mapping[str, str]
    log_level: str
    console: Console
    # Seconds for what is under way when a worker has to go.
    grace: float


@dataclass(frozen=True, slots=True)
class InvocationResult:
    """The outcome of one run of a function. Values are as in devhost.protocol."""

    ok: bool
    value: dict[str, Any] | None = None
    outputs: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    # Of a failure: `Type: message`, and the traceback as text.
    error: str = ""
    stack: str = ""


class WorkerProcess:
    """A worker. `exited` is set once the process is gone and all its invocations have failed with WorkerDied."""

    def __init__(self, number: int, group: str, options: WorkerOptions) -> None:
        self.number = number
        self.group = group
        self.http_uri: str | None = None
        self.functions: list[Function] = []
        self.ready = False
        self.ready_since = 0.0
        # Invocations under way, by kind of function, for the limits of host.json.
        self.running: Counter[str] = Counter()
        # HTTP requests whose response is not complete; they outlast their invocation when the response streams.
        self.open_requests = 0
        self.exited = asyncio.Event()
        self.exit_code: int | None = None
        self.stopping = False
        self._options = options
        self._pending: dict[str, asyncio.Future[InvocationResult]] = {}
        self._background = Background(options.console)
        self._idle = asyncio.Event()
        self._stop_heard = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._channel: Channel | None = None

    @property
    def pid(self) -> int:
        """The process id; 0 before the start."""
        return self._process.pid if self._process else 0

    async def start(self) -> None:
        """Start the process and wait until the app is loaded. Raises AppLoadError; then the process is gone."""
        options = self._options
        ours, theirs = socket.socketpair()
        life_read, life_write = os.pipe()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-u", "-c", _BOOTSTRAP, _ROOT, str(theirs.fileno()), str(life_read)),
                cwd=options.app_dir,
                env=options.env,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=(theirs.fileno(), life_read),
                # A session of its own: Ctrl-C in the terminal reaches devhost, which stops workers in its own way.
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            os.close(life_write)
            raise
        finally:
            theirs.close()
            os.close(life_read)
        ours.setblocking(False)
        self._channel = await Channel.over(ours)
        self._background.spawn(self._watch(self._process, life_write))
        try:
            self._channel.send(
                {
                    "type": "init",
                    "app_dir": str(options.app_dir),
                    "script": options.script,
                    "log_level": options.log_level,
                }
            )
            loaded = await self._channel.receive()
            if loaded is None:
                await self.exited.wait()
                raise AppLoadError(f"the app ended the worker with code {self.exit_code} while it was loaded")
            if loaded["type"] == "failed":
                raise AppLoadError(loaded["message"], loaded["details"])
            self.http_uri = loaded["http_uri"]
            if self.http_uri:
                await _listening(self.http_uri, self.exited)
        except BaseException:
            await self.kill()
            raise
        self.functions = parse_functions(loaded["functions"])
        self.ready = True
        self.ready_since = time.monotonic()
        self._background.spawn(self._receive())

    async def _watch(self, process: asyncio.subprocess.Process, life_write: int) -> None:
        assert process.stdout
        assert process.stderr
        output = [
            asyncio.create_task(self._options.console.copy(self.number, stream))
            for stream in (process.stdout, process.stderr)
        ]
        self.exit_code = await process.wait()
        self.ready = False
        os.close(life_write)
        # A process that the app started may hold the pipes open; what the worker itself wrote is there at once.
        await asyncio.wait(output, timeout=0.5)
        for task in output:
            task.cancel()
        for future in self._pending.values():
            if not future.done():
                future.set_exception(WorkerDied(f"worker {self.number} ended with code {self.exit_code}"))
        self._pending.clear()
        if self._channel:
            self._channel.close()
        self.exited.set()

    async def _receive(self) -> None:
        assert self._channel
        while (message := await self._channel.receive()) is not None:
            match message["type"]:
                case "result":
                    self._resolve(message)
                case "stopping":
                    self._stop_heard.set()
                    self.retire()

    def _resolve(self, message: dict[str, Any]) -> None:
        future = self._pending.pop(message["id"], None)
        if future is None or future.done():
            return
        if message["ok"]:
            future.set_result(InvocationResult(True, message["return"], message["outputs"]))
        else:
            error = message["error"]
            future.set_result(InvocationResult(False, error=error["message"], stack=error["stack"]))

    def begin(
        self,
        function: Function,
        inputs: Mapping[str, dict[str, Any] | None],
        *,
        traceparent: str | None = None,
        invocation_id: str | None = None,
    ) -> asyncio.Future[InvocationResult]:
        """Run a function. The future raises WorkerDied when the process ends before it answers.

        Do not cancel the future: the function runs on, as in Azure, and counts as under way until it answers.
        """
        future: asyncio.Future[InvocationResult] = asyncio.get_running_loop().create_future()
        # Nobody may be left to look at it, when the caller was cancelled.
        future.add_done_callback(lambda f: f.cancelled() or f.exception())
        if self._channel is None or self.exited.is_set():
            future.set_exception(WorkerDied(f"worker {self.number} has ended"))
            return future
        key = invocation_id or str(uuid.uuid4())
        self._pending[key] = future
        self.running[function.kind] += 1
        future.add_done_callback(lambda _: self._finished(function.kind))
        self._channel.send(
            {
                "type": "invoke",
                "id": key,
                "function_id": function.id,
                "inputs": dict(inputs),
                "traceparent": traceparent or f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-00",
            }
        )
        return future

    async def invoke(self, function: Function, inputs: Mapping[str, dict[str, Any] | None]) -> InvocationResult:
        """Run a function and wait for it; for callers that may be cancelled."""
        return await asyncio.shield(self.begin(function, inputs))

    def _finished(self, kind: str) -> None:
        self.running[kind] -= 1
        self._check_idle()

    def abandon(self, invocation_id: str) -> None:
        """Tell the worker that the HTTP request of an invocation did not get through to it."""
        if self._channel and invocation_id in self._pending:
            self._channel.send({"type": "abandon", "id": invocation_id})

    @contextlib.contextmanager
    def request_open(self) -> Iterator[None]:
        """Around the whole of an HTTP request, body included: a stop waits for it."""
        self.open_requests += 1
        try:
            yield
        finally:
            self.open_requests -= 1
            self._check_idle()

    def _check_idle(self) -> None:
        if not self.open_requests and not any(self.running.values()):
            self._idle.set()

    def retire(self) -> None:
        """Somebody else sent SIGTERM to the worker: give it no more work, let it finish as for a stop."""
        if not self.stopping and self.ready:
            self.ready = False
            self._background.spawn(self._finish(time.monotonic() + self._options.grace))

    async def stop(self) -> None:
        """Let what is under way finish within the grace, then end the process. See devhost.worker."""
        if self.exited.is_set() or self._process is None:
            return
        deadline = time.monotonic() + self._options.grace
        self.stopping = True
        self.ready = False
        if self._channel and not self._stop_heard.is_set():
            if self.open_requests:
                # uvicorn stops listening on SIGTERM. A request that was given to this worker a moment ago has to be
                # accepted by then, or its connection is reset.
                await asyncio.sleep(min(0.1, self._options.grace / 2))
            self._channel.send({"type": "stop"})
            try:
                await asyncio.wait_for(self._stop_heard.wait(), min(1.0, self._options.grace))
            except TimeoutError:
                # Its event loop is blocked. The signal itself may still be heard.
                self._signal(signal.SIGTERM)
        await self._finish(deadline)

    async def _finish(self, deadline: float) -> None:
        def left() -> float:
            return max(0.0, deadline - time.monotonic())

        self._idle.clear()
        self._check_idle()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wait_any(self._idle, self.exited), left())
        if self._channel and self._idle.is_set():
            self._channel.send({"type": "exit", "seconds": left()})
            with contextlib.suppress(TimeoutError):
                # Half a second on top: the interpreter has to wind down even when the grace was used up.
                await asyncio.wait_for(self.exited.wait(), left() + 0.5)
        await self.kill()

    @staticmethod
    async def _wait_any(*events: asyncio.Event) -> None:
        waiters = [asyncio.create_task(event.wait()) for event in events]
        try:
            await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiter in waiters:
                waiter.cancel()

    async def kill(self) -> None:
        """End the process now and wait until it is gone."""
        self.stopping = True
        self.ready = False
        if self._process is not None and not self.exited.is_set():
            self._signal(signal.SIGKILL)
            await self.exited.wait()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self._process and self._process.returncode is None:
                self._process.send_signal(number)


async def _listening(uri: str, exited: asyncio.Event) -> None:
    """Wait until the worker's HTTP server takes connections: it starts only after the app is loaded."""
    host, _, port = uri.removeprefix("http://").partition(":")
    for _ in range(500):
        if exited.is_set():
            break
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.close()
            return
        await asyncio.sleep(0.02)
    raise AppLoadError(f"the HTTP server of the FastAPI extension does not listen on {uri}")
