"""Which types a stored checkpoint may name. Nothing else is ever made out of one, and no module is imported for it."""

import sys
from collections import deque
from collections.abc import Iterable
from dataclasses import is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from importlib import import_module
from typing import Any
from uuid import UUID

import agent_framework
from agent_framework.exceptions import WorkflowCheckpointException

__all__ = ["CheckpointTypeRefused", "CheckpointTypes", "is_plain", "type_name"]

# What agent-framework itself puts into a checkpoint. Under their public names, which outlive a move inside the package.
_FRAMEWORK = (
    "AgentExecutorRequest",
    "AgentExecutorResponse",
    "AgentResponse",
    "AgentResponseUpdate",
    "AgentSession",
    "ChatResponse",
    "ChatResponseUpdate",
    "Content",
    "Message",
    "SubWorkflowRequestMessage",
    "SubWorkflowResponseMessage",
    "WorkflowCheckpoint",
    "WorkflowErrorDetails",
    "WorkflowEvent",
    "WorkflowEventSource",
    "WorkflowInvocationKwargs",
    "WorkflowMessage",
    "WorkflowRunState",
)
_ORCHESTRATIONS = "agent_framework_orchestrations"
"""The package of group chats, handoffs and the like: its dataclasses, models and enums are allowed."""

# As the expected type of an answer, say. Values of these are stored in a form of their own.
_PLAIN = (
    *(bool, bytearray, bytes, dict, float, frozenset, int, list, object, set, str, tuple, type(None)),
    *(date, datetime, time, timedelta, Decimal, UUID, deque),
)


class CheckpointTypeRefused(WorkflowCheckpointException):
    """A type is not on the list. `type_name` is from code: unlike the message, which has a path in it, it may be logged."""

    def __init__(self, message: str, type_name: str) -> None:
        super().__init__(message)
        self.type_name = type_name


class CheckpointTypes:
    """The allowlist of one storage.

    On it are plain types, what agent-framework itself stores, types given to its `register_checkpoint_type`, and `types`.
    A subclass of an allowed type is a type of its own.
    """

    def __init__(self, types: Iterable[type] = ()) -> None:
        """Raises TypeError for something that is no class."""
        self._given: dict[str, type] = {}
        for kind in types:
            if not isinstance(kind, type):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"allowed_types takes classes, not {kind!r}")
            self._given[type_name(kind)] = kind

    def name_of(self, kind: type) -> str:
        """The stored name. Raises CheckpointTypeRefused for a type that is not on the list."""
        name = type_name(kind)
        if self._given.get(name) is kind:
            return name
        if (public := _public_names().get(kind)) is not None:
            return public
        if _found(name) is kind:
            return name
        remedy = "give it to agent_framework.register_checkpoint_type, or to allowed_types"
        raise CheckpointTypeRefused(f"the type {name} is not allowed in a checkpoint: {remedy}", name)

    def named(self, name: object) -> type:
        """The type that was stored as `name`. Raises WorkflowCheckpointException for one that is not on the list."""
        kind: type | None = None
        if isinstance(name, str):
            kind = self._given.get(name) or _public_types().get(name) or _found(name)
        if kind is None:
            raise WorkflowCheckpointException(f"the stored checkpoint names the type {name!r}, which is not allowed")
        return kind


def is_plain(kind: type) -> bool:
    """Whether values of exactly this type have a form of their own, or none: they are not stored as attributes."""
    return kind in _PLAIN


def type_name(kind: type) -> str:
    """`module:qualname`."""
    return f"{kind.__module__}:{kind.__qualname__}"


@cache
def _public_types() -> dict[str, type]:
    named: dict[str, type] = {kind.__name__: kind for kind in _PLAIN}
    found: dict[str, Any] = {name: getattr(agent_framework, name) for name in _FRAMEWORK}
    found["MessageType"] = type(agent_framework.WorkflowMessage(data=None, source_id="").type)
    return named | {f"agent_framework:{name}": kind for name, kind in found.items()}


@cache
def _public_names() -> dict[type, str]:
    return {kind: name for name, kind in _public_types().items()}


def _found(name: str) -> type | None:
    """A type that an allowed package defines or the app has registered, when this process has loaded it."""
    module, _, path = name.partition(":")
    if name not in _registered() and module.partition(".")[0] != _ORCHESTRATIONS:
        return None
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        if found is None:
            return None
        found = getattr(found, "__dict__", {}).get(part)
    # What a module has only imported, such as the type of code objects, has another name than it is found under.
    if not isinstance(found, type) or type_name(found) != name:
        return None
    return found if name in _registered() or _is_data(found) else None


def _registered() -> frozenset[str]:
    """The keys that `register_checkpoint_type` has collected: the framework has no public way to read them."""
    encoding = import_module("agent_framework._workflows._checkpoint_encoding")
    return frozenset(getattr(encoding, "_REGISTERED_CHECKPOINT_TYPE_KEYS", ()))


def _is_data(kind: type[Any]) -> bool:
    return is_dataclass(kind) or issubclass(kind, Enum) or hasattr(kind, "__pydantic_fields__")
