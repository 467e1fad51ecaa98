"""A process that dies at every single write, one after the other: just before the write is applied, and just after.

In memory and in virtual time, so that all of the points can be visited. A second process then finds what was left.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from hosting.storage import Operation, StorageUnavailable, memory_store
from hosting.tasks import RetryPolicy, TaskContext, TaskRun, multi_turn_task, task
from hosting.testing import TestEngine, VirtualClock
from tests.crash.ledger import Ledger, Promise

MINUTES = timedelta(minutes=3)
WRITES = 60
"""More than the story below has; the last points are beyond its end and show that it has one."""

entered: list[tuple[str, int, int]] = []


@task(name="cut_one", retry=RetryPolicy(initial_delay=2, max_delay=2, jitter=False))
async def cut_one(ctx: TaskContext[dict[str, Any]]) -> dict[str, Any]:
    entered.append((ctx.task_id, ctx.recovery_count, ctx.retry_attempt))
    if ctx.retry_attempt == 0:
        raise ConnectionError("once")
    return {"n": ctx.input["n"]}


@multi_turn_task(name="cut_chain", steerable=True, timeout=timedelta(minutes=1))
async def cut_chain(ctx: TaskContext[dict[str, Any]]) -> dict[str, Any]:
    entered.append((ctx.input_id, ctx.recovery_count, ctx.retry_attempt))
    ctx.metadata.append("turns", ctx.input["n"])
    if ctx.input["n"] == 1:
        ctx.metadata("early")["seen"] = True
        await ctx.metadata("early").flush()
        await ctx.cancel.wait()
    return {"n": ctx.input["n"], "turns": list(ctx.metadata["turns"])}


class Story:
    """Starts, steers and cancels in a process that is cut off at one of its writes."""

    def __init__(self, point: int, *, applied: bool) -> None:
        self.store, self.clock = memory_store(), VirtualClock()
        self.first = TestEngine(self.store, self.clock, self._options())
        self.point, self.applied, self.writes = point, applied, 0
        self.ledger = Ledger(self.store)
        line = self.first.engine.store
        self._commit = line.commit
        line.commit = self.commit  # type: ignore[method-assign]

    @staticmethod
    def _options() -> Any:
        from hosting.tasks._options import TaskOptions

        return TaskOptions(stale=timedelta(minutes=2))

    async def commit(
        self, partition: str, operations: Sequence[Operation], *, token: str | None = None
    ) -> dict[str, str]:
        self.writes += 1
        if self.writes == self.point:
            if self.applied:
                await self._commit(partition, operations, token=token)
            self.first.engine.store.cut = True  # type: ignore[attr-defined]
            raise StorageUnavailable("the process dies here")
        return await self._commit(partition, operations, token=token)

    @property
    def dead(self) -> bool:
        return self.writes >= self.point

    async def tell(self) -> None:
        self.first.install()
        await self.start(cut_chain, 1, task_id="chain")
        await self.start(cut_one, 10)
        await self.start(cut_chain, 2, task_id="chain")
        await self.start(cut_chain, 3, task_id="chain")
        await self.wait(0.1)
        await self.wait(5)
        await self.start(cut_chain, 4, task_id="chain")
        await self.wait(1)

    async def start(self, started: Any, n: int, **given: Any) -> None:
        if self.dead:
            return
        starting = asyncio.ensure_future(started.start(input={"n": n}, **given))
        for _ in range(50):
            await self.clock.advance(0.05)
            if starting.done() or self.dead:
                break
        if not starting.done():
            starting.cancel()
        try:
            run: TaskRun[Any] = await starting
        except (StorageUnavailable, asyncio.CancelledError):
            return  # its process died before it had an answer
        self.ledger.promises.append(Promise("cut", run._key, run.input_id, run._seq, n))

    async def wait(self, seconds: float) -> None:
        if not self.dead:
            await self.clock.advance(seconds)

    async def go_on(self) -> None:
        """The second process, with nothing but the store."""
        await self.first.kill()
        second = TestEngine(self.store, self.clock, self._options())
        try:
            for _ in range(4):
                await second.advance(MINUTES)
                await second.recover()
            await second.advance(MINUTES)
        finally:
            await second.close()


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("point", range(1, WRITES))
async def test_whatever_write_a_process_dies_at_what_was_accepted_ends(point: int, applied: bool):
    entered.clear()
    story = Story(point, applied=applied)
    await story.tell()
    await story.go_on()
    await story.ledger.wait(1)
    for promise in story.ledger.promises:
        kind, value = await story.ledger.value(promise)
        assert (kind, value["n"]) == ("completed", promise.n)
    await story.ledger.check_index(1)
    assert len(entered) == len(set(entered)), "a generation was entered twice"
    await check_chain(story)
    if point == WRITES - 1:
        assert not story.dead, "the story has more writes than points"
        assert len(story.ledger.promises) == 5


async def check_chain(story: Story) -> None:
    """Whatever was accepted, also by a start that had no answer, ran once, in order, with its metadata."""
    key = next((p.key for p in story.ledger.promises if p.key.task_id == "chain"), None)
    if key is None:
        return
    rows = sorted(await story.ledger.outcomes(key), key=lambda row: int(str(row.fields["seq"])))
    assert len({row.fields["seq"] for row in rows}) == len(rows)
    values: list[Any] = [(await story.store.get(key.partition, row.row)).documents["value"] for row in rows]  # type: ignore[union-attr]
    assert values[-1]["turns"] == [value["n"] for value in values]
    record = await story.store.get(key.partition, key.record_row)
    assert record is not None
    assert record.fields["status"] == "suspended"
    assert await story.store.query(key.partition, "task-input.", "task-input.~") == []
