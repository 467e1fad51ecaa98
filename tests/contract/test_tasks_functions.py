"""Tasks from ordinary functions of the app, with HTTP in one process and everything else in another, as on Flex Consumption."""

import asyncio
import json
import secrets
import urllib.request
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import azure.functions as func
import pytest

from devhost.azurite import Azurite
from devhost.testing import DevHost
from hosting.functions.durable_client import DurableApp, NoDurableClient
from tests.contract.task_fixtures import ROOT
from tests.contract.tasks_app import contract_tasks as app
from tests.contract.tasks_world import SETTINGS, World, devhost_world


@pytest.fixture
async def flex(azurite: Azurite) -> AsyncGenerator[tuple[DevHost, World]]:
    table = f"tasks{secrets.token_hex(4)}"
    env = {**SETTINGS, "TASKS_TABLE": table, "PYTHONPATH": str(ROOT)}
    folder = Path(__file__).parent / "tasks_app"
    async with (
        DevHost(folder, env=env, flex=True, storage=azurite.connection_string) as host,
        devhost_world(host, table) as world,
    ):
        yield host, world


def fetch(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=60) as response:
        return json.loads(response.read())


async def test_http_functions_and_timers_start_tasks_that_run_in_another_process(flex: tuple[DevHost, World]):
    host, world = flex
    seen = await asyncio.to_thread(fetch, host.base_url + "/look/a.b:c")
    assert (seen["input"], seen["mode"], seen["task_id"]) == ({"from": "http"}, "fresh", "a.b:c")
    assert seen["pid"] != seen["http_pid"]
    await asyncio.to_thread(host.run_timer, "nightly")

    async def started() -> bool:
        return await app.look.get_run("nightly") is not None

    await world.until(started)
    found = await app.look.get_run("nightly")
    assert found is not None
    assert (await world.end(found.result()))["input"] == {"from": "timer"}


def test_every_function_that_can_brings_the_client_binding_along_and_keeps_its_own_parameters():
    made = DurableApp()
    called: list[Any] = []

    @made.timer_trigger(arg_name="timer", schedule="0 0 0 1 1 *")
    def sync_timer(timer: func.TimerRequest) -> None:
        called.append(timer)

    @made.orchestration_trigger(context_name="context")
    def orchestrator(context: Any) -> Any:
        yield

    functions = {f.get_function_name(): f for f in made.get_functions()}
    bindings = {name: [b.type for b in f.get_bindings()] for name, f in functions.items()}
    assert "durableClient" in bindings["sync_timer"]
    assert "durableClient" not in bindings["orchestrator"]
    with pytest.raises(NoDurableClient):
        made.durable_client.get()
    functions["sync_timer"].get_user_function()(timer="t", durable_client_of_this_process="{}")
    assert called == ["t"]
