"""A client that follows a background response until it has ended, whatever happens to its connections, and checks it."""

import asyncio
import json
from typing import Any

import httpx2 as httpx

__all__ = ["Lost", "Reading"]

_TERMINAL = {"response.completed", "response.failed", "response.incomplete"}


class Lost(AssertionError):
    """An event or a text is missing, doubled or wrong."""


class Reading:
    """What one client has been told of one response."""

    def __init__(self) -> None:
        self.id = ""
        self.last = -1
        self.text: list[str] = []
        self.final: dict[str, Any] | None = None
        self.resets = -1

    async def read(self, response: httpx.Response) -> None:
        """Take in the events of one connection. Raises Lost."""
        async for line in response.aiter_lines():
            if not line.startswith("data: {"):
                continue
            event = json.loads(line[6:])
            number = event["sequence_number"]
            if number != self.last + 1:
                raise Lost(f"{self.id}: event {number} came after {self.last}")
            self.last = number
            kind = event["type"]
            if kind == "response.created":
                self.id = event["response"]["id"]
            elif kind == "response.in_progress":  # of a run that took over: start again from its snapshot
                self.resets += 1
                self.text = [_said(event["response"])]
            elif kind == "response.output_text.delta":
                self.text.append(event["delta"])
            elif kind in _TERMINAL:
                self.final = event["response"]

    async def to_the_end(self, http: httpx.AsyncClient, seconds: float) -> dict[str, Any]:
        """Connect again and again until the terminal event; the final response."""
        async with asyncio.timeout(seconds):
            while self.final is None:
                query: dict[str, Any] = {"stream": "true"} | ({"starting_after": self.last} if self.last >= 0 else {})
                try:
                    async with http.stream("GET", f"/v1/responses/{self.id}", params=query) as response:
                        if response.status_code == 200:
                            await self.read(response)
                        elif response.status_code < 500:
                            raise Lost(f"{self.id}: status {response.status_code}")
                except httpx.TransportError:
                    pass
                if self.final is None:
                    await asyncio.sleep(0.2)
        return self.final

    def check(self, expected: str) -> None:
        """The text that this client has put together, and the stored one, are what the agent says. Raises Lost."""
        assert self.final is not None
        said = _said(self.final)
        if not said == "".join(self.text) == expected or self.final["status"] != "completed":
            raise Lost(f"{self.id} ({self.final['status']}): put together {''.join(self.text)!r}, stored {said!r}")


def _said(response: dict[str, Any]) -> str:
    parts = [part for item in response["output"] if item["type"] == "message" for part in item["content"]]
    return "".join(part["text"] for part in parts)
