"""The Responses server as a client sees it: time to the first event, events a second, resuming, and recovery after a kill.

The same handler runs on devhost with two workers and Azurite, and in the published package's own server, which keeps its
state in local files and has one process. Set BENCH_RESPONSES_PYTHON to an interpreter that has azure-ai-agentserver-responses
2.3. Everything shares this machine's cores; Azurite's CPU is not counted as the server's.
"""

import json
import os
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2 as httpx

from bench.table import show
from devhost.testing import DevHost, start_devhost

_WORDS = 3000
_FIRSTS = 15
_PYTHON = "BENCH_RESPONSES_PYTHON"


@dataclass
class Server:
    """Something to measure. Headers choose who does the work, and who is asked."""

    name: str
    base: str
    here: dict[str, str]
    there: dict[str, str] | None
    pids: Callable[[], list[int]]
    kill: Callable[[], None]
    """Kills the process that runs the work, and sees to it that one is there again."""


def main() -> None:
    """Both servers, one after the other."""
    columns: dict[str, list[str]] = {}
    names: list[str] = []
    for open_server in (_ours, _published):
        with open_server() as server:
            if server is None:
                print(f"(published package: not measured, {_PYTHON} is not set)\n")
                continue
            names.append(server.name)
            for what, figure in _measure(server):
                columns.setdefault(what, []).append(figure)
    show(
        f"A handler of {_WORDS} deltas (about 190 bytes each on the wire)",
        ["", *names],
        [[what, *figures] for what, figures in columns.items()],
    )


def _measure(server: Server) -> Iterator[tuple[str, str]]:
    with httpx.Client(base_url=server.base, timeout=120) as client:
        _whole(client, _body(1), server.here)  # loads the app
        for title, extra, follower in (
            ("foreground", {}, server.here),
            ("background + stream", {"background": True}, server.here),
        ):
            first = [_first(client, _body(1, **extra), follower) for _ in range(_FIRSTS)]
            yield f"{title}: first event, ms (median)", _ms(first)
            before = sum(map(_cpu, server.pids()))
            seconds, events = _whole(client, _body(_WORDS, **extra), follower)
            yield f"{title}: events/s", f"{events / seconds:,.0f}"
            yield f"{title}: CPU us per event", f"{(sum(map(_cpu, server.pids())) - before) / events * 1e6:,.0f}"
        if server.there is None:
            yield "followed from another process: first event, ms", "impossible"
            yield "followed from another process: events/s", "impossible"
        else:
            yield from _elsewhere(client, server)
        yield from _again(client, server)
        yield "kill -9 to the first new event, s", _after_kill(client, server)


def _elsewhere(client: httpx.Client, server: Server) -> Iterator[tuple[str, str]]:
    assert server.there is not None
    firsts: list[float] = []
    for _ in range(_FIRSTS):
        started = time.perf_counter()
        identifier = _submit(client, _body(1), server.here)
        firsts.append(time.perf_counter() - started + _follow(client, identifier, server.there)[0])
    yield "followed from another process: first event, ms", _ms(firsts)
    started = time.perf_counter()
    identifier = _submit(client, _body(_WORDS), server.here)
    _, events = _follow(client, identifier, server.there)
    yield "followed from another process: events/s", f"{events / (time.perf_counter() - started):,.0f}"


def _again(client: httpx.Client, server: Server) -> Iterator[tuple[str, str]]:
    identifier = _submit(client, _body(_WORDS), server.here)
    try:
        _follow(client, identifier, server.here)
        started = time.perf_counter()
        _, events = _follow(client, identifier, server.there or server.here)
        yield "replay from 0: events/s", f"{events / (time.perf_counter() - started):,.0f}"
        reconnects = [_follow(client, identifier, server.there or server.here, after=_WORDS)[0] for _ in range(_FIRSTS)]
        yield f"resume after event {_WORDS}: first event, ms", _ms(reconnects)
    except httpx.HTTPError as error:
        yield "replay from 0: events/s", f"failed: {error!r:.60}"
        yield f"resume after event {_WORDS}: first event, ms", "-"


def _after_kill(client: httpx.Client, server: Server) -> str:
    """Until a client that reconnects and reconnects sees the `response.in_progress` of the run that took over."""
    identifier = _submit(client, {**_body(1), "input": json.dumps({"words": 600, "pause": 0.02})}, server.here)
    time.sleep(2)
    killed = time.perf_counter()
    server.kill()
    while time.perf_counter() < killed + 90:
        if _taken_over(client, identifier, server):
            return f"{time.perf_counter() - killed:.1f}"
    return "none in 90 s"


def _taken_over(client: httpx.Client, identifier: str, server: Server) -> bool:
    query = {"stream": "true", "starting_after": 10}
    timeout = httpx.Timeout(1.5)
    try:
        with client.stream(
            "GET", f"{_path(client)}/{identifier}", params=query, headers=server.there or {}, timeout=timeout
        ) as response:
            return any(line == "event: response.in_progress" for line in response.iter_lines())
    except httpx.HTTPError:
        time.sleep(0.05)
        return False


def _body(words: int, **extra: Any) -> dict[str, Any]:
    plan = json.dumps({"words": words, "pause": 0})
    return {"model": "bench", "input": plan, "stream": True, "store": True, **extra}


def _submit(client: httpx.Client, body: dict[str, Any], headers: dict[str, str]) -> str:
    """Create in the background and read only the first event: the run goes on."""
    with client.stream("POST", _path(client), json={**body, "background": True}, headers=headers) as response:
        for line in response.iter_lines():
            if line.startswith("data: {"):
                return str(json.loads(line[6:])["response"]["id"])
    raise RuntimeError("no event")


def _path(client: httpx.Client) -> str:
    return _PATHS[str(client.base_url).rstrip("/")]


_PATHS: dict[str, str] = {}


def _first(client: httpx.Client, body: dict[str, Any], headers: dict[str, str]) -> float:
    started = time.perf_counter()
    with client.stream("POST", _path(client), json=body, headers=headers) as response:
        response.raise_for_status()
        for line in response.iter_lines():
            if line.startswith("data: {"):
                return time.perf_counter() - started
    raise RuntimeError("no event")


def _whole(client: httpx.Client, body: dict[str, Any], headers: dict[str, str]) -> tuple[float, int]:
    started, events = time.perf_counter(), 0
    with client.stream("POST", _path(client), json=body, headers=headers) as response:
        response.raise_for_status()
        for chunk in response.iter_bytes():
            events += chunk.count(b"data: {")
    return time.perf_counter() - started, events


def _follow(client: httpx.Client, identifier: str, headers: dict[str, str], after: int = -1) -> tuple[float, int]:
    """Seconds to the first bytes, and how many events."""
    query: dict[str, Any] = {"stream": "true"} | ({"starting_after": after} if after >= 0 else {})
    started, first, events = time.perf_counter(), 0.0, 0
    with client.stream("GET", f"{_path(client)}/{identifier}", params=query, headers=headers) as response:
        response.raise_for_status()
        for chunk in response.iter_bytes():
            first = first or time.perf_counter() - started
            events += chunk.count(b"data: {")
    return first, events


@contextmanager
def _ours() -> Iterator[Server | None]:
    app = Path(__file__).parent / "responses_app"
    env = {"PYTHONPATH": str(Path.cwd()), "TASKS_LEASE_SECONDS": "6"}
    with start_devhost(app, workers=2, env=env, options=["--quiet", "--log-level", "warning"]) as host:
        _PATHS[host.base_url] = "/v1/responses"
        yield Server(
            "this template",
            host.base_url,
            {"x-devhost-worker": "1"},
            {"x-devhost-worker": "2"},
            lambda: host.workers,
            lambda: _kill_both(host),
        )


def _kill_both(host: DevHost) -> None:
    """Whichever of the two runs the work."""
    for number in (1, 2):
        host.kill_worker_now(number)


@contextmanager
def _published() -> Iterator[Server | None]:
    python = os.environ.get(_PYTHON)
    if not python:
        yield None
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    base = f"http://127.0.0.1:{port}"
    _PATHS[base] = "/responses"
    with tempfile.TemporaryDirectory() as folder:
        running: list[subprocess.Popen[bytes]] = []

        def start() -> None:
            running.append(
                subprocess.Popen(
                    [python, str(Path(__file__).parent / "published_responses.py"), str(port)],
                    env={**os.environ, "AGENTSERVER_STATE_ROOT": folder},
                    cwd=folder,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
            _wait_until_ready(base)

        def kill() -> None:
            running[-1].send_signal(signal.SIGKILL)
            running[-1].wait()
            start()

        try:
            start()
            yield Server("published 2.3", base, {}, None, lambda: [running[-1].pid], kill)
        finally:
            for process in running:
                process.kill()
                process.wait()


def _wait_until_ready(base: str) -> None:
    for _ in range(300):
        try:
            httpx.get(f"{base}/readiness", timeout=1).raise_for_status()
            return
        except httpx.HTTPError:
            time.sleep(0.1)
    raise RuntimeError("the published server did not start")


def _ms(seconds: list[float]) -> str:
    return f"{statistics.median(seconds) * 1000:.0f}"


def _cpu(pid: int) -> float:
    """CPU seconds of a process so far (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
