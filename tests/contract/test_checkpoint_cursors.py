"""Checkpoint cursors, and the seed's way of using them with the storage: an app that runs its workflows itself."""

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agent_framework import Executor, Workflow, WorkflowBuilder, WorkflowContext, handler, response_handler

from hosting.state.checkpoint_cursors import CheckpointCursors, CursorChanged
from hosting.state.checkpoints import TableCheckpointStorage
from hosting.storage import StorageUnavailable, Store, keys, memory_store
from tests.contract.storage_twins import TWINS, open_twin


def scope() -> str:
    return keys.scope(uuid.uuid4().hex, None)


@pytest.fixture(params=TWINS)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    async with open_twin(request.param, request) as opened:
        yield opened.store


async def test_a_session_without_a_cursor_has_none(store: Store) -> None:
    assert await CheckpointCursors(store, scope()).get("s") is None


async def test_what_is_set_can_be_got_and_moved(store: Store) -> None:
    cursors = CheckpointCursors(store, scope())
    await cursors.set("s", "c1")
    await cursors.set("s", "c2")
    assert await cursors.get("s") == "c2"
    assert await cursors.get("t") is None


async def test_a_deleted_cursor_is_gone_and_an_unknown_one_is_no_error(store: Store) -> None:
    cursors = CheckpointCursors(store, scope())
    await cursors.set("s", "c1")
    await cursors.delete("s")
    await cursors.delete("s")
    assert await cursors.get("s") is None


async def test_tenants_have_cursors_of_their_own(store: Store) -> None:
    one, other = CheckpointCursors(store, scope()), CheckpointCursors(store, scope())
    await one.set("same", "c1")
    assert await other.get("same") is None


async def test_the_scope_can_be_that_of_the_request(store: Store) -> None:
    current = [scope(), scope()]
    cursors = CheckpointCursors(store, lambda: current[0])
    await cursors.set("s", "c1")
    current.reverse()
    assert await cursors.get("s") is None


@pytest.mark.parametrize("odd", ["a/b#?\\", "x" * 3000, "Ä", "..", "~"])
async def test_any_text_is_a_session(store: Store, odd: str) -> None:
    cursors = CheckpointCursors(store, scope())
    await cursors.set(odd, odd)
    assert await cursors.get(odd) == odd


async def test_a_cursor_that_is_still_where_it_was_moves(store: Store) -> None:
    cursors = CheckpointCursors(store, scope())
    await cursors.set("s", "c1", expected=None)
    await cursors.set("s", "c2", expected="c1")
    assert await cursors.get("s") == "c2"


@pytest.mark.parametrize("expected", [None, "c0"])
async def test_a_cursor_that_another_run_has_moved_stays(store: Store, expected: str | None) -> None:
    cursors = CheckpointCursors(store, scope())
    await cursors.set("s", "theirs")
    with pytest.raises(CursorChanged):
        await cursors.set("s", "ours", expected=expected)
    assert await cursors.get("s") == "theirs"


async def test_a_move_that_is_repeated_after_a_lost_answer_is_done(store: Store) -> None:
    cursors = CheckpointCursors(store, scope())
    await cursors.set("s", "c1")
    await cursors.set("s", "c2", expected="c1")
    await cursors.set("s", "c2", expected="c1")
    assert await cursors.get("s") == "c2"


async def test_of_two_runs_at_once_one_moves_it() -> None:
    store = memory_store()
    cursors = CheckpointCursors(store, scope())
    get, fetched = store.get, 0

    async def get_then_lose(*args: Any, **kwargs: Any) -> Any:
        nonlocal fetched
        found = await get(*args, **kwargs)
        fetched += 1
        if fetched == 1:  # between the look and the write of the one
            await cursors.set("s", "theirs", expected=None)
        return found

    store.get = get_then_lose  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(CursorChanged):
        await cursors.set("s", "ours", expected=None)
    assert await cursors.get("s") == "theirs"


async def test_storage_that_is_away_is_raised() -> None:
    store = memory_store()

    async def away(*_: Any, **__: Any) -> None:
        raise StorageUnavailable("away")

    store.get = store.commit = away  # pyright: ignore[reportAttributeAccessIssue]
    cursors = CheckpointCursors(store, scope())
    with pytest.raises(StorageUnavailable):
        await cursors.get("s")
    with pytest.raises(StorageUnavailable):
        await cursors.set("s", "c")


async def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="no scope"):
        CheckpointCursors(memory_store(), "acme")
    with pytest.raises(ValueError, match="session_id"):
        await CheckpointCursors(memory_store(), scope()).get("")


class Counter(Executor):
    def __init__(self) -> None:
        super().__init__(id="counter")
        self.total = 0

    @handler
    async def add(self, number: int, ctx: WorkflowContext[int, str]) -> None:
        self.total += number
        await ctx.request_info(f"{self.total}, really?", bool)

    @response_handler
    async def sure(self, asked: str, sure: bool, ctx: WorkflowContext[int, str]) -> None:
        await ctx.yield_output(f"{self.total} {sure}")

    async def on_checkpoint_save(self) -> dict[str, int]:
        return {"total": self.total}

    async def on_checkpoint_restore(self, state: dict[str, int]) -> None:
        self.total = state["total"]


def counting() -> Workflow:
    return WorkflowBuilder(start_executor=Counter(), name="counting").build()


async def test_an_app_pauses_a_workflow_and_goes_on_with_another_instance(store: Store) -> None:
    tenant, session = scope(), "conversation/1"
    cursors = CheckpointCursors(store, tenant)

    def storage() -> TableCheckpointStorage:
        return TableCheckpointStorage(store, scope=tenant, session_id=session)

    first = counting()
    paused = await first.run(message=5, checkpoint_storage=storage())
    (asked,) = paused.get_request_info_events()
    latest = await storage().get_latest(workflow_name="counting")
    assert latest is not None
    assert latest.checkpoint_id == first.get_last_checkpoint_id()
    await cursors.set(session, latest.checkpoint_id, expected=None)

    second = counting()
    checkpoint_id = await cursors.get(session)
    done = await second.run(
        checkpoint_id=checkpoint_id, responses={asked.request_id: True}, checkpoint_storage=storage()
    )
    assert done.get_outputs() == ["5 True"]
