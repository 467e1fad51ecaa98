"""Chains and steering, over both twins. The numbers (#n) are those of the defects
that `reference/agentserver.md` lists for the published package: ours must not have them."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from hosting.storage import Entity, Operation, Replace, StorageUnavailable
from hosting.tasks import (
    LastInputIdPreconditionFailed,
    SteeringQueueFull,
    TaskCancelled,
    TaskConflictError,
    TaskFailed,
)
from hosting.tasks._caller import current_scope
from hosting.tasks._rows import Key
from tests.contract.task_fixtures import new
from tests.contract.tasks_app import contract_tasks as app
from tests.contract.tasks_world import World

# --- chains ----------------------------------------------------------------------------------------------------------


async def test_a_chain_resumes_with_its_metadata(world: World):
    name = new()
    first = await world.end(app.strict.run(task_id=name, input={}))
    second = await world.end(app.strict.run(task_id=name, input={}))
    assert (first["mode"], first["count"], second["mode"], second["count"]) == ("fresh", 1, "resumed", 2)
    assert first["input_id"] != second["input_id"]
    assert second["input_id"].startswith("input-")


async def test_a_failed_turn_leaves_the_chain_usable_and_its_metadata_kept(world: World):
    name = new()
    with pytest.raises(TaskFailed, match="turn failed"):
        await world.end(app.chat.run(task_id=name, input={"text": "a", "raise": True}))
    assert (await world.end(app.chat.run(task_id=name, input={"text": "b"})))["turns"] == ["a", "b"]


async def test_a_chain_that_is_not_steerable_refuses_a_turn_while_one_is_active(world: World):
    run = await app.strict.start(task_id=new(), input={"wait": True})
    with pytest.raises(TaskConflictError):
        await app.strict.start(task_id=run.task_id, input={})
    await run.cancel()
    await world.end(run.result())


async def test_if_last_input_id_works_without_an_input_id(world: World):
    name = new()
    first = await app.chat.start(task_id=name, input={"text": "a"}, if_last_input_id="never-existed")
    await world.end(first.result())
    seen = await world.end(app.chat.run(task_id=name, input={"text": "b"}, if_last_input_id=first.input_id))
    assert seen["turns"] == ["a", "b"]
    with pytest.raises(LastInputIdPreconditionFailed) as refused:
        await app.chat.start(task_id=name, input={"text": "c"}, if_last_input_id=first.input_id)
    assert refused.value.actual_last_input_id == seen["input_id"]


async def test_of_two_starts_with_the_same_precondition_exactly_one_is_accepted(world: World):
    name = new()
    first = await app.chat.start(task_id=name, input={"text": "a"}, input_id="one")
    await world.end(first.result())
    results = await asyncio.gather(
        *(app.chat.start(task_id=name, input={"text": n}, if_last_input_id="one") for n in "bcde"),
        return_exceptions=True,
    )
    accepted = [result for result in results if not isinstance(result, BaseException)]
    assert len(accepted) == 1
    assert all(isinstance(r, LastInputIdPreconditionFailed) for r in results if isinstance(r, BaseException))
    await world.end(accepted[0].result())


async def test_the_same_input_id_may_be_used_again_and_each_run_has_its_own_result(world: World):
    name = new()
    runs = []
    for text in "ab":
        runs.append(await app.chat.start(task_id=name, input_id="same", input={"text": text}))
        await world.end(runs[-1].result())
    assert [(await world.end(run.result()))["turns"] for run in runs] == [["a"], ["a", "b"]]


# --- steering --------------------------------------------------------------------------------------------------------


async def test_a_newer_input_tells_the_active_turn_and_runs_after_it(world: World):  # 11
    name = new()
    first = await app.chat.start(task_id=name, input_id="one", input={"text": "a", "wait": True})
    await world.entered(first)
    second = await app.chat.start(task_id=name, input_id="two", input={"text": "b"})
    assert (first.is_queued, second.is_queued) == (False, True)
    one, two = await world.end(first.result()), await world.end(second.result())
    assert (one["cause"], one["pending"], one["cancel_requested"], one["input_id"]) == ("newer_input", 1, False, "one")
    assert (two["mode"], two["steered"], two["input_id"], two["turns"]) == ("resumed", True, "two", ["a", "b"])
    assert (first.input_id, second.input_id, second.is_queued) == ("one", "two", False)


async def test_queued_inputs_run_in_order_and_equal_ones_keep_their_own_results(world: World):  # 5, 11
    name = new()
    first = await app.chat.start(task_id=name, input={"text": "first", "wait": True})
    await world.entered(first)
    queued = [await app.chat.start(task_id=name, input={"text": "same"}) for _ in range(4)]
    results = [await world.end(run.result()) for run in queued]
    assert [result["input_id"] for result in results] == [run.input_id for run in queued]
    assert [len(result["turns"]) for result in results] == [2, 3, 4, 5]


async def test_a_promoted_turn_enters_with_cancel_set_while_more_inputs_wait(world: World, tmp_path: Path):
    name, gate = new(), tmp_path / "gate"
    first = await app.chat.start(task_id=name, input={"text": "a", "until": str(gate)})
    await world.entered(first)
    second = await app.chat.start(task_id=name, input={"text": "b"})
    third = await app.chat.start(task_id=name, input={"text": "c"})
    gate.touch()
    two, three = await world.end(second.result()), await world.end(third.result())
    assert (two["at_entry"]["cause"], two["at_entry"]["pending"]) == ("newer_input", 1)
    assert (three["at_entry"]["cause"], three["at_entry"]["pending"]) == (None, 0)


async def test_nine_inputs_wait_the_tenth_is_refused_and_nobodys_result_is_mixed_up(world: World, tmp_path: Path):  # 6
    name, gate = new(), tmp_path / "gate"
    first = await app.chat.start(task_id=name, input={"text": "0", "until": str(gate)})
    await world.entered(first)
    queued = [await app.chat.start(task_id=name, input={"text": str(n)}) for n in range(1, 10)]
    with pytest.raises(SteeringQueueFull):
        await app.chat.start(task_id=name, input={"text": "too many"})
    gate.touch()
    assert (await world.end(first.result()))["turns"] == ["0"]
    assert (await world.end(queued[0].result()))["input"]["text"] == "1"
    later = await app.chat.start(task_id=name, input={"text": "10"})
    assert [(await world.end(run.result()))["input"]["text"] for run in [*queued[1:], later]] == list("23456789") + [
        "10"
    ]


async def test_a_queued_input_can_be_cancelled_and_never_runs(world: World, tmp_path: Path):  # 5
    name, gate = new(), tmp_path / "gate"
    first = await app.chat.start(task_id=name, input={"text": "a", "until": str(gate)})
    await world.entered(first)
    queued = [await app.chat.start(task_id=name, input={"text": "same"}) for _ in range(3)]
    await queued[1].cancel()
    with pytest.raises(TaskCancelled):
        await world.end(queued[1].result())
    gate.touch()
    assert (await world.end(queued[2].result()))["turns"] == ["a", "same", "same"]
    assert (await world.end(queued[0].result()))["turns"] == ["a", "same"]


async def test_cancelling_a_promoted_turn_reaches_its_handler(world: World):  # 10
    name = new()
    first = await app.chat.start(task_id=name, input={"text": "a", "wait": True})
    await world.entered(first)
    second = await app.chat.start(task_id=name, input={"text": "b", "wait": True})
    await world.end(first.result())
    await world.entered(second)
    await second.cancel()
    assert (await world.end(second.result()))["cause"] == "cancel_requested"
    record = await world.engine.record(Key(current_scope(), name))
    assert record is not None
    assert record.status == "suspended"


async def test_inputs_that_come_in_do_not_cost_the_active_turn_its_lease(world: World):  # 7
    name = new()
    first = await app.chat.start(task_id=name, input={"text": "a", "seconds": 4})
    await world.entered(first)
    for n in range(3):
        await app.chat.start(task_id=name, input={"text": str(n)})
        await world.let(0.3)
    seen = await world.end(first.result())
    assert (seen["recovery"], seen["turns"], seen["cause"]) == (0, ["a"], "newer_input")


# --- deletion --------------------------------------------------------------------------------------------------------


async def test_deleting_a_chain_ends_all_its_turns_and_the_next_one_is_fresh(world: World, tmp_path: Path):
    name, gate = new(), tmp_path / "gate"
    await world.end(app.chat.run(task_id=name, input={"text": "old"}, input_id="old"))
    active = await app.chat.start(task_id=name, input={"text": "a", "until": str(gate)})
    await world.entered(active)
    queued = await app.chat.start(task_id=name, input={"text": "b"})
    await app.chat.delete(name)
    await app.chat.delete(name)
    gate.touch()
    for run in (active, queued):
        with pytest.raises(TaskCancelled):
            await world.end(run.result())
    assert await app.chat.get_run(name, "old") is None
    seen = await world.end(app.chat.run(task_id=name, input={"text": "new"}))
    assert (seen["mode"], seen["turns"], seen["recovery"]) == ("fresh", ["new"], 0)


async def test_a_chain_that_begins_anew_before_the_old_one_is_cleared_away_keeps_what_is_its_own(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    name = new()
    await world.end(app.chat.run(task_id=name, input={"text": "old"}, input_id="old"))
    commit, deleted, go_on = world.store.commit, asyncio.Event(), asyncio.Event()

    async def slow(partition: str, operations: Sequence[Operation], *, token: str | None = None) -> dict[str, str]:
        etags = await commit(partition, operations, token=token)
        if any(isinstance(it, Replace) and it.fields.get("status") == "deleted" for it in operations):
            deleted.set()
            await go_on.wait()
        return etags

    monkeypatch.setattr(world.store, "commit", slow)
    deleting = asyncio.create_task(app.chat.delete(name))
    await deleted.wait()
    run = await app.chat.start(task_id=name, input={"text": "new"}, input_id="new")
    await world.end(run.result())
    go_on.set()
    await world.end(deleting)
    assert await app.chat.get_run(name, "old") is None
    assert (await world.end(run.result()))["turns"] == ["new"]
    assert (await world.end(app.chat.run(task_id=name, input={"text": "next"})))["turns"] == ["new", "next"]


async def test_deleting_again_removes_what_a_deletion_that_failed_has_left(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    name = new()
    await world.end(app.chat.run(task_id=name, input={"text": "old"}, input_id="old"))
    with monkeypatch.context() as cut:

        async def away(*_: object, **__: object) -> list[Entity]:
            raise StorageUnavailable("away")

        cut.setattr(world.store, "query", away)
        cut.setattr(world.store, "query_fields", away)
        with pytest.raises(StorageUnavailable):
            await app.chat.delete(name)
    await app.chat.delete(name)
    key = Key(current_scope(), name)
    rows = [row.row for row in await world.store.query(key.partition, "task", "task~")]
    assert rows == [key.record_row]


async def test_deleting_what_was_never_there_is_no_error(world: World):
    await app.chat.delete(new())
