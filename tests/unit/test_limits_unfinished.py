"""The limit of unfinished background runs, counted in the index of active work."""

import pytest

from hosting.responses import ApiError
from hosting.server.limit_unfinished import UnfinishedRuns
from hosting.storage import (
    Delete,
    Insert,
    MemoryBlobs,
    MemoryTables,
    Meter,
    RawOperation,
    StorageUnavailable,
    Store,
    keys,
)
from hosting.tasks._rows import INDEX_PARTITIONS, IndexEntry, Key, encode_index

CONTOSO, FABRIKAM = keys.scope("contoso", None), keys.scope("fabrikam", None)


class Tables(MemoryTables):
    works = True

    async def query(self, *args, **options):  # type: ignore[no-untyped-def]
        if not self.works:
            raise StorageUnavailable("switched off")
        return await super().query(*args, **options)


class World:
    """A store with an index, and time."""

    def __init__(self) -> None:
        meter = Meter()
        self.tables = Tables(meter)
        self.store = Store(self.tables, MemoryBlobs(meter), meter)
        self.time = 1000.0

    def limit(self, most: int) -> UnfinishedRuns:
        return UnfinishedRuns(most, lambda: self.store, lambda: self.time)

    async def start(self, scope: str, count: int) -> None:
        for number in range(count):
            key = Key(scope, f"task {number}")
            row = Insert(key.index_row("nonce"), encode_index(IndexEntry(key, "nonce", 0.0)))
            await self.store.commit(key.index_partition, [row])

    async def end(self, scope: str, number: int) -> None:
        key = Key(scope, f"task {number}")
        await self.store.commit(key.index_partition, [Delete(key.index_row("nonce"))])


@pytest.fixture
def world() -> World:
    return World()


async def refused(limit: UnfinishedRuns, scope: str = CONTOSO) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await limit.admit(scope)
    return caught.value


async def test_without_a_limit_nothing_is_read(world: World) -> None:
    await world.limit(0).admit(CONTOSO)
    assert world.store.meter.operations == 0


async def test_who_has_as_many_as_the_limit_is_refused_and_others_are_not(world: World) -> None:
    await world.start(CONTOSO, 5)
    await world.start(FABRIKAM, 2)
    limit = world.limit(5)
    error = await refused(limit)
    assert (error.status, error.code, error.headers) == (429, "rate_limit_exceeded", {"retry-after": "15"})
    await limit.admit(FABRIKAM)


async def test_what_this_process_accepts_counts_at_once(world: World) -> None:
    limit = world.limit(3)
    for _ in range(3):
        await limit.admit(CONTOSO)
    await refused(limit)


async def test_a_count_is_sixteen_reads_and_is_kept_for_a_while(world: World) -> None:
    limit = world.limit(100)
    for _ in range(50):
        await limit.admit(CONTOSO)
    assert world.store.meter.table_reads == 16
    world.time += 16
    await limit.admit(CONTOSO)
    assert world.store.meter.table_reads == 32


async def test_after_the_time_that_a_refusal_names_what_has_ended_is_seen(world: World) -> None:
    await world.start(CONTOSO, 4)
    limit = world.limit(4)
    error = await refused(limit)
    await world.end(CONTOSO, 0)
    await refused(limit)
    world.time += int(error.headers["retry-after"])
    await limit.admit(CONTOSO)
    await refused(limit)


async def test_a_row_that_cannot_be_read_does_not_hide_the_others(world: World) -> None:
    await world.start(CONTOSO, 2)
    broken = RawOperation("put", "0broken", {"fields": "{"})
    await world.tables.transact(INDEX_PARTITIONS[0], [broken])
    await refused(world.limit(2))


async def test_an_index_that_cannot_be_read_stops_nobody(world: World) -> None:
    world.tables.works = False
    await world.limit(1).admit(CONTOSO)
