"""Two workers under 200 background + stream runs at once, of mixed length: every event of every run is checked.

Three waves, so that memory which grows can be told from memory that is used.
"""

import asyncio
import random
import statistics
import time
from pathlib import Path

import httpx2 as httpx

from bench.follow import Reading
from bench.table import show
from devhost.testing import DevHost, start_devhost

_RUNS = 200
_WAVES = 3
_WORDS = (2, 10, 40, 120)
_PAUSES = (0, 5, 20)
_PATIENCE = 300.0


def main() -> None:
    """All waves on one pair of workers."""
    options = ["--quiet", "--log-level", "warning"]
    with start_devhost(Path.cwd(), workers=2, options=options) as host:
        rows = asyncio.run(_waves(host))
    show(
        f"{_RUNS} background + stream runs at once on two workers, of {min(_WORDS)} to {max(_WORDS)} words",
        ["wave", "seconds", "events", "events/s", "first event ms: median", "p95", "lost or doubled", "RSS MB"],
        rows,
    )


async def _waves(host: DevHost) -> list[list[str]]:
    rows: list[list[str]] = []
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=host.base_url, timeout=_PATIENCE, limits=limits) as http:
        await _one(http, 1, 0)  # loads the agent
        rows.append(["before", "", "", "", "", "", "", _memory(host)])
        for wave in range(_WAVES):
            rng = random.Random(wave)
            started = time.perf_counter()
            runs = await asyncio.gather(
                *(_one(http, rng.choice(_WORDS), rng.choice(_PAUSES)) for _ in range(_RUNS)), return_exceptions=True
            )
            seconds = time.perf_counter() - started
            good = [run for run in runs if not isinstance(run, BaseException)]
            for broken in (run for run in runs if isinstance(run, BaseException)):
                print(f"BROKEN: {broken!r}")
            events = sum(count for count, _ in good)
            firsts = [first for _, first in good]
            rows.append(
                [
                    str(wave + 1),
                    f"{seconds:.1f}",
                    f"{events:,}",
                    f"{events / seconds:,.0f}",
                    f"{statistics.median(firsts) * 1000:.0f}",
                    f"{statistics.quantiles(firsts, n=20)[-1] * 1000:.0f}",
                    str(len(runs) - len(good)),
                    _memory(host),
                ]
            )
    return rows


async def _one(http: httpx.AsyncClient, words: int, pause: int) -> tuple[int, float]:
    """A run to its end; how many events, and seconds to the first one."""
    body = {"model": "agent", "input": f"[[slow {words} {pause}]]", "background": True, "stream": True}
    reading = Reading()
    started = time.perf_counter()
    async with http.stream("POST", "/v1/responses", json=body) as response:
        first = time.perf_counter() - started
        response.raise_for_status()
        await reading.read(response)
    await reading.to_the_end(http, _PATIENCE)
    reading.check(" ".join(f"tick{n}" for n in range(words)))
    return reading.last + 1, first


def _memory(host: DevHost) -> str:
    return " + ".join(f"{_rss(pid):.0f}" for pid in host.workers)


def _rss(pid: int) -> float:
    """Megabytes that a process has in memory (Linux)."""
    fields = Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()
    return int(fields[0]) / 1024
