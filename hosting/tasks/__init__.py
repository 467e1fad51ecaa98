"""Resilient tasks: work that is done although processes die (see docs/tasks.md).

The names of the seed and of the published package, with the same arguments, defaults and exceptions: a program written for
it runs after its import line is changed to `from hosting.tasks import ...`.
"""

from hosting.tasks._caller import current_scope, use_scope
from hosting.tasks._codec import JSONValue
from hosting.tasks._context import CancelCause, EntryMode, TaskContext
from hosting.tasks._decorators import multi_turn_task, task
from hosting.tasks._exceptions import (
    InputTooLarge,
    LastInputIdPreconditionFailed,
    SteeringQueueFull,
    TaskCancelled,
    TaskConflictError,
    TaskDeferred,
    TaskErrorDict,
    TaskExhaustedRetriesErrorDict,
    TaskFailed,
    TaskManagerNotInitialized,
)
from hosting.tasks._metadata import TaskMetadata
from hosting.tasks._retry import RetryPolicy
from hosting.tasks._run import TaskRun
from hosting.tasks._switch import resilient_tasks_enabled, set_resilient_tasks_enabled
from hosting.tasks._tasks import MultiTurnTask, Task

__all__ = [
    "CancelCause",
    "EntryMode",
    "InputTooLarge",
    "JSONValue",
    "LastInputIdPreconditionFailed",
    "MultiTurnTask",
    "RetryPolicy",
    "SteeringQueueFull",
    "Task",
    "TaskCancelled",
    "TaskConflictError",
    "TaskContext",
    "TaskDeferred",
    "TaskErrorDict",
    "TaskExhaustedRetriesErrorDict",
    "TaskFailed",
    "TaskManagerNotInitialized",
    "TaskMetadata",
    "TaskRun",
    "current_scope",
    "multi_turn_task",
    "resilient_tasks_enabled",
    "set_resilient_tasks_enabled",
    "task",
    "use_scope",
]
