"""What the operator sees of all tenants' work, over both twins of storage."""

import json
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

import pytest

from hosting.admin.commands import list_running
from hosting.admin.running import RunningLine, oldest_running
from hosting.storage import Delete, RawOperation, Replace, StorageUnavailable, keys
from hosting.tasks._rows import INDEX_PARTITIONS, Key
from hosting.tasks.engine import StartRequest
from tests.contract.admin_world import AdminWorld, job, open_admin_world
from tests.contract.storage_twins import TWINS, fresh

ONE, TWO = keys.scope("key:one", None), keys.scope("key:two", None)


@pytest.fixture(params=TWINS)
async def world(request: pytest.FixtureRequest) -> AsyncIterator[AdminWorld]:
    async with open_admin_world(request, request.param, fresh("running")) as opened:
        yield opened


async def lines(world: AdminWorld, most: int = 100) -> dict[str, RunningLine]:
    """By task."""
    return {line.task: line for line in (await oldest_running(world.engine, most)).lines}


async def change(world: AdminWorld, key: Key, **fields: Any) -> None:
    """Of a task's record."""
    found = await world.store.get(key.partition, key.record_row)
    assert found is not None
    await world.store.commit(key.partition, [Replace(key.record_row, {**found.fields, **fields}, {}, found.etag)])


async def accepted(world: AdminWorld, key: Key, seconds_ago: float) -> None:
    """Make its index row older."""
    [row] = [
        row
        for row in await world.store.query(key.index_partition, "0", "g")
        if row.fields["task_id"] == key.task_id and row.fields["scope"] == key.scope
    ]
    fields = {**row.fields, "created_at": world.engine.clock.now() - seconds_ago}
    await world.store.commit(key.index_partition, [Replace(row.row, fields, {}, row.etag)])


async def test_work_of_all_tenants_is_listed_and_what_has_ended_is_not(world: AdminWorld) -> None:
    mine, theirs = await world.start(ONE), await world.start(TWO)
    await world.say(ONE)
    found = await lines(world)
    assert {(line.scope, line.response) for line in found.values()} == {(ONE, mine), (TWO, theirs)}
    assert asdict(found[mine]) | {"age": 0} == {
        "scope": ONE,
        "response": mine,
        "task": mine,
        "name": "tests.admin.job",
        "age": 0,
        "state": "waiting",
        "lease": None,
        "crashes": 0,
    }


async def test_a_task_that_runs_no_response_is_listed_too(world: AdminWorld) -> None:
    await world.engine.start(StartRequest(job.declared, Key(ONE, "nightly"), "input-1", "input", known_new=True))
    [line] = (await lines(world)).values()
    assert (line.task, line.response, line.name) == ("nightly", None, "tests.admin.job")


@pytest.mark.parametrize(
    ("state", "left", "lease"), [("running", 30.0, 29), ("running", -1.0, -1), ("lapsed", -30.0, -30)]
)
async def test_the_lease_says_whether_somebody_is_at_it(world: AdminWorld, state: str, left: float, lease: int) -> None:
    key = Key(ONE, await world.start(ONE))
    await change(world, key, lease_owner="a process", lease_expires=world.engine.clock.now() + left, crashes=4)
    line = (await lines(world))[key.task_id]
    assert (line.state, line.crashes) == (state, 4)
    assert line.lease == pytest.approx(lease, abs=1)


async def test_a_back_off_is_told_apart_from_waiting_for_a_process(world: AdminWorld) -> None:
    key = Key(ONE, await world.start(ONE))
    await change(world, key, not_before=world.engine.clock.now() + 60)
    assert (await lines(world))[key.task_id].state == "backing off"


async def test_the_oldest_come_first_and_the_others_are_counted_only(world: AdminWorld) -> None:
    made = [await world.start(scope) for scope in (ONE, TWO, ONE)]
    for age, (scope, response) in zip((50, 200, 100), zip((ONE, TWO, ONE), made, strict=True), strict=True):
        await accepted(world, Key(scope, response), age)
    found = await oldest_running(world.engine, 2)
    assert [line.response for line in found.lines] == [made[1], made[2]]
    assert (found.lines[0].age, found.total) == (pytest.approx(200, abs=5), 3)


async def test_it_reads_the_index_once_and_a_row_for_each_task_that_is_shown(world: AdminWorld) -> None:
    for scope in (ONE, TWO, ONE):
        await world.start(scope)
    before = world.store.meter.copy()
    await oldest_running(world.engine, 2)
    used = world.store.meter - before
    assert (used.table_reads, used.table_writes, used.blob_reads) == (16 + 2, 0, 0)


async def test_a_row_that_is_left_over_in_the_index_is_called_ended(world: AdminWorld) -> None:
    key = Key(ONE, await world.start(ONE))
    await world.store.commit(key.partition, [Delete(key.record_row)])
    line = (await lines(world))[key.task_id]
    assert (line.state, line.response) == ("ended", key.task_id)


async def test_broken_rows_hide_no_others(world: AdminWorld) -> None:
    broken, sound = Key(ONE, await world.start(ONE)), await world.start(TWO)
    put = RawOperation("put", broken.record_row, {"fields": "{"})
    await world.twin.tables.transact(broken.partition, [put])
    await world.twin.tables.transact(INDEX_PARTITIONS[3], [RawOperation("put", "0123.x", {"fields": "{"})])
    found = await lines(world)
    assert {task: line.state for task, line in found.items()} == {
        broken.task_id: "unreadable",
        sound: "waiting",
        "": "unreadable",
    }


async def test_storage_that_is_away_is_an_error_and_no_short_list(
    world: AdminWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        await world.start(ONE)

    async def away(*given: Any, **more: Any) -> Any:
        raise StorageUnavailable("away")

    monkeypatch.setattr(world.store, "get", away)
    with pytest.raises(StorageUnavailable):
        await oldest_running(world.engine, 100)


async def test_people_get_a_table_and_programs_a_line_of_json_each(
    world: AdminWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    response = await world.start(ONE)
    await accepted(world, Key(ONE, response), 3700)
    assert await list_running(world.account, most=5, as_json=False) == 0
    heading, row = capsys.readouterr().out.splitlines()
    assert heading.split()[:2] == ["SCOPE", "RESPONSE"]
    assert row.split()[:3] == [ONE, response, "tests.admin.job"]
    assert "1:01:4" in row
    await list_running(world.account, most=5, as_json=True)
    [text] = capsys.readouterr().out.splitlines()
    assert json.loads(text)["response"] == response


async def test_what_is_left_out_is_said(world: AdminWorld, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        await world.start(ONE)
    await list_running(world.account, most=1, as_json=True)
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 1
    assert "3 unfinished in the account; 2 younger ones left out" in captured.err
