"""Erasing a tenant, over both twins of storage: all of it, nothing else, and again after a failure."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from hosting.admin.erasing import Contents, Erasure
from hosting.storage import RawOperation, StorageError, StorageUnavailable, keys
from hosting.tasks._rows import Key
from tests.contract.admin_world import AdminWorld, open_admin_world
from tests.contract.storage_twins import TWINS, fresh

ONE, TWO = keys.scope("key:one", None), keys.scope("key:two", None)
USER = keys.scope("key:one", "ann")


@pytest.fixture(params=TWINS)
async def world(request: pytest.FixtureRequest) -> AsyncIterator[AdminWorld]:
    async with open_admin_world(request, request.param, fresh("admin")) as opened:
        yield opened


async def erase(world: AdminWorld, scope: str = ONE) -> Contents:
    return await Erasure(world.engine, world.appends, scope).run()


def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("_memory", "_memory_append_blobs", "_azure_tables", "_azure_blobs"):
        monkeypatch.setattr(f"hosting.storage.{module}._PAGE", 2)


async def test_counting_finds_all_and_changes_nothing(world: AdminWorld) -> None:
    for scope in (ONE, TWO):
        await world.fill(scope)
    before = await world.snapshot()
    found = await Erasure(world.engine, world.appends, ONE).count()
    assert await world.snapshot() == before
    assert dict(found.rows) == {
        "turn": 1,
        "response": 2,
        "conversation": 1,
        "idempotency": 1,
        "usage": 1,
        "task": 2,
        "task-input": 2,
    }
    # Of the turn: input, output and messages are too large for the row. And the one that was left behind.
    assert (found.tasks, found.stream_blobs, found.value_blobs) == (2, 1, 4)


async def test_all_of_a_scope_goes_and_nothing_of_any_other(world: AdminWorld) -> None:
    for scope in (ONE, TWO, USER):
        await world.fill(scope)
    await world.look_alikes(ONE)
    others = await world.snapshot(without=[ONE])
    gone = await erase(world)
    assert await world.snapshot() == others
    assert (gone.tasks, gone.rows["response"], gone.rows["conversation"], gone.stream_blobs) == (2, 2, 1, 1)


async def test_many_pages_go(world: AdminWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    small_pages(monkeypatch)
    for scope in (ONE, TWO):
        await world.fill(scope)
        for _ in range(4):
            await world.say(scope)
            await world.start(scope)
    others = await world.snapshot(without=[ONE])
    gone = await erase(world)
    assert await world.snapshot() == others
    assert (gone.tasks, gone.rows["response"], gone.stream_blobs) == (6, 10, 5)


async def test_a_chain_of_more_rows_than_a_transaction_takes_goes(world: AdminWorld) -> None:
    partition = keys.partition_key(ONE, "0" * 18)
    for first in (0, 100, 200):
        rows = [RawOperation("put", keys.turn_row("main", first + n), {"fields": "{}"}) for n in range(100)]
        await world.twin.tables.transact(partition, rows)
    assert (await erase(world)).rows == {"turn": 300}
    assert await world.snapshot() == {}


async def test_a_second_run_finds_nothing_and_changes_nothing(world: AdminWorld) -> None:
    for scope in (ONE, TWO):
        await world.fill(scope)
    assert (await erase(world)).total > 0
    left = await world.snapshot()
    assert (await erase(world)).total == 0
    assert await world.snapshot() == left


async def test_an_account_that_was_never_written_to_has_nothing(world: AdminWorld) -> None:
    assert (await Erasure(world.engine, world.appends, ONE).count()).total == 0
    assert (await erase(world)).total == 0


async def test_a_row_that_is_written_meanwhile_goes_as_well(world: AdminWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    response = await world.say(ONE)
    partition = keys.partition_key(ONE, keys.chain_of(response))
    transact, written = world.twin.tables.transact, False

    async def late(at: str, operations: Sequence[RawOperation]) -> list[str]:
        nonlocal written
        if at == partition and not written:
            written = True
            await transact(at, [RawOperation("put", keys.response_row(response), {"fields": "{}"})])
        return await transact(at, operations)

    monkeypatch.setattr(world.twin.tables, "transact", late)
    await erase(world)
    assert written
    assert await world.snapshot() == {}


@pytest.mark.parametrize("broken", [{"fields": "{", "spilled": "["}, {"fields": '{"status": "in_progress"}'}], ids=str)
async def test_rows_that_can_not_be_decoded_go_as_well(world: AdminWorld, broken: dict[str, str]) -> None:
    identifier = await world.start(ONE)
    for row in (Key(ONE, identifier).record_row, keys.response_row(identifier)):
        await world.twin.tables.transact(Key(ONE, identifier).partition, [RawOperation("put", row, broken)])
    with pytest.raises(StorageError):
        await world.engine.record(Key(ONE, identifier))
    await erase(world)
    assert await world.snapshot() == {}


class Cut:
    """Storage that fails from its n-th change on."""

    def __init__(self, world: AdminWorld, changes: int, patched: pytest.MonkeyPatch) -> None:
        self.left = changes
        for target, name in ((world.twin.tables, "transact"), (world.twin.blobs, "delete"), (world.appends, "delete")):
            patched.setattr(target, name, self._limited(getattr(target, name)))

    def _limited(self, call: Any) -> Any:
        async def limited(*given: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise StorageUnavailable("cut off")
            return await call(*given)

        return limited


async def test_a_failure_in_the_middle_leaves_a_rest_for_the_next_run(
    world: AdminWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hosting.storage._commit._PAUSE", 0.0)
    for scope in (ONE, TWO):
        await world.fill(scope)
    others = await world.snapshot(without=[ONE])
    with monkeypatch.context() as patched:
        Cut(world, 8, patched)
        with pytest.raises(StorageUnavailable):
            await erase(world)
    assert len(others) < len(await world.snapshot())
    await erase(world)
    assert await world.snapshot() == others
