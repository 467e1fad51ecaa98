"""Seam 1, Tables: one contract, both twins. Where Azurite is laxer than Azure, both must still refuse."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from hosting.storage import (
    RawEntity,
    RawOperation,
    RowChanged,
    RowConflict,
    RowExists,
    RowMissing,
    Tables,
    TransactionTooLarge,
)
from tests.contract.storage_twins import TWINS, Twin, fresh, open_twin


@pytest.fixture(params=TWINS)
async def twin(request: pytest.FixtureRequest) -> AsyncIterator[Twin]:
    async with open_twin(request.param, request) as opened:
        yield opened


@pytest.fixture
def tables(twin: Twin) -> Tables:
    return twin.tables


@pytest.fixture
def partition() -> str:
    return fresh()


def insert(row: str, **properties: str) -> RawOperation:
    return RawOperation("insert", row, properties)


def put(row: str, **properties: str) -> RawOperation:
    return RawOperation("put", row, properties)


def replace(row: str, etag: str, **properties: str) -> RawOperation:
    return RawOperation("replace", row, properties, etag)


def delete(row: str, etag: str | None = None) -> RawOperation:
    return RawOperation("delete", row, {}, etag)


async def seed(tables: Tables, partition: str, *rows: str, **properties: str) -> dict[str, str]:
    etags = await tables.transact(partition, [insert(row, **properties) for row in rows])
    return dict(zip(rows, etags, strict=True))


async def contents(tables: Tables, partition: str) -> dict[str, dict[str, str]]:
    return {raw.row: dict(raw.properties) for raw in await tables.query(partition, "", "~")}


# Reads


async def test_get_returns_what_was_written_and_the_etag_of_the_write(tables: Tables, partition: str) -> None:
    [etag] = await tables.transact(partition, [insert("a", x="1", y="two")])
    assert await tables.get(partition, "a") == RawEntity(partition, "a", etag, {"x": "1", "y": "two"})


async def test_get_of_an_absent_row_is_none(tables: Tables, partition: str) -> None:
    await seed(tables, partition, "a")
    assert await tables.get(partition, "b") is None
    assert await tables.get(partition + "0", "a") is None


async def test_get_reads_only_the_selected_columns(tables: Tables, partition: str) -> None:
    etags = await seed(tables, partition, "a", x="1", y="2")
    assert await tables.get(partition, "a", ["y", "absent"]) == RawEntity(partition, "a", etags["a"], {"y": "2"})


async def test_empty_strings_and_columns_without_values_stay_apart(tables: Tables, partition: str) -> None:
    await seed(tables, partition, "a", x="")
    found = await tables.get(partition, "a", ["x", "y"])
    assert found is not None
    assert found.properties == {"x": ""}


async def test_query_returns_the_range_in_order_without_its_end(tables: Tables, partition: str) -> None:
    await seed(tables, partition, "c", "a", "d", "b")
    assert [raw.row for raw in await tables.query(partition, "b", "d")] == ["b", "c"]


async def test_query_stays_in_its_partition(tables: Tables, partition: str) -> None:
    await seed(tables, partition, "a")
    await seed(tables, partition + "x", "b")
    assert [raw.row for raw in await tables.query(partition, "", "~")] == ["a"]


async def test_query_selects_columns_and_has_etags(tables: Tables, partition: str) -> None:
    etags = await seed(tables, partition, "a", "b", x="1", y="2")
    assert await tables.query(partition, "a", "c", ["x"]) == [
        RawEntity(partition, "a", etags["a"], {"x": "1"}),
        RawEntity(partition, "b", etags["b"], {"x": "1"}),
    ]


async def test_query_stops_at_the_limit(tables: Tables, partition: str) -> None:
    await seed(tables, partition, *"abcd")
    assert [raw.row for raw in await tables.query(partition, "", "~", limit=3)] == ["a", "b", "c"]
    assert await tables.query(partition, "", "~", limit=0) == []


async def test_query_follows_continuation_tokens_and_counts_pages(twin: Twin, partition: str) -> None:
    rows = [f"{n:06d}" for n in range(1_100)]
    for at in range(0, len(rows), 100):
        await seed(twin.tables, partition, *rows[at : at + 100])
    before = twin.store.meter.copy()
    assert [raw.row for raw in await twin.tables.query(partition, "", "~")] == rows
    assert (twin.store.meter - before).table_reads == 2
    assert len(await twin.tables.query(partition, "", "~", limit=1_050)) == 1_050


async def test_reads_before_the_first_write_find_nothing(request: pytest.FixtureRequest, twin: Twin) -> None:
    async with open_twin(twin.name, request, fresh("t")) as empty:
        assert await empty.tables.get("p", "a") is None
        assert await empty.tables.query("p", "", "~") == []


# Writes


async def test_concurrent_first_writes_create_the_table(request: pytest.FixtureRequest, twin: Twin) -> None:
    async with open_twin(twin.name, request, fresh("t")) as empty:
        await asyncio.gather(*(empty.tables.transact("p", [insert(f"r{n}")]) for n in range(8)))
        assert len(await empty.tables.query("p", "", "~")) == 8


async def test_steady_state_write_is_one_operation(twin: Twin, partition: str) -> None:
    await seed(twin.tables, partition, "a")
    before = twin.store.meter.copy()
    await seed(twin.tables, partition, "b")
    assert (twin.store.meter - before).operations == 1


async def test_insert_of_a_taken_row_raises_and_changes_nothing(tables: Tables, partition: str) -> None:
    await seed(tables, partition, "a", x="1")
    with pytest.raises(RowExists) as caught:
        await tables.transact(partition, [insert("a", x="2")])
    assert caught.value.row == "a"
    assert await contents(tables, partition) == {"a": {"x": "1"}}


async def test_put_writes_a_new_row_and_over_an_old_one_alone_and_in_a_batch(tables: Tables, partition: str) -> None:
    # Azurite #1565: an upsert in a batch was 404 in old versions.
    await tables.transact(partition, [put("a", x="1", y="2")])
    await tables.transact(partition, [put("a", x="3"), put("b", x="4")])
    assert await contents(tables, partition) == {"a": {"x": "3"}, "b": {"x": "4"}}


async def test_replace_writes_the_whole_row_and_moves_the_etag(tables: Tables, partition: str) -> None:
    etags = await seed(tables, partition, "a", x="1", y="2")
    [moved] = await tables.transact(partition, [replace("a", etags["a"], x="3")])
    assert moved != etags["a"]
    assert await tables.get(partition, "a") == RawEntity(partition, "a", moved, {"x": "3"})


async def test_replace_of_a_moved_row_raises_and_changes_nothing(tables: Tables, partition: str) -> None:
    etags = await seed(tables, partition, "a", x="1")
    await tables.transact(partition, [put("a", x="2")])
    with pytest.raises(RowChanged) as caught:
        await tables.transact(partition, [replace("a", etags["a"], x="3")])
    assert caught.value.row == "a"
    assert await contents(tables, partition) == {"a": {"x": "2"}}


async def test_replace_of_an_absent_row_raises(tables: Tables, partition: str) -> None:
    etags = await seed(tables, partition, "a")
    with pytest.raises(RowMissing) as caught:
        await tables.transact(partition, [replace("b", etags["a"], x="3")])
    assert caught.value.row == "b"


async def test_replace_needs_an_etag(tables: Tables, partition: str) -> None:
    with pytest.raises(ValueError, match="etag"):
        await tables.transact(partition, [RawOperation("replace", "a", {})])


async def test_delete_removes_the_row_and_has_no_etag(tables: Tables, partition: str) -> None:
    etags = await seed(tables, partition, "a", "b", "c")
    assert await tables.transact(partition, [delete("a"), delete("b", etags["b"])]) == ["", ""]
    assert list(await contents(tables, partition)) == ["c"]


async def test_delete_of_an_absent_row_raises(tables: Tables, partition: str) -> None:
    await seed(tables, partition, "a")
    with pytest.raises(RowMissing) as caught:
        await tables.transact(partition, [delete("b")])
    assert caught.value.row == "b"


async def test_delete_of_a_moved_row_raises(tables: Tables, partition: str) -> None:
    etags = await seed(tables, partition, "a")
    await tables.transact(partition, [put("a", x="2")])
    with pytest.raises(RowChanged):
        await tables.transact(partition, [delete("a", etags["a"])])
    assert list(await contents(tables, partition)) == ["a"]


# The conflicts of Azurite #793 and #1233 (If-Match ignored in a batch, or not rolled back): fixed in the pinned version.


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (insert("taken"), RowExists),
        (replace("moved", "OLD", x="lost"), RowChanged),
        (replace("absent", "OLD", x="lost"), RowMissing),
        (delete("moved", "OLD"), RowChanged),
        (delete("absent"), RowMissing),
    ],
    ids=["insert", "replace-moved", "replace-absent", "delete-moved", "delete-absent"],
)
@pytest.mark.parametrize("at", [0, 2, 4], ids=["first", "middle", "last"])
async def test_conflict_in_a_batch_names_the_row_and_rolls_everything_back(
    tables: Tables, partition: str, bad: RawOperation, error: type[RowConflict], at: int
) -> None:
    etags = await seed(tables, partition, "taken", "moved", "old", "gone", x="1")
    await tables.transact(partition, [put("moved", x="2")])
    before = await contents(tables, partition)
    operations = [insert("new", x="9"), put("old", x="9"), delete("gone"), insert("new2", x="9")]
    operations.insert(at, bad._replace(etag=etags["moved"]) if bad.etag else bad)
    with pytest.raises(error) as caught:
        await tables.transact(partition, operations)
    assert caught.value.row == bad.row
    assert await contents(tables, partition) == before


@pytest.mark.parametrize("rows", [["shared"], ["shared", "other"]], ids=["single", "batch"])
async def test_of_writers_with_the_same_etag_exactly_one_wins(tables: Tables, partition: str, rows: list[str]) -> None:
    etags = await seed(tables, partition, *rows)

    async def write(n: int) -> int:
        await tables.transact(partition, [replace(row, etags[row], by=str(n)) for row in reversed(rows)])
        return n

    results = await asyncio.gather(*(write(n) for n in range(6)), return_exceptions=True)
    winners = [result for result in results if isinstance(result, int)]
    assert len(winners) == 1
    assert all(isinstance(result, RowChanged) for result in results if not isinstance(result, int))
    assert await contents(tables, partition) == {row: {"by": str(winners[0])} for row in rows}


async def test_of_inserts_of_the_same_row_exactly_one_wins(tables: Tables, partition: str) -> None:
    results = await asyncio.gather(
        *(tables.transact(partition, [insert(f"own{n}"), insert("shared")]) for n in range(6)), return_exceptions=True
    )
    assert sum(isinstance(result, RowExists) for result in results) == 5
    assert len(await contents(tables, partition)) == 2


# Text


@pytest.mark.parametrize(
    "text",
    [
        "\r\n--changeset_x\r\nHTTP/1.1 500 no\r\nETag: fake\r\n\r\n{}",
        "quotes \" and \\ and ' and {braces} and %20 and +",
        "PUT http://example/ HTTP/1.1",
        "é ß 漢字 \U0001f600\U0001f469‍\U0001f680",
        " leading and trailing ",
        "\t\x00\x01\x1f\x7f",
    ],
    ids=["looks-like-a-batch", "punctuation", "looks-like-a-request", "unicode", "spaces", "controls"],
)
async def test_text_comes_back_as_it_was_from_reads_and_queries(tables: Tables, partition: str, text: str) -> None:
    await tables.transact(partition, [insert("a", x=text), insert("b", x="after")])
    assert await contents(tables, partition) == {"a": {"x": text}, "b": {"x": "after"}}
    found = await tables.get(partition, "a")
    assert found is not None
    assert found.properties == {"x": text}


# Not with "',": Azurite cuts the keys out of a batch's URLs with a regular expression and gets that one wrong.
@pytest.mark.parametrize("key", ["it's", "a b", "a%20b", "a+b", "a&b=c", "(x=y,z)", "é漢", "a:b;c@d!$*", "~.-_"])
async def test_legal_keys_with_punctuation_work_everywhere(tables: Tables, partition: str, key: str) -> None:
    [etag] = await tables.transact(partition + key, [insert(key, x="1")])
    [etag] = await tables.transact(partition + key, [replace(key, etag, x="2")])
    assert await tables.get(partition + key, key) == RawEntity(partition + key, key, etag, {"x": "2"})
    assert [raw.row for raw in await tables.query(partition + key, key, key + "~")] == [key]
    await tables.transact(partition + key, [delete(key, etag)])
    assert await tables.get(partition + key, key) is None


# Limits


@pytest.mark.parametrize("key", ["a/b", "a\\b", "a#b", "a?b", "a\x00", "a\n", "a\x7f", "a\x85", "\ud800", "x" * 513])
async def test_keys_that_azure_refuses_are_refused(tables: Tables, partition: str, key: str) -> None:
    for call in (
        tables.transact(partition, [insert(key)]),
        tables.transact(key, [insert("a")]),
        tables.get(partition, key),
        tables.get(key, "a"),
        tables.query(key, "", "~"),
    ):
        with pytest.raises(ValueError, match="Key"):
            await call


async def test_a_property_of_64_kib_fits_and_one_unit_more_does_not(tables: Tables, partition: str) -> None:
    for longest in ("x" * 32_767, "\U0001f600" * 16_383 + "x"):
        await tables.transact(partition, [put("a", x=longest)])
        with pytest.raises(TransactionTooLarge, match="32768"):
            await tables.transact(partition, [put("a", x=longest + "x")])
    assert await contents(tables, partition) == {"a": {"x": "\U0001f600" * 16_383 + "x"}}


async def test_a_row_of_one_mib_fits_and_more_does_not(tables: Tables, partition: str) -> None:
    fitting = {f"c{n}": "x" * 32_700 for n in range(16)}
    await tables.transact(partition, [RawOperation("insert", "a", fitting)])
    with pytest.raises(TransactionTooLarge, match="1,048,576"):
        await tables.transact(partition, [RawOperation("insert", "b", fitting | {"more": "x" * 2_000})])
    assert list(await contents(tables, partition)) == ["a"]


async def test_100_operations_fit_and_101_do_not(tables: Tables, partition: str) -> None:
    await seed(tables, partition, *(f"r{n}" for n in range(100)))
    with pytest.raises(TransactionTooLarge, match="101"):
        await seed(tables, partition, *(f"s{n}" for n in range(101)))
    assert len(await contents(tables, partition)) == 100


async def test_a_request_beyond_4_mib_is_refused(tables: Tables, partition: str) -> None:
    # Azurite #1467 takes it.
    wide = {f"c{n}": "漢" * 30_000 for n in range(10)}
    with pytest.raises(TransactionTooLarge, match="4,194,304"):
        await tables.transact(partition, [RawOperation("insert", f"r{n}", wide) for n in range(5)])
    assert await contents(tables, partition) == {}


async def test_a_row_may_appear_once_per_transaction(tables: Tables, partition: str) -> None:
    with pytest.raises(ValueError, match="twice"):
        await tables.transact(partition, [insert("a"), put("a")])


async def test_a_transaction_has_an_operation(tables: Tables, partition: str) -> None:
    with pytest.raises(ValueError, match="at least one"):
        await tables.transact(partition, [])


@pytest.mark.parametrize("name", ["", "with space", "with-dash", "1st", "x" * 256])
async def test_column_names_are_identifiers(tables: Tables, partition: str, name: str) -> None:
    with pytest.raises(ValueError, match="property name"):
        await tables.transact(partition, [RawOperation("insert", "a", {name: "x"})])
