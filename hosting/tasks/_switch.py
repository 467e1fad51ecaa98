"""The switch for recovery of tasks that are declared late (seed, "Force-enable recovery")."""

__all__ = ["resilient_tasks_enabled", "set_resilient_tasks_enabled"]

_enabled: bool | None = None


def set_resilient_tasks_enabled(value: bool = True) -> None:
    """Turn the recovery scan on, or off, whatever is declared. Not needed when tasks are declared at import time.

    Turning it off stops the scan only: tasks can still be started and driven.
    """
    global _enabled
    _enabled = bool(value)


def resilient_tasks_enabled() -> bool:
    """Whether this process looks for unfinished tasks: as the switch says, else whether it declares any task."""
    if _enabled is not None:
        return _enabled
    from hosting.tasks._registry import declared

    return bool(declared())


def reset() -> None:
    """Back to "as declared", for tests."""
    global _enabled
    _enabled = None
