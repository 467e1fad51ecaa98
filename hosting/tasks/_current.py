"""The engine of this process."""

from collections.abc import Callable

from hosting.tasks._engine import Engine
from hosting.tasks._exceptions import TaskManagerNotInitialized

__all__ = ["current_engine", "installed_engine", "set_engine", "swap_engine"]

_factory: Callable[[], Engine] | None = None
_engine: Engine | None = None


def set_engine(engine: Engine | Callable[[], Engine] | None) -> None:
    """Install the engine, or a function that makes it at first use, inside the event loop; None takes it away."""
    global _engine, _factory
    _engine, _factory = (engine, None) if isinstance(engine, Engine) or engine is None else (None, engine)


def current_engine() -> Engine:
    """The engine. Raises TaskManagerNotInitialized when the app has registered none."""
    global _engine
    if _engine is None:
        if _factory is None:
            raise TaskManagerNotInitialized(
                "no task engine in this process: tasks run inside the Functions app, or in `hosting.testing.task_engine()`"
            )
        _engine = _factory()
    return _engine


def swap_engine(engine: Engine | None) -> Callable[[], None]:
    """Install an engine for a while; call what is returned to have back what was there, made already or not."""
    global _engine, _factory
    before = (_engine, _factory)

    def undo() -> None:
        global _engine, _factory
        _engine, _factory = before

    _engine, _factory = engine, None
    return undo


def installed_engine() -> Engine | None:
    """The engine if it has been made already; for the graceful stop, which must not make one."""
    return _engine
