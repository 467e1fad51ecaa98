"""Requests to the app on devhost: the worker's CPU per request, and the time to the first event of a stream."""

import os
import statistics
import time
from pathlib import Path

import httpx2 as httpx

from bench.table import show
from devhost.testing import DevHost, start_devhost

_REQUESTS = 300


def main() -> None:
    """One worker, one client, requests one after the other."""
    with start_devhost(Path.cwd(), options=["--quiet", "--log-level", "warning"]) as host:
        with httpx.Client(base_url=host.base_url, timeout=60) as client:
            for _ in range(20):
                client.post("/v1/responses", json={"input": "warm up"}).raise_for_status()
            unstored = _posts(host, client, {"input": "Hello", "store": False})
            stored = _posts(host, client, {"input": "Hello"})
            first, whole = _streams(client)
    show(
        f"{_REQUESTS} POST /v1/responses without stream, one after the other (Azurite, devhost's proxy in between)",
        ["", "worker CPU ms per request", "latency ms, median", "p95"],
        [["store: true", *stored], ["store: false", *unstored]],
    )
    show(
        f"{_REQUESTS // 3} streams",
        ["", "median ms", "p95"],
        [["request to response.created", *_spread(first)], ["request to [DONE] (2 words)", *_spread(whole)]],
    )


def _posts(host: DevHost, client: httpx.Client, body: dict[str, object]) -> list[str]:
    pid = host.workers[0]
    before, latencies = _cpu(pid), []
    for _ in range(_REQUESTS):
        started = time.perf_counter()
        client.post("/v1/responses", json=body).raise_for_status()
        latencies.append(time.perf_counter() - started)
    return [f"{(_cpu(pid) - before) / _REQUESTS * 1000:.1f}", *_spread(latencies)]


def _streams(client: httpx.Client) -> tuple[list[float], list[float]]:
    first: list[float] = []
    whole: list[float] = []
    for _ in range(_REQUESTS // 3):
        started = time.perf_counter()
        with client.stream("POST", "/v1/responses", json={"input": "Hello", "stream": True}) as response:
            for number, _ in enumerate(response.iter_raw()):
                if number == 0:
                    first.append(time.perf_counter() - started)
        whole.append(time.perf_counter() - started)
    return first, whole


def _spread(seconds: list[float]) -> list[str]:
    return [f"{statistics.median(seconds) * 1000:.1f}", f"{statistics.quantiles(seconds, n=20)[-1] * 1000:.1f}"]


def _cpu(pid: int) -> float:
    """CPU seconds of a process so far (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
