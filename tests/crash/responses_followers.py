"""Clients of background streams who have no luck with their connections, and who check every event they get."""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx2 as httpx

__all__ = ["NOBODY_THERE", "Broken", "Follower", "Run", "said", "server_sent"]

TERMINAL = {"response.completed", "response.failed", "response.incomplete"}
# What the host in front of a worker answers while that worker is dead or not up yet.
NOBODY_THERE = {502, 503, 504}


class Broken(AssertionError):
    """A promise to the client was broken."""


@dataclass
class Run:
    """A response that was accepted, with all that any client has been told about it."""

    id: str
    words: int
    may_be_cancelled: bool = False
    seen: dict[int, str] = field(default_factory=dict[int, str])

    @property
    def text(self) -> str:
        """What the agent says."""
        return " ".join(f"tick{n}" for n in range(self.words))

    def note(self, event: dict[str, Any]) -> None:
        """Check an event against what others, or the same client before, have been told under its number."""
        number, content = event["sequence_number"], json.dumps(event, sort_keys=True)
        if (before := self.seen.setdefault(number, content)) != content:
            raise Broken(f"{self.id}: number {number} was {before} and is {content}")


async def server_sent(response: httpx.Response) -> AsyncIterator[dict[str, Any] | None]:
    """The events of a stream that came whole; None is `[DONE]`."""
    lines: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line:
            name, _, value = line.partition(": ")
            lines[name] = value
            continue
        data = lines.get("data")
        if data == "[DONE]":
            yield None
        elif data is not None:
            event = json.loads(data)
            if lines.get("event") != event["type"] or lines.get("id") != str(event["sequence_number"]):
                raise Broken(f"the frame says {lines.get('event')} {lines.get('id')}, its data {data}")
            yield event
        lines = {}


class Follower:
    """Reads a run from its beginning to its end, over as many connections as it takes."""

    def __init__(self, http: httpx.AsyncClient, rng: random.Random, counts: Counter[str]) -> None:
        self.http, self.rng, self.counts = http, rng, counts
        self.run: Run | None = None
        self.last = -1
        self.text: list[str] = []
        self.attempts = 0  # how often the agent has begun
        self.final: dict[str, Any] | None = None
        self.key = self._new_key()

    async def create(self, words: int, milliseconds: int) -> Run:
        """Submit a run and read some of its stream. When no answer came it is submitted again, under the same key."""
        body = {
            "model": "agent",
            "input": f"[[slow {words} {milliseconds}]]",
            "background": True,
            "stream": True,
        }
        while self.run is None:
            headers = {"idempotency-key": self.key}
            await self._connection("POST", "/v1/responses", words, json=body, headers=headers)
            self.counts["creates"] += 1
        return self.run

    async def follow(self, run: Run, seconds: float) -> None:
        """Read on until the end, in at most so many seconds."""
        self.run = run
        deadline = time.monotonic() + seconds
        while self.final is None:
            if time.monotonic() > deadline:
                raise Broken(f"{run.id}: no end in {seconds:.0f} s; its last event was {run.seen.get(self.last)}")
            query = f"/v1/responses/{run.id}?stream=true"
            headers: dict[str, str] = {}
            if self.last >= 0 and self.rng.random() < 0.2:
                headers["last-event-id"] = str(self.last)
            elif self.last >= 0:
                query += f"&starting_after={self.last}"
            await self._connection("GET", query, run.words, headers=headers)
            self.counts["connections"] += 1

    async def reread(self, run: Run) -> None:
        """From a random place that was passed before: nothing but what was there may come."""
        after = self.rng.randint(-1, max(run.seen))
        expected = [run.seen[number] for number in range(after + 1, max(run.seen) + 1)]
        url = f"/v1/responses/{run.id}?stream=true" + (f"&starting_after={after}" if after >= 0 else "")
        while True:
            got: list[str] = []
            try:
                async with self.http.stream("GET", url) as response:
                    if response.status_code == 200:
                        async for event in server_sent(response):
                            if event is None:
                                break
                            got.append(json.dumps(event, sort_keys=True))
                        else:
                            raise httpx.ReadError("no [DONE]")
                        break
                    self._check_refusal(response.status_code)
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.3)
        if got != expected:
            raise Broken(f"{run.id}: after {after} came {got} instead of {expected}")
        self.counts["rereads"] += 1

    async def _connection(self, method: str, url: str, words: int, **arguments: Any) -> None:
        """One connection, which ends by itself, breaks, or is cut by us after some events or some time."""
        headers = arguments.pop("headers", {})
        if self.rng.random() < 0.7:
            headers["x-devhost-worker"] = self.rng.choice("12")
        most = self.rng.choice([1, 2, 5, 12, 10**6, 10**6])
        seconds = self.rng.choice([0.05, 0.5, 2.0, 60.0, 60.0])
        try:
            async with asyncio.timeout(60) as limit:
                async with self.http.stream(method, url, headers=headers, **arguments) as response:
                    if response.status_code != 200:
                        await response.aread()
                        self._check_refusal(response.status_code, response.text)
                    else:
                        limit.reschedule(asyncio.get_running_loop().time() + seconds)
                        await self._read(response, words, most)
        except TimeoutError:
            self.counts["cuts by time"] += 1
        except httpx.TransportError:
            self.counts["broken connections"] += 1
        if self.final is None:
            await asyncio.sleep(self.rng.random() * 0.3)

    async def _read(self, response: httpx.Response, words: int, most: int) -> None:
        taken = 0
        async for event in server_sent(response):
            if event is None:
                if self.final is None:
                    raise Broken(f"{self.run}: the stream ended without a terminal event after {self.last}")
                return
            if self.final is not None:
                raise Broken(f"{self.run}: {event} came after the end")
            if self.run is None:
                self.run = Run(event["response"]["id"], words)
            self._take(self.run, event)
            taken += 1
            if taken >= most:
                self.counts["cuts by number"] += 1
                return

    def _take(self, run: Run, event: dict[str, Any]) -> None:
        self.counts["events"] += 1
        run.note(event)
        if event["sequence_number"] != self.last + 1:
            raise Broken(f"{run.id}: {event['sequence_number']} came after {self.last}")
        self.last = event["sequence_number"]
        if event["type"] == "response.in_progress":
            self.attempts += 1
            self.text = [said(event["response"])]
        elif event["type"] == "response.output_text.delta":
            self.text.append(event["delta"])
        elif event["type"] in TERMINAL:
            self.final = event["response"]

    def _check_refusal(self, status: int, text: str = "") -> None:
        if status == 409 and "idempotency_key_in_use" in text:
            # The worker died between the claim of the key and the response: the server can't tell whether a run began.
            self.key = self._new_key()
            self.counts["keys in doubt"] += 1
            return
        if status not in NOBODY_THERE:
            raise Broken(f"{self.run}: status {status}: {text}")
        self.counts["nobody there"] += 1

    def _new_key(self) -> str:
        return f"chaos-{self.rng.getrandbits(64):x}"

    def check(self, stored: dict[str, Any]) -> None:
        """What this client has put together is what is stored, and what the agent said."""
        assert self.run is not None
        if self.final != stored:
            raise Broken(f"{self.run.id}: the last event says {self.final}, stored is {stored}")
        if stored["status"] == "cancelled" and self.run.may_be_cancelled:
            return
        if not said(stored) == "".join(self.text) == self.run.text or stored["status"] != "completed":
            raise Broken(f"{self.run.id}: assembled {''.join(self.text)!r}, stored {stored}")


def said(response: dict[str, Any]) -> str:
    """The text of a response object."""
    parts = [part for item in response["output"] if item["type"] == "message" for part in item["content"]]
    return "".join(part["text"] for part in parts)
