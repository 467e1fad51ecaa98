"""The bucket that processes share, over both twins of storage."""

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest

from devhost.azurite import Azurite
from hosting.server import rate_limit
from hosting.server.rate_limit import RateLimit
from hosting.state.usage_counters import SharedBucket, TokenBucket
from hosting.storage import Put, Store, connect, keys, memory_store

NOW = 1_800_000_000.0


@pytest.fixture(params=["memory", "azurite"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    if request.param == "memory":
        opened = memory_store()
    else:
        azurite: Azurite = request.getfixturevalue("azurite")
        opened = connect({"AzureWebJobsStorage": azurite.connection_string}, table="usage", container="usage")
    try:
        yield opened
    finally:
        await opened.close()


@pytest.fixture
def scope() -> str:
    return keys.scope(uuid.uuid4().hex, None)


async def test_two_processes_see_one_bucket(store: Store, scope: str) -> None:
    first, second = (SharedBucket(store, scope, TokenBucket(3)) for _ in range(2))
    assert [await first.take(1, NOW), await second.take(1, NOW), await first.take(1, NOW)] == [1, 1, 1]
    assert await second.take(1, NOW) == 0


async def test_a_bucket_fills_up_again(store: Store, scope: str) -> None:
    shared = SharedBucket(store, scope, TokenBucket(2))
    for _ in range(2):
        await shared.take(1, NOW)
    assert await shared.take(1, NOW + 29) == 0
    assert await shared.take(1, NOW + 30) == 1


async def test_nobody_takes_more_than_an_eighth_of_what_is_there(store: Store, scope: str) -> None:
    assert await SharedBucket(store, scope, TokenBucket(80)).take(64, NOW) == 10


async def test_the_first_take_reads_and_writes_and_the_next_only_writes(store: Store, scope: str) -> None:
    shared = SharedBucket(store, scope, TokenBucket(80))
    before = store.meter.copy()
    await shared.take(1, NOW)
    between = store.meter.copy()
    await shared.take(1, NOW)
    first, second = between - before, store.meter - between
    assert (first.table_reads, first.table_writes) == (1, 1)
    assert (second.table_reads, second.table_writes) == (0, 1)


async def test_tenants_have_a_row_each(store: Store, scope: str) -> None:
    await SharedBucket(store, scope, TokenBucket(1)).take(1, NOW)
    assert await SharedBucket(store, keys.scope("another", None), TokenBucket(1)).take(1, NOW + 600) == 1


async def test_a_damaged_row_is_written_over(store: Store, scope: str) -> None:
    partition = keys.partition_key(scope, keys.chain_of("usage"))
    await store.commit(partition, [Put("usage.runs", {"full_at": "soon"})])
    assert await SharedBucket(store, scope, TokenBucket(1)).take(1, NOW) == 1
    assert await SharedBucket(store, scope, TokenBucket(1)).take(1, NOW) == 0


async def test_a_row_that_is_deleted_is_made_again(store: Store, scope: str) -> None:
    shared = SharedBucket(store, scope, TokenBucket(5))
    await shared.take(1, NOW)
    await store.delete_range(keys.partition_key(scope, keys.chain_of("usage")), "usage.", "usage/")
    assert await shared.take(1, NOW) == 1


async def test_processes_at_the_same_time_admit_no_more_than_the_limit_and_nearly_all_of_it(
    store: Store, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_limit, "_PATIENCE", 60.0)  # a process that gives up on the table counts alone
    limits = [RateLimit(40, lambda: store, lambda: NOW) for _ in range(4)]
    results = await asyncio.gather(*(limit.admit(scope) for limit in limits for _ in range(20)), return_exceptions=True)
    assert 30 <= sum(isinstance(result, dict) for result in results) <= 40
