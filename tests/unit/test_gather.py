"""Things that are worth nothing one without the other."""

import asyncio
from functools import partial

import pytest

from hosting.gather import gather_all, gather_at_most


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


# --- many, some at a time ---------------------------------------------------------------------------------------------


class Crowd:
    """Calls that note how many of them are under way."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.ended: list[int] = []
        self.go = asyncio.Event()

    async def call(self, number: int, *, fails: bool = False) -> int:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            if fails:
                raise LookupError(str(number))
            await self.go.wait()
            await asyncio.sleep(0.001 * (5 - number % 5))
        finally:
            self.now -= 1
            self.ended.append(number)
        return number


async def test_many_come_in_order_and_never_more_than_so_many_at_once() -> None:
    crowd = Crowd()
    crowd.go.set()
    assert await gather_at_most(3, [partial(crowd.call, n) for n in range(20)]) == list(range(20))
    assert crowd.most == 3


async def test_fewer_than_the_limit_run_at_once() -> None:
    crowd = Crowd()
    crowd.go.set()
    assert await gather_at_most(100, (partial(crowd.call, n) for n in range(5))) == list(range(5))
    assert crowd.most == 5


async def test_none_of_many_is_an_empty_list() -> None:
    assert await gather_at_most(3, []) == []


async def test_when_some_of_many_fail_the_others_are_done_before_the_first_failure_is_said() -> None:
    crowd = Crowd()
    gathering = asyncio.create_task(gather_at_most(2, [partial(crowd.call, n, fails=n in (1, 3)) for n in range(6)]))
    await asyncio.sleep(0.01)
    assert not gathering.done()
    crowd.go.set()
    with pytest.raises(LookupError, match="1"):
        await gathering
    assert sorted(crowd.ended) == list(range(6))


async def test_when_many_are_cancelled_those_under_way_have_ended_and_no_other_begins() -> None:
    crowd = Crowd()
    gathering = asyncio.create_task(gather_at_most(2, [partial(crowd.call, n) for n in range(6)]))
    await asyncio.sleep(0.01)
    gathering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gathering
    assert sorted(crowd.ended) == [0, 1]
