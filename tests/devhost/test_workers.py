"""Several workers: whose turn it is, how durable work spreads, timers, and what Flex Consumption keeps apart."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from devhost.console import Console
from devhost.testing import DevHost, start_devhost
from devhost.worker_process import WorkerOptions, WorkerProcess
from devhost.workers import Workers
from tests.devhost.conftest import App, eventually


@pytest.fixture(scope="module")
def pair_app(tmp_path_factory: pytest.TempPathFactory) -> App:
    return App("foreign_app", tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="module")
def pair(pair_app: App) -> Iterator[DevHost]:
    with start_devhost(pair_app.dir, workers=2, env=pair_app.env, storage="none") as running:
        yield running


@pytest.fixture(scope="module")
def flex_app(tmp_path_factory: pytest.TempPathFactory) -> App:
    return App("foreign_app", tmp_path_factory.mktemp("flex"))


@pytest.fixture(scope="module")
def flex(flex_app: App) -> Iterator[DevHost]:
    disabled = {"AzureWebJobs.slow_tick.Disabled": "true"}
    with start_devhost(flex_app.dir, flex=True, env={**flex_app.env, **disabled}, storage="none") as running:
        yield running


async def run(client: ClientSession, name: str, value: Any) -> Any:
    """The output of an orchestration."""
    async with client.post(f"/svc/start/{name}", data=json.dumps(value)) as response:
        path = f"/svc/runs/{(await response.json())['id']}"
    deadline = time.monotonic() + 30
    while True:
        async with client.get(path) as response:
            status = await response.json()
        if status["status"] in {"COMPLETED", "FAILED"}:
            return status["output"]
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def hello(client: ClientSession, **headers: str) -> tuple[str, int]:
    """The worker that answered, and its process id."""
    async with client.get("/svc/hello", headers=headers) as response:
        assert response.status == 200, await response.text()
        return response.headers["x-devhost-worker"], (await response.json())["pid"]


async def test_worker_is_given_no_more_of_a_kind_than_the_limit(tmp_path: Path):
    def options() -> WorkerOptions:
        return WorkerOptions(tmp_path, "function_app.py", {}, "info", Console(), 1.0)

    workers = Workers(1, False, options, Console())
    workers._slots[0].worker = worker = WorkerProcess(1, "all", options())
    worker.ready = True
    worker.running["activity"] = 2
    with pytest.raises(TimeoutError):
        await workers.acquire("activity", limit=2, seconds=0.05)
    assert await workers.acquire("orchestration", limit=2, seconds=30) is worker
    waiting = asyncio.create_task(workers.acquire("activity", limit=2, seconds=30))
    await asyncio.sleep(0)
    worker.running["activity"] = 1
    await workers.notify()
    assert await waiting is worker


async def test_requests_take_turns(pair: DevHost):
    async with ClientSession(pair.base_url) as client:
        answers = [await hello(client) for _ in range(6)]
    assert [number for number, _ in answers] in (["1", "2"] * 3, ["2", "1"] * 3)
    assert {pid for _, pid in answers} == set(pair.workers)


async def test_request_can_ask_for_a_worker(pair: DevHost):
    async with ClientSession(pair.base_url) as client:
        for number in ("1", "2", "2", "1", "1"):
            answered, pid = await hello(client, **{"x-devhost-worker": number})
            assert (answered, pid) == (number, pair.status()[int(number)]["pid"])
        async with client.get("/svc/hello", headers={"x-devhost-worker": "3"}) as response:
            assert response.status == 400
            assert "1, 2" in await response.text()


async def test_activities_spread_over_the_workers(pair: DevHost, pair_app: App):
    async with ClientSession(pair.base_url) as client:
        assert await run(client, "fan_out", [1] * 8) == 8
    assert {int(pid) for pid in pair_app.lines("square")} == set(pair.workers)


def test_timer_runs_once_each_time_whatever_the_number_of_workers(pair: DevHost, pair_app: App):
    ticks = eventually(lambda: (lines := pair_app.lines("tick")) and len(lines) >= 3 and lines, "three ticks")
    due = [json.loads(line)["next"] for line in ticks]
    assert len(set(due)) == len(due)
    assert not any(json.loads(line)["past_due"] for line in ticks)


def test_start_up_timer_has_run_once(pair: DevHost, pair_app: App):
    eventually(lambda: pair_app.lines("at_start"), "the start-up timer")
    assert len(pair_app.lines("at_start")) == 1


def test_runs_of_a_timer_do_not_overlap(pair: DevHost, pair_app: App):
    lines = eventually(lambda: (seen := pair_app.lines("slow_tick")) and len(seen) >= 4 and seen, "two runs")
    assert lines[:4] == ["begin", "end", "begin", "end"]


async def test_worker_that_gets_sigterm_finishes_and_is_replaced(pair: DevHost, pair_app: App):
    old = pair.status()[2]["pid"]
    async with ClientSession(pair.base_url) as client:
        asked = asyncio.create_task(client.get("/svc/slow?seconds=1&tag=term", headers={"x-devhost-worker": "2"}))
        began = pair_app.journal / "slow-began-term"
        await asyncio.to_thread(eventually, began.exists, "the request to be in the function")
        os.kill(old, signal.SIGTERM)
        assert (await hello(client, **{"x-devhost-worker": "1"}))[0] == "1"
        async with await asked as response:
            assert (response.status, await response.json()) == (200, {"slept": True})
    new = await asyncio.to_thread(pair.wait_for_worker, 2, instead_of=old)
    assert new != old
    assert "worker 2 ended with code 0" in pair.logs


async def test_flex_runs_http_and_durable_functions_in_different_processes(flex: DevHost, flex_app: App):
    workers = flex.status()
    assert {number: worker["group"] for number, worker in workers.items()} == {1: "http", 2: "background"}
    async with ClientSession(flex.base_url) as client:
        assert {await hello(client) for _ in range(3)} == {("1", workers[1]["pid"])}
        assert await run(client, "fan_out", [1, 2]) == 5
    assert {int(pid) for pid in flex_app.lines("square")} == {workers[2]["pid"]}


def test_flex_runs_timers_with_the_durable_functions(flex: DevHost, flex_app: App):
    ticks = eventually(lambda: flex_app.lines("tick"), "a tick")
    assert {json.loads(line)["pid"] for line in ticks} == {flex.status()[2]["pid"]}


async def test_flex_http_goes_on_while_the_other_group_is_down(flex: DevHost, flex_app: App):
    async with ClientSession(flex.base_url) as client:
        old = flex.status()[2]["pid"]
        async with client.post("/svc/start/survivor", data='{"key": "flex", "seconds": 60, "again": 0.1}') as response:
            instance_id = (await response.json())["id"]
        await asyncio.to_thread(eventually, lambda: flex_app.lines("slow-flex"), "the activity to begin")
        os.kill(old, signal.SIGKILL)
        assert (await hello(client))[0] == "1"
        new = await asyncio.to_thread(flex.wait_for_worker, 2, instead_of=old)
        deadline = time.monotonic() + 30
        status: dict[str, Any] = {}
        while status.get("status") != "COMPLETED":
            assert time.monotonic() < deadline, status
            async with client.get(f"/svc/runs/{instance_id}") as response:
                status = await response.json()
        assert status["output"] == {"pid": new}


def test_timer_can_be_run_now(flex: DevHost, flex_app: App):
    before = len(flex_app.lines("at_start"))
    flex.run_timer("at_start")
    eventually(lambda: len(flex_app.lines("at_start")) > before, "another run")
