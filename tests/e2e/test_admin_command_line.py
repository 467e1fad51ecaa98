"""`python -m hosting.admin` as an operator calls it, beside an app that runs: two processes, one storage account."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest

from devhost.azurite import Azurite
from hosting.responses import Event
from hosting.responses.builders import ResponseEventStream
from hosting.storage import connect, connect_append_blobs, keys
from tests.conftest import ROOT
from tests.contract.storage_twins import fresh
from tests.server_world import World, serve

SCOPE = keys.scope("development", None)


class Done(NamedTuple):
    code: int
    out: str
    err: str


class Operator:
    """A shell with the settings of the app."""

    def __init__(self, env: dict[str, str]) -> None:
        self.env = env

    async def __call__(self, *words: str) -> Done:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "hosting.admin",
            *words,
            cwd=ROOT,
            env={**os.environ, **self.env},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        return Done(process.returncode or 0, out.decode(), err.decode())


class Worker:
    """A handler that works until it is told to end."""

    def __init__(self) -> None:
        self.started, self.ended = asyncio.Event(), asyncio.Event()

    async def __call__(self, request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = ResponseEventStream(response_id=context.response_id, request=request)
        yield stream.emit_created()
        yield stream.emit_in_progress()
        self.started.set()
        await signal.wait()
        self.ended.set()
        yield stream.emit_completed()


class Scene(NamedTuple):
    world: World
    worker: Worker
    operator: Operator


@pytest.fixture
async def scene(azurite: Azurite) -> AsyncIterator[Scene]:
    names = fresh("admin")
    env = {
        "AzureWebJobsStorage": azurite.connection_string,
        "HOSTING_TABLE": names,
        "HOSTING_CONTAINER": names,
    }
    worker = Worker()
    store = connect(env, table=names, container=names)
    blobs = connect_append_blobs(env, container=names)
    async with serve(worker, store=store, blobs=blobs) as world:
        yield Scene(world, worker, Operator(env))
    await blobs.close()


async def test_a_tenant_s_run_is_found_and_cancelled(scene: Scene) -> None:
    world, worker, operator = scene
    reader = await world.stream(background=True)
    await worker.started.wait()
    listed = await operator("list", "--tenant", "development", "--running", "--json")
    [line] = [json.loads(text) for text in listed.out.splitlines()]
    identifier = line["id"]
    assert (listed.code, line["status"], line["task"], line["crashes"]) == (0, "in_progress", identifier, 0)
    cancelled = await operator("cancel", "--scope", SCOPE, identifier, "resp_unknown")
    assert (cancelled.code, cancelled.out) == (1, f"{identifier}: cancelled\n")
    assert "resp_unknown" in cancelled.err
    assert (await reader.ends())[-1]["response"]["status"] == "cancelled"
    await world.advance(3)
    await worker.ended.wait()
    await world.at_rest(identifier)
    assert (await world.get(identifier))["status"] == "cancelled"


async def test_a_tenant_is_counted_then_erased_and_then_not_there(scene: Scene) -> None:
    world, worker, operator = scene
    conversation = await world.conversation()
    made = await world.create(background=True, conversation=conversation)
    await worker.started.wait()
    counted = await operator("erase", "--tenant", "development")
    assert counted.code == 0
    assert "Nothing was removed" in counted.out
    assert (await world.get(made["id"]))["status"] in ("queued", "in_progress")
    erased = await operator("erase", "--tenant", "development", "--yes")
    assert (erased.code, "run it again in 62 s" in erased.out) == (0, True), erased
    assert "rows: " in erased.err
    await world.get(made["id"], status=404)
    await world.advance(3)
    again = await operator("erase", "--tenant", "development", "--yes")
    assert (again.code, "Nothing is stored" in again.out) == (0, True), again


async def test_what_runs_is_found_without_knowing_whose_it_is(scene: Scene) -> None:
    world, worker, operator = scene
    made = await world.create(background=True)
    await worker.started.wait()
    found = await operator("running", "--json")
    [line] = [json.loads(text) for text in found.out.splitlines()]
    assert (found.code, line["scope"], line["response"]) == (0, SCOPE, made["id"]), found
    assert "1 unfinished in " in found.err


async def test_a_table_is_made_for_people(scene: Scene) -> None:
    world, worker, operator = scene
    made = await world.create(background=True)
    await worker.started.wait()
    listed = await operator("list", "--tenant", "development")
    heading, line = listed.out.splitlines()
    assert heading.split() == ["RESPONSE", "STATUS", "CREATED", "CRASHES", "TASK", "CONVERSATION"]
    assert line.split()[:2] == [made["id"], "in_progress"]
    assert f"1 responses of {SCOPE}" in listed.err


async def test_storage_that_does_not_answer_ends_with_1() -> None:
    dead = "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=a2V5;" + "".join(
        f"{service}Endpoint=http://127.0.0.1:1/a;" for service in ("Blob", "Table")
    )
    done = await Operator({"AzureWebJobsStorage": dead})("erase", "--scope", SCOPE, "--yes")
    assert done.code == 1
    assert "run it again" in done.err
    assert "Traceback" not in done.err
