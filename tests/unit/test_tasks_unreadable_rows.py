"""Rows of tasks that can't be read: of a later version, or damaged. They keep nobody else from anything."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import pytest

from hosting.storage import (
    CorruptValue,
    MemoryBlobs,
    MemoryTables,
    Put,
    RawOperation,
    StorageUnavailable,
    Store,
)
from hosting.tasks._caller import current_scope
from hosting.tasks._rows import INDEX_PARTITIONS, Key
from hosting.testing import TestEngine, task_engine
from tests.unit.task_cluster import MINUTE, SECOND, Cluster, Point, index_rows, one, open_cluster, stage


@pytest.fixture(autouse=True)
def fresh_stage() -> None:
    stage.reset()


@pytest.fixture
async def cluster() -> AsyncGenerator[Cluster]:
    async with open_cluster() as made:
        yield made


class NobodyDrives:
    async def ensure(self, key: Key, activation: int, generation: int) -> None:
        pass


async def accepted(engine: TestEngine, count: int) -> list[Key]:
    """Tasks that nobody drives, in the order in which a scan comes to them."""
    driver, engine.engine.driver = engine.engine.driver, NobodyDrives()
    for n in range(count):
        await one.start(task_id=f"t{n}", input=Point(n))
    engine.engine.driver = driver
    return sorted((Key(current_scope(), f"t{n}") for n in range(count)), key=lambda key: key.index_partition)


BROKEN_RECORDS = [{"fields": "{"}, {"fields": '{"status": "in_progress"}'}]
BROKEN_ENTRIES = [{"fields": "{"}, {"fields": "{}"}, {"fields": '{"scope": 7, "task_id": "t", "nonce": "n"}'}]


@pytest.mark.parametrize("broken", BROKEN_RECORDS, ids=str)
async def test_a_record_that_can_not_be_read_keeps_the_scan_from_no_other(
    broken: dict[str, str], caplog: pytest.LogCaptureFixture
):
    tables = MemoryTables()
    async with task_engine(Store(tables, MemoryBlobs())) as engine:
        first, *others = await accepted(engine, 40)
        await tables.transact(first.partition, [RawOperation("put", first.record_row, broken)])
        await engine.advance(MINUTE)
        report = await engine.recover()
        await engine.settle()
        assert report.driven == 39
        assert {ctx.task_id for ctx in stage.entries} == {key.task_id for key in others}
        assert f"task {first.task_id}: not looked after by this scan" in caplog.text
        # It is found again when somebody has mended the record.
        await engine.advance(timedelta(minutes=30))
        await engine.recover()
        assert len(await index_rows(engine.engine.store)) == 1


@pytest.mark.parametrize("broken", BROKEN_ENTRIES, ids=str)
async def test_an_index_row_that_can_not_be_read_keeps_the_scan_from_no_other_and_stays(
    broken: dict[str, str], caplog: pytest.LogCaptureFixture
):
    tables = MemoryTables()
    async with task_engine(Store(tables, MemoryBlobs())) as engine:
        await accepted(engine, 40)
        await tables.transact(INDEX_PARTITIONS[0], [RawOperation("put", "0broken", broken)])
        await engine.advance(timedelta(minutes=30))
        report = await engine.recover()
        assert (report.rows, report.driven) == (41, 40)
        assert "0broken" in caplog.text
        assert [row.row for row in await engine.engine.store.query_fields(INDEX_PARTITIONS[0], "0b", "0c")] == [
            "0broken"
        ]


async def test_an_attempt_at_a_record_that_can_not_be_read_is_not_made_in_a_hurry(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
):
    async with cluster.process() as engine:
        (key,) = await accepted(engine, 1)
        await cluster.store.commit(key.partition, [Put(key.record_row, {"status": "in_progress"})])
        verdict = await engine.engine.attempt(key, 1)
        assert (verdict.next, verdict.seconds) == ("again", engine.engine.options.unknown_task.total_seconds())
        assert f"task {key.task_id}: its record can't be read" in caplog.text


@pytest.mark.parametrize("broken", BROKEN_RECORDS, ids=str)
async def test_a_record_that_can_not_be_read_refuses_an_input_and_leaves_no_index_row(broken: dict[str, str]):
    tables, key = MemoryTables(), Key(current_scope(), "t")
    async with task_engine(Store(tables, MemoryBlobs())) as engine:
        await tables.transact(key.partition, [RawOperation("put", key.record_row, broken)])
        with pytest.raises(CorruptValue):
            await one.start(task_id="t", input=Point(1))
        assert await index_rows(engine.engine.store) == []


async def test_an_input_that_may_be_accepted_stays_in_the_index_although_its_record_can_not_be_read(cluster: Cluster):
    key = Key(current_scope(), "t")
    async with cluster.process() as engine:
        inner = engine.engine.store
        real = inner.commit

        async def damaging(partition: str, operations: Any, *, token: str | None = None) -> dict[str, str]:
            result = await real(partition, operations, token=token)
            if any("task-input" in operation.row for operation in operations):
                await cluster.store.commit(key.partition, [Put(key.record_row, {"status": "in_progress"})])
                raise StorageUnavailable("the answer was lost")
            return result

        inner.commit = damaging  # type: ignore[method-assign]
        starting = asyncio.ensure_future(one.start(task_id="t", input=Point(1)))
        await engine.advance(5 * SECOND)
        with pytest.raises(CorruptValue):
            await starting
        assert len(await index_rows(cluster.store)) == 1


@pytest.mark.parametrize("damage", [{}, {"kind": "SECRET"}, {"kind": 5}], ids=str)
async def test_an_outcome_that_can_not_be_read_is_a_corrupt_value_for_whoever_waits(
    cluster: Cluster, damage: dict[str, Any]
):
    async with cluster.process() as engine:
        run = await one.start(task_id="t", input=Point(1))
        await engine.settle()
        key = Key(current_scope(), "t")
        await cluster.store.commit(key.partition, [Put(key.outcome_row(run.input_id, 1), damage)])
        with pytest.raises(CorruptValue, match="outcome") as caught:
            await run.result()
        assert "SECRET" not in str(caught.value)
