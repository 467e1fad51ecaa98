"""A client of server-sent events inside a test, and waiting for what must become true."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, cast

__all__ = ["Json", "Reader", "assembled", "until"]

type Json = dict[str, Any]

_PATIENCE = 30.0


async def until(condition: Callable[[], bool | Awaitable[bool]], seconds: float = _PATIENCE) -> None:
    """Wait for what must become true."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        found = condition()
        if found is True or (not isinstance(found, bool) and await found):
            return
        assert loop.time() < deadline, "it did not become true in time"
        await asyncio.sleep(0.002)


def assembled(events: list[Json]) -> list[Json]:
    """What a client has that starts over at each further `response.in_progress`."""
    items: dict[int, Json] = {}
    for event in events:
        if event["type"] == "response.in_progress":
            items = dict(enumerate(event["response"]["output"]))
        elif event["type"] == "response.output_item.done":
            items[event["output_index"]] = event["item"]
    return [items[index] for index in sorted(items)]


class Reader:
    """A client that reads server-sent events beside the test. `done` says that `[DONE]` has come."""

    def __init__(self, body: AsyncIterator[bytes]) -> None:
        self.events: list[Json] = []
        self.ids: list[str | None] = []
        self.comments = 0
        self.done = False
        self._body = body
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        rest, identifier = "", None
        async for chunk in self._body:
            *lines, rest = (rest + chunk.decode()).split("\n")
            for line in lines:
                if line.startswith("id: "):
                    identifier = line[4:]
                elif line.startswith(":"):
                    self.comments += 1
                elif line == "data: [DONE]":
                    self.done = True
                elif line.startswith("data: "):
                    self.events.append(json.loads(line[6:]))
                    self.ids.append(identifier)
                    identifier = None

    @property
    def types(self) -> list[str]:
        """The types of the events so far, without `response.`."""
        return [event["type"].removeprefix("response.") for event in self.events]

    @property
    def numbers(self) -> list[int]:
        return [event["sequence_number"] for event in self.events]

    async def until(self, kind: str, count: int = 1) -> Json:
        """Read until there are so many events of a type; the last of them."""
        await until(lambda: self.types.count(kind) >= count or self._task.done())
        found = [event for event in self.events if event["type"].removeprefix("response.") == kind]
        assert len(found) >= count, f"the stream ended with {self.types[-3:]}"
        return found[count - 1]

    async def ends(self) -> list[Json]:
        """Read to the end; all events."""
        async with asyncio.timeout(_PATIENCE):
            await self._task
        return self.events

    async def hang_up(self) -> None:
        """Be gone, as a client whose connection breaks."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await cast("AsyncGenerator[bytes]", self._body).aclose()
