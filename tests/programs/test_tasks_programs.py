"""Three programs for the published package run here after a change of their import line."""

import asyncio
import time
from collections.abc import Awaitable
from datetime import timedelta

import pytest

from hosting.storage import memory_store
from hosting.tasks import TaskDeferred
from hosting.testing import TestEngine, VirtualClock, task_engine
from tests.programs import batch_import, nightly_report, steerable_chat
from tests.sse_reader import until


async def run[T](engine: TestEngine, program: Awaitable[T], tick: float = 0.02) -> T:
    """Run a program, and let engine time go by meanwhile."""
    future = asyncio.ensure_future(program)
    deadline = time.monotonic() + 30
    while not future.done():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)
        await engine.advance(timedelta(seconds=tick))
    return future.result()


async def test_a_one_shot_with_retries():
    async with task_engine() as engine:
        south, north, nowhere, odd = await run(engine, nightly_report.main(), tick=0.5)
    assert south == {"region": "south", "sum": 6, "tries": 1}
    assert north == {"region": "north", "sum": 6, "tries": 3}
    assert (nowhere["type"], nowhere["attempts"], nowhere["last_error_type"]) == ("exhausted_retries", 3, "ServiceDown")
    assert (odd["type"], odd["message"]) == ("ValueError", "odd is no region")
    assert nightly_report.attempts == {"south": 1, "north": 3, "nowhere": 3, "odd": 1}


async def test_a_steerable_chat():
    async with task_engine() as engine:
        results = await run(engine, steerable_chat.main())
    assert results["hello"] == {"reply": "HELLO THERE", "interrupted": False, "mode": "fresh", "steered": False}
    assert results["long"]["interrupted"] is True
    assert results["long"]["reply"].startswith("A B")
    assert results["instead"] == {"reply": "WHAT I MEANT", "interrupted": False, "mode": "resumed", "steered": True}
    assert (results["was_queued"], results["dropped"], results["actual"]) == (True, True, "four")
    assert results["again"]["mode"] == "fresh"


async def test_work_that_is_deferred_on_shutdown():
    store, clock = memory_store(), VirtualClock()
    async with task_engine(store, clock=clock) as first:
        await batch_import.main()
        run_handle = await batch_import.batch_import.get_active_run("import-1")
        assert run_handle is not None
        waiting = asyncio.ensure_future(run_handle.result())
        await until(lambda: bool(batch_import.seen))
        await asyncio.sleep(0.3)  # for some of the 40 items, each of which takes 0.05 s or more
        await run(first, first.engine.stop(60), tick=0.01)
        with pytest.raises(TaskDeferred):
            await waiting
    async with task_engine(store, clock=clock) as second:
        await second.advance(timedelta(minutes=1))
        await second.recover()
        found = await batch_import.batch_import.get_run("import-1")
        assert found is not None
        assert await run(second, found.result()) == {"items": 40, "bytes": 120, "recoveries": 1}
    (first_mode, first_begin), (second_mode, second_begin) = batch_import.seen
    assert (first_mode, first_begin, second_mode) == ("fresh", 0, "recovered")
    assert 0 < second_begin < 40
    await store.close()
