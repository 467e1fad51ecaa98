"""The limits on memory against somebody who reads the code: nothing leaks, nobody waits for ever, nothing small is refused."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import pytest

from hosting.read_budget import charge
from hosting.responses import Event
from hosting.responses.builders import ResponseEventStream
from hosting.server import foreground
from hosting.server.working_memory import Share
from hosting.storage import StorageUnavailable
from tests.security.endings import ENDINGS, TENANT, Client, Ending, full, give_back, invocation, nothing_held
from tests.security.world import Secured, secured
from tests.server_world import until

type Json = dict[str, Any]


@pytest.fixture
async def world() -> AsyncGenerator[Secured]:
    limits = {"HOSTING_MAX_REQUEST_BYTES": "50000", "HOSTING_REQUEST_BODY_SECONDS": "0.1"}
    async with secured(env=limits) as made:
        yield made


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=list(ENDINGS))
async def test_however_it_ends_nothing_is_held(world: Secured, ending: Ending, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreground, "_UNREAD", 0.05)
    kept = await ending(world)
    await nothing_held(world)
    del kept


type Fault = Callable[["asyncio.Task[Any]"], None]


def _storage_fails(request: "asyncio.Task[Any]") -> None:
    raise StorageUnavailable("away")


def _request_goes(request: "asyncio.Task[Any]") -> None:
    request.cancel()


def _part_goes(request: "asyncio.Task[Any]") -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


WORK: dict[str, Json] = {
    "turn": {"stream": False},
    "streamed turn": {"stream": True},
    "background turn": {"background": True, "stream": True},
}


async def quiet(world: Secured) -> None:
    """Wait until nothing has asked storage for anything in many rounds of the event loop."""
    rounds, seen = 0, -1
    while rounds < 20:
        rounds, seen = (rounds + 1 if len(world.tables.calls) == seen else 0), len(world.tables.calls)
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("fault", [_storage_fails, _request_goes, _part_goes])
@pytest.mark.parametrize("kind", WORK)
async def test_whatever_goes_wrong_at_whichever_storage_call_nothing_is_held(kind: str, fault: Fault) -> None:
    for at in range(1, 100):
        async with secured() as world:
            named = (await world.attacker.send("POST", "v1/conversations", {})).json["id"]
            await world.attacker.create("x" * 500, conversation=named)
            before = len(world.tables.calls)
            asked = asyncio.create_task(
                Client(world, body={"input": "x" * 500, "conversation": named, **WORK[kind]}).answered()
            )
            note = world.tables._note  # pyright: ignore[reportPrivateUsage]

            def failing(what: str, partition: str, note: Any = note, world: Any = world, asked: Any = asked) -> None:
                note(what, partition)
                if len(world.tables.calls) == before + at:  # noqa: B023
                    fault(asked)

            world.tables._note = failing  # pyright: ignore[reportPrivateUsage]
            await quiet(world)
            faulty = len(world.tables.calls) >= before + at
            await world.world.kill()
            asked.cancel()
            await asyncio.wait({asked})
            await nothing_held(world)
        if not faulty:
            break
    assert 5 < at < 99


# --- what is refused, and what must not be


class Reader:
    """A handler that reads 1,000 bytes at a time, many times, as one that polls does. "first" waits for `gate`."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.gate, self.inside = asyncio.Event(), asyncio.Event()
        self.inside.set()

    async def __call__(self, request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        said = await context.get_input_text()
        self.begun.append(said)
        stream = ResponseEventStream(response_id=context.response_id, request=request)
        yield stream.emit_created()
        await (self.gate if said == "first" else self.inside).wait()
        for _ in range(100):
            charge(1000)
        for event in stream.output_item_message("done"):
            yield event
        yield stream.emit_completed()


@pytest.mark.parametrize("mode", [{}, {"stream": True}, {"background": True}])
async def test_a_run_that_has_begun_may_read_much_little_by_little(mode: Json, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hosting.server.responses_server._LARGEST_TURN", 0)
    small = {"HOSTING_MAX_HISTORY_BYTES": "8000", "HOSTING_MAX_REQUEST_BYTES": "8000"}
    async with secured(handler=Reader(), env=small) as world:
        status, body = await Client(world, body={"input": "hi", **mode}).answered()
        assert status == 200
        if mode.get("background"):
            assert (await world.ended(world.attacker, json.loads(body)["id"]))["status"] == "completed"
        else:
            assert b'"status":"completed"' in body


async def test_who_waits_behind_another_turn_is_not_refused_once_it_is_accepted() -> None:
    handler = Reader()
    handler.inside.clear()
    limits = {"HOSTING_MAX_WORKING_BYTES_PER_TENANT": "60000"}
    async with secured(handler=handler, steerable_conversations=True, env=limits) as world:
        first = await world.attacker.create("first", background=True)
        second = {"input": "second", "previous_response_id": first["id"]}
        client = Client(world, body=second, headers={"idempotency-key": "once"})
        asked = asyncio.create_task(client.answered())
        await asyncio.sleep(0.1)
        handler.gate.set()
        await until(lambda: handler.begun == ["first", "second"])
        others = full(world.server.limits.memory, TENANT, 60_000)
        handler.inside.set()
        status, body = await asked
        give_back(others)
        assert (status, json.loads(body)["status"]) == (200, "completed")


async def test_an_invocation_that_has_begun_is_not_refused_in_the_middle() -> None:
    async with secured(env={"HOSTING_MAX_WORKING_BYTES_PER_TENANT": "60000"}) as world:
        memory = world.server.limits.memory
        shares: list[Share] = []

        async def invoke(request: Any) -> Any:
            await request.json()
            shares.append(full(memory, TENANT, 60_000))
            charge(5000)
            return {"done": True}

        await invocation(invoke, 0)(world)
        give_back(shares[0])


async def test_small_requests_are_served_when_a_tenant_and_the_process_are_full() -> None:
    limits = {"HOSTING_MAX_WORKING_BYTES": "20000000", "HOSTING_MAX_WORKING_BYTES_PER_TENANT": "10000000"}
    async with secured(env=limits) as world:
        memory = world.server.limits.memory
        running = await world.attacker.create("wait", background=True)
        shares = [full(memory, tenant, 10_000_000) for tenant in (TENANT, "x", "y")]
        path = {"response_id": running["id"]}
        assert (await world.attacker.send("GET", "v1/responses/{response_id}", path=path)).status == 200
        assert (await world.attacker.send("POST", "v1/responses/{response_id}/cancel", path=path)).status == 200
        assert (await Client(world, body={"input": "hi"}).answered())[0] == 200
        status, _ = await Client(world, body={"input": "x" * 20_000}).answered()
        assert status == 429
        for share in shares:
            give_back(share)


async def test_what_an_agent_said_can_be_had_and_deleted_whatever_the_limits_of_requests_are() -> None:
    class Talkative(Reader):
        async def __call__(self, request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
            stream = ResponseEventStream(response_id=context.response_id, request=request)
            yield stream.emit_created()
            for event in stream.output_item_message("x" * 100_000):
                yield event
            yield stream.emit_completed()

    small = {"HOSTING_MAX_HISTORY_BYTES": "4096", "HOSTING_MAX_REQUEST_BYTES": "4096"}
    async with secured(handler=Talkative(), env=small) as world:
        made = await world.attacker.create("hi", background=True)
        await world.ended(world.attacker, made["id"])
        path = {"response_id": made["id"]}
        assert (await world.attacker.send("GET", "v1/responses/{response_id}", path=path)).status == 200
        assert (await world.attacker.send("DELETE", "v1/responses/{response_id}", path=path)).status == 200


async def test_all_users_of_a_tenant_and_its_requests_and_runs_share_one_part() -> None:
    async with secured(env={"HOSTING_ISOLATION": "user"}) as world:
        memory = world.server.limits.memory
        identifiers = [(await world.attacker.create("wait", background=True))["id"] for _ in range(2)]
        await until(lambda: memory.in_use > 0)
        assert set(memory._tenants) == {TENANT}  # pyright: ignore[reportPrivateUsage]
        assert identifiers
