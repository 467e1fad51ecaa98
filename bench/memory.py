"""What large bodies and long conversations do to the memory of one worker, when many come at once.

Each scenario sends more than the process has room for. What counts is the peak, and that all get an answer: done, or told to
come again.
"""

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import httpx2 as httpx

from bench.table import show
from devhost.testing import DevHost, start_devhost

_MIB = 1024 * 1024
_AT_ONCE = 24
_PATIENCE = 300.0

_MANY_TENANTS = {"HOSTING_MAX_WORKING_BYTES_PER_TENANT": "0"}
"""Then the limit of the process is what holds, as with many tenants."""

type Scenario = Callable[[httpx.AsyncClient], Awaitable[list[str]]]


def main() -> None:
    """Each scenario on a worker of its own, so that a peak is its own."""
    rows = [
        asyncio.run(_measured(name, scenario, env))
        for name, scenario, env in (
            (f"{_AT_ONCE} bodies of 24 MiB", _bodies, {}),
            (f"{_AT_ONCE} bodies of 24 MiB, stored", _stored, {}),
            (f"{_AT_ONCE} bodies of 24 MiB, stored, of many tenants", _stored, _MANY_TENANTS),
            (f"{_AT_ONCE} bodies of 24 MiB with an emoji, stored", _emoji, {}),
            (f"{_AT_ONCE} bodies of 24 MiB with an emoji, stored, of many tenants", _emoji, _MANY_TENANTS),
            (f"{_AT_ONCE} turns after 24 MiB of history", _turns, {}),
            (f"{_AT_ONCE} background turns after 24 MiB of history", _background, {}),
            (f"{_AT_ONCE} pages of 100 items of 3 MiB", _pages, {}),
        )
    ]
    show("Memory of one worker", ["scenario", "seconds", "answers", "RSS MB: before", "peak"], rows)


async def _measured(name: str, scenario: Scenario, env: Mapping[str, str]) -> list[str]:
    with start_devhost(Path.cwd(), workers=1, options=["--quiet", "--log-level", "error"], env=env) as host:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=host.base_url, timeout=_PATIENCE, limits=limits) as http:
            (await http.post("/v1/responses", json={"input": "hi"})).raise_for_status()
            before, peak = _rss(host), [0.0]
            watching = asyncio.create_task(_watch(host, peak))
            started = time.perf_counter()
            answers = Counter(await scenario(http))
            seconds = time.perf_counter() - started
            watching.cancel()
            said = ", ".join(f"{count} {answer}" for answer, count in sorted(answers.items()))
            return [name, f"{seconds:.1f}", said, f"{before:.0f}", f"{peak[0]:.0f}"]


async def _bodies(http: httpx.AsyncClient) -> list[str]:
    return await _posted(http, {"input": "x" * 24 * _MIB, "store": False})


async def _stored(http: httpx.AsyncClient) -> list[str]:
    return await _posted(http, {"input": "[[slow 1 0]]" + "x" * 24 * _MIB})  # so that the agent does not repeat it


async def _emoji(http: httpx.AsyncClient) -> list[str]:
    """Python takes four bytes for each character of a text that has one beyond the basic plane."""
    return await _posted(http, {"input": "[[slow 1 0]]\U0001f600" + "x" * 24 * _MIB})


async def _posted(http: httpx.AsyncClient, body: dict[str, object]) -> list[str]:
    data = json.dumps(body, ensure_ascii=False).encode()
    headers = {"content-type": "application/json"}
    posts = (http.post("/v1/responses", content=data, headers=headers) for _ in range(_AT_ONCE))
    return await asyncio.gather(*map(_status, posts))


async def _turns(http: httpx.AsyncClient) -> list[str]:
    body = {"input": "[[slow 5 10]]", "previous_response_id": await _long_chain(http), "store": False}
    return await asyncio.gather(*(_status(http.post("/v1/responses", json=body)) for _ in range(_AT_ONCE)))


async def _background(http: httpx.AsyncClient) -> list[str]:
    conversation = await _long_chain(http)
    body = {"input": "[[slow 5 10]]", "previous_response_id": conversation, "background": True}
    made = [(await http.post("/v1/responses", json=body)).json()["id"] for _ in range(_AT_ONCE)]
    return await asyncio.gather(*(_ended(http, identifier) for identifier in made))


async def _pages(http: httpx.AsyncClient) -> list[str]:
    conversation = (await http.post("/v1/conversations", json={})).json()["id"]
    items = f"/v1/conversations/{conversation}/items"
    for number in range(16):
        item = {"role": "user", "content": str(number) + "x" * 3 * _MIB}
        (await http.post(items, json={"items": [item]})).raise_for_status()
    return await asyncio.gather(*(_status(http.get(f"{items}?limit=100")) for _ in range(_AT_ONCE)))


async def _long_chain(http: httpx.AsyncClient) -> str:
    """The last response of a conversation of 24 MiB. The agent does not repeat what it is told to say slowly."""
    identifier = None
    for number in range(6):
        body = {"input": f"{number} [[slow 1 0]] " + "x" * 4 * _MIB, "previous_response_id": identifier}
        answer = await http.post("/v1/responses", json=body)
        answer.raise_for_status()
        identifier = answer.json()["id"]
    assert isinstance(identifier, str)
    return identifier


async def _status(request: Awaitable[httpx.Response]) -> str:
    try:
        return f"x {(await request).status_code}"
    except httpx.TransportError as error:
        return f"x {type(error).__name__}"


async def _ended(http: httpx.AsyncClient, identifier: str) -> str:
    while True:
        status = (await http.get(f"/v1/responses/{identifier}")).json()["status"]
        if status not in ("queued", "in_progress"):
            return f"x {status}"
        await asyncio.sleep(0.5)


async def _watch(host: DevHost, peak: list[float]) -> None:
    with contextlib.suppress(OSError):
        while True:
            peak[0] = max(peak[0], _rss(host))
            await asyncio.sleep(0.02)


def _rss(host: DevHost) -> float:
    """Megabytes that the worker has in memory (Linux)."""
    fields = Path(f"/proc/{host.workers[0]}/status").read_text().split("VmRSS:")[1].split()
    return int(fields[0]) / 1024
