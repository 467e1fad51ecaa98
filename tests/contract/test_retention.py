"""Retention over both twins of storage. Time can't be moved in Azurite: the timer is told that it is later."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import Any

import pytest

from hosting.functions.retention import make_retention
from hosting.ids import item_id, response_id
from hosting.settings import load_settings
from hosting.state import TurnRecord, Turns
from hosting.state.idempotency import IdempotencyKeys
from hosting.state.retention import Report, TickLimits
from hosting.storage import AppendBlobs, MemoryAppendBlobs, connect_append_blobs, keys
from hosting.streaming import StreamRegistry
from hosting.tasks._outcome import Outcome
from hosting.tasks._record import Slot
from hosting.tasks._rows import Key
from tests.contract.storage_twins import TWINS, Twin, fresh, open_twin

DAY = 86_400.0
TENANTS = [keys.scope(name, None) for name in ("one", "two", "three")]
BIG = 400_000
NOTHING_SET: Mapping[str, str] = MappingProxyType({})


class World:
    def __init__(self, twin: Twin, appends: AppendBlobs) -> None:
        self.twin, self.store, self.appends = twin, twin.store, appends
        self.scope = TENANTS[0]
        self.registry = StreamRegistry()
        self.registry.use_blob_replay(
            lambda: appends, scope=lambda: self.scope, cursor_fn=lambda event: event["n"], ttl_seconds=None
        )

    async def say(self, scope: str, text: str, previous: str | None = None) -> str:
        turns = Turns(self.store, scope)
        turn = await turns.begin(previous, history=True)
        item = {"id": item_id("msg", turn.response_id), "type": "message", "text": text}
        response: dict[str, Any] = {"id": turn.response_id, "status": "completed", "output": [item]}
        await turns.commit(turn, TurnRecord(response, [item], [{"text": text}]))
        return turn.response_id

    async def heard(self, scope: str, previous: str) -> list[Any]:
        turn = await Turns(self.store, scope).begin(previous, history=True)
        return [message["text"] for message in turn.history or []]  # type: ignore[index,call-overload]

    async def exists(self, scope: str, response: str) -> bool:
        return await Turns(self.store, scope).response(response) is not None

    async def retain(self, now: float, env: Mapping[str, str] = NOTHING_SET, **limits: Any) -> Report:
        """What the timer does at this time, with these settings."""
        retention = make_retention(
            load_settings(env),
            self.store,
            self.appends,
            clock=lambda: now,
            limits=TickLimits(**{"between_passes": 0.0, **limits}),
        )
        return await retention.run()

    async def rows(self) -> int:
        page = await self.twin.tables.scan(None)
        assert page.next is None
        return sum(row.raw.partition != "retention" for row in page.items)


@pytest.fixture(params=TWINS)
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    names = fresh("retention")
    async with open_twin(request.param, request, names) as twin:
        if request.param == "memory":
            appends: AppendBlobs = MemoryAppendBlobs()
        else:
            connection = request.getfixturevalue("azurite").connection_string
            appends = connect_append_blobs({"AzureWebJobsStorage": connection}, container=names)
        world = World(twin, appends)
        yield world
        await world.registry.shutdown()
        await appends.close()


async def test_chains_of_several_tenants_go_by_the_age_of_their_newest_turn(world: World) -> None:
    old = {scope: await world.say(scope, "old" + "x" * BIG) for scope in TENANTS}
    continued = {scope: await world.say(scope, "begun") for scope in TENANTS}
    await asyncio.sleep(0.1)
    moment = time.time()
    await asyncio.sleep(0.1)
    newest = {scope: await world.say(scope, "continued", continued[scope]) for scope in TENANTS}
    young = {scope: await world.say(scope, "young" + "x" * BIG) for scope in TENANTS}
    report = await world.retain(moment + 30 * DAY)
    assert report.finished
    assert report.removed["rows"] == 3 * 2
    for scope in TENANTS:
        assert not await world.exists(scope, old[scope])
        assert await world.heard(scope, newest[scope]) == ["begun", "continued"]
        assert await world.exists(scope, young[scope])
    assert len(await world.twin.blobs.list("values/")) == 3 * 3


async def test_everything_goes_in_the_end(world: World) -> None:
    first = await world.say(TENANTS[0], "one" + "x" * BIG)
    await world.say(TENANTS[0], "two", first)
    key = Key(TENANTS[1], "job")
    slot = Slot(1, "i", "n", "fresh")
    await world.store.commit(key.partition, [Outcome("completed", output=1).row(key, slot, 1, time.time(), DAY)])
    await IdempotencyKeys(world.store, TENANTS[2]).claim("k", "f", first, time.time())
    stream = await world.registry.take_over(first)
    await stream.emit({"n": 0})
    await stream.close()
    await world.twin.blobs.put(f"values/{key.partition}/turn.main.00000000/input-1-2", b"orphan")
    reports = [await world.retain(time.time() + 31 * DAY, removals=1) for _ in range(3)]
    assert [report.finished for report in reports] == [False, False, True]
    assert await world.rows() == 0
    assert await world.appends.list("") == []
    assert await world.twin.blobs.list("values/") == []


async def test_nothing_goes_before_its_time(world: World) -> None:
    response = await world.say(TENANTS[0], "one" + "x" * BIG)
    await IdempotencyKeys(world.store, TENANTS[0]).claim("k", "f", response, time.time())
    stream = await world.registry.take_over(response)
    await stream.emit({"n": 0})
    await stream.close()
    orphan = f"values/{keys.partition_key(TENANTS[0], '0' * 18)}/turn.main.00000000/input-1-2"
    await world.twin.blobs.put(orphan, b"young")
    report = await world.retain(time.time() + 0.9 * DAY)
    assert (report.finished, sum(report.removed.values())) == (True, 0)
    assert await world.heard(TENANTS[0], response) == ["one" + "x" * BIG]


async def test_a_response_that_runs_stays(world: World) -> None:
    from hosting.state import TaskRef
    from hosting.state.lineage import MAIN, Place
    from hosting.state.response_row import running_columns
    from hosting.storage import Insert

    chain = "0" * 18
    identifier = response_id(chain)
    response = {"id": identifier, "status": "in_progress", "output": []}
    columns = running_columns(response, [], Place(chain, MAIN, 0), (), TaskRef(identifier, 1, True))
    await world.store.commit(keys.partition_key(TENANTS[0], chain), [Insert(keys.response_row(identifier), *columns)])
    stream = await world.registry.take_over(identifier)
    await stream.emit({"n": 0})
    await stream.flush()
    await world.retain(time.time() + 400 * DAY)
    assert await world.exists(TENANTS[0], identifier)
    assert len(await world.appends.list("streams/")) == 1


async def test_two_timers_at_once_do_no_harm(world: World) -> None:
    old = [(scope, await world.say(scope, "old")) for scope in TENANTS for _ in range(3)]
    await asyncio.sleep(0.1)
    now = time.time() + 30 * DAY
    await asyncio.sleep(0.1)
    young = await world.say(TENANTS[0], "young")
    reports = await asyncio.gather(*(world.retain(now) for _ in range(2)))
    assert any(report.finished for report in reports)
    await world.retain(now)
    assert not any([await world.exists(scope, response) for scope, response in old])
    assert await world.heard(TENANTS[0], young) == ["young"]
    assert await world.rows() == 2


async def test_a_shorter_lifetime_removes_nothing_for_three_days(world: World) -> None:
    long, short = {"HOSTING_RETENTION_DAYS": "365"}, {"HOSTING_RETENTION_DAYS": "30"}
    kept = await world.say(TENANTS[0], "a month old")
    shortened = time.time() + 40 * DAY
    await world.retain(shortened - 1, long)
    for hours in (0.0, 71.9):
        await world.retain(shortened + hours * 3600, short)
        assert await world.exists(TENANTS[0], kept)
    await world.retain(shortened + 72 * 3600, short)
    assert not await world.exists(TENANTS[0], kept)
