"""Background runs that wait for memory: for nobody for ever, and for no longer than it makes sense."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from hosting.read_budget import charge, charging
from hosting.server import working_memory
from hosting.server.working_memory import NothingToWaitFor, Share, WorkingMemory
from hosting.storage import StorageUnavailable
from hosting.tasks import TaskContext, task
from hosting.testing import task_engine
from tests.security.endings import TENANT, Client, full, give_back, nothing_held
from tests.security.world import Secured, secured
from tests.server_world import until


@asynccontextmanager
async def waiting(world: Secured) -> AsyncGenerator[tuple[str, Share]]:
    """A background response that waits for memory, and what it waits for."""
    made = await world.attacker.create("x" * 20_000)
    others = full(world.server.limits.memory, TENANT, 45_000)
    identifier = (await world.attacker.create("hi", background=True, previous_response_id=made["id"]))["id"]
    await until(lambda: at_work(world) == 1)
    await asyncio.sleep(0.2)
    try:
        yield identifier, others
    finally:
        give_back(others)


@pytest.fixture
async def small() -> AsyncGenerator[Secured]:
    limits = {"HOSTING_MAX_WORKING_BYTES": "100000", "HOSTING_MAX_WORKING_BYTES_PER_TENANT": "60000"}
    async with secured(env=limits) as made:
        yield made


def at_work(world: Secured) -> int:
    return len(world.world.engine.engine._attempts)  # pyright: ignore[reportPrivateUsage]


async def test_a_run_that_is_cancelled_waits_no_longer(small: Secured) -> None:
    async with waiting(small) as (identifier, others):
        assert at_work(small) == 1
        path = {"response_id": identifier}
        answer = await small.attacker.send("POST", "v1/responses/{response_id}/cancel", path=path)
        assert answer.json["status"] == "cancelled"
        others.take(15_000)  # its row can't be read any more
        await until(lambda: at_work(small) == 0)


async def test_a_run_that_waits_leaves_a_process_that_stops_and_ends_in_another(small: Secured) -> None:
    async with waiting(small) as (identifier, _):
        stopping = asyncio.create_task(small.world.engine.engine.stop(25.0))
        await until(lambda: at_work(small) == 0)  # in virtual time no second has gone by
        await small.world.advance(1)
        await stopping
        await small.world.kill()
    await small.world.restart()
    assert (await small.ended(small.attacker, identifier))["status"] == "completed"
    await nothing_held(small)


async def test_the_events_of_a_run_that_waited_are_there_once() -> None:
    limits = {"HOSTING_MAX_WORKING_BYTES_PER_TENANT": "60000"}
    async with secured(env=limits) as world:
        made = await world.attacker.create("x" * 20_000)
        others = full(world.server.limits.memory, TENANT, 60_000 - 8_000)
        body = {"input": "hi", "background": True, "stream": True, "previous_response_id": made["id"]}
        asked = asyncio.create_task(Client(world, body=body).answered())
        await asyncio.sleep(0.3)
        assert not asked.done()
        give_back(others)
        _, events = await asked
        numbers = [json.loads(line[6:])["sequence_number"] for line in events.splitlines() if line[:7] == b"data: {"]
        assert numbers == list(range(len(numbers)))
        assert b"response.completed" in events


async def tried(memory: WorkingMemory, tenant: str, size: int, over: Any = None) -> Share:
    """A run of the tenant that has got room for so many bytes, and keeps them."""
    share = memory.share(tenant)
    with share, charging(share.take):

        async def work() -> Share:
            charge(size)
            share.admit()
            return share.__enter__()

        return await share.when_there_is_room(work, over)


async def test_a_run_that_waits_is_in_nobody_elses_way() -> None:
    memory = WorkingMemory(10_000, 100)
    shares = [full(memory, "a", 90), full(memory, "b", 90)]
    large = asyncio.create_task(tried(memory, "a", 50))
    small = asyncio.create_task(tried(memory, "b", 50))
    await asyncio.sleep(0)
    give_back(shares[1])
    give_back(await asyncio.wait_for(small, 30))
    assert not large.done()
    large.cancel()
    await asyncio.wait({large})
    give_back(shares[0])
    assert memory.in_use == 0


async def test_runs_that_never_find_room_are_let_in_at_last_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working_memory, "_PATIENCE", 0.05)
    monkeypatch.setattr(working_memory, "_LONGEST_PAUSE", 0.02)
    memory = WorkingMemory(1000, 100)
    others = full(memory, "a", 1)  # there is always somebody
    runs = {asyncio.create_task(tried(memory, "a", 5000)) for _ in range(3)}
    for left in (2, 1, 0):
        done, runs = await asyncio.wait(runs, timeout=30, return_when=asyncio.FIRST_COMPLETED)
        assert (len(done), len(runs)) == (1, left)
        if runs:
            assert not (await asyncio.wait(runs, timeout=0.2))[0]
        give_back(done.pop().result())
    give_back(others)
    assert memory.in_use == 0


async def test_a_run_that_was_let_in_and_is_forgotten_lets_the_next_one_in() -> None:
    memory = WorkingMemory(1000, 100)
    with memory.share("a") as share:
        assert memory.let_in(share)
        with memory.share("b") as other:
            assert not memory.let_in(other)
            share.__exit__(None, None, None)
            assert memory.let_in(other)
        share.__enter__()


async def test_a_run_may_wait_for_small_ones_of_its_own_when_all_is_taken() -> None:
    memory = WorkingMemory(1_000_000, 1_000_000)
    parent = full(memory, "a", 1_000_000)
    child = await asyncio.wait_for(tried(memory, "a", 1000), 30)
    for share in (parent, child):
        give_back(share)
    assert memory.in_use == 0


async def test_what_goes_wrong_while_a_run_looks_whether_it_is_over_leaves_the_queue() -> None:
    memory = WorkingMemory(1000, 100)
    others = full(memory, "a", 100)

    async def over() -> bool:
        raise StorageUnavailable("away")

    async def it_is() -> bool:
        return True

    queue = memory.queue("a")
    for told, error in ((over, StorageUnavailable), (it_is, NothingToWaitFor)):
        with pytest.raises(error):
            await tried(memory, "a", 50, told)
        assert not queue.locked()
    give_back(others)
    assert memory.in_use == 0


async def test_who_waits_for_a_task_for_days_takes_no_more_and_more_memory() -> None:
    counted: list[int] = []

    @task(name="test.memory.endless")
    async def endless(ctx: TaskContext[str]) -> None:
        await asyncio.Event().wait()

    async with task_engine() as engine:
        run = await endless.start(input="")
        with charging(counted.append):
            waiting = asyncio.create_task(engine.engine.wait(run._key, run.input_id, run._seq))  # pyright: ignore[reportPrivateUsage]
            await engine.advance(timedelta(minutes=5))
        waiting.cancel()
    assert len(counted) > 10
    assert sum(counted) == 0
