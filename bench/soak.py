"""Conversations of background turns while a worker is killed -9 every 30 seconds: no turn may be lost, or be there twice.

`SOAK_MINUTES` (20) says for how long, `SOAK_CLIENTS` (10) how many conversations go on at a time. Not part of `make bench`.
"""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2 as httpx

from bench.follow import Lost, Reading
from bench.load import _memory  # pyright: ignore[reportPrivateUsage]
from bench.table import show
from devhost.testing import DevHost, start_devhost

_MINUTES = float(os.environ.get("SOAK_MINUTES", "20"))
_CLIENTS = int(os.environ.get("SOAK_CLIENTS", "10"))
_EVERY = 30.0
"""Seconds between two kills."""
_TURNS = 12
"""Turns of a conversation before its client begins another one."""
_PATIENCE = 180.0
_BUSY = {409, 429, 502, 503, 504}
_ENV = {"TASKS_LEASE_SECONDS": "6"}


def main() -> None:
    """Until the time is over and every turn that was begun has ended."""
    with start_devhost(Path.cwd(), workers=2, env=_ENV, options=["--quiet", "--log-level", "error"]) as host:
        asyncio.run(_Soak(host).go())


class _Soak:
    def __init__(self, host: DevHost) -> None:
        self.host = host
        self.counts: Counter[str] = Counter()
        self.memory: list[str] = []
        self.ends = time.monotonic() + _MINUTES * 60

    async def go(self) -> None:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=self.host.base_url, timeout=60, limits=limits) as http:
            killer = asyncio.create_task(self._kill())
            clients = [self._client(http, random.Random(number)) for number in range(_CLIENTS)]
            for broken in await asyncio.gather(*clients, return_exceptions=True):
                if broken is not None:
                    self.counts["BROKEN"] += 1
                    print(f"BROKEN: {broken!r}")
            killer.cancel()
        show(
            f"A soak of {_MINUTES:.0f} minutes, {_CLIENTS} conversations at a time, a kill -9 every {_EVERY:.0f} s",
            ["", ""],
            [
                *((name, count) for name, count in sorted(self.counts.items())),
                ("RSS MB, each 2 minutes", "  ".join(self.memory)),
            ],
        )

    async def _kill(self) -> None:
        rng = random.Random(0)
        number = 0
        while True:
            await asyncio.sleep(_EVERY)
            number += 1
            if number % 4 == 0:
                self.memory.append(_memory(self.host))
            victim = rng.choice((1, 2))
            pid = (await asyncio.to_thread(self.host.status))[victim]["pid"]
            os.kill(pid, signal.SIGKILL)
            self.counts["kills"] += 1
            await asyncio.to_thread(self.host.wait_for_worker, victim, instead_of=pid)

    async def _client(self, http: httpx.AsyncClient, rng: random.Random) -> None:
        while time.monotonic() < self.ends:
            conversation = (await self._post(http, "/v1/conversations", {}))["id"]
            turns = 0
            while turns < _TURNS and time.monotonic() < self.ends:
                await self._turn(http, conversation, turns, rng)
                turns += 1
            await self._check(http, conversation, turns)
            self.counts["conversations"] += 1

    async def _turn(self, http: httpx.AsyncClient, conversation: str, number: int, rng: random.Random) -> None:
        words, pause = rng.choice((3, 20, 60)), rng.choice((5, 50, 100))
        body = {
            "model": "agent",
            "input": f"[[slow {words} {pause}]] turn {number}",
            "conversation": conversation,
            "background": True,
            "stream": True,
        }
        reading = Reading()
        key = f"soak-{rng.getrandbits(64):x}"
        async with asyncio.timeout(_PATIENCE):
            while not reading.id:  # the answer may be lost: it is sent again, under the same key
                try:
                    async with http.stream(
                        "POST", "/v1/responses", json=body, headers={"idempotency-key": key}
                    ) as answer:
                        if answer.status_code == 200:
                            await reading.read(answer)
                        elif answer.status_code in _BUSY:
                            self.counts[f"status {answer.status_code}"] += 1
                        else:
                            await answer.aread()
                            raise Lost(f"{conversation} turn {number}: {answer.status_code} {answer.text}")
                except httpx.TransportError:
                    self.counts["broken connections"] += 1
                if not reading.id:
                    await asyncio.sleep(0.5)
        self.counts["turns accepted"] += 1
        await reading.to_the_end(http, _PATIENCE)
        reading.check(" ".join(f"tick{n}" for n in range(words)))
        self.counts["turns completed"] += 1
        self.counts["turns that were recovered"] += reading.resets > 0
        self.counts["events"] += reading.last + 1

    async def _check(self, http: httpx.AsyncClient, conversation: str, turns: int) -> None:
        """Each turn is in the conversation, once, in order."""
        page = await self._get(http, f"/v1/conversations/{conversation}/items?limit=100&order=asc")
        asked = [item["content"][0]["text"] for item in page["data"] if item.get("role") == "user"]
        expected = [f"turn {number}" for number in range(turns)]
        if [text.partition("]] ")[2] for text in asked] != expected or len(page["data"]) != 2 * turns:
            raise Lost(f"{conversation}: {asked} instead of {expected}, {len(page['data'])} items")
        self.counts["turns found in their conversation"] += turns

    async def _post(self, http: httpx.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return await self._ask(lambda: http.post(path, json=body))

    async def _get(self, http: httpx.AsyncClient, path: str) -> dict[str, Any]:
        return await self._ask(lambda: http.get(path))

    async def _ask(self, ask: Any) -> dict[str, Any]:
        async with asyncio.timeout(_PATIENCE):
            while True:
                try:
                    answer = await ask()
                    if answer.status_code == 200:
                        return answer.json()
                    if answer.status_code not in _BUSY:
                        raise Lost(f"status {answer.status_code}: {answer.text}")
                except httpx.TransportError:
                    pass
                await asyncio.sleep(0.3)
