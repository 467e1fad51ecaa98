"""Metadata of what has ended: none of it stays, however much there was."""

from collections.abc import AsyncGenerator

import pytest

from hosting.storage import (
    Store,
)
from hosting.tasks import (
    RetryPolicy,
    TaskCancelled,
    TaskContext,
    TaskFailed,
    task,
)
from hosting.tasks._caller import current_scope
from hosting.tasks._rows import Key
from tests.unit.task_cluster import MINUTE, SECOND, Cluster, open_cluster, stage


@pytest.fixture
async def cluster() -> AsyncGenerator[Cluster]:
    async with open_cluster() as made:
        yield made


@task(name="remembers", retry=RetryPolicy(initial_delay=300, max_delay=300, jitter=False))
async def remembers(ctx: TaskContext[int]) -> None:
    for n in range(ctx.input):
        ctx.metadata(f"space {n}")["text"] = "a secret"
        await ctx.metadata(f"space {n}").flush()
    if stage.script:
        raise stage.script.pop(0)


async def metadata_rows(store: Store) -> list[str]:
    partition = Key(current_scope(), "t").partition
    return [row.row for row in await store.query(partition, "task-metadata.", "task-metadata/", documents=())]


MANY = 120  # more than one transaction takes


@pytest.mark.parametrize("spaces", [1, MANY])
async def test_a_one_shot_that_is_cancelled_in_its_back_off_leaves_no_metadata(cluster: Cluster, spaces: int):
    async with cluster.process() as engine:
        stage.script = [ValueError("x")]
        run = await remembers.start(task_id="t", input=spaces)
        await engine.settle()
        await engine.advance(SECOND)
        assert len(await metadata_rows(cluster.store)) == spaces
        await run.cancel()
        with pytest.raises(TaskCancelled):
            await run.result()
        assert await metadata_rows(cluster.store) == []


@pytest.mark.parametrize("spaces", [1, MANY])
async def test_a_one_shot_that_ends_leaves_no_metadata(cluster: Cluster, spaces: int):
    async with cluster.process() as engine:
        run = await remembers.start(task_id="t", input=spaces)
        await engine.advance(MINUTE)
        assert await run.result() is None
        assert await metadata_rows(cluster.store) == []


async def test_a_failed_try_with_more_metadata_than_can_be_stored_at_once_is_a_failure(cluster: Cluster):
    @task(name="remembers_all", retry=RetryPolicy(initial_delay=1, max_delay=1, jitter=False))
    async def remembers_all(ctx: TaskContext[int]) -> None:
        for n in range(ctx.input):
            ctx.metadata(f"space {n}")["n"] = n
        raise ValueError("again")

    async with cluster.process() as engine:
        run = await remembers_all.start(task_id="t", input=MANY)
        await engine.advance(MINUTE)
        with pytest.raises(TaskFailed, match="operations in one transaction"):
            await run.result()
