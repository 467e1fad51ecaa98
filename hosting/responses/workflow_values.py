"""What a workflow yields or asks, when it is no message: as JSON."""

import json
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

__all__ = ["json_text", "json_value"]


def json_value(value: object) -> Any:
    """Dataclasses, pydantic models, enums, dates, sets and the like in their usual JSON form; other objects as their own
    `to_dict()`, or as text. Never raises: a finished run does not fail for its looks.
    """
    try:
        return to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="strings", fallback=_other)
    except (PydanticSerializationError, ValueError, RecursionError):  # cycles, bytes in keys
        return str(value)


def json_text(value: object) -> str:
    """The same as compact text; a text stays as it is."""
    return value if isinstance(value, str) else json.dumps(json_value(value), ensure_ascii=False)


def _other(value: Any) -> Any:
    to_dict = getattr(value, "to_dict", None)
    if callable(to_dict) and not isinstance(value, type):
        try:
            return to_dict()
        except Exception:  # of foreign objects, such as agent-framework's events
            pass
    return str(value)
