"""What a tool returned, as text or as wire parts. Exceptions never show: an agent's tools may put secrets into them."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from hosting.responses.well_formed import well_formed_json

__all__ = ["FAILED", "arguments_text", "output_parts", "output_text"]

type Json = dict[str, Any]

FAILED = "The tool failed."
"""The public text of a failure that has none of its own."""


def arguments_text(arguments: object) -> str:
    """The arguments of a call as the wire has them: a string, JSON for all that is none."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else _dump(arguments)


def output_text(value: object) -> str:
    """A tool's output as one string: texts joined by line ends, images and files named by their media type."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if _is_content(value):
        return _text_of(value)
    if isinstance(value, Iterable) and not isinstance(value, (Mapping, bytes)):
        entries = list(cast("Iterable[object]", value))
        if entries and all(map(_is_content, entries)):
            return "\n".join(filter(None, map(_text_of, entries)))
        value = entries
    return _dump(cast("object", value))


def output_parts(items: object) -> list[Json] | None:
    """Wire parts of an output that is more than text; None when a string says it all."""
    entries = cast("list[Any]", items) if isinstance(items, list) else []
    contents = [entry for entry in entries if _is_content(entry)]
    if all(content.type == "text" for content in contents):
        return None
    return [part for content in contents if (part := _part(content)) is not None]


def _dump(value: object) -> str:
    try:
        return json.dumps(value, default=str, allow_nan=False)
    except (TypeError, ValueError, RecursionError):  # odd keys, NaN, cycles: a finished run does not fail for them
        return json.dumps(well_formed_json(value))


def _part(content: Any) -> Json | None:
    name = {"filename": content.name} if content.name else {}
    match content.type:
        case "data" | "uri" if content.uri:
            if (content.media_type or "").startswith("image/"):
                return {"type": "input_image", "image_url": content.uri, "detail": "auto"}
            field = "file_data" if content.type == "data" else "file_url"
            return {"type": "input_file", field: content.uri} | name
        case "hosted_file" if content.file_id:
            return {"type": "input_file", "file_id": content.file_id} | name
        case _:
            text = _text_of(content)
            return {"type": "input_text", "text": text} if text else None


def _is_content(value: object) -> bool:
    """Duck typing: agent_framework is not imported to render its objects."""
    return hasattr(value, "additional_properties") and isinstance(getattr(value, "type", None), str)


def _text_of(content: Any) -> str:
    match content.type:
        case "text":
            return content.text or ""
        case "data" | "uri":
            if content.type == "uri":
                return content.uri or ""
            return f"[{content.name or content.media_type or 'data'}]"
        case "hosted_file":
            return f"[{content.name or content.file_id or 'file'}]"
        case "shell_command_output":
            return "".join(filter(None, (content.stdout, content.stderr)))
        case "error":
            return content.message or FAILED
        case _:
            return ""
