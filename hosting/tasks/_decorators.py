"""`@task` and `@multi_turn_task`: what is wrong with a declaration is said when it is made."""

import inspect
import re
import typing
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, cast, get_args, get_origin, overload

from hosting.tasks._codec import Codec
from hosting.tasks._context import TaskContext
from hosting.tasks._events import Kind
from hosting.tasks._ids import check_name
from hosting.tasks._registry import Declared, declare
from hosting.tasks._retry import RetryPolicy
from hosting.tasks._tasks import MultiTurnTask, Task

__all__ = ["multi_turn_task", "task"]

_DEFAULT_TIMEOUT = timedelta(days=1)
_LONGEST_TIMEOUT = timedelta(days=7)
_TEXT = re.compile(r"(?:\w+\.)*TaskContext\[.+\]", re.DOTALL)

type Handler[Input, Output] = Callable[[TaskContext[Input]], Awaitable[Output]]


@overload
def task[Input, Output](
    fn: Handler[Input, Output],
    /,
    *,
    name: str,
    title: str | None = None,
    timeout: timedelta | None = None,
    retry: RetryPolicy | None = None,
) -> Task[Input, Output]: ...


@overload
def task[Input, Output](
    fn: None = None,
    /,
    *,
    name: str,
    title: str | None = None,
    timeout: timedelta | None = None,
    retry: RetryPolicy | None = None,
) -> Callable[[Handler[Input, Output]], Task[Input, Output]]: ...


def task(
    fn: Handler[Any, Any] | None = None,
    /,
    *,
    name: str = "",
    title: str | None = None,
    timeout: timedelta | None = None,
    retry: RetryPolicy | None = None,
) -> Any:
    """Declare one-shot resilient work: one input, one result.

    `timeout` counts from the first time the handler is entered, over retries and crashes (default 1 day, at most 7).
    `retry` None means a single attempt. Declaring a task is enough for it to be recovered.

    Raises ValueError for a missing name, one of more than 256 characters and a timeout out of range; TypeError for anything
    of a wrong type, and unless the handler is `async def handler(ctx: TaskContext[X], ...)` whose other parameters have
    defaults.
    """

    def decorate(handler: Handler[Any, Any]) -> Task[Any, Any]:
        declared = _declared(handler, "one_shot", name, title, timeout, retry, steerable=False)
        return Task(declared)

    return decorate if fn is None else decorate(fn)


@overload
def multi_turn_task[Input, Output](
    fn: Handler[Input, Output],
    /,
    *,
    name: str,
    title: str | None = None,
    timeout: timedelta | None = None,
    retry: RetryPolicy | None = None,
    steerable: bool = False,
) -> MultiTurnTask[Input, Output]: ...


@overload
def multi_turn_task[Input, Output](
    fn: None = None,
    /,
    *,
    name: str,
    title: str | None = None,
    timeout: timedelta | None = None,
    retry: RetryPolicy | None = None,
    steerable: bool = False,
) -> Callable[[Handler[Input, Output]], MultiTurnTask[Input, Output]]: ...


def multi_turn_task(
    fn: Handler[Any, Any] | None = None,
    /,
    *,
    name: str = "",
    title: str | None = None,
    timeout: timedelta | None = None,
    retry: RetryPolicy | None = None,
    steerable: bool = False,
) -> Any:
    """Declare a chain of turns: each `start` on the same task_id is the next turn.

    `steerable`: a turn that comes while another one runs waits in a queue (at most nine do) instead of being refused, and
    the running one is told by `ctx.cancel`. `timeout` and `retry` are per turn. Otherwise as `task`.
    """

    def decorate(handler: Handler[Any, Any]) -> MultiTurnTask[Any, Any]:
        declared = _declared(handler, "multi_turn", name, title, timeout, retry, steerable=bool(steerable))
        return MultiTurnTask(declared)

    return decorate if fn is None else decorate(fn)


def _declared(
    handler: Handler[Any, Any],
    kind: Kind,
    name: str,
    title: str | None,
    timeout: timedelta | None,
    retry: RetryPolicy | None,
    *,
    steerable: bool,
) -> Declared:
    check_name(name)
    if title is not None and not isinstance(cast("object", title), str):
        raise TypeError("title must be a str or None")
    if timeout is not None and not isinstance(cast("object", timeout), timedelta):
        raise TypeError("timeout must be a timedelta or None")
    if timeout is not None and not timedelta(0) <= timeout <= _LONGEST_TIMEOUT:
        raise ValueError(f"timeout must be between 0 and {_LONGEST_TIMEOUT.days} days")
    if retry is not None and not isinstance(cast("object", retry), RetryPolicy):
        raise TypeError("retry must be a RetryPolicy or None")
    _check_handler(handler)
    declared = Declared(
        name=name,
        kind=kind,
        handler=handler,
        title=title,
        timeout=_DEFAULT_TIMEOUT if timeout is None else timeout,
        retry=retry,
        steerable=steerable,
        input=Codec(lambda: _input_type(handler)),
        output=Codec(lambda: _hints(handler).get("return", Any)),
    )
    declare(declared)
    return declared


def _check_handler(handler: Any) -> None:
    if not inspect.iscoroutinefunction(handler):
        raise TypeError("a task handler is an async function: async def handler(ctx: TaskContext[X])")
    parameters = list(inspect.signature(handler).parameters.values())
    if not parameters or parameters[0].name != "ctx":
        raise TypeError("the first parameter of a task handler is called ctx")
    if not _is_context(parameters[0].annotation):
        raise TypeError("annotate ctx as TaskContext[X], where X is the type of the input")
    for parameter in parameters[1:]:
        optional = parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        if parameter.default is inspect.Parameter.empty and not optional:
            raise TypeError(f"parameter {parameter.name!r} of a task handler needs a default")


def _is_context(annotation: Any) -> bool:
    if isinstance(annotation, str):  # `from __future__ import annotations`: what it names may be defined later
        return _TEXT.fullmatch(annotation.strip()) is not None
    return get_origin(annotation) is TaskContext and len(get_args(annotation)) == 1


def _hints(handler: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(handler, include_extras=True)
    except NameError as error:
        raise TypeError(f"the annotations of {handler.__qualname__} can't be resolved: {error}") from None


def _input_type(handler: Any) -> Any:
    return get_args(_hints(handler)["ctx"])[0]
