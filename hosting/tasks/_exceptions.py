"""What tasks raise. Names, bases and payloads are those of the published package (seed, "Task status and exceptions")."""

from typing import Any, Literal, TypedDict, cast

__all__ = [
    "InputTooLarge",
    "LastInputIdPreconditionFailed",
    "SteeringQueueFull",
    "TaskCancelled",
    "TaskConflictError",
    "TaskDeferred",
    "TaskErrorDict",
    "TaskExhaustedRetriesErrorDict",
    "TaskFailed",
    "TaskManagerNotInitialized",
]


class TaskErrorDict(TypedDict):
    """`TaskFailed.error` of a handler that raised."""

    type: str
    message: str
    traceback: str


class TaskExhaustedRetriesErrorDict(TypedDict):
    """`TaskFailed.error` when the last attempt that a retry policy allows has failed too."""

    type: Literal["exhausted_retries"]
    attempts: int
    last_error: str
    last_error_type: str
    traceback: str


class TaskFailed(Exception):
    """The handler raised and no retry remains. `error` is a TaskErrorDict or a TaskExhaustedRetriesErrorDict."""

    error: dict[str, Any]

    def __init__(self, *args: Any, error: dict[str, Any] | None = None) -> None:
        if error is None and len(args) == 1 and isinstance(args[0], dict):
            error, args = cast("dict[str, Any]", args[0]), ()
        self.error = {} if error is None else error
        super().__init__(*(args or (str(self.error.get("message") or "Task failed"),)))


class TaskCancelled(Exception):
    """The run ended as cancelled: its handler left with CancelledError, or it was cancelled before it could run on, or
    its chain was deleted."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*(args or ("Task was cancelled",)))


class TaskDeferred(Exception):
    """The handler gave its work back while this process shuts down; another one goes on with it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*(args or ("Task was deferred for recovery",)))


class TaskConflictError(RuntimeError):
    """`start` met work in flight under this task_id that can't take another input. `current_status` is its status."""

    current_status: str | None

    def __init__(self, *args: Any, current_status: str | None = None) -> None:
        super().__init__(*(args or (f"Task is already {current_status}",)))
        self.current_status = current_status


class LastInputIdPreconditionFailed(RuntimeError):
    """`if_last_input_id` names another input than the last one accepted, which is `actual_last_input_id`."""

    actual_last_input_id: str | None

    def __init__(
        self,
        *args: Any,
        actual_last_input_id: str | None = None,
        expected_last_input_id: str | None = None,
        task_id: str | None = None,
    ) -> None:
        text = f"the last input of task {task_id!r} is {actual_last_input_id!r}, not {expected_last_input_id!r}"
        super().__init__(*(args or (text,)))
        self.actual_last_input_id = actual_last_input_id
        self.expected_last_input_id = expected_last_input_id
        self.task_id = task_id


class SteeringQueueFull(RuntimeError):
    """Nine inputs wait already behind the active turn."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*(args or ("The steering queue is full: nine inputs are waiting",)))


class InputTooLarge(ValueError):
    """The input is longer than 10,485,760 bytes of compact JSON."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*(args or ("The input is larger than 10485760 bytes of JSON",)))


class TaskManagerNotInitialized(RuntimeError):
    """No task engine in this process: the app did not register one, or the code runs outside the app."""
