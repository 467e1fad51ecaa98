"""The store over both twins: values, spill to blobs, transactions that fit, conflicts, and what is cleaned up."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone

import pytest

from hosting.storage import (
    CorruptValue,
    Delete,
    Entity,
    Insert,
    Json,
    Meter,
    Put,
    RawOperation,
    Replace,
    RowChanged,
    RowExists,
    RowMissing,
    Scalar,
    Store,
    TransactionTooLarge,
)
from tests.contract.storage_twins import TWINS, Twin, fresh, open_twin

LARGE = "x" * 400_000  # more than is kept inline


@pytest.fixture(params=TWINS)
async def twin(request: pytest.FixtureRequest) -> AsyncIterator[Twin]:
    async with open_twin(request.param, request) as opened:
        yield opened


@pytest.fixture
def store(twin: Twin) -> Store:
    return twin.store


@pytest.fixture
def partition() -> str:
    return fresh()


async def blobs_of(twin: Twin, partition: str) -> list[str]:
    return await twin.blobs.list(f"values/{partition}/")


async def read(store: Store, partition: str, row: str) -> Entity:
    entity = await store.get(partition, row)
    assert entity is not None
    return entity


# Values


async def test_fields_come_back_with_their_types(store: Store, partition: str) -> None:
    fields: dict[str, Scalar] = {
        "text": "é \U0001f600",
        "empty": "",
        "int": 7,
        "int64": 2**63 - 1,
        "negative": -(2**63),
        "zero": 0,
        "float": 1.0,
        "tiny": 5e-324,
        "yes": True,
        "no": False,
        "when": datetime(2026, 5, 4, 3, 2, 1, 123456, UTC),
        "any name at all": "x",
    }
    await store.commit(partition, [Insert("a", fields)])
    found = (await read(store, partition, "a")).fields
    assert found == fields
    assert {name: type(value) for name, value in found.items()} == {name: type(v) for name, v in fields.items()}


async def test_datetimes_come_back_in_utc(store: Store, partition: str) -> None:
    local = datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    await store.commit(partition, [Insert("a", {"when": local})])
    when = (await read(store, partition, "a")).fields["when"]
    assert when == local
    assert isinstance(when, datetime)
    assert when.tzinfo is UTC


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        2**100,
        1.5,
        "",
        [],
        {},
        {"": [None, {"a": [1.0, "\x00\x01\r\n\u2028\ufeff\x85"]}]},
        "\U0001f469‍\U0001f680" * 50,
        "lone \ud800 surrogate \udfff",
    ],
    ids=lambda value: repr(value)[:20].encode("ascii", "backslashreplace").decode(),
)
async def test_documents_come_back_as_they_were(store: Store, partition: str, value: Json) -> None:
    await store.commit(partition, [Insert("a", {}, {"doc": value})])
    assert (await read(store, partition, "a")).documents == {"doc": value}


@pytest.mark.parametrize("units", [32_760, 32_767, 65_534, 100_000, 327_000])
async def test_long_inline_text_is_chunked_without_splitting_pairs(twin: Twin, partition: str, units: int) -> None:
    for odd in ("", "x"):  # so that pairs straddle the chunk boundaries in one of the two
        text = odd + "\U0001f600" * (units // 2)
        await twin.store.commit(partition, [Put("a", {}, {"doc": text})])
        assert (await read(twin.store, partition, "a")).documents == {"doc": text}
    assert await blobs_of(twin, partition) == []


async def test_text_that_fits_only_if_pairs_were_split_comes_back(twin: Twin, partition: str) -> None:
    """The quotes are two units, so the pairs straddle: ten columns have room for 327,670 units, this takes an eleventh."""
    text = "x" + "\U0001f600" * 163_833
    await twin.store.commit(partition, [Insert("a", {}, {"doc": text})])
    assert (await read(twin.store, partition, "a")).documents == {"doc": text}
    assert len(await blobs_of(twin, partition)) == 1


async def test_five_megabytes_in_and_out(twin: Twin, partition: str) -> None:
    documents: dict[str, Json] = {"input": "i" * 5_000_000, "output": ["é漢\U0001f600" * 1_000] * 600}
    await twin.store.commit(partition, [Insert("a", {"status": "done"}, documents)])
    assert (await read(twin.store, partition, "a")).documents == documents
    assert len(await blobs_of(twin, partition)) == 2


async def test_absent_row_is_none(store: Store, partition: str) -> None:
    assert await store.get(partition, "a") is None


# Projection and queries


async def test_projection_reads_one_document_and_all_fields(twin: Twin, partition: str) -> None:
    await twin.store.commit(partition, [Insert("a", {"n": 1}, {"small": "s", "long": "l" * 100_000, "large": LARGE})])
    before = twin.store.meter.copy()
    entity = await twin.store.get(partition, "a", documents={"small", "absent"})
    used = twin.store.meter - before
    assert entity is not None
    assert (entity.fields, entity.documents) == ({"n": 1}, {"small": "s"})
    assert (used.table_reads, used.blob_reads) == (1, 0)
    assert used.bytes_in < 1_000


async def test_projection_on_nothing_has_the_fields_and_the_same_etag(store: Store, partition: str) -> None:
    etags = await store.commit(partition, [Insert("a", {"n": 1}, {"large": LARGE})])
    entity = await store.get(partition, "a", documents=())
    assert entity == Entity(partition, "a", etags["a"], {"n": 1}, {})


async def test_query_reads_a_range_with_its_documents(store: Store, partition: str) -> None:
    await store.commit(partition, [Insert(row, {"row": row}, {"doc": row, "large": LARGE}) for row in "abc"])
    entities = await store.query(partition, "a", "c", documents={"doc"})
    assert [(entity.row, entity.fields, entity.documents) for entity in entities] == [
        ("a", {"row": "a"}, {"doc": "a"}),
        ("b", {"row": "b"}, {"doc": "b"}),
    ]
    assert [entity.documents["large"] for entity in await store.query(partition, "a", "d", limit=2)] == [LARGE, LARGE]


async def test_document_names_are_identifiers(store: Store, partition: str) -> None:
    for name in ("", "a-b", "1a", "a b", "x" * 65):
        with pytest.raises(ValueError, match="name of a document"):
            await store.commit(partition, [Insert("a", {}, {name: 1})])
        with pytest.raises(ValueError, match="name of a document"):
            await store.get(partition, "a", documents={name})


async def test_documents_whose_names_look_like_chunks_stay_apart(store: Store, partition: str) -> None:
    documents: dict[str, Json] = {"a": "x" * 40_000, "a_1": "y", "a_1_0": "z"}
    await store.commit(partition, [Insert("r", {}, documents)])
    assert (await read(store, partition, "r")).documents == documents
    entity = await store.get(partition, "r", documents={"a_1"})
    assert entity is not None
    assert entity.documents == {"a_1": "y"}


# Transactions


async def test_a_commit_is_atomic_and_returns_the_etags_of_what_it_wrote(store: Store, partition: str) -> None:
    first = await store.commit(partition, [Insert("a", {"n": 1}), Insert("b", {"n": 1}), Insert("c", {"n": 1})])
    second = await store.commit(
        partition, [Replace("a", {"n": 2}, {}, first["a"]), Put("b", {"n": 2}), Delete("c"), Insert("d", {"n": 2})]
    )
    assert second.keys() == {"a", "b", "d"}
    entities = await store.query(partition, "", "~")
    assert [(entity.row, entity.fields["n"]) for entity in entities] == [("a", 2), ("b", 2), ("d", 2)]
    assert {entity.row: entity.etag for entity in entities} == second


async def test_a_commit_of_nothing_does_nothing(twin: Twin, partition: str) -> None:
    assert await twin.store.commit(partition, []) == {}
    assert twin.store.meter.operations == 0


async def test_an_ordinary_commit_and_read_are_one_operation_each(twin: Twin, partition: str) -> None:
    etags = await twin.store.commit(partition, [Insert("a", {}, {"doc": "x" * 100_000})])
    before = twin.store.meter.copy()
    await twin.store.commit(partition, [Replace("a", {}, {"doc": "y"}, etags["a"]), Insert("b", {"n": 1})])
    assert (twin.store.meter - before).operations == 1
    before = twin.store.meter.copy()
    await twin.store.get(partition, "b")
    assert (twin.store.meter - before).operations == 1


async def test_of_two_writers_with_the_same_etag_one_wins(store: Store, partition: str) -> None:
    etags = await store.commit(partition, [Insert("a", {"by": 0})])
    results = await asyncio.gather(
        *(store.commit(partition, [Replace("a", {"by": n}, {"d": LARGE}, etags["a"])]) for n in (1, 2)),
        return_exceptions=True,
    )
    assert sorted(type(result) for result in results if isinstance(result, Exception)) == [RowChanged]
    winner = next(n for n, result in zip((1, 2), results, strict=True) if isinstance(result, dict))
    assert (await read(store, partition, "a")).fields == {"by": winner}


async def test_same_value_by_two_writers_survives_the_clean_up_of_the_loser(twin: Twin, partition: str) -> None:
    results = await asyncio.gather(
        *(twin.store.commit(partition, [Insert("a", {}, {"doc": LARGE})]) for _ in range(5)), return_exceptions=True
    )
    assert sum(isinstance(result, RowExists) for result in results) == 4
    assert (await read(twin.store, partition, "a")).documents == {"doc": LARGE}
    assert len(await blobs_of(twin, partition)) == 1


async def test_a_full_transaction_of_large_rows_fits_by_spilling(twin: Twin, partition: str) -> None:
    # 100 rows of 60 KB of quotes: 12 MB of request if all were inline.
    operations = [Insert(f"r{n:02d}", {"n": n}, {"doc": '"' * 30_000, "s": "small"}) for n in range(100)]
    await twin.store.commit(partition, operations)
    entities = await twin.store.query(partition, "", "~")
    assert [entity.documents for entity in entities] == [{"doc": '"' * 30_000, "s": "small"}] * 100
    assert 0 < len(await blobs_of(twin, partition)) < 100


async def test_a_row_of_several_long_documents_fits_by_spilling_the_longest(twin: Twin, partition: str) -> None:
    documents: dict[str, Json] = {"a": "a" * 200_000, "b": "b" * 300_000, "c": "c" * 200_000}
    await twin.store.commit(partition, [Insert("r", {}, documents)])
    assert (await read(twin.store, partition, "r")).documents == documents
    [blob] = await blobs_of(twin, partition)
    assert "/r/b-" in blob


async def test_what_can_never_fit_is_too_large_and_leaves_nothing(twin: Twin, partition: str) -> None:
    fields: dict[str, Scalar] = {"text": "漢" * 32_000}
    with pytest.raises(TransactionTooLarge, match="4,194,304"):
        await twin.store.commit(partition, [Insert(f"r{n}", fields, {"doc": LARGE}) for n in range(50)])
    with pytest.raises(TransactionTooLarge, match="101"):
        await twin.store.commit(partition, [Insert(f"r{n}", {}, {"doc": LARGE}) for n in range(101)])
    assert await twin.store.query(partition, "", "~") == []
    assert await blobs_of(twin, partition) == []


async def test_values_that_can_not_be_stored_are_refused_before_anything_is_written(twin: Twin, partition: str) -> None:
    with pytest.raises(ValueError, match=r"b\.doc\[1\] is nan"):
        await twin.store.commit(
            partition, [Insert("a", {}, {"doc": LARGE}), Insert("b", {}, {"doc": [1, float("nan")]})]
        )
    with pytest.raises(ValueError, match="twice"):
        await twin.store.commit(partition, [Insert("a", {}, {"doc": LARGE}), Delete("a")])
    assert twin.store.meter.operations == 0


# Conditions


async def test_insert_of_a_taken_row_raises_and_leaves_no_blob(twin: Twin, partition: str) -> None:
    await twin.store.commit(partition, [Insert("a", {"n": 1})])
    with pytest.raises(RowExists) as caught:
        await twin.store.commit(partition, [Insert("b", {}, {"doc": LARGE}), Insert("a", {"n": 2})])
    assert caught.value.row == "a"
    assert [entity.row for entity in await twin.store.query(partition, "", "~")] == ["a"]
    assert await blobs_of(twin, partition) == []


async def test_conflict_costs_one_read(twin: Twin, partition: str) -> None:
    await twin.store.commit(partition, [Insert("a"), Insert("b")])
    before = twin.store.meter.copy()
    with pytest.raises(RowExists):
        await twin.store.commit(partition, [Insert("a"), Insert("b"), Insert("c")])
    used = twin.store.meter - before
    assert (used.table_writes, used.table_reads) == (1, 1)


async def test_replace_with_an_old_etag_raises_also_when_it_comes_from_a_projection(
    store: Store, partition: str
) -> None:
    await store.commit(partition, [Insert("a", {"n": 1}, {"doc": LARGE})])
    old = await store.get(partition, "a", documents=())
    assert old is not None
    await store.commit(partition, [Replace("a", {"n": 2}, {}, old.etag)])
    with pytest.raises(RowChanged):
        await store.commit(partition, [Replace("a", {"n": 3}, {}, old.etag)])
    assert (await read(store, partition, "a")).fields == {"n": 2}


async def test_replace_of_a_deleted_row_raises(store: Store, partition: str) -> None:
    etags = await store.commit(partition, [Insert("a")])
    await store.commit(partition, [Delete("a")])
    with pytest.raises(RowMissing):
        await store.commit(partition, [Replace("a", {}, {}, etags["a"])])


async def test_delete_without_etag_is_idempotent_also_beside_other_operations(store: Store, partition: str) -> None:
    await store.commit(partition, [Insert("a"), Insert("b")])
    await store.commit(partition, [Delete("a"), Delete("absent")])
    await store.commit(partition, [Delete("a"), Delete("b"), Insert("c")])
    assert [entity.row for entity in await store.query(partition, "", "~")] == ["c"]
    assert await store.commit(partition, [Delete("a")]) == {}


async def test_delete_of_an_absent_row_is_one_read_and_no_write(twin: Twin, partition: str) -> None:
    await twin.store.commit(partition, [Insert("a")])
    before = twin.store.meter.copy()
    await twin.store.commit(partition, [Delete("absent")])
    assert (twin.store.meter - before) == Meter(table_reads=1)
    before = twin.store.meter.copy()
    await twin.store.commit(partition, [Delete("absent"), Insert("b")])
    used = twin.store.meter - before
    assert (used.table_reads, used.table_writes, used.operations) == (1, 1, 2)


async def test_delete_with_an_etag_wants_that_version(store: Store, partition: str) -> None:
    etags = await store.commit(partition, [Insert("a", {"n": 1})])
    moved = await store.commit(partition, [Put("a", {"n": 2})])
    with pytest.raises(RowChanged):
        await store.commit(partition, [Delete("a", etags["a"])])
    await store.commit(partition, [Delete("a", moved["a"])])
    with pytest.raises(RowMissing):
        await store.commit(partition, [Delete("a", moved["a"])])


# Damage


async def test_blob_with_other_content_is_a_corrupt_value(twin: Twin, partition: str) -> None:
    await twin.store.commit(partition, [Insert("a", {}, {"doc": LARGE})])
    [blob] = await blobs_of(twin, partition)
    await twin.blobs.put(blob, b'"' + b"y" * 400_000 + b'"')
    with pytest.raises(CorruptValue, match="SHA-256"):
        await twin.store.get(partition, "a")
    await twin.blobs.put(blob, b"short")
    with pytest.raises(CorruptValue, match="5 bytes"):
        await twin.store.query(partition, "a", "b")


async def test_missing_blob_is_a_corrupt_value_of_that_document_only(twin: Twin, partition: str) -> None:
    await twin.store.commit(partition, [Insert("a", {"n": 1}, {"doc": LARGE, "small": 1})])
    [blob] = await blobs_of(twin, partition)
    await twin.blobs.delete(blob)
    for call in (twin.store.get(partition, "a"), twin.store.query(partition, "a", "b")):
        with pytest.raises(CorruptValue, match="not there"):
            await call
    entity = await twin.store.get(partition, "a", documents={"small"})
    assert entity is not None
    assert (entity.fields, entity.documents) == ({"n": 1}, {"small": 1})


@pytest.mark.parametrize("column", ["fields", "spilled"])
async def test_a_broken_row_hides_no_other_from_who_asks_for_fields_and_can_be_removed(
    twin: Twin, partition: str, column: str
) -> None:
    await twin.store.commit(partition, [Insert("a", {"n": 1}, {"doc": LARGE}), Insert("c", {"n": 3})])
    await twin.tables.transact(partition, [RawOperation("put", "b", {column: "{"})])
    with pytest.raises(CorruptValue, match="'b'"):
        await twin.store.query(partition, "a", "d", documents=())
    rows = await twin.store.query_fields(partition, "a", "d")
    assert [(row.row, row.fields, row.documents) for row in rows] == [
        ("a", {"n": 1}, {}),
        ("b", {}, {}),
        ("c", {"n": 3}, {}),
    ]
    await twin.store.commit(partition, [Delete(row.row, row.etag) for row in rows])
    assert await twin.store.query_fields(partition, "a", "d") == []
    assert await blobs_of(twin, partition) == []


async def test_fields_of_a_range_are_one_operation_and_at_most_the_limit(twin: Twin, partition: str) -> None:
    await twin.store.commit(partition, [Insert(row) for row in "abc"])
    before = twin.store.meter.copy()
    assert [row.row for row in await twin.store.query_fields(partition, "a", "z", limit=2)] == ["a", "b"]
    assert (twin.store.meter - before).operations == 1


async def test_readers_never_see_a_row_without_its_blobs_while_it_is_rewritten(twin: Twin, partition: str) -> None:
    store = twin.store
    await store.commit(partition, [Put("a", {"n": 0}, {"doc": [0, LARGE]})])
    done = asyncio.Event()

    async def write() -> None:
        for n in range(1, 12):
            await store.commit(partition, [Put("a", {"n": n}, {"doc": [n, LARGE]})])
        done.set()

    async def look() -> int:
        seen = 0
        while not done.is_set():
            for entity in [await read(store, partition, "a"), *await store.query(partition, "a", "b")]:
                assert entity.documents == {"doc": [entity.fields["n"], LARGE]}
                seen += 1
        return seen

    _, *seen = await asyncio.gather(write(), look(), look())
    assert min(seen) > 0
