"""What a log record is about: which response, which task, whose. Ids and digests, never content."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from types import MappingProxyType

__all__ = ["current_fields", "fields", "log_about", "reset_fields", "set_fields"]

_NOTHING: Mapping[str, str] = MappingProxyType({})
_fields: ContextVar[Mapping[str, str]] = ContextVar("hosting.log_fields", default=_NOTHING)


def fields(
    *,
    response_id: str | None = None,
    conversation: str | None = None,
    tenant: str | None = None,
    task: str | None = None,
    task_name: str | None = None,
    agent: str | None = None,
) -> dict[str, str]:
    """For `extra=` of a log call. `tenant` is the digest that storage keys carry (`hosting.storage.keys.scope`), never its
    name. Application Insights shows each as a custom dimension."""
    given = {
        "response_id": response_id,
        "conversation": conversation,
        "tenant": tenant,
        "task": task,
        "task_name": task_name,
        "agent": agent,
    }
    return {name: value for name, value in given.items() if value is not None}


def current_fields() -> Mapping[str, str]:
    """What surrounds this code is about."""
    return _fields.get()


@contextmanager
def log_about(values: Mapping[str, str]) -> Generator[None]:
    """Every record of a log call in here carries `values` (see `fields`) too, whoever logs."""
    token = set_fields(values)
    try:
        yield
    finally:
        reset_fields(token)


def set_fields(values: Mapping[str, str]) -> Token[Mapping[str, str]]:
    return _fields.set({**_fields.get(), **values})


def reset_fields(token: Token[Mapping[str, str]]) -> None:
    _fields.reset(token)
