"""How devhost and its workers end: by request, by Ctrl-C, by kill -9."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import aiohttp
import pytest
from aiohttp import ClientSession

from devhost.testing import DevHost
from tests.devhost.conftest import App, alive, eventually

ROOT = Path(__file__).parent.parent.parent
QUIET = {f"AzureWebJobs.{name}.Disabled": "true" for name in ("tick", "slow_tick", "at_start")}


async def ask(app: App, host: DevHost, seconds: float, tag: str) -> tuple[int, str]:
    """Status and body of a request that takes a while, which is in the function when this returns a task."""
    async with (
        ClientSession(host.base_url) as client,
        client.get(f"/svc/slow?seconds={seconds}&tag={tag}") as response,
    ):
        return response.status, await response.text()


async def in_function(app: App, tag: str) -> None:
    await asyncio.to_thread(eventually, (app.journal / f"slow-began-{tag}").exists, "the request to be in the function")


async def test_sigterm_lets_requests_finish_and_the_app_tidy_up(tmp_path: Path):
    app = App("foreign_app", tmp_path)
    host = DevHost(app.dir, env={**app.env, **QUIET}, storage="none", grace=20)
    async with host:
        (worker,) = host.workers
        answer = asyncio.create_task(ask(app, host, 4, "finishes"))
        await in_function(app, "finishes")
        host.signal(signal.SIGTERM)
        await asyncio.to_thread(host.wait_for_log, "stopping")
        with pytest.raises(aiohttp.ClientConnectorError):
            while not answer.done():
                try:
                    await ask(app, host, 0, "late")
                except aiohttp.ClientConnectorError:
                    raise
                except aiohttp.ClientConnectionError:
                    pass  # let in at the last moment, and cut
        assert (await answer)[0] == 200
        assert await asyncio.to_thread(host.wait) == 0
        assert not alive(worker)
        assert app.lines("sigterm") == [f"tidying {worker}", f"tidied {worker}"]
        assert "ended with code" not in host.logs


async def ask_to_block(app: App, host: DevHost) -> asyncio.Task[int]:
    """The status of a request whose function holds the worker's event loop; it is in there when this returns."""

    async def ask() -> int:
        async with ClientSession(host.base_url) as client, client.get("/api/block") as response:
            return response.status

    asked = asyncio.create_task(ask())
    await asyncio.to_thread(eventually, (app.journal / "blocked").exists, "the function to run")
    return asked


async def test_what_outlasts_the_grace_is_cut(tmp_path: Path):
    app = App("plain_app", tmp_path)
    host = DevHost(app.dir, env=app.env, storage="none", grace=0.5)
    async with host:
        (worker,) = host.workers
        answer = await ask_to_block(app, host)
        started = time.monotonic()
        host.signal(signal.SIGTERM)
        assert await answer == 502
        assert await asyncio.to_thread(host.wait) == 0
        assert time.monotonic() - started < 30  # the function takes a minute
        assert not alive(worker)


def test_ctrl_c_leaves_nothing_running(tmp_path: Path):
    app = App("plain_app", tmp_path)
    host = DevHost(app.dir, workers=2).start()
    try:
        left = [*host.workers, host.azurite_pid or 0]
        assert all(alive(pid) for pid in left)
        host.signal(signal.SIGINT)
        assert host.wait() == 0
        assert [pid for pid in left if alive(pid)] == []
    finally:
        host.stop()


def test_ctrl_c_while_it_starts_leaves_nothing_running(tmp_path: Path):
    app = App("plain_app", tmp_path)
    command = [sys.executable, "-m", "devhost", str(app.dir), "--port", "0"]
    env = {**os.environ, "AzureWebJobsStorage": "UseDevelopmentStorage=true"}

    def processes() -> list[str]:
        listed = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True)
        return [line for line in listed.stdout.splitlines() if str(app.dir) in line]

    starting = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: any("azurite" in line for line in processes()), "Azurite to be started")
        starting.send_signal(signal.SIGINT)
        assert starting.wait(60) == 0
        assert processes() == []
    finally:
        starting.kill()
        starting.wait()


async def test_kill_9_of_devhost_leaves_nothing_running(tmp_path: Path):
    app = App("plain_app", tmp_path)
    async with DevHost(app.dir, env=app.env) as host:
        left = [*host.workers, host.azurite_pid or 0]
        # Not even a worker that can't listen.
        answer = await ask_to_block(app, host)
        host.signal(signal.SIGKILL)
        with pytest.raises(aiohttp.ClientError):
            await answer
        await asyncio.to_thread(eventually, lambda: not any(alive(pid) for pid in left), "worker and Azurite to end")
