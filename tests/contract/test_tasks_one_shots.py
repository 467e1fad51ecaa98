"""One-shots, retries and causes of cancel, over both twins. The numbers (#n) are those of the defects
that `reference/agentserver.md` lists for the published package: ours must not have them."""

import asyncio
from typing import Any

import pytest

from hosting.storage import keys
from hosting.tasks import (
    InputTooLarge,
    TaskCancelled,
    TaskConflictError,
    TaskFailed,
    use_scope,
)
from hosting.tasks._caller import current_scope
from hosting.tasks._rows import Key
from tests.contract.task_fixtures import new
from tests.contract.tasks_app import contract_tasks as app
from tests.contract.tasks_world import World

# --- one-shots -------------------------------------------------------------------------------------------------------


async def test_a_one_shot_runs_once_and_its_input_id_is_its_task_id(world: World):
    run = await app.look.start(input={"a": [1, None]})
    seen = await world.end(run.result())
    assert seen["input"] == {"a": [1, None]}
    assert (seen["mode"], seen["retry"], seen["recovery"], seen["steered"], seen["cancel"]) == (
        "fresh",
        0,
        0,
        False,
        False,
    )
    assert seen["task_id"] == seen["input_id"] == run.task_id == run.input_id


async def test_run_returns_the_output(world: World):
    assert (await world.end(app.look.run(input="x", task_id=(name := new()))))["task_id"] == name


async def test_models_and_dataclasses_go_in_and_come_out(world: World):
    assert await world.end(app.buy.run(input=app.Order(sku="a", count=4))) == app.Receipt("a", 6.0)


async def test_a_handle_can_be_awaited_more_than_once(world: World):
    run = await app.look.start(input=1)

    async def twice() -> tuple[Any, Any]:
        return await run, await run.result()

    first, second = await world.end(twice())
    assert first == second


async def test_an_input_that_is_no_json_is_refused_by_its_path_and_nothing_is_started(world: World):
    name = new()
    with pytest.raises(TypeError, match=r"input\['a'\]\[1\] is a set"):
        await app.look.start(task_id=name, input={"a": [1, {2}]})
    assert await app.look.get_run(name) is None


async def test_an_output_that_is_no_json_fails_the_task_by_its_path(world: World):
    with pytest.raises(TaskFailed, match=r"output\['a'\]\[0\] is a object"):
        await world.end(app.unstorable.run(input=1))


async def test_ten_mebibytes_go_in_and_one_byte_more_does_not(world: World):
    text = "x" * (10 * 1024 * 1024 - 2)
    assert await world.end(app.size.run(input=text)) == len(text)
    with pytest.raises(InputTooLarge):
        await app.size.start(input=text + "x")


@pytest.mark.parametrize("wrong", ["", "a b", "a/b", "ä", "x" * 257, 7])
async def test_ids_have_one_grammar_that_is_checked_at_the_api(world: World, wrong: Any):
    with pytest.raises(ValueError, match="task_id"):
        await app.look.start(task_id=wrong, input=1)
    with pytest.raises(ValueError, match="input_id"):
        await app.look.start(task_id="t", input_id=wrong, input=1)


@pytest.mark.parametrize("name", [".", "a.b:c", "A" * 256, "-_-"])
async def test_every_id_of_the_grammar_can_be_stored(world: World, name: str):  # 17
    with use_scope(keys.scope(new(), None)):
        assert (await world.end(app.look.run(task_id=name, input_id=name, input=1)))["task_id"] == name


async def test_ids_that_differ_in_case_only_are_different(world: World):
    name = new()
    run = await app.waits.start(task_id=name + "a", input=1)
    other = await app.waits.start(task_id=name + "A", input=2)
    await run.cancel()
    await other.cancel()
    assert [(await world.end(r.result()))["input"] for r in (run, other)] == [1, 2]


async def test_a_one_shot_in_flight_refuses_a_second_start(world: World):
    run = await app.waits.start(task_id=new(), input=1)
    with pytest.raises(TaskConflictError) as refused:
        await app.waits.start(task_id=run.task_id, input=2)
    assert refused.value.current_status == "in_progress"
    await run.cancel()
    assert (await world.end(run.result()))["input"] == 1


async def test_a_finished_id_begins_afresh_and_each_handle_keeps_its_own_result(world: World):  # 14
    name = new()
    first = await app.look.start(task_id=name, input=1)
    await world.end(first.result())
    second = await app.look.start(task_id=name, input=2)
    seen = await world.end(second.result())
    assert (seen["input"], seen["mode"]) == (2, "fresh")
    assert (await world.end(first.result()))["input"] == 1


async def test_two_starts_of_one_id_at_the_same_moment_accept_one(world: World):
    name = new()
    results = await asyncio.gather(*(app.waits.start(task_id=name, input=n) for n in range(5)), return_exceptions=True)
    runs = [result for result in results if not isinstance(result, BaseException)]
    assert len(runs) == 1
    assert all(isinstance(r, TaskConflictError) for r in results if isinstance(r, BaseException))
    await runs[0].cancel()
    await world.end(runs[0].result())


# --- failures and retries --------------------------------------------------------------------------------------------


async def test_a_failed_handler_raises_at_the_waiter_with_type_message_and_traceback(world: World):
    with pytest.raises(TaskFailed, match="left") as failed:
        await world.end(app.leaves.run(input="error"))
    assert failed.value.error["type"] == "ValueError"
    assert "contract_tasks.py" in failed.value.error["traceback"]


async def test_a_handler_that_leaves_with_cancelled_error_ends_as_cancelled(world: World):
    with pytest.raises(TaskCancelled):
        await world.end(app.leaves.run(input="cancelled"))


async def test_failures_are_retried_and_counted(world: World):
    seen = await world.end(app.flaky.run(input=["connection", "connection"]))
    assert (seen["retry"], seen["mode"], seen["recovery"]) == (2, "fresh", 0)


async def test_exhausted_retries_have_an_error_of_their_own(world: World):
    with pytest.raises(TaskFailed) as failed:
        await world.end(app.flaky.run(input=["connection"] * 5))
    error = failed.value.error
    assert (error["type"], error["attempts"], error["last_error"]) == ("exhausted_retries", 3, "try 2")
    assert error["last_error_type"] == "ConnectionError"


async def test_a_failure_that_is_not_retried_is_reported_as_itself_also_after_a_retry(world: World):  # 18
    with pytest.raises(TaskFailed) as failed:
        await world.end(app.flaky.run(input=["connection", "value"]))
    assert (failed.value.error["type"], failed.value.error["message"]) == ("ValueError", "try 1")


async def test_cancelling_during_a_back_off_ends_the_run_without_another_attempt(world: World):  # 19
    run = await app.stubborn.start(task_id=new(), input="fail")
    await world.entered(run)

    async def backing_off() -> bool:
        record = await world.engine.record(Key(current_scope(), run.task_id))
        return record is not None and record.not_before > 0

    await world.until(backing_off)
    await run.cancel()
    with pytest.raises(TaskCancelled):
        await world.end(run.result())
    assert (await world.end(app.stubborn.run(task_id=run.task_id, input="next")))["mode"] == "resumed"


async def test_cancelling_during_a_back_off_goes_on_with_the_queue_at_once(world: World):
    run = await app.stubborn.start(task_id=new(), input="fail")
    await world.entered(run)
    waiting = await app.stubborn.start(task_id=run.task_id, input="next")

    async def backing_off() -> bool:
        record = await world.engine.record(Key(current_scope(), run.task_id))
        return record is not None and record.not_before > 0

    await world.until(backing_off)
    await run.cancel()
    assert (await world.end(waiting.result()))["steered"] is True


async def test_a_turn_that_was_told_to_stop_is_not_retried(world: World):  # 19
    run = await app.waits.start(input="raise")
    await world.entered(run)
    await run.cancel()
    with pytest.raises(TaskFailed, match="told to stop"):
        await world.end(run.result())


# --- causes of cancel ------------------------------------------------------------------------------------------------


async def test_an_explicit_cancel_is_visible_as_one(world: World):  # 9
    run = await app.waits.start(input=1)
    await world.entered(run)
    await run.cancel()
    seen = await world.end(run.result())
    assert (seen["cause"], seen["cancel_requested"], seen["timeout_exceeded"]) == ("cancel_requested", True, False)


async def test_a_cancel_before_the_handler_began_reaches_it(world: World):
    run = await app.waits.start(input=1)
    await run.cancel()
    assert (await world.end(run.result()))["cause"] == "cancel_requested"


async def test_a_timeout_is_visible_as_one(world: World):
    seen = await world.end(app.short.run(input=1))
    assert (seen["cause"], seen["cancel_requested"], seen["timeout_exceeded"]) == ("timeout", False, True)


async def test_a_timeout_of_zero_is_set_on_entry(world: World):
    seen = await world.end(app.no_time.run(input=1))
    assert (seen["cancel"], seen["cause"]) == (True, "timeout")


async def test_cancelling_what_has_ended_changes_nothing(world: World):
    run = await app.look.start(input=1)
    await world.end(run.result())
    await run.cancel()
    assert (await world.end(run.result()))["input"] == 1
