"""What retention asks of storage (rows by age, blobs by age): one contract, all twins."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hosting.storage import (
    Aging,
    AppendBlobs,
    DatedRow,
    Delete,
    Insert,
    MemoryAppendBlobs,
    Older,
    RawOperation,
    StorageError,
    Tables,
    connect_append_blobs,
)
from hosting.streaming._files import FileAppendBlobs
from tests.contract.storage_twins import TWINS, Twin, fresh, open_twin

FOR_EVER = time.time() + 10**9


@pytest.fixture(params=TWINS)
async def twin(request: pytest.FixtureRequest) -> AsyncIterator[Twin]:
    """A table of its own: a scan sees all of it."""
    async with open_twin(request.param, request, fresh("scan")) as opened:
        yield opened


async def write(tables: Tables, partition: str, *rows: str, kind: str = "put", **properties: str) -> None:
    await tables.transact(partition, [RawOperation(kind, row, properties) for row in rows])  # type: ignore[arg-type]


async def some_time() -> float:
    """A moment between what is written before and after."""
    await asyncio.sleep(0.03)
    now = time.time()
    await asyncio.sleep(0.03)
    return now


async def scanned(tables: Tables, older: list[Older] | None, **options: str) -> list[DatedRow]:
    found: list[DatedRow] = []
    token: str | None = None
    while True:
        page = await tables.scan(older, token, **options)  # type: ignore[arg-type]
        found += page.items
        if page.next is None:
            return found
        token = page.next


def names(rows: list[DatedRow]) -> list[tuple[str, str]]:
    return [(row.raw.partition, row.raw.row) for row in rows]


async def test_a_scan_has_the_rows_of_all_partitions_that_are_older_in_order(twin: Twin) -> None:
    await write(twin.tables, "b", "2", "1")
    await write(twin.tables, "a", "3")
    moment = await some_time()
    await write(twin.tables, "a", "4")
    await write(twin.tables, "c", "5")
    assert names(await scanned(twin.tables, [Older("", "~", moment)])) == [("a", "3"), ("b", "1"), ("b", "2")]


async def test_a_row_that_was_written_again_is_young_again(twin: Twin) -> None:
    await write(twin.tables, "a", "1", "2")
    moment = await some_time()
    await write(twin.tables, "a", "1", x="new")
    assert names(await scanned(twin.tables, [Older("", "~", moment)])) == [("a", "2")]


async def test_a_scan_can_be_limited_to_row_keys_with_an_age_for_each(twin: Twin) -> None:
    await write(twin.tables, "a", "k.1", "l.1", "m.1")
    moment = await some_time()
    await write(twin.tables, "b", "k.2", "l.2", "m.2")
    found = await scanned(twin.tables, [Older("k.", "k/", FOR_EVER), Older("m.", "m/", moment)])
    assert names(found) == [("a", "k.1"), ("a", "m.1"), ("b", "k.2")]


async def test_a_scan_of_a_partition_has_all_of_its_rows_and_no_others(twin: Twin) -> None:
    await write(twin.tables, "a", "1")
    await write(twin.tables, "b", "1", "2")
    await write(twin.tables, "b1", "1")
    assert names(await scanned(twin.tables, None, partition="b")) == [("b", "1"), ("b", "2")]


async def test_a_scan_of_a_range_has_its_partitions_and_goes_on_from_page_to_page(
    twin: Twin, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("_memory", "_azure_tables"):
        monkeypatch.setattr(f"hosting.storage.{module}._PAGE", 2)
    for partition in ("a", "a-", "a-1", "a-2", "a-~", "a.", "a0-1", "b-1"):
        await write(twin.tables, partition, "1", "k.1")
    everything = await scanned(twin.tables, None, partitions=("a-", "a."))  # type: ignore[arg-type]
    assert names(everything) == [(name, row) for name in ("a-", "a-1", "a-2", "a-~") for row in ("1", "k.1")]
    some = await scanned(twin.tables, [Older("k.", "k/", FOR_EVER)], partitions=("a-", "a."))  # type: ignore[arg-type]
    assert names(some) == [(name, "k.1") for name in ("a-", "a-1", "a-2", "a-~")]


async def test_a_scan_says_when_a_row_was_written_and_its_version(twin: Twin) -> None:
    before = time.time()
    [etag] = await twin.tables.transact("a", [RawOperation("insert", "1", {"x": "1", "y": "2"})])
    page = await twin.tables.scan(None, select=["x"])
    [found] = page.items
    assert found.raw == ("a", "1", etag, {"x": "1"})
    assert before - 2 < found.written < time.time() + 2


async def test_a_scan_goes_on_behind_the_page_before(twin: Twin, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("_memory", "_azure_tables"):
        monkeypatch.setattr(f"hosting.storage.{module}._PAGE", 4)
    for partition in "abc":
        await write(twin.tables, partition, "1", "2", "3")
    first = await twin.tables.scan([Older("", "~", FOR_EVER)])
    assert names(first.items) == [("a", "1"), ("a", "2"), ("a", "3"), ("b", "1")]
    # What was seen is removed, as retention does: the token still says where to go on.
    await write(twin.tables, "b", "1", kind="delete")
    second = await twin.tables.scan([Older("", "~", FOR_EVER)], first.next)
    assert names(second.items) == [("b", "2"), ("b", "3"), ("c", "1"), ("c", "2")]
    third = await twin.tables.scan([Older("", "~", FOR_EVER)], second.next)
    assert (names(third.items), third.next) == ([("c", "3")], None)


async def test_a_scan_can_go_on_at_a_row_that_is_gone(twin: Twin, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("_memory", "_azure_tables"):
        monkeypatch.setattr(f"hosting.storage.{module}._PAGE", 2)
    await write(twin.tables, "a", "1", "2", "3", "4")
    first = await twin.tables.scan(None)
    await write(twin.tables, "a", "3", kind="delete")
    rest = await twin.tables.scan(None, first.next)
    assert names(rest.items) == [("a", "4")]


async def test_a_scan_is_one_operation(twin: Twin) -> None:
    await write(twin.tables, "a", "1", "2")
    before = twin.store.meter.copy()
    await twin.tables.scan(None)
    assert (twin.store.meter - before).operations == 1


async def test_a_scan_before_the_first_write_finds_nothing(twin: Twin) -> None:
    assert await twin.tables.scan(None) == ([], None)


@pytest.mark.parametrize("token", ["", "garbage", "[1]", "{}"])
async def test_a_token_that_is_none_is_refused(twin: Twin, token: str) -> None:
    await write(twin.tables, "a", "1")
    with pytest.raises(StorageError, match="token"):
        await twin.tables.scan(None, token)


async def test_what_a_scan_finds_can_be_deleted_as_it_was_seen(twin: Twin) -> None:
    await twin.store.commit("a", [Insert("1", {"n": 1}, {"big": "x" * 400_000}), Insert("2")])
    aging = Aging(twin.store)
    page = await aging.scan([Older("", "~", FOR_EVER)])
    assert [(row.row, dict(row.fields)) for row in page.items] == [("1", {"n": 1}), ("2", {})]
    assert len(await twin.blobs.list("values/")) == 1
    await twin.store.commit("a", [Delete(row.row, row.etag) for row in page.items])
    assert await twin.blobs.list("values/") == []


async def test_a_row_whose_fields_are_broken_can_still_be_seen(twin: Twin) -> None:
    await write(twin.tables, "a", "1", fields="{broken")
    [row] = (await Aging(twin.store).scan([Older("", "~", FOR_EVER)])).items
    assert row.fields == {}


async def test_the_blobs_of_a_row_are_those_it_refers_to_now(twin: Twin) -> None:
    await twin.store.commit("a", [Insert("1", {}, {"big": "x" * 400_000}), Insert("2")])
    aging = Aging(twin.store)
    assert await aging.blobs_of("a", "1") == set(await twin.blobs.list("values/"))
    assert await aging.blobs_of("a", "2") == set()
    assert await aging.blobs_of("a", "3") == set()


async def test_a_partition_is_empty_or_not(twin: Twin) -> None:
    await write(twin.tables, "a", "1")
    aging = Aging(twin.store)
    assert not await aging.is_empty("a")
    assert await aging.is_empty("b")


async def test_blobs_come_in_pages_by_name_with_their_age(twin: Twin, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("_memory", "_azure_blobs"):
        monkeypatch.setattr(f"hosting.storage.{module}._PAGE", 2)
    before = time.time()
    for name in ("values/c", "values/a", "values/b", "other"):
        await twin.blobs.put(name, b"12")
    first = await twin.blobs.page("values/")
    assert [(info.name, info.size) for info in first.items] == [("values/a", 2), ("values/b", 2)]
    assert all(before - 2 < info.modified < time.time() + 2 for info in first.items)
    await twin.blobs.delete("values/b")
    second = await twin.blobs.page("values/", first.next)
    assert ([info.name for info in second.items], second.next) == (["values/c"], None)


async def test_a_page_of_blobs_before_the_first_write_is_empty(twin: Twin) -> None:
    assert await twin.blobs.page("values/") == ([], None)


@pytest.fixture(params=["memory", "file", "azurite"])
async def appends(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AppendBlobs]:
    made: AppendBlobs
    if request.param == "memory":
        made = MemoryAppendBlobs()
    elif request.param == "file":
        made = FileAppendBlobs(tmp_path)
    else:
        connection = request.getfixturevalue("azurite").connection_string
        made = connect_append_blobs({"AzureWebJobsStorage": connection}, container=fresh("appends"))
    yield made
    await made.close()


async def test_append_blobs_come_in_pages_too(appends: AppendBlobs, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("_memory_append_blobs", "_azure_blobs"):
        monkeypatch.setattr(f"hosting.storage.{module}._PAGE", 2)
    assert await appends.page("streams/") == ([], None)
    for name in ("streams/c/0", "streams/a/0", "streams/b/0", "values/0"):
        await appends.create(name)
        await appends.append(name, b"123", 0)
    found: list[tuple[str, int]] = []
    token: str | None = None
    pages = 0
    while pages == 0 or token is not None:
        page = await appends.page("streams/", token)
        found += [(info.name, info.size) for info in page.items]
        token, pages = page.next, pages + 1
    assert found == [("streams/a/0", 3), ("streams/b/0", 3), ("streams/c/0", 3)]
    assert pages == (1 if isinstance(appends, FileAppendBlobs) else 2)
