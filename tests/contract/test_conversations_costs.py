"""What the operations of a conversation cost, at its beginning and after 500 turns: requests to storage, and round trips.

A round trip is counted where one request waits for the answer to another one; requests that go out together are one.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from hosting.storage import RawEntity, RawOperation, Store, Tables
from tests.contract.conversation_worlds import NAMES, World, user, users
from tests.contract.storage_twins import TWINS, open_twin


class Rounds:
    """Tables that count round trips: a request that goes out while no other is under way begins one."""

    def __init__(self, inner: Tables) -> None:
        self.inner = inner
        self.rounds = 0
        self._under_way = 0

    async def get(self, partition: str, row: str, select: Sequence[str] | None = None) -> RawEntity | None:
        return await self._counted(self.inner.get(partition, row, select))

    async def query(
        self, partition: str, first: str, last: str, select: Sequence[str] | None = None, limit: int | None = None
    ) -> list[RawEntity]:
        return await self._counted(self.inner.query(partition, first, last, select, limit))

    async def scan(self, *args: Any, **options: Any) -> Any:
        return await self._counted(self.inner.scan(*args, **options))

    async def transact(self, partition: str, operations: Sequence[RawOperation]) -> list[str]:
        return await self._counted(self.inner.transact(partition, operations))

    async def close(self) -> None:
        await self.inner.close()

    async def _counted[T](self, request: Awaitable[T]) -> T:
        self.rounds += self._under_way == 0
        self._under_way += 1
        try:
            for _ in range(20):  # requests that do not wait for this one go out meanwhile
                await asyncio.sleep(0)
            return await request
        finally:
            self._under_way -= 1


@dataclass(frozen=True)
class Cost:
    reads: int
    writes: int
    rounds: int


class Metered(World):
    tables: Rounds

    async def cost(self, act: Callable[[], Awaitable[Any]]) -> Cost:
        before, rounds = self.store.meter.copy(), self.tables.rounds
        await act()
        spent = self.store.meter - before
        assert spent.operations == spent.table_reads + spent.table_writes
        return Cost(spent.table_reads, spent.table_writes, self.tables.rounds - rounds)

    async def long(self, turns: int = 500) -> str:
        identifier = await self.begin("0")
        conversation = await self.conversations.get(identifier)
        assert conversation is not None
        await self.many_turns(conversation, turns)
        return identifier


@pytest.fixture(params=TWINS)
async def world(request: pytest.FixtureRequest) -> AsyncIterator[Metered]:
    async with open_twin(request.param, request, NAMES) as twin:
        tables = Rounds(twin.tables)
        metered = Metered(Store(tables, twin.blobs, twin.store.meter))
        await metered.begin()  # the table is there
        metered.tables = tables
        yield metered


async def test_create_is_one_write(world: Metered) -> None:
    assert await world.cost(lambda: world.conversations.create({})) == Cost(0, 1, 1)
    assert await world.cost(lambda: world.conversations.create({}, users("a", "b"))) == Cost(0, 1, 1)


@pytest.mark.parametrize("turns", [2, 500])
async def test_append_is_one_read_and_one_write_whatever_the_length(world: Metered, turns: int) -> None:
    identifier = await world.long(turns)
    assert await world.cost(lambda: world.add(identifier, "a", "b")) == Cost(1, 1, 2)


@pytest.mark.parametrize("turns", [2, 500])
async def test_append_looks_up_each_given_id_in_one_more_round(world: Metered, turns: int) -> None:
    identifier = await world.long(turns)
    items = [*user("a", id="mine_1"), *user("b", id="mine_2")]
    assert await world.cost(lambda: world.conversations.append(identifier, items)) == Cost(3, 1, 3)


@pytest.mark.parametrize("turns", [2, 500])
async def test_the_first_page_is_two_reads_whatever_the_length(world: Metered, turns: int) -> None:
    identifier = await world.long(turns)
    assert await world.cost(lambda: world.conversations.items(identifier)) == Cost(2, 0, 2)
    assert await world.cost(lambda: world.conversations.items(identifier, descending=False)) == Cost(2, 0, 2)


async def test_a_long_list_is_read_in_blocks_only_as_far_as_needed(world: Metered) -> None:
    identifier = await world.long(500)
    assert await world.cost(lambda: world.conversations.items(identifier, limit=100)) == Cost(4, 0, 4)


@pytest.mark.parametrize("turns", [2, 500])
async def test_an_item_is_two_point_reads_whatever_the_length(world: Metered, turns: int) -> None:
    identifier = await world.long(turns)
    items, _ = await world.conversations.items(identifier, descending=False, limit=1)
    assert await world.cost(lambda: world.conversations.item(identifier, items[0]["id"])) == Cost(2, 0, 2)


@pytest.mark.parametrize("turns", [2, 500])
@pytest.mark.parametrize(("history", "reads"), [(True, 3), (False, 2)])
async def test_a_turn_reads_its_past_in_one_round_trip_whatever_the_length(
    world: Metered, turns: int, history: bool, reads: int
) -> None:
    identifier = await world.long(turns)
    assert await world.cost(lambda: world.turns.read(identifier, history=history)) == Cost(reads, 0, 1)


async def test_a_past_of_more_than_500_turns_takes_one_more_round_trip(world: Metered) -> None:
    identifier = await world.long(1_600)
    assert await world.cost(lambda: world.turns.read(identifier, history=True)) == Cost(6, 0, 2)


async def test_a_whole_foreground_turn_is_one_read_and_two_writes(world: Metered) -> None:
    identifier = await world.long(500)
    assert await world.cost(lambda: world.say(identifier, "hi", "hello")) == Cost(3, 2, 3)


async def test_a_turn_after_background_turns_takes_one_more_round_trip(world: Metered) -> None:
    identifier = await world.long(2)
    for _ in range(4):
        turn = await world.queue(identifier)
        await world.end(turn, "hi", "hello")
    # The conversation, its session, the log; the response row of the last owner, and the log behind the checkpoint.
    assert await world.cost(lambda: world.turns.read(identifier, history=True)) == Cost(5, 0, 2)
