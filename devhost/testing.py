"""devhost for tests: run an app as a process of its own, kill its workers, read what it printed.

    async with DevHost(app_dir, workers=2) as host:
        ...  # host.base_url
        await host.kill_worker(1)

`start_devhost` is the same for code that is not asynchronous.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from devhost.config import DEVELOPMENT_STORAGE

__all__ = ["DevHost", "DevHostFailed", "start_devhost"]

_ROOT = Path(__file__).resolve().parent.parent


class DevHostFailed(AssertionError):
    """devhost did not come up, or ended by itself; the message holds what it printed."""


class DevHost:
    """A devhost process. Use it in `async with`, or call `start` and `stop`.

    `storage` is "memory" for an Azurite of its own that keeps nothing, "disk" for one in the app's folder if the
    settings ask for it, "none" for whatever the settings say, or a connection string, which becomes
    AzureWebJobsStorage. `env` is set on top of the environment. `options` are further words for the command line.
    """

    def __init__(
        self,
        app_dir: Path,
        *,
        workers: int = 1,
        flex: bool = False,
        env: Mapping[str, str] | None = None,
        storage: str = "memory",
        grace: float | None = None,
        options: Sequence[str] = (),
        timeout: float = 60.0,
    ) -> None:
        self._words = [str(app_dir), "--port", "0", "--workers", str(workers), *(["--flex"] if flex else []), *options]
        if grace is not None:
            self._words += ["--grace", str(grace)]
        # For workers, then for Azurite and the process itself.
        self._stop_seconds = (5.0 if grace is None else grace) + 15.0
        self._env = {**os.environ, **(env or {})}
        if storage == "memory":
            self._env["AzureWebJobsStorage"] = DEVELOPMENT_STORAGE
        elif storage not in {"disk", "none"}:
            self._env["AzureWebJobsStorage"] = storage
        self._words.append({"memory": "--memory", "disk": "--azurite"}.get(storage, "--no-azurite"))
        self._timeout = timeout
        self._folder = tempfile.TemporaryDirectory(prefix="devhost-")
        self._log = Path(self._folder.name) / "log"
        self._ready_file = Path(self._folder.name) / "ready.json"
        self._process: subprocess.Popen[bytes] | None = None
        self._last_words = ""
        self.base_url = ""
        self.connection_string = ""
        self.azurite_pid: int | None = None

    # The process.

    @property
    def pid(self) -> int:
        """The process id of devhost itself."""
        return self._process.pid if self._process else 0

    @property
    def logs(self) -> str:
        """All that devhost and its workers have printed."""
        return self._log.read_text(errors="replace") if self._log.exists() else self._last_words

    def start(self) -> Self:
        """Start and wait until the app is ready. Raises DevHostFailed."""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "devhost", *self._words, "--ready-file", str(self._ready_file)],
                cwd=_ROOT,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Not with the terminal's Ctrl-C: the test run stops it.
                start_new_session=True,
            )
        try:
            self._poll("devhost to be ready", self._ready_file.exists)
        except BaseException:
            self.stop()
            raise
        ready = json.loads(self._ready_file.read_text())
        self.base_url = ready["base_url"]
        self.connection_string = ready["connection_string"] or ""
        self.azurite_pid = ready["azurite_pid"]
        return self

    def wait(self, seconds: float = 30.0) -> int:
        """Wait until devhost has ended; its exit code."""
        assert self._process
        return self._process.wait(seconds)

    def signal(self, number: int) -> None:
        """Send devhost a signal."""
        assert self._process
        self._process.send_signal(number)

    def stop(self) -> None:
        """Stop, by force when it takes too long. The logs stay readable."""
        if self._process and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(self._stop_seconds)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._last_words = self.logs
        self._folder.cleanup()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.stop)

    # Its workers.

    def status(self) -> dict[int, dict[str, Any]]:
        """The workers by number: `group`, `pid`, `ready`."""
        workers = json.loads(self._call("GET", "/admin/devhost/status"))["workers"]
        return {worker["number"]: worker for worker in workers}

    @property
    def workers(self) -> list[int]:
        """The process ids of the workers, in the order of their numbers."""
        return [worker["pid"] for _, worker in sorted(self.status().items())]

    async def kill_worker(self, number: int) -> int:
        """SIGKILL a worker and wait until the one in its place is ready; the new process id."""
        return await asyncio.to_thread(self.kill_worker_now, number)

    def kill_worker_now(self, number: int) -> int:
        """As kill_worker, for code that is not asynchronous."""
        old = self.status()[number]["pid"]
        os.kill(old, signal.SIGKILL)
        return self.wait_for_worker(number, instead_of=old)

    def wait_for_worker(self, number: int, *, instead_of: int) -> int:
        """Wait until another process than `instead_of` is worker `number` and ready; its process id."""

        def replaced() -> bool:
            worker = self.status()[number]
            return worker["ready"] and worker["pid"] != instead_of

        self._poll(f"worker {number} to be replaced", replaced)
        return self.status()[number]["pid"]

    def wipe_hub(self) -> None:
        """Empty the task hub, as if somebody had deleted it."""
        self._call("POST", "/admin/devhost/durable/wipe")

    def run_timer(self, name: str) -> None:
        """Start a timer function now, and do not wait for it."""
        self._call("POST", f"/admin/functions/{name}")

    def wait_for_log(self, text: str, seconds: float | None = None) -> None:
        """Wait until devhost has printed `text`. Raises DevHostFailed."""
        self._poll(f"{text!r} in the logs", lambda: text in self.logs, seconds)

    def _call(self, method: str, path: str) -> bytes:
        request = urllib.request.Request(self.base_url + path, method=method)
        with urllib.request.urlopen(request, timeout=self._timeout) as response:
            return response.read()

    def _poll(self, what: str, condition: Any, seconds: float | None = None) -> None:
        assert self._process
        deadline = time.monotonic() + (self._timeout if seconds is None else seconds)
        while True:
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                if condition():
                    return
            if self._process.poll() is not None:
                raise DevHostFailed(f"devhost ended with code {self._process.returncode}; it printed\n{self.logs}")
            if time.monotonic() > deadline:
                raise DevHostFailed(f"waited in vain for {what}; devhost printed\n{self.logs}")
            time.sleep(0.05)


@contextlib.contextmanager
def start_devhost(app_dir: Path, **options: Any) -> Iterator[DevHost]:
    """DevHost for code that is not asynchronous, such as a fixture that a whole session shares."""
    host = DevHost(app_dir, **options)
    host.start()
    try:
        yield host
    finally:
        host.stop()
