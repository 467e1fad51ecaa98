"""What holds when calls fail: before they were applied, after, or both. Over both twins, with a seam that breaks."""

from collections.abc import AsyncIterator, Sequence

import pytest

from hosting.storage import (
    Blobs,
    Delete,
    Insert,
    Put,
    RawOperation,
    Replace,
    RowChanged,
    RowExists,
    RowMissing,
    StorageDenied,
    StorageUnavailable,
    Store,
)
from hosting.storage import _commit as commit_module
from tests.contract.storage_faulty import FaultyBlobs, FaultyTables
from tests.contract.storage_twins import TWINS, Twin, fresh, open_twin

LARGE = "x" * 400_000


@pytest.fixture(params=TWINS)
async def twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Twin]:
    monkeypatch.setattr(commit_module, "_PAUSE", 0)
    async with open_twin(request.param, request) as opened:
        yield opened


@pytest.fixture
def tables(twin: Twin) -> FaultyTables:
    return FaultyTables(twin.tables)


@pytest.fixture
def blobs(twin: Twin) -> FaultyBlobs:
    return FaultyBlobs(twin.blobs)


@pytest.fixture
def store(tables: FaultyTables, blobs: FaultyBlobs) -> Store:
    return Store(tables, blobs)


@pytest.fixture
def partition() -> str:
    return fresh()


async def fields_of(store: Store, partition: str, row: str) -> dict[str, object] | None:
    entity = await store.get(partition, row)
    return None if entity is None else dict(entity.fields)


async def blobs_of(blobs: Blobs, partition: str) -> list[str]:
    return await blobs.list(f"values/{partition}/")


# The answer is lost


async def test_insert_that_was_applied_but_timed_out_is_a_success(
    store: Store, tables: FaultyTables, blobs: FaultyBlobs, partition: str
) -> None:
    tables.after = [StorageUnavailable("timeout")]
    etags = await store.commit(partition, [Insert("a", {"n": 1}, {"doc": LARGE}), Insert("b", {"n": 1})])
    entities = await store.query(partition, "", "~")
    assert {entity.row: entity.etag for entity in entities} == etags
    assert entities[0].documents == {"doc": LARGE}
    assert len(await blobs_of(blobs, partition)) == 1


async def test_transaction_that_failed_before_it_was_applied_is_repeated(
    store: Store, tables: FaultyTables, partition: str
) -> None:
    tables.before = [StorageUnavailable("connection reset")]
    await store.commit(partition, [Insert("a", {"n": 1})])
    assert tables.transactions == 2
    assert await fields_of(store, partition, "a") == {"n": 1}


async def test_replace_and_delete_that_were_applied_but_timed_out_are_a_success(
    store: Store, tables: FaultyTables, blobs: FaultyBlobs, partition: str
) -> None:
    old = await store.commit(partition, [Insert(row, {"n": 1}, {"doc": LARGE}) for row in "abc"])
    tables.after = [StorageUnavailable("timeout")]
    etags = await store.commit(
        partition, [Delete("b", old["b"]), Replace("a", {"n": 2}, {"doc": LARGE}, old["a"]), Delete("c")]
    )
    [entity] = await store.query(partition, "", "~")
    assert (entity.fields, entity.documents) == ({"n": 2}, {"doc": LARGE})
    assert etags == {"a": entity.etag}


async def test_when_both_answers_are_lost_it_is_unavailable_and_the_blobs_stay(
    store: Store, tables: FaultyTables, partition: str
) -> None:
    tables.after = [StorageUnavailable("timeout")]
    tables.before = [None, StorageUnavailable("timeout")]
    with pytest.raises(StorageUnavailable):
        await store.commit(partition, [Insert("a", {"n": 1}, {"doc": LARGE})])
    entity = await store.get(partition, "a")
    assert entity is not None
    assert entity.documents == {"doc": LARGE}


@pytest.mark.parametrize("kind", ["insert", "put", "replace"])
async def test_a_later_call_with_the_same_token_finds_that_it_was_done(
    store: Store, tables: FaultyTables, blobs: FaultyBlobs, partition: str, kind: str
) -> None:
    old = await store.commit(partition, [Insert("a", {"n": 0}, {"doc": LARGE})])
    row = "new" if kind == "insert" else "a"
    operation = {
        "insert": Insert("new", {"n": 1}, {"doc": LARGE}),
        "put": Put("a", {"n": 1}, {"doc": LARGE}),
        "replace": Replace("a", {"n": 1}, {"doc": LARGE}, old["a"]),
    }[kind]
    tables.before = [None, StorageUnavailable("timeout")]
    tables.after = [StorageUnavailable("timeout")]
    with pytest.raises(StorageUnavailable):
        await store.commit(partition, [operation], token="turn-1")
    etags = await store.commit(partition, [operation], token="turn-1")
    entity = await store.get(partition, row)
    assert entity is not None
    assert (entity.fields, entity.documents, entity.etag) == ({"n": 1}, {"doc": LARGE}, etags[row])


async def test_the_copy_that_a_repeated_call_wrote_is_removed(
    store: Store, tables: FaultyTables, blobs: FaultyBlobs, partition: str
) -> None:
    await store.commit(partition, [Insert("a", {}, {"doc": LARGE})], token="turn-1")
    await store.commit(partition, [Insert("a", {}, {"doc": LARGE})], token="turn-1")
    assert len(await blobs_of(blobs, partition)) == 1
    assert (await store.query(partition, "", "~"))[0].documents == {"doc": LARGE}


async def test_a_repeated_call_keeps_the_blobs_of_what_the_first_one_put(
    store: Store, tables: FaultyTables, blobs: FaultyBlobs, partition: str
) -> None:
    operations = [Insert("a"), Put("b", {}, {"doc": LARGE})]
    await store.commit(partition, operations, token="turn-1")
    await store.commit(partition, operations, token="turn-1")
    assert len(await blobs_of(blobs, partition)) == 1
    assert (await store.query(partition, "", "~"))[1].documents == {"doc": LARGE}


async def test_a_repeated_call_is_recognised_by_its_inserts_when_the_replaced_row_moved_on(
    store: Store, partition: str
) -> None:
    old = await store.commit(partition, [Insert("session", {"n": 0})])
    operations = [Replace("session", {"n": 1}, {}, old["session"]), Insert("turn-1"), Insert("response-1")]
    await store.commit(partition, operations, token="turn-1")
    await store.commit(partition, [Put("session", {"n": 2})])
    assert (await store.commit(partition, operations, token="turn-1")).keys() == {"session", "turn-1", "response-1"}
    assert await fields_of(store, partition, "session") == {"n": 2}


async def test_a_repeated_call_is_not_judged_by_the_row_that_everybody_fights_for(store: Store, partition: str) -> None:
    operations = [Insert("turn-1", {"n": 1}), Insert("response-1")]
    await store.commit(partition, operations, token="turn-1")
    await store.commit(partition, [Put("turn-1", {"n": 2})])
    assert (await store.commit(partition, operations, token="turn-1")).keys() == {"turn-1", "response-1"}


async def test_another_token_is_a_conflict(store: Store, partition: str) -> None:
    await store.commit(partition, [Insert("a", {"n": 1})], token="one")
    with pytest.raises(RowExists):
        await store.commit(partition, [Insert("a", {"n": 1})], token="two")


async def test_conflict_after_a_lost_answer_is_recognised_by_any_row_that_is_still_ours(
    store: Store, tables: FaultyTables, twin: Twin, partition: str
) -> None:
    operations = [Insert("a", {"n": 1}), Insert("b", {"n": 1}, {"doc": LARGE})]
    tables.before = [None, StorageUnavailable("timeout")]
    tables.after = [StorageUnavailable("timeout")]
    with pytest.raises(StorageUnavailable):
        await store.commit(partition, operations, token="t")
    theirs = await twin.store.commit(partition, [Put("a", {"n": 2})])  # before we come back
    etags = await store.commit(partition, operations, token="t")
    assert etags["a"] != theirs["a"]
    # Our version of "a" is gone: its etag is good for nothing, least of all to overwrite what came after.
    with pytest.raises(RowChanged):
        await store.commit(partition, [Replace("a", {"n": 3}, {}, etags["a"])])
    await store.commit(partition, [Replace("b", {"n": 3}, {}, etags["b"])])
    assert await fields_of(store, partition, "a") == {"n": 2}
    assert await fields_of(store, partition, "b") == {"n": 3}


@pytest.mark.parametrize("document", ["small", LARGE], ids=["inline", "spilled"])
async def test_lost_answer_then_a_foreign_change_is_still_a_success_and_costs_no_blob(
    store: Store, twin: Twin, partition: str, document: str
) -> None:
    # Applied, the answer lost, and before the repetition someone changes the very row that is looked at.
    class Meddling(FaultyTables):
        async def transact(self, partition: str, operations: Sequence[RawOperation]) -> list[str]:
            if self.transactions == 1:
                await twin.store.commit(partition, [Put("a", {"n": 2})])
            return await super().transact(partition, operations)

    meddling = Meddling(twin.tables)
    meddling.after = [StorageUnavailable("timeout")]
    operations = [Insert("a", {"n": 1}), Put("b", {}, {"doc": document})]
    assert (await Store(meddling, twin.blobs).commit(partition, operations)).keys() == {"a", "b"}
    assert await fields_of(store, partition, "a") == {"n": 2}
    entity = await store.get(partition, "b")
    assert entity is not None
    assert entity.documents == {"doc": document}


async def test_delete_that_was_applied_but_timed_out_is_a_success_without_etag(
    store: Store, tables: FaultyTables, partition: str
) -> None:
    await store.commit(partition, [Insert("a"), Insert("b")])
    tables.after = [StorageUnavailable("timeout")]
    assert await store.commit(partition, [Delete("a"), Delete("b")]) == {}
    assert await store.query(partition, "", "~") == []


async def test_delete_with_etag_alone_can_not_tell_and_says_missing(
    store: Store, tables: FaultyTables, partition: str
) -> None:
    etags = await store.commit(partition, [Insert("a")])
    tables.after = [StorageUnavailable("timeout")]
    with pytest.raises(RowMissing):
        await store.commit(partition, [Delete("a", etags["a"])])


async def test_row_that_someone_deletes_while_we_do_is_no_error(twin: Twin, partition: str) -> None:
    class Racing(FaultyTables):
        async def transact(self, partition: str, operations: Sequence[RawOperation]) -> list[str]:
            if not self.transactions:
                await self.inner.transact(partition, [RawOperation("delete", "b")])
            return await super().transact(partition, operations)

    await twin.store.commit(partition, [Insert("a"), Insert("b"), Insert("c")])
    racing = Racing(twin.tables)
    await Store(racing, twin.blobs).commit(partition, [Delete("a"), Delete("b"), Put("c", {"n": 1})])
    assert [entity.row for entity in await twin.store.query(partition, "", "~")] == ["c"]


# It definitely failed


async def test_refused_transaction_leaves_no_blob(
    store: Store, tables: FaultyTables, blobs: FaultyBlobs, partition: str
) -> None:
    tables.before = [StorageDenied("403")]
    with pytest.raises(StorageDenied):
        await store.commit(partition, [Insert("a", {}, {"doc": LARGE})])
    assert await blobs_of(blobs, partition) == []
    assert tables.transactions == 1


async def test_failed_blob_means_no_transaction_and_no_blob_left(
    store: Store, tables: FaultyTables, blobs: FaultyBlobs, partition: str
) -> None:
    blobs.failing_puts = {2}
    with pytest.raises(StorageUnavailable):
        await store.commit(partition, [Insert("a", {}, {"one": LARGE, "two": LARGE, "three": LARGE})])
    assert tables.transactions == 0
    assert await blobs_of(blobs, partition) == []
