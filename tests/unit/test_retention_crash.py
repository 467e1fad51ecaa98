"""Retention in a process that dies at every single one of its writes: just before it is applied, and just after."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hosting.ids import parse_id
from hosting.state.idempotency import IdempotencyKeys
from hosting.state.retention import TickLimits
from hosting.state.retention_forks import keep_for_fork
from hosting.tasks._outcome import Outcome
from hosting.tasks._record import Slot
from hosting.tasks._rows import Key
from tests.unit.retention_world import BIG, DAY, TENANT, World

WRITES = 26
"""More than the story has; the last points are beyond its end and show that it has one."""


class Killed(BaseException):
    """The process is dead."""


class Story:
    """Old and young chains, forks, outcomes, keys, streams, orphans; and a process that is cut off."""

    def __init__(self) -> None:
        self.world = World()
        self.chains: dict[str, list[str]] = {}
        """By response: what a turn after it knows."""
        self.survivors: set[str] = set()
        self.writes, self.dead = 0, False

    async def tell(self) -> None:
        world = self.world
        first = await world.say("one" + "x" * BIG)
        second = await world.say("two", first, session={"s": "y" * BIG})
        third = await world.say("three", second)
        fork = await world.say("fork", second)
        parent, child = parse_id(second), parse_id(fork)
        assert parent is not None
        assert child is not None
        await keep_for_fork(world.store, TENANT, parent.chain, child.chain)
        self.chains = {
            first: ["one" + "x" * BIG],
            second: ["one" + "x" * BIG, "two"],
            third: ["one" + "x" * BIG, "two", "three"],
            fork: ["one" + "x" * BIG, "two", "fork"],
        }
        key = Key(TENANT, "job")
        slot = Slot(1, "i", "n", "fresh")
        outcome = Outcome("completed", output="x" * BIG).row(key, slot, 1, world.clock.now(), DAY)
        await world.store.commit(key.partition, [outcome])
        await IdempotencyKeys(world.store, TENANT).claim("k", "f", first, world.clock.now())
        await world.stream(first)
        await world.blobs.put(f"values/{key.partition}/turn.main.00000000/input-1-2", b"orphan")
        running = await world.running("in_progress")
        await world.stream(running, close=False)
        await world.days(31)
        young = await world.say("young" + "z" * BIG)
        self.chains[young] = ["young" + "z" * BIG]
        self.survivors = {running, young}

    async def run(self, point: int, *, applied: bool) -> None:
        """Two passes in a process that dies at write number `point`: the parent of a fork goes a pass after it."""
        world = self.world
        cut: list[tuple[Any, str, bool]] = [
            (world.tables, "transact", True),
            (world.blobs, "put", True),
            (world.blobs, "delete", True),
            (world.appends, "delete", True),
            *((world.tables, name, False) for name in ("get", "query", "scan")),
            *((seam, name, False) for seam in (world.blobs, world.appends) for name in ("page", "list")),
        ]
        for seam, name, write in cut:
            setattr(seam, name, self._cut(getattr(seam, name), write, point, applied))
        try:
            for _ in range(2):
                await world.retention(limits=TickLimits(between_passes=0.0)).run()
        except Killed:
            pass
        finally:
            for seam, name, _ in cut:
                delattr(seam, name)

    def _cut(
        self, inner: Callable[..., Awaitable[Any]], write: bool, point: int, applied: bool
    ) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **options: Any) -> Any:
            if self.dead:
                raise Killed
            self.writes += write
            if write and self.writes == point:
                self.dead = True
                if applied:
                    await inner(*args, **options)
                raise Killed
            return await inner(*args, **options)

        return call

    async def check_what_is_there(self) -> None:
        """Whatever can still be found is whole: no response without its history."""
        for response, history in self.chains.items():
            if await self.world.exists(response):
                assert await self.world.heard(response) == history

    async def check_the_end(self) -> None:
        """Only what lives is left, in rows, values and streams."""
        world = self.world
        for response in self.chains:
            assert await world.exists(response) == (response in self.survivors)
        expected = ["response", "response", "task", "turn"]
        assert [row.partition(".")[0] for row in world.rows()] == expected
        assert len(world.values()) == 3, "input, output and messages of the young turn"
        assert world.streams() <= self.survivors
        assert len(world.streams()) == 1


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("point", range(1, WRITES))
async def test_whatever_write_it_dies_at_the_next_pass_finds_the_rest(
    point: int, applied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hosting.state.retention_rows._OPERATIONS", 2)
    story = Story()
    await story.tell()
    await story.run(point, applied=applied)
    await story.check_what_is_there()
    await story.world.retain()
    await story.check_what_is_there()
    await story.world.retain()
    await story.check_the_end()
    if point == WRITES - 1:
        assert not story.dead, "the story has more writes than points"
