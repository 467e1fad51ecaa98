"""How long blobs live: as long as a row refers to them, whatever fails, is repeated, or is at it beside us. Over both twins."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest

from hosting.storage import (
    Blobs,
    Delete,
    Entity,
    Insert,
    Json,
    Put,
    RawEntity,
    RawOperation,
    Replace,
    RowChanged,
    RowExists,
    StorageUnavailable,
    Store,
    Tables,
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


async def read(store: Store, partition: str, row: str) -> Entity:
    entity = await store.get(partition, row)
    assert entity is not None
    return entity


# Blobs are cleaned up


async def test_replace_put_and_delete_remove_the_blobs_of_the_old_version(twin: Twin, partition: str) -> None:
    store = twin.store
    etags = await store.commit(partition, [Insert(row, {}, {"doc": LARGE, "more": LARGE}) for row in "abcd"])
    assert len(await blobs_of(twin.blobs, partition)) == 8
    await store.commit(partition, [Replace("a", {}, {"doc": LARGE}, etags["a"]), Put("b", {}, {"doc": LARGE})])
    assert len(await blobs_of(twin.blobs, partition)) == 6
    await store.commit(partition, [Delete("c"), Delete("d", etags["d"])])
    assert len(await blobs_of(twin.blobs, partition)) == 2
    for row in "ab":
        assert (await read(store, partition, row)).documents == {"doc": LARGE}


async def test_replace_sends_again_only_what_has_changed(twin: Twin, partition: str) -> None:
    store = twin.store
    etags = await store.commit(partition, [Insert("a", {}, {"doc": LARGE, "more": LARGE})])
    before = await blobs_of(twin.blobs, partition)
    first = store.meter.copy()
    documents: dict[str, Json] = {"doc": LARGE, "more": LARGE + "!", "short": "x"}
    await store.commit(partition, [Replace("a", {"n": 2}, documents, etags["a"])])
    spent = store.meter - first
    after = await blobs_of(twin.blobs, partition)
    assert (len(after), len(set(before) & set(after))) == (2, 1)
    assert (spent.table_reads, spent.table_writes, spent.blob_writes, spent.blob_deletes) == (1, 1, 1, 1)
    assert (await read(store, partition, "a")).documents == documents


async def test_a_document_that_stays_the_same_keeps_its_blob_through_many_versions(twin: Twin, partition: str) -> None:
    etags = await twin.store.commit(partition, [Insert("a", {"n": 0}, {"doc": LARGE})])
    for n in range(1, 4):
        etags = await twin.store.commit(partition, [Replace("a", {"n": n}, {"doc": LARGE}, etags["a"])])
    assert (await read(twin.store, partition, "a")).documents == {"doc": LARGE}
    await twin.store.commit(partition, [Delete("a", etags["a"])])
    assert await blobs_of(twin.blobs, partition) == []


async def test_a_large_document_under_the_name_of_another_is_written(twin: Twin, partition: str) -> None:
    etags = await twin.store.commit(partition, [Insert("a", {}, {"doc": LARGE, "more": LARGE + "!"})])
    await twin.store.commit(partition, [Replace("a", {}, {"doc": LARGE + "!", "more": LARGE}, etags["a"])])
    assert (await read(twin.store, partition, "a")).documents == {"doc": LARGE + "!", "more": LARGE}
    assert len(await blobs_of(twin.blobs, partition)) == 2


async def test_put_of_the_same_value_again_keeps_it_readable(twin: Twin, partition: str) -> None:
    for _ in range(3):
        await twin.store.commit(partition, [Put("a", {}, {"doc": LARGE})])
    assert (await read(twin.store, partition, "a")).documents == {"doc": LARGE}
    assert len(await blobs_of(twin.blobs, partition)) == 1


async def test_failed_replace_keeps_the_blobs_of_the_surviving_row(twin: Twin, partition: str) -> None:
    etags = await twin.store.commit(partition, [Insert("a", {"n": 1}, {"doc": LARGE})])
    await twin.store.commit(partition, [Replace("a", {"n": 2}, {"doc": LARGE}, etags["a"])])
    for operation in (Replace("a", {"n": 3}, {"doc": LARGE}, etags["a"]), Delete("a", etags["a"])):
        with pytest.raises(RowChanged):
            await twin.store.commit(partition, [operation])
    entity = await read(twin.store, partition, "a")
    assert (entity.fields, entity.documents) == ({"n": 2}, {"doc": LARGE})
    assert len(await blobs_of(twin.blobs, partition)) == 1


async def test_delete_range_removes_rows_and_blobs_of_the_range_only(twin: Twin, partition: str) -> None:
    rows = [f"r{n:03d}" for n in range(230)]
    for at in range(0, len(rows), 100):
        await twin.store.commit(partition, [Insert(row) for row in rows[at : at + 100]])
    await twin.store.commit(partition, [Insert("q", {}, {"doc": LARGE}), Insert("r5", {}, {"doc": LARGE}), Insert("s")])
    assert await twin.store.delete_range(partition, "r", "s") == 231
    assert [entity.row for entity in await twin.store.query(partition, "", "~")] == ["q", "s"]
    [blob] = await blobs_of(twin.blobs, partition)
    assert "/q/" in blob


# The answer is lost


async def test_old_blobs_of_a_replaced_version_go_also_when_the_answer_was_lost(
    store: Store, tables: FaultyTables, blobs: FaultyBlobs, partition: str
) -> None:
    old = await store.commit(partition, [Insert("a", {}, {"doc": LARGE})])
    tables.after = [StorageUnavailable("timeout")]
    await store.commit(partition, [Replace("a", {}, {"doc": LARGE}, old["a"])])
    assert len(await blobs_of(blobs, partition)) == 1
    assert (await store.query(partition, "", "~"))[0].documents == {"doc": LARGE}


async def test_lost_answer_then_a_successor_that_keeps_our_blob_leaves_it_there(
    store: Store, twin: Twin, partition: str
) -> None:
    # Applied, the answer lost, and before the repetition someone replaces our version and goes on using its blob.
    class Succeeded(FaultyTables):
        async def transact(self, partition: str, operations: Sequence[RawOperation]) -> list[str]:
            if self.transactions == 1:
                ours = await store.get(partition, "a")
                assert ours is not None
                await twin.store.commit(partition, [Replace("a", {"n": 2}, {"doc": LARGE}, ours.etag)])
            return await super().transact(partition, operations)

    succeeded = Succeeded(twin.tables)
    succeeded.after = [StorageUnavailable("timeout")]
    with pytest.raises(RowExists):  # nothing tells any more that it was ours
        await Store(succeeded, twin.blobs).commit(partition, [Insert("a", {"n": 1}, {"doc": LARGE})])
    entity = await store.get(partition, "a")
    assert entity is not None
    assert (entity.fields, entity.documents) == ({"n": 2}, {"doc": LARGE})
    assert len(await blobs_of(twin.blobs, partition)) == 1


@pytest.mark.parametrize("kind", ["insert", "put"])
async def test_what_is_written_again_after_a_lost_answer_has_blobs_of_its_own(
    twin: Twin, partition: str, kind: str
) -> None:
    """Applied, the answer lost, and before the repetition someone deletes or replaces it, and its blobs with it."""
    store = twin.store

    class Meddling(FaultyTables):
        async def transact(self, partition: str, operations: Sequence[RawOperation]) -> list[str]:
            if self.transactions == 1 and kind == "insert":
                await store.delete_range(partition, "", "~")
            elif self.transactions == 1:
                await store.commit(partition, [Put("a", {}, {"doc": LARGE + "!"})])
            return await super().transact(partition, operations)

    meddling = Meddling(twin.tables)
    meddling.after = [StorageUnavailable("timeout")]
    written = Insert("a", {}, {"doc": LARGE}) if kind == "insert" else Put("a", {}, {"doc": LARGE})
    await Store(meddling, twin.blobs).commit(partition, [written])
    entity = await store.get(partition, "a")
    assert entity is not None
    assert entity.documents == {"doc": LARGE}


async def test_a_repetition_leaves_one_copy_of_its_blobs(
    store: Store, tables: FaultyTables, blobs: FaultyBlobs, partition: str
) -> None:
    for which in ("before", "after"):  # not applied, or applied and unanswered
        setattr(tables, which, [StorageUnavailable("timeout")])
        await store.commit(partition, [Insert(which, {}, {"doc": LARGE}), Insert(f"{which} too")])
    assert len(await blobs_of(blobs, partition)) == 2
    assert [row.documents for row in await store.query(partition, "", "~") if row.documents] == [{"doc": LARGE}] * 2


async def test_of_two_successors_the_one_that_loses_takes_no_blob_from_the_other(store: Store, partition: str) -> None:
    old = await store.commit(partition, [Insert("a", {"n": 0}, {"doc": LARGE})])
    operations = [Replace("a", {"n": n}, {"doc": LARGE}, old["a"]) for n in (1, 2)]
    results = await asyncio.gather(
        *(store.commit(partition, [operation]) for operation in operations), return_exceptions=True
    )
    assert sorted(type(result).__name__ for result in results) == ["RowChanged", "dict"]
    entity = await store.get(partition, "a")
    assert entity is not None
    assert entity.documents == {"doc": LARGE}


async def test_a_repetition_whose_blobs_can_not_be_written_leaves_what_the_first_try_did(
    store: Store, tables: FaultyTables, blobs: FaultyBlobs, partition: str
) -> None:
    tables.after = [StorageUnavailable("timeout")]
    blobs.failing_puts = {4}
    with pytest.raises(StorageUnavailable, match="put"):
        await store.commit(partition, [Insert("a", {}, {"doc": LARGE, "more": LARGE})])
    assert (await read(store, partition, "a")).documents == {"doc": LARGE, "more": LARGE}
    assert len(await blobs_of(blobs, partition)) == 2


# A reader between two writes


class Overtaken(FaultyTables):
    """Tables where something happens right after the first read of a row or range."""

    def __init__(self, inner: Tables, happens: Callable[[], Awaitable[object]]) -> None:
        super().__init__(inner)
        self._happens: Callable[[], Awaitable[object]] | None = happens

    async def get(self, partition: str, row: str, select: Sequence[str] | None = None) -> RawEntity | None:
        found = await super().get(partition, row, select)
        await self._once()
        return found

    async def query(
        self, partition: str, first: str, last: str, select: Sequence[str] | None = None, limit: int | None = None
    ) -> list[RawEntity]:
        found = await super().query(partition, first, last, select, limit)
        await self._once()
        return found

    async def _once(self) -> None:
        happens, self._happens = self._happens, None
        if happens:
            await happens()


async def test_reader_of_a_version_whose_blobs_are_gone_gets_the_next_version(twin: Twin, partition: str) -> None:
    await twin.store.commit(partition, [Insert(row, {"n": 1}, {"doc": [1, LARGE]}) for row in "ab"])
    for n in (2, 3):
        overtaken = Overtaken(
            twin.tables,
            lambda n=n: twin.store.commit(partition, [Put(row, {"n": n}, {"doc": [n, LARGE]}) for row in "ab"]),
        )
        reader = Store(overtaken, twin.blobs)
        found = [await reader.get(partition, "a")] if n == 2 else await reader.query(partition, "", "~")
        assert [(entity.fields, entity.documents) for entity in found if entity] == [
            ({"n": n}, {"doc": [n, LARGE]})
        ] * len(found)


async def test_reader_of_a_version_that_is_deleted_meanwhile_finds_nothing(twin: Twin, partition: str) -> None:
    await twin.store.commit(partition, [Insert(row, {}, {"doc": LARGE}) for row in "abc"])
    reader = Store(Overtaken(twin.tables, lambda: twin.store.commit(partition, [Delete("a")])), twin.blobs)
    assert await reader.get(partition, "a") is None
    reader = Store(Overtaken(twin.tables, lambda: twin.store.commit(partition, [Delete("b")])), twin.blobs)
    assert [entity.row for entity in await reader.query(partition, "", "~")] == ["c"]


# Tidying up is best effort


async def test_clean_up_that_fails_does_not_fail_the_commit(
    store: Store, blobs: FaultyBlobs, partition: str, caplog: pytest.LogCaptureFixture
) -> None:
    etags = await store.commit(partition, [Insert("a", {}, {"doc": LARGE})])
    blobs.failing_deletes = True
    await store.commit(partition, [Replace("a", {"n": 2}, {}, etags["a"])])
    assert await fields_of(store, partition, "a") == {"n": 2}
    assert "is left behind" in caplog.text


async def test_clean_up_that_fails_does_not_hide_the_conflict(store: Store, blobs: FaultyBlobs, partition: str) -> None:
    await store.commit(partition, [Insert("a")])
    blobs.failing_deletes = True
    with pytest.raises(RowExists):
        await store.commit(partition, [Insert("a", {}, {"doc": LARGE})])


async def test_row_with_broken_references_can_be_overwritten_and_deleted(
    store: Store, twin: Twin, partition: str
) -> None:
    for row in "ab":
        await twin.tables.transact(partition, [RawOperation("insert", row, {"spilled": "no json"})])
    await store.commit(partition, [Put("a", {"n": 1}), Delete("b")])
    assert await fields_of(store, partition, "a") == {"n": 1}
    assert await store.get(partition, "b") is None
