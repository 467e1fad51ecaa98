"""The list of those who may not call, and the operator's commands, over both twins of storage."""

import asyncio
import json
import time
from collections.abc import AsyncIterator

import pytest

from hosting.admin.commands import list_suspended, resume_scope, suspend_scope
from hosting.state.suspended import load_suspended, resume, suspend
from hosting.storage import keys
from tests.contract.admin_world import AdminWorld, open_admin_world
from tests.contract.storage_twins import TWINS, fresh

ONE, TWO = keys.scope("key:one", None), keys.scope("key:two", None)


@pytest.fixture(params=TWINS)
async def world(request: pytest.FixtureRequest) -> AsyncIterator[AdminWorld]:
    async with open_admin_world(request, request.param, fresh("suspended")) as opened:
        yield opened


async def test_nobody_is_suspended_where_nobody_ever_was(world: AdminWorld) -> None:
    assert await load_suspended(world.store) == {}
    assert await resume(world.store, ONE) is False


async def test_scopes_come_and_go_one_by_one(world: AdminWorld) -> None:
    assert [await suspend(world.store, scope, 7.5) for scope in (ONE, TWO)] == [True, True]
    assert await load_suspended(world.store) == {ONE: 7.5, TWO: 7.5}
    assert await suspend(world.store, ONE, 9.0) is False
    assert await load_suspended(world.store) == {ONE: 7.5, TWO: 7.5}, "since the first time"
    assert await resume(world.store, ONE) is True
    assert await load_suspended(world.store) == {TWO: 7.5}


async def test_what_several_operators_do_at_once_is_all_done(world: AdminWorld) -> None:
    scopes = [keys.scope(f"key:{n}", None) for n in range(8)]
    assert all(await asyncio.gather(*(suspend(world.store, scope, 1.0) for scope in scopes)))
    assert set(await load_suspended(world.store)) == set(scopes)


async def test_a_look_is_one_read(world: AdminWorld) -> None:
    await suspend(world.store, ONE, 1.0)
    before = world.store.meter.copy()
    await load_suspended(world.store)
    used = world.store.meter - before
    assert (used.table_reads, used.operations) == (1, 1)


async def test_the_commands_say_what_they_have_done(world: AdminWorld, capsys: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []
    for command in (suspend_scope, suspend_scope, resume_scope, resume_scope):
        assert await command(world.account, ONE) == 0
        said.append(capsys.readouterr().out)
    assert said == [
        f"{ONE} is suspended\n",
        f"{ONE} was suspended already\n",
        f"{ONE} is let in again\n",
        f"{ONE} was not suspended\n",
    ]


async def test_those_who_are_suspended_are_listed_the_longest_first(
    world: AdminWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    await suspend(world.store, ONE, 1_700_000_100.0)
    await suspend(world.store, TWO, 1_700_000_000.0)
    await list_suspended(world.account, as_json=False)
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"{TWO}  since 2023-11-14T22:13:20Z"
    assert second.startswith(ONE)
    await list_suspended(world.account, as_json=True)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"scope": TWO, "since": 1_700_000_000},
        {"scope": ONE, "since": 1_700_000_100},
    ]


async def test_suspending_says_since_when(world: AdminWorld) -> None:
    before = time.time()
    await suspend_scope(world.account, ONE)
    assert before <= (await load_suspended(world.store))[ONE] <= time.time()
