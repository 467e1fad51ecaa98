"""Things that are worth nothing one without the other."""

import asyncio

import pytest

from hosting.gather import gather_all


async def _after(turns: int, value: str) -> str:
    for _ in range(turns):
        await asyncio.sleep(0)
    return value


async def test_results_come_in_order() -> None:
    assert list(await gather_all(_after(3, "a"), _after(1, "b"))) == ["a", "b"]


async def test_nothing_at_all_is_an_empty_list() -> None:
    assert list(await gather_all()) == []


async def test_when_one_fails_the_others_have_ended_before_it_is_said() -> None:
    ended: list[str] = []

    async def other() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("other")
        return ""

    async def failing() -> str:
        await asyncio.sleep(0)
        raise LookupError("first")

    with pytest.raises(LookupError, match="first"):
        await gather_all(other(), failing())
    assert ended == ["other"]


async def test_when_it_is_cancelled_all_of_them_are() -> None:
    ended: list[int] = []

    async def part(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    gathering = asyncio.create_task(gather_all(part(1), part(2)))
    await asyncio.sleep(0.01)
    gathering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gathering
    assert sorted(ended) == [1, 2]
