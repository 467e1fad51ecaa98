"""The types that a workflow's own code declares: an app need not list those for its checkpoints a second time."""

from collections.abc import Iterable
from dataclasses import is_dataclass
from enum import Enum
from typing import Any, get_args, get_type_hints

from agent_framework import Workflow, WorkflowExecutor

__all__ = ["declared_types"]


def declared_types(workflow: Workflow) -> frozenset[type]:
    """Dataclasses, pydantic models, named tuples and enums in the signatures of the executors' handlers, and in the fields of
    those. Not what an executor keeps to itself: register that with `agent_framework.register_checkpoint_type`.
    """
    found: set[type] = set()
    waiting = list(_signatures(workflow))
    seen: set[int] = set()
    while waiting:
        annotation = waiting.pop()
        if id(annotation) in seen:
            continue
        seen.add(id(annotation))
        waiting += get_args(annotation)
        if isinstance(annotation, type) and _holds_data(annotation):
            found.add(annotation)
            waiting += _fields(annotation)
    return frozenset(found)


def _signatures(workflow: Workflow) -> Iterable[Any]:
    for executor in workflow.executors.values():
        yield from (*executor.input_types, *executor.output_types, *executor.workflow_output_types)
        # (request, response) types of the response handlers; there is no public way to them.
        handlers: dict[tuple[Any, Any], Any] = getattr(executor, "_response_handlers", {})
        for pair in handlers:
            yield from pair
        if isinstance(executor, WorkflowExecutor):
            yield from _signatures(executor.workflow)


def _holds_data(kind: type[Any]) -> bool:
    if is_dataclass(kind) or issubclass(kind, Enum) or hasattr(kind, "__pydantic_fields__"):
        return True
    return hasattr(kind, "_fields") and issubclass(kind, tuple)


def _fields(kind: type[Any]) -> list[Any]:
    if issubclass(kind, Enum):
        return []
    try:
        return list(get_type_hints(kind).values())
    except Exception:  # annotations may name anything, and be evaluated here for the first time
        return []
