"""What holds for conversations when a write is applied and its answer is lost, when it is not, and when a process dies."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from hosting.state import conversation_table
from hosting.state.conversation_row import ConversationLocked
from hosting.storage import MemoryBlobs, MemoryTables, Meter, RawOperation, StorageUnavailable, Store
from hosting.storage import _commit as commit_module
from tests.contract.conversation_worlds import World, record_of, user


class Faulty(MemoryTables):
    """Tables of which the next transactions fail: before they are applied, or after."""

    def __init__(self, meter: Meter) -> None:
        super().__init__(meter)
        self.before = self.after = 0
        self.first: Callable[[], Awaitable[Any]] | None = None
        """Somebody else, who is faster than the next transaction."""

    async def transact(self, partition: str, operations: Any) -> list[str]:
        if (other := self.first) is not None:
            self.first = None
            await other()
        if self.before:
            self.before -= 1
            raise StorageUnavailable("not applied")
        etags = await super().transact(partition, operations)
        if self.after:
            self.after -= 1
            raise StorageUnavailable("applied, but the answer is lost")
        return etags


@pytest.fixture
def tables() -> Faulty:
    return Faulty(Meter())


@pytest.fixture
async def world(tables: Faulty, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(commit_module, "_PAUSE", 0)
    monkeypatch.setattr(conversation_table, "_PAUSE", 0)
    store = Store(tables, MemoryBlobs())
    yield World(store)
    await store.close()


# One answer lost is the store's to repair, two are the conversation's, four are too many.
LOST = [1, 2, 3]


@pytest.mark.parametrize("lost", LOST)
@pytest.mark.parametrize("applied", [True, False])
async def test_items_whose_answer_is_lost_are_there_once(
    world: World, tables: Faulty, lost: int, applied: bool
) -> None:
    identifier = await world.begin("0")
    setattr(tables, "after" if applied else "before", lost)
    (first, second) = await world.conversations.append(identifier, [*user("1", id="mine"), *user("2")])
    assert await world.texts(identifier) == ["0", "1", "2"]
    assert (first["id"], await world.conversations.item(identifier, second["id"])) == ("mine", second)
    assert await world.texts(identifier, after="mine") == ["2"]


@pytest.mark.parametrize("lost", LOST)
async def test_a_conversation_whose_answer_is_lost_is_made_once(world: World, tables: Faulty, lost: int) -> None:
    tables.after = lost
    identifier = await world.begin("0")
    await world.add(identifier, "1")
    assert await world.texts(identifier) == ["0", "1"]


async def test_storage_that_stays_away_is_said_so_and_adds_nothing(world: World, tables: Faulty) -> None:
    identifier = await world.begin("0")
    tables.before = 100
    with pytest.raises(StorageUnavailable):
        await world.add(identifier, "1")
    tables.before = 0
    assert await world.texts(identifier) == ["0"]


async def test_items_are_added_behind_those_of_a_faster_writer(world: World, tables: Faulty) -> None:
    identifier = await world.begin("0")
    tables.first = lambda: world.add(identifier, "faster")
    await world.add(identifier, "1")
    assert await world.texts(identifier) == ["0", "faster", "1"]


async def test_an_id_that_a_faster_writer_used_is_a_duplicate(world: World, tables: Faulty) -> None:
    identifier = await world.begin("0")
    tables.first = lambda: world.conversations.append(identifier, user("theirs", id="x"))
    with pytest.raises(ValueError, match="'x' is there already"):
        await world.conversations.append(identifier, user("ours", id="x"))
    assert await world.texts(identifier) == ["0", "theirs"]


async def test_a_turn_that_is_faster_keeps_items_out(world: World, tables: Faulty) -> None:
    identifier = await world.begin("0")

    async def take() -> None:
        past = await world.turns.read(identifier, history=False)
        await world.turns.hold(past.conversation, past.turn().response_id, world.clock.now + 60)

    tables.first = take
    with pytest.raises(ConversationLocked):
        await world.add(identifier, "1")
    assert await world.texts(identifier) == ["0"]


async def test_a_conversation_that_changes_all_the_time_is_locked(world: World, tables: Faulty) -> None:
    identifier = await world.begin("0")
    others = World(world.store, world.scope)
    changes = 0

    async def change() -> None:
        nonlocal changes
        changes += 1
        await others.conversations.update(identifier, {"n": str(changes)})
        tables.first = change  # and so before the next attempt

    tables.first = change
    with pytest.raises(ConversationLocked):
        await world.add(identifier, "1")
    tables.first = None
    assert changes == 8
    assert await world.texts(identifier) == ["0"]


@pytest.mark.parametrize("lost", LOST)
async def test_the_lock_of_a_turn_whose_answer_is_lost_is_its_own(world: World, tables: Faulty, lost: int) -> None:
    identifier = await world.begin("0")
    past = await world.turns.read(identifier, history=False)
    turn = past.turn()
    tables.after = lost
    held = await world.turns.hold(past.conversation, turn.response_id, world.clock.now + 60)
    tables.after = lost
    await world.finish(held, turn, "hi", "hello")
    assert await world.texts(identifier) == ["0", "hi", "hello"]


async def in_doubt(tables: Faulty, act: Callable[[], Awaitable[Any]]) -> None:
    """Do something that is applied, while all that could tell so fails."""
    get = tables.get

    async def broken(*args: Any, **options: Any) -> Any:
        raise StorageUnavailable("no answer")

    tables.after, tables.get = 1, broken  # type: ignore[method-assign]
    with pytest.raises(StorageUnavailable):
        await act()
    tables.after, tables.get = 0, get  # type: ignore[method-assign]


async def test_a_hold_that_may_have_been_written_can_be_repeated(world: World, tables: Faulty) -> None:
    identifier = await world.begin("0")
    past = await world.turns.read(identifier, history=False)
    turn = past.turn()
    until = world.clock.now + 60
    await in_doubt(tables, lambda: world.turns.hold(past.conversation, turn.response_id, until))
    held = await world.turns.hold(past.conversation, turn.response_id, until)
    await world.finish(held, turn, "hi", "hello")
    assert await world.texts(identifier) == ["0", "hi", "hello"]


async def test_a_commit_that_may_have_been_written_can_be_repeated(world: World, tables: Faulty) -> None:
    identifier = await world.begin("0")
    past = await world.turns.read(identifier, history=False)
    turn = past.turn()
    held = await world.turns.hold(past.conversation, turn.response_id, world.clock.now + 60)
    await in_doubt(tables, lambda: world.finish(held, turn, "hi", "hello"))
    await world.finish(held, turn, "hi", "hello")
    assert await world.texts(identifier) == ["0", "hi", "hello"]


async def test_a_commit_meets_a_change_of_metadata(world: World, tables: Faulty) -> None:
    identifier = await world.begin("0")
    past = await world.turns.read(identifier, history=False)
    turn = past.turn()
    held = await world.turns.hold(past.conversation, turn.response_id, world.clock.now + 60)
    tables.first = lambda: world.conversations.update(identifier, {"a": "1"})
    left = await world.finish(held, turn, "hi", "hello")
    assert left.metadata == {"a": "1"}
    assert await world.texts(identifier) == ["0", "hi", "hello"]


async def test_a_failed_turn_that_is_committed_again_is_there_once(world: World, tables: Faulty) -> None:
    identifier = await world.begin("0")
    past = await world.turns.read(identifier, history=False)
    turn = past.turn()
    held = await world.turns.hold(past.conversation, turn.response_id, world.clock.now + 60)
    rows = world.rows(turn, record_of(turn, "hi", "oops", status="failed"), turn.response_id[-24:])
    await in_doubt(tables, lambda: world.turns.commit(held, turn.response_id, rows, None))
    await world.turns.commit(held, turn.response_id, rows, None)
    assert await world.texts(identifier) == ["0"]


@pytest.mark.parametrize("lost", LOST)
async def test_a_deleted_conversation_whose_answer_is_lost_is_deleted(world: World, tables: Faulty, lost: int) -> None:
    identifier = await world.begin("0", "1")
    tables.after = lost
    assert await world.conversations.delete(identifier)
    tables.after = 0
    assert await world.partition(identifier) == []


@pytest.mark.parametrize("step", range(3))
async def test_a_deletion_that_stops_half_way_is_finished_by_the_next_one(
    world: World, tables: Faulty, step: int
) -> None:
    identifier = await world.begin()
    for start in range(0, 100, 20):
        items = [user(str(number), id=f"mine_{number}")[0] for number in range(start, start + 20)]
        await world.conversations.append(identifier, items)
    done = 0
    inner = tables.transact

    async def transact(partition: str, operations: list[RawOperation]) -> list[str]:
        nonlocal done
        if done == step:
            raise StorageUnavailable("the process dies here")
        done += 1
        return await inner(partition, operations)

    tables.transact = transact  # type: ignore[method-assign]
    with pytest.raises(StorageUnavailable):
        await world.conversations.delete(identifier)
    tables.transact = inner  # type: ignore[method-assign]
    found = await world.conversations.get(identifier)
    assert (found is None) == (step > 0)
    assert await world.conversations.delete(identifier)
    assert await world.partition(identifier) == []


@pytest.mark.parametrize("lost", LOST)
async def test_an_item_whose_deletion_is_not_answered_is_deleted(world: World, tables: Faulty, lost: int) -> None:
    identifier = await world.begin("0", "1")
    items, _ = await world.conversations.items(identifier)
    tables.after = lost
    await world.conversations.delete_item(identifier, items[0]["id"])
    assert await world.texts(identifier) == ["0"]
