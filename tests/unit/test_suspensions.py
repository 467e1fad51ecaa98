"""What a suspended tenant gets, and what everybody else pays for that."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hosting.identity import Caller
from hosting.keys import mint_key
from hosting.read_budget import read_at_most
from hosting.responses import ApiError
from hosting.server import Request, Response, ResponsesServer
from hosting.server.suspensions import Suspensions
from hosting.settings import load_settings
from hosting.state import AgentState
from hosting.state.suspended import resume, suspend
from hosting.storage import Replace, StorageUnavailable, Store, keys, memory_store
from hosting.testing import VirtualClock

ONE, TWO = Caller("key:one"), Caller("key:two")


def scope_of(caller: Caller) -> str:
    return keys.scope(caller.tenant, caller.user)


class Process:
    """One on a store, with time that the test lets go by."""

    def __init__(self, store: Store, clock: VirtualClock, seconds: float = 30.0) -> None:
        self.store, self.clock = store, clock
        self.opened = 0
        self.list = Suspensions(self._open, seconds, clock=clock.now)

    def _open(self) -> Store:
        self.opened += 1
        return self.store

    async def asks(self, caller: Caller = ONE) -> bool:
        """A request; whether it was let in. What it began in the background is done when this returns."""
        try:
            self.list.check(caller, scope_of(caller))
        except ApiError as error:
            assert (error.status, error.code) == (403, "account_deactivated")
            return False
        finally:
            await self.clock.settle()
        return True


@pytest.fixture
async def process() -> AsyncIterator[Process]:
    made = Process(memory_store(), VirtualClock())
    yield made
    await made.list.close()


async def test_a_new_process_lets_the_first_request_in_and_the_next_one_not(process: Process) -> None:
    await suspend(process.store, scope_of(ONE), 0.0)
    assert [await process.asks() for _ in range(3)] == [True, False, False]


async def test_others_are_let_in(process: Process) -> None:
    await suspend(process.store, scope_of(ONE), 0.0)
    assert [await process.asks(TWO) for _ in range(3)] == [True, True, True]


async def test_a_process_hears_of_it_in_half_a_minute_and_of_the_end_of_it_too(process: Process) -> None:
    await process.asks()
    await suspend(process.store, scope_of(ONE), 0.0)
    await process.clock.advance(29)
    assert [await process.asks(), await process.asks()] == [True, True]
    await process.clock.advance(1)
    assert [await process.asks(), await process.asks()] == [True, False]
    await resume(process.store, scope_of(ONE))
    await process.clock.advance(30)
    assert [await process.asks(), await process.asks()] == [False, True]


async def test_a_minute_of_requests_costs_two_reads_and_an_idle_one_none(process: Process) -> None:
    before = process.store.meter.copy()
    for _ in range(600):
        await process.asks()
        await process.clock.advance(0.1)
    await process.clock.advance(3600)
    assert (process.store.meter - before).operations == 2


@pytest.mark.parametrize("user", [None, "ada"])
async def test_a_suspended_tenant_is_all_its_users(process: Process, user: str | None) -> None:
    await suspend(process.store, keys.scope("key:one", None), 0.0)
    await process.asks()
    assert not await process.asks(Caller("key:one", user))


async def test_a_suspended_user_is_nobody_else(process: Process) -> None:
    await suspend(process.store, keys.scope("key:one", "ada"), 0.0)
    await process.asks()
    callers = [Caller("key:one", "ada"), Caller("key:one", "bo"), Caller("key:one"), Caller("key:two", "ada")]
    assert [await process.asks(caller) for caller in callers] == [False, True, True, True]


async def test_what_can_not_be_read_lets_everybody_in_and_is_logged(
    process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    async def away(*given: Any, **more: Any) -> Any:
        raise StorageUnavailable("away")

    await suspend(process.store, scope_of(ONE), 0.0)
    process.store.get = away  # type: ignore[method-assign]
    with caplog.at_level(logging.WARNING):
        assert [await process.asks() for _ in range(3)] == [True, True, True]
    assert caplog.text.count("Who is suspended can't be read") == 1, "it is tried again after half a minute"


async def test_what_can_not_be_read_later_leaves_the_last_list_as_it_is(process: Process) -> None:
    async def away(*given: Any, **more: Any) -> Any:
        raise StorageUnavailable("away")

    await suspend(process.store, scope_of(ONE), 0.0)
    await process.asks()
    process.store.get = away  # type: ignore[method-assign]
    await process.clock.advance(31)
    assert [await process.asks(), await process.asks()] == [False, False]


async def test_a_read_that_never_ends_keeps_no_request_and_is_not_made_twice(process: Process) -> None:
    async def hangs(*given: Any, **more: Any) -> Any:
        await asyncio.Event().wait()

    process.store.get = hangs  # type: ignore[method-assign]
    for _ in range(5):
        assert await process.asks()
        await process.clock.advance(60)
    assert process.opened == 1
    await process.list.close()


async def test_after_a_stop_nothing_is_read(process: Process) -> None:
    await process.list.close()
    await process.asks()
    assert process.opened == 0


async def test_0_switches_it_off() -> None:
    process = Process(memory_store(), VirtualClock(), 0.0)
    await suspend(process.store, scope_of(ONE), 0.0)
    assert [await process.asks() for _ in range(3)] == [True, True, True]
    assert process.opened == 0


async def test_what_it_reads_is_not_counted_for_the_request_that_brought_it(process: Process) -> None:
    big = {keys.scope(f"key:{n}", None): float(n) for n in range(3000)}  # too long for a row: it is in a blob
    for scope in (scope_of(ONE), scope_of(TWO)):
        await suspend(process.store, scope, 0.0)
    found = await process.store.get("suspended", "tenants")
    assert found is not None
    document = {"since": {**big, scope_of(ONE): 0.0}}
    await process.store.commit("suspended", [Replace("tenants", {}, document, found.etag)])
    with read_at_most(10) as budget:
        await process.asks()
        assert budget.spent == 0
    assert not await process.asks()


# ---- the server


class Served:
    """A server with two tenants, of which one is suspended."""

    def __init__(self) -> None:
        minted = [mint_key(tenant) for tenant in ("one", "two")]
        self.one, self.two = (key for key, _ in minted)
        settings = load_settings({"HOSTING_API_KEYS": ",".join(kept.entry for _, kept in minted)})
        self.store = memory_store()
        self.suspensions = Suspensions(lambda: self.store, 30.0)
        self.server = ResponsesServer(
            AgentState(lambda: None),  # type: ignore[arg-type,return-value]
            settings,
            lambda: self.store,
            suspensions=self.suspensions,
        )

    async def ask(self, route: str, method: str, key: str | None) -> Response:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        parameters = {name: "x" for name in ("response_id", "conversation_id", "item_id", "model") if name in route}

        async def read(limit: int) -> bytes:
            return b"{}"

        return await self.server.handle(route, Request(method, f"/{route}", headers, path_params=parameters, read=read))


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    made = Served()
    await suspend(made.store, keys.scope("key:one", None), 0.0)
    await made.ask("v1/models", "GET", made.one)  # the process has heard of it
    await VirtualClock.settle()
    yield made
    await made.server.close(0.0)


async def test_every_route_answers_403_in_the_envelope(served: Served) -> None:
    answered: dict[str, Any] = {}
    for route, methods in served.server.routes.items():
        for method in methods:
            answered[f"{method} {route}"] = (await served.ask(route, method, served.one)).status
    assert answered.pop("GET readiness") == 200, "it is about the process"
    assert len(answered) > 12
    assert set(answered.values()) == {403}


async def test_the_envelope_says_why_and_that_trying_again_is_no_use(served: Served) -> None:
    response = await served.ask("v1/responses", "POST", served.one)
    assert isinstance(response.body, bytes)
    assert json.loads(response.body)["error"] == {
        "message": "This account is suspended. Ask whoever runs this service.",
        "type": "invalid_request_error",
        "param": None,
        "code": "account_deactivated",
    }
    assert response.headers["x-should-retry"] == "false"


async def test_another_tenant_notices_nothing(served: Served) -> None:
    assert (await served.ask("v1/models", "GET", served.two)).status == 200


async def test_who_has_no_key_is_still_unknown(served: Served) -> None:
    assert (await served.ask("v1/models", "GET", None)).status == 401


async def test_a_server_without_a_list_suspends_nobody_and_reads_nothing() -> None:
    made = Served()
    made.server._suspensions = None  # type: ignore[attr-defined]
    await suspend(made.store, keys.scope("key:one", None), 0.0)
    before = made.store.meter.copy()
    for _ in range(3):
        assert (await made.ask("v1/models", "GET", made.one)).status == 200
        await VirtualClock.settle()
    assert (made.store.meter - before).operations == 0
