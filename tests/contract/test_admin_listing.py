"""What the operator sees of a tenant, over both twins of storage."""

from collections.abc import AsyncIterator
from dataclasses import asdict

import pytest

from hosting.admin.listing import ConversationLine, ResponseLine, list_conversations, list_responses
from hosting.storage import Put, RawOperation, Replace, keys
from hosting.tasks._rows import Key
from tests.contract.admin_world import BIG, AdminWorld, open_admin_world
from tests.contract.storage_twins import TWINS, fresh

ONE, TWO = keys.scope("key:one", None), keys.scope("key:two", None)


@pytest.fixture(params=TWINS)
async def world(request: pytest.FixtureRequest) -> AsyncIterator[AdminWorld]:
    async with open_admin_world(request, request.param, fresh("list")) as opened:
        yield opened


async def responses(world: AdminWorld, *, running: bool = False) -> list[ResponseLine]:
    return [line async for line in list_responses(world.engine, ONE, running=running)]


async def test_responses_are_listed_with_what_is_known_of_them(world: AdminWorld) -> None:
    ended = await world.say(ONE, conversation={"id": "conv_1"})
    begun = await world.start(ONE)
    await world.say(TWO)
    assert {line.id: asdict(line) for line in await responses(world)} == {
        ended: {
            "id": ended,
            "status": "completed",
            "created_at": 1_700_000_000,
            "conversation": "conv_1",
            "task": None,
            "crashes": None,
        },
        begun: {
            "id": begun,
            "status": "in_progress",
            "created_at": 1_700_000_001,
            "conversation": None,
            "task": begun,
            "crashes": 0,
        },
    }


async def test_only_those_that_run_are_listed_when_asked_for(world: AdminWorld) -> None:
    begun = [await world.start(ONE, status=status) for status in ("queued", "in_progress")]
    await world.say(ONE)
    await world.start(TWO)
    found = await responses(world, running=True)
    assert {(line.id, line.created_at) for line in found} == {(one, 1_700_000_001) for one in begun}


async def test_the_time_of_a_response_that_is_too_large_for_its_row_is_known(world: AdminWorld) -> None:
    await world.say(ONE, instructions=BIG)
    [line] = await responses(world)
    assert line.created_at == 1_700_000_000


async def test_the_processes_that_died_of_a_run_are_counted(world: AdminWorld) -> None:
    begun = await world.start(ONE)
    key = Key(ONE, begun)
    entity = await world.store.get(key.partition, key.record_row)
    assert entity is not None
    fields = {**entity.fields, "crashes": 7}
    await world.store.commit(key.partition, [Replace(key.record_row, fields, {}, entity.etag)])
    assert [line.crashes for line in await responses(world, running=True)] == [7]


async def test_a_broken_row_hides_no_other(world: AdminWorld) -> None:
    broken, sound = await world.start(ONE), await world.start(ONE)
    partition = Key(ONE, broken).partition
    for row in (keys.response_row(broken), Key(ONE, broken).record_row):
        await world.twin.tables.transact(partition, [RawOperation("put", row, {"fields": "{", "spilled": "["})])
    found = {line.id: line for line in await responses(world)}
    assert (found[broken].status, found[broken].created_at) == (None, None)
    assert found[sound].status == "in_progress"


async def test_a_record_without_its_fields_hides_no_response(world: AdminWorld) -> None:
    broken, sound = await world.start(ONE), await world.start(ONE)
    key = Key(ONE, broken)
    await world.store.commit(key.partition, [Put(key.record_row, {"status": "in_progress"})])
    found = {line.id: line.crashes for line in await responses(world, running=True)}
    assert found == {broken: None, sound: 0}


async def test_conversations_are_listed_but_for_those_that_are_being_deleted(world: AdminWorld) -> None:
    kept, deleted = await world.converse(ONE, 7), await world.converse(ONE)
    await world.converse(TWO)
    row = RawOperation("put", keys.conversation_row(deleted), {"fields": '{"deleted": true}'})
    await world.twin.tables.transact(keys.partition_key(ONE, keys.chain_of(deleted)), [row])
    assert [line async for line in list_conversations(world.engine, ONE)] == [ConversationLine(kept, 7, 0)]


async def test_a_long_list_comes_page_by_page(world: AdminWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [await world.say(ONE) for _ in range(7)]
    await world.say(TWO)
    for module in ("_memory", "_azure_tables"):
        monkeypatch.setattr(f"hosting.storage.{module}._PAGE", 3)
    before = world.store.meter.table_reads
    listing = list_responses(world.engine, ONE)
    first = [(await anext(listing)).id for _ in range(3)]
    assert world.store.meter.table_reads - before <= 3  # the first page with something, and none after it
    assert first + [line.id async for line in listing] == sorted(made)
