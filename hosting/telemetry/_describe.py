"""What may be said of an exception. Its message may quote a user: a validation error does, and so does a model's refusal."""

import traceback

__all__ = ["allow_content", "content_allowed", "describe", "error_type"]

_allowed = False
_LEVELS = 8
_FRAMES = 12


def allow_content(allowed: bool) -> None:
    """Whether telemetry may hold what users say: on a developer's machine, or when the operator says so."""
    global _allowed
    _allowed = allowed


def content_allowed() -> bool:
    return _allowed


def error_type(error: BaseException) -> str:
    """The name of its class: few of them, all from code, so that it can be an attribute of a measurement."""
    return type(error).__name__


def describe(error: BaseException) -> str:
    """For a log: the classes of `error` and of its causes, and where each was raised; its messages only if allowed."""
    if _allowed:
        return "".join(traceback.format_exception(error)).rstrip()
    said: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen and len(seen) < _LEVELS:
        seen.add(id(current))
        said.append(f"{type(current).__module__}.{type(current).__qualname__}{_where(current)}")
        hidden = current.__suppress_context__
        current = current.__cause__ or (None if hidden else current.__context__)
    return " caused by ".join(said)


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    if not frames:
        return ""
    return " at " + " > ".join(f"{_short(frame.filename)}:{frame.lineno} {frame.name}" for frame in frames)


def _short(path: str) -> str:
    return "/".join(path.replace("\\", "/").split("/")[-2:])
