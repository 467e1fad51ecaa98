"""The tasks that this process declares, by name."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from hosting.tasks._codec import Codec
from hosting.tasks._context import TaskContext
from hosting.tasks._events import Kind
from hosting.tasks._retry import RetryPolicy

__all__ = ["Declared", "declare", "declared", "find"]


@dataclass(frozen=True, slots=True)
class Declared:
    """A declared task: its handler and everything that the handler's runs need, on whichever path they come."""

    name: str
    kind: Kind
    handler: Callable[[TaskContext[Any]], Awaitable[Any]]
    title: str | None
    timeout: timedelta
    retry: RetryPolicy | None
    steerable: bool
    input: Codec
    output: Codec


_declared: dict[str, Declared] = {}


def declare(task: Declared) -> None:
    """Add a task; a second one of the same name takes the place of the first."""
    _declared[task.name] = task


def find(name: str) -> Declared | None:
    return _declared.get(name)


def declared() -> tuple[Declared, ...]:
    return tuple(_declared.values())
