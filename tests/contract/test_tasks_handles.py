"""Results, handles, metadata and rows, over both twins. The numbers (#n) are those of the defects
that `reference/agentserver.md` lists for the published package: ours must not have them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from hosting.storage import Insert, keys
from hosting.tasks import (
    TaskConflictError,
    TaskFailed,
    use_scope,
)
from hosting.tasks._acceptance import StartRequest
from hosting.tasks._caller import current_scope
from hosting.tasks._registry import find
from hosting.tasks._rows import INDEX_PARTITIONS, INDEX_RANGE, Key
from hosting.tasks._tasks import MultiTurnTask
from tests.contract.task_fixtures import new
from tests.contract.tasks_app import contract_tasks as app
from tests.contract.tasks_world import World

# --- results and handles ---------------------------------------------------------------------------------------------


async def test_a_wait_that_times_out_takes_nothing_away(world: World):  # 12
    run = await app.waits.start(input=1)
    waiting = asyncio.ensure_future(run.result())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(run.result(), 0.05)
    await run.cancel()
    assert (await world.end(waiting))["input"] == 1
    assert (await world.end(run.result()))["input"] == 1


async def test_another_process_finds_the_result_of_a_run_that_has_ended(world: World):  # 13
    run = await app.look.start(task_id=new(), input=5)
    await world.end(run.result())
    other = world.other_process()
    key = Key(current_scope(), run.task_id)
    seq = await other.last_seq(key, run.input_id)
    assert seq is not None
    outcome = await world.end(other.wait(key, run.input_id, seq))
    assert outcome.output["input"] == 5  # type: ignore[index,call-overload]
    found = await app.look.get_run(run.task_id)
    assert found is not None
    assert (await world.end(found.result()))["input"] == 5


async def test_active_runs_can_be_found_by_id(world: World, tmp_path: Path):
    name, gate = new(), tmp_path / "gate"
    first = await app.chat.start(task_id=name, input_id="one", input={"text": "a", "until": str(gate)})
    await world.entered(first)
    second = await app.chat.start(task_id=name, input_id="two", input={"text": "b"})
    found = await app.chat.get_active_run(name, "two")
    assert found is not None
    assert (found.task_id, found.input_id, found.is_queued) == (name, "two", True)
    assert await app.chat.get_active_run(name, "three") is None
    gate.touch()
    await world.end(second.result())
    assert await app.chat.get_active_run(name, "two") is None
    assert await app.waits.get_active_run(name) is None


async def test_a_task_can_start_another_one_for_the_same_tenant(world: World):
    seen = await world.end(app.starts_another.run(task_id=(name := new()), input="x"))
    assert (seen["task_id"], seen["input"]) == (f"{name}-child", "x")
    assert await app.look.get_run(f"{name}-child") is not None


async def test_tenants_with_the_same_ids_never_meet(world: World):
    name, runs = new(), []
    for tenant in ("a", "b"):
        with use_scope(keys.scope(tenant, None)):
            runs.append(await app.chat.start(task_id=name, input_id="i", input={"text": tenant}))
    assert [(await world.end(run.result()))["turns"] for run in runs] == [["a"], ["b"]]
    assert await app.chat.get_run(name, "i") is None


# --- metadata --------------------------------------------------------------------------------------------------------


async def test_metadata_namespaces_are_kept_apart_and_survive(world: World):
    name = new()
    await world.end(app.notes.run(task_id=name, input={"set": {"": {"a": 1}, "a:b": {"a": 2}, "_own": {"x": [1]}}}))
    assert await world.end(app.notes.run(task_id=name, input={})) == {
        "": {"a": 1},
        "a:b": {"a": 2},
        "_own": {"x": [1]},
        "other": {},
    }


async def test_a_change_inside_a_metadata_value_is_stored_too(world: World):
    name = new()
    for given in ({"set": {"": {"nested": []}}}, {}, {}):
        last = await world.end(app.notes.run(task_id=name, input=given))
    assert last[""]["nested"] == [0, 1]


@pytest.mark.parametrize(
    ("given", "path"), [({"bad": True}, r"metadata\['bad'\] is a set"), ({"big": True}, "1,048,576")]
)
async def test_metadata_that_cannot_be_stored_fails_the_turn_and_not_the_chain(
    world: World, given: dict[str, Any], path: str
):  # 15
    name = new()
    await world.end(app.notes.run(task_id=name, input={"set": {"": {"a": 1}}}))
    with pytest.raises(TaskFailed, match=path):
        await world.end(app.notes.run(task_id=name, input=given))
    assert (await world.end(app.notes.run(task_id=name, input={})))[""] == {"a": 1}


async def test_the_metadata_of_a_handle_is_there_although_it_was_empty_at_the_start(world: World):  # 15
    run = await app.waits.start(input=1)
    assert run.metadata.to_dict() == {}
    await world.entered(run)
    assert run.metadata["entered"] == run.input_id
    await run.cancel()
    await world.end(run.result())


async def test_a_one_shot_takes_its_metadata_along(world: World):
    name = new()
    for _ in range(2):
        run = await app.waits.start(task_id=name, input=1)
        assert run.metadata.to_dict() == {}
        await run.cancel()
        await world.end(run.result())
    key = Key(current_scope(), name)
    assert await world.store.query(key.partition, "task-metadata.", "task-metadata.~") == []


# --- rows that move together -----------------------------------------------------------------------------------------


async def test_rows_of_a_caller_are_written_with_the_acceptance_or_not_at_all(world: World):
    key = Key(current_scope(), new())
    declared = find("waits")
    assert declared is not None
    accepted = await world.engine.start(
        StartRequest(declared, key, "i", 1), lambda slot: [Insert("mine", {"seq": slot.seq})]
    )
    row = await world.store.get(key.partition, "mine")
    assert row is not None
    assert row.fields["seq"] == accepted.slot.seq
    with pytest.raises(TaskConflictError):
        await world.engine.start(StartRequest(declared, key, "j", 1), lambda _: [Insert("other", {})])
    assert await world.store.get(key.partition, "other") is None
    await world.engine.cancel(key, accepted.slot.seq)
    await world.end(world.engine.wait(key, "i", accepted.slot.seq))


async def test_nothing_is_left_of_what_has_ended_but_its_outcome(world: World, tmp_path: Path):
    name, gate = new(), tmp_path / "gate"
    first = await app.chat.start(task_id=name, input={"text": "a", "until": str(gate)})
    await world.entered(first)
    second = await app.chat.start(task_id=name, input={"text": "b"})
    third = await app.chat.start(task_id=name, input={"text": "c"})
    await third.cancel()
    gate.touch()
    await world.end(second.result())
    key = Key(current_scope(), name)
    assert await world.store.query(key.partition, "task-input.", "task-input.~") == []
    assert len(await world.store.query(key.partition, "task-outcome.", "task-outcome.~")) == 3

    async def no_index() -> bool:
        rows = [row for p in INDEX_PARTITIONS for row in await world.store.query(p, *INDEX_RANGE)]
        return not any(row.fields["task_id"] == name for row in rows)

    await world.until(no_index)


async def test_payloads_and_instance_ids_carry_keys_only(world: World):
    key = Key(current_scope(), "x" * 256)
    assert len(key.instance_id(2**31, 2**31)) <= 100
    assert key.instance_id(1, 0).isascii()
    assert set(json.loads(json.dumps(key.to_payload()))) == {"scope", "task_id"}


async def test_a_chain_named_after_a_response_lies_in_its_conversations_partition(world: World):
    chain = "0123456789abcdef01"
    name = f"resp_{chain}{0:08x}{'a' * 24}"
    assert Key(current_scope(), name).partition == keys.partition_key(current_scope(), chain)


def test_the_suite_covers_both_kinds_of_task():
    assert isinstance(app.chat, MultiTurnTask)
