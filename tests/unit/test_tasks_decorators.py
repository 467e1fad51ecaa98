"""Declarations: what is wrong is said at once; the public surface of the seed and of the published package."""

import inspect
from datetime import timedelta
from typing import Any

import pytest

import hosting.tasks
from hosting.tasks import (
    InputTooLarge,
    LastInputIdPreconditionFailed,
    MultiTurnTask,
    RetryPolicy,
    SteeringQueueFull,
    Task,
    TaskCancelled,
    TaskConflictError,
    TaskContext,
    TaskDeferred,
    TaskFailed,
    TaskManagerNotInitialized,
    _current,
    _registry,
    _switch,
    multi_turn_task,
    resilient_tasks_enabled,
    set_resilient_tasks_enabled,
    task,
)

DECORATORS = [task, multi_turn_task]


async def handler(ctx: TaskContext[str]) -> str:
    return ctx.input


def test_every_name_of_the_published_package_is_there():
    published = {
        *("task", "multi_turn_task", "Task", "MultiTurnTask", "TaskContext", "EntryMode", "TaskRun", "RetryPolicy"),
        *("set_resilient_tasks_enabled", "resilient_tasks_enabled", "JSONValue", "TaskErrorDict", "TaskMetadata"),
        *("TaskExhaustedRetriesErrorDict", "TaskFailed", "TaskCancelled", "TaskDeferred", "TaskConflictError"),
        *("LastInputIdPreconditionFailed", "SteeringQueueFull", "InputTooLarge", "TaskManagerNotInitialized"),
    }
    assert published <= set(hosting.tasks.__all__)
    assert all(hasattr(hosting.tasks, name) for name in hosting.tasks.__all__)


@pytest.mark.parametrize("decorator", DECORATORS)
@pytest.mark.parametrize("name", ["", "  ", "x" * 257, None, 3])
def test_a_name_that_names_nothing_is_refused(decorator: Any, name: Any):
    with pytest.raises(ValueError, match="name"):
        decorator(name=name)(handler)


@pytest.mark.parametrize("decorator", DECORATORS)
def test_a_missing_name_is_refused(decorator: Any):
    with pytest.raises(ValueError, match="name"):
        decorator()(handler)


@pytest.mark.parametrize("decorator", DECORATORS)
@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"title": 3}, TypeError),
        ({"timeout": timedelta(seconds=-1)}, ValueError),
        ({"timeout": timedelta(days=7, seconds=1)}, ValueError),
        ({"timeout": 5}, TypeError),
        ({"retry": 3}, TypeError),
        ({"ephemeral": True}, TypeError),
        ({"tags": {}}, TypeError),
    ],
)
def test_wrong_options_are_refused(decorator: Any, given: dict[str, Any], error: type[Exception]):
    with pytest.raises(error):
        decorator(name="n", **given)(handler)


def test_a_one_shot_is_not_steerable():
    with pytest.raises(TypeError):
        task(name="n", steerable=True)(handler)  # type: ignore[call-overload]


@pytest.mark.parametrize("decorator", DECORATORS)
def test_zero_and_seven_days_are_timeouts_and_the_default_is_a_day(decorator: Any):
    for given in (timedelta(0), timedelta(days=7)):
        decorator(name="limits", timeout=given)(handler)
        declared = _registry.find("limits")
        assert declared is not None
        assert declared.timeout == given
    decorator(name="limits")(handler)
    declared = _registry.find("limits")
    assert declared is not None
    assert declared.timeout == timedelta(days=1)


def sync(ctx: TaskContext[str]) -> str:
    return ""


async def no_parameter() -> None: ...
async def other_name(context: TaskContext[str]) -> None: ...
async def bare(ctx: TaskContext) -> None: ...  # type: ignore[type-arg]
async def unannotated(ctx) -> None: ...  # type: ignore[no-untyped-def]
async def other_type(ctx: dict[str, str]) -> None: ...
async def text(ctx: "TaskContext") -> None: ...  # type: ignore[type-arg]
async def second(ctx: TaskContext[str], more: int) -> None: ...


@pytest.mark.parametrize("decorator", DECORATORS)
@pytest.mark.parametrize("wrong", [sync, no_parameter, other_name, bare, unannotated, other_type, text, second])
def test_a_handler_of_another_shape_is_refused(decorator: Any, wrong: Any):
    with pytest.raises(TypeError):
        decorator(name="n")(wrong)


async def optional(ctx: TaskContext[str], more: int = 1, *args: Any, **kwargs: Any) -> None: ...
async def quoted(ctx: "TaskContext[dict[str, int]]") -> None: ...


@pytest.mark.parametrize("decorator", DECORATORS)
@pytest.mark.parametrize("right", [handler, optional, quoted])
def test_a_handler_of_the_right_shape_is_taken(decorator: Any, right: Any):
    assert decorator(name="right")(right).name == "right"


def test_the_decorators_work_with_and_without_arguments_first():
    assert isinstance(task(handler, name="direct"), Task)
    assert isinstance(multi_turn_task(handler, name="direct2"), MultiTurnTask)
    assert not callable(task(handler, name="direct"))


def test_a_second_declaration_takes_the_place_of_the_first():
    task(name="twice", title="one")(handler)
    task(name="twice", title="two")(handler)
    declared = _registry.find("twice")
    assert declared is not None
    assert declared.title == "two"


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        (Task.start, {"task_id", "input", "input_id", "if_last_input_id"}),
        (Task.run, {"task_id", "input", "input_id", "if_last_input_id"}),
        (MultiTurnTask.start, {"task_id", "input", "input_id", "if_last_input_id"}),
        (MultiTurnTask.run, {"task_id", "input", "input_id", "if_last_input_id"}),
    ],
)
def test_invocations_take_keywords_only(method: Any, parameters: set[str]):
    found = {p.name: p.kind for p in inspect.signature(method).parameters.values() if p.name != "self"}
    assert set(found) == parameters
    assert set(found.values()) == {inspect.Parameter.KEYWORD_ONLY}


async def test_without_an_engine_a_start_says_so():
    started = task(name="nowhere")(handler)
    undo = _current.swap_engine(None)
    try:
        with pytest.raises(TaskManagerNotInitialized):
            await started.start(input="x")
    finally:
        undo()


def test_declaring_enables_recovery_and_the_switch_overrides():
    _switch.reset()
    try:
        task(name="enables")(handler)
        assert resilient_tasks_enabled()
        set_resilient_tasks_enabled(False)
        assert not resilient_tasks_enabled()
        set_resilient_tasks_enabled()
        assert resilient_tasks_enabled()
    finally:
        _switch.reset()


def test_exceptions_have_the_published_bases_and_payloads():
    failed = TaskFailed({"type": "ValueError", "message": "boom", "traceback": ""})
    assert (str(failed), failed.error["type"]) == ("boom", "ValueError")
    assert str(TaskFailed(error={"type": "exhausted_retries"})) == "Task failed"
    assert isinstance(TaskConflictError(current_status="in_progress"), RuntimeError)
    assert TaskConflictError(current_status="in_progress").current_status == "in_progress"
    guard = LastInputIdPreconditionFailed(actual_last_input_id="a", expected_last_input_id="b", task_id="t")
    assert (guard.actual_last_input_id, isinstance(guard, RuntimeError)) == ("a", True)
    assert isinstance(SteeringQueueFull(), RuntimeError)
    assert isinstance(InputTooLarge(), ValueError)
    assert isinstance(TaskManagerNotInitialized(), RuntimeError)
    assert not isinstance(TaskCancelled(), RuntimeError)
    assert not isinstance(TaskDeferred(), RuntimeError)


def test_a_policy_is_part_of_the_declaration():
    task(name="with_policy", retry=RetryPolicy.no_retry())(handler)
    declared = _registry.find("with_policy")
    assert declared is not None
    assert declared.retry == RetryPolicy.no_retry()
