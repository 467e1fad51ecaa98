"""Tasks that wait for tasks while the durable backend has fewer places than there are tasks that wait."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from hosting.storage import memory_store
from hosting.tasks import TaskContext, TaskFailed, task
from hosting.tasks.engine import Key
from hosting.tasks.host import Engine, TaskOptions, swap_engine
from hosting.tasks.local import LocalDriver

OPTIONS = TaskOptions(
    help_after=timedelta(seconds=0.1), poll_first=timedelta(seconds=0.01), poll_last=timedelta(seconds=0.05)
)


class FewPlaces(LocalDriver):
    """At most so many activities at a time, first come, first served, as a host has them."""

    def __init__(self, places: int) -> None:
        super().__init__()
        self._places = asyncio.Semaphore(places)

    async def _drive(self, key: Key, activation: int) -> None:
        async with self._places:
            await super()._drive(key, activation)


@asynccontextmanager
async def few_places(places: int, options: TaskOptions = OPTIONS) -> AsyncGenerator[Engine]:
    driver = FewPlaces(places)
    engine = Engine(memory_store(), driver, options=options)
    driver.bind(engine)
    undo = swap_engine(engine)
    try:
        yield engine
    finally:
        await driver.close()
        undo()


runs: list[str] = []


@task(name="helping-leaf")
async def leaf(ctx: TaskContext[str]) -> str:
    runs.append(ctx.input)
    await asyncio.sleep(0.01)
    return ctx.input.upper()


@task(name="helping-branch")
async def branch(ctx: TaskContext[str]) -> str:
    return await leaf.run(input=ctx.input)


@task(name="helping-tree")
async def tree(ctx: TaskContext[str]) -> str:
    return await branch.run(input=ctx.input)


@task(name="helping-fan")
async def fan(ctx: TaskContext[int]) -> list[str]:
    return list(await asyncio.gather(*(leaf.run(input=f"{number}") for number in range(ctx.input))))


@task(name="helping-failing")
async def failing(ctx: TaskContext[str]) -> str:
    raise ValueError(ctx.input)


@task(name="helping-parent-of-failing")
async def parent_of_failing(ctx: TaskContext[str]) -> str:
    try:
        await failing.run(input=ctx.input)
    except TaskFailed as error:
        return error.error["type"]
    return "nothing"


@pytest.fixture(autouse=True)
def nothing_has_run() -> None:
    runs.clear()


@pytest.mark.parametrize("outer", [branch, tree])
async def test_tasks_that_wait_get_on_when_they_have_all_places(outer: object) -> None:
    async with few_places(2), asyncio.timeout(20):
        started = [await outer.start(input=f"n{number}") for number in range(8)]  # type: ignore[attr-defined]
        assert sorted(await asyncio.gather(*(run.result() for run in started))) == [f"N{n}" for n in range(8)]
    assert sorted(runs) == [f"n{number}" for number in range(8)]  # each once


async def test_one_that_waits_for_many_gets_them_all_one_at_a_time() -> None:
    async with few_places(1), asyncio.timeout(20):
        run = await fan.start(input=5)
        assert sorted(await run.result()) == ["0", "1", "2", "3", "4"]
    assert sorted(runs) == ["0", "1", "2", "3", "4"]


async def test_how_it_fails_reaches_the_one_that_waits() -> None:
    async with few_places(1), asyncio.timeout(20):
        assert await parent_of_failing.run(input="no") == "ValueError"


async def test_work_of_others_gets_its_place_when_they_are_done() -> None:
    async with few_places(1), asyncio.timeout(20):
        waits = await branch.start(input="a")
        other = await leaf.start(input="b")
        assert (await waits.result(), await other.result()) == ("A", "B")


async def test_what_others_have_taken_up_is_left_to_them() -> None:
    """A driver with room is faster than the one that waits, however long the other task takes."""

    @task(name="helping-slow")
    async def slow(ctx: TaskContext[str]) -> str:
        runs.append("slow")
        await asyncio.sleep(0.4)
        return "slow"

    @task(name="helping-waits-for-slow")
    async def waits(ctx: TaskContext[str]) -> str:
        return await slow.run(input="")

    async with few_places(2), asyncio.timeout(20):
        assert await waits.run(input="") == "slow"
    assert runs == ["slow"]


async def test_without_help_they_would_wait_for_ever() -> None:
    """What this file is about: else its tests would prove nothing."""
    async with few_places(2, TaskOptions(help_after=timedelta(hours=1))):
        started = [await branch.start(input=f"n{number}") for number in range(3)]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.7):
                await asyncio.gather(*(run.result() for run in started))
    assert runs == []


async def test_who_waits_outside_of_a_task_runs_nothing() -> None:
    """A request waits for what may take hours, and its process is not there for that."""
    async with few_places(0):
        run = await leaf.start(input="a")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await run.result()
    assert runs == []
