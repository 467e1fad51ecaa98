"""Following a response whose stream is slow to read: nothing that is stored may be left out before the end."""

import asyncio
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

import pytest

from hosting.server import follow

ID = "resp_1"


class SlowStream:
    """Has all its events already, but reading them takes its time."""

    def __init__(self, pause: float, numbers: range) -> None:
        self.pause, self.numbers = pause, numbers

    async def batches(self, *, after: Any = None) -> AsyncGenerator[list[Any]]:
        for number in self.numbers:
            await asyncio.sleep(self.pause)
            if number > after:
                yield [{"type": "tick", "sequence_number": number}]
        await asyncio.Event().wait()  # its writer died before it could close it

    async def last_cursor(self) -> int:
        return self.numbers[-1]


class FinalTurns:
    async def response(self, identifier: str) -> Any:
        return stored()

    async def status(self, identifier: str) -> str:
        return "completed"


def stored() -> Any:
    return SimpleNamespace(opening=None, response={"id": ID, "status": "completed"}, running=False)


@pytest.mark.parametrize("after", [-1, 0, 1, 3])
async def test_a_response_that_is_final_does_not_cut_off_events_on_their_way(
    monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    monkeypatch.setattr(follow, "_LOOK", 0.02)
    monkeypatch.setattr(follow, "_STRAGGLERS", 0.01)
    stream: Any = SlowStream(0.1, range(2, 6))
    turns: Any = FinalTurns()
    async with asyncio.timeout(10):
        events = [event async for batch in follow.follow(turns, stored(), stream, after) for event in batch]
    assert [event["sequence_number"] for event in events] == list(range(after + 1, 7))
    assert events[-1]["type"] == "response.completed"
