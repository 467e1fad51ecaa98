"""On whose behalf the code that is running starts tasks."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from hosting.storage import keys

__all__ = ["APP_TENANT", "current_scope", "use_scope"]

APP_TENANT = "app:self"
"""The tenant of work that no caller asked for: timers, start-up code. Identity never makes a tenant of this name, because
those of keys, claims and development have other prefixes."""

_scope: ContextVar[str | None] = ContextVar("hosting.tasks.scope", default=None)


def current_scope() -> str:
    """The scope that task ids belong to: the caller's, set by `use_scope`, else the app's own."""
    return _scope.get() or keys.scope(APP_TENANT, None)


@contextmanager
def use_scope(scope: str) -> Generator[None]:
    """Run the block on behalf of `scope` (`keys.scope(tenant, user)`). Handlers run in the scope they were started in."""
    token = _scope.set(scope)
    try:
        yield
    finally:
        _scope.reset(token)
