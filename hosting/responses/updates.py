"""The many things that agents and workflows produce, as one: contents with what tells their messages apart.

agent_framework is not imported for it; its objects are recognised by their attributes. That also takes agents that only
look like its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from hosting.responses.logprobs import logprobs_to_wire
from hosting.responses.tool_results import output_text

if TYPE_CHECKING:
    from agent_framework import Content

__all__ = ["Piece", "model_of", "pieces_of"]

_OUTPUT_EVENTS = frozenset({"output", "data"})


@dataclass(slots=True)
class Piece:
    """A whole message, or an update that adds to one."""

    contents: "list[Content]"
    source: object
    whole: bool
    role: str | None = None
    message_id: str | None = None
    author_name: str | None = None
    replace: bool = False
    finish_reason: str | None = None
    logprobs: list[dict[str, Any]] = field(default_factory=list["dict[str, Any]"])
    """Of its first text, when a client of the framework keeps them at the message and not at the text."""


def pieces_of(value: object) -> Iterator[Piece]:
    """The pieces of an update, a response, a message, a content, a text, a workflow event or a list of any of these.

    What is none of them, such as a workflow's status event, has no pieces.
    """
    if isinstance(value, str):
        yield Piece([cast("Content", _Text(value))], value, whole=True)
    elif isinstance(value, (list, tuple)):
        for entry in cast("list[object]", value):
            yield from pieces_of(entry)
    elif (messages := _attribute(value, "messages")) is not None:
        pieces = list(pieces_of(messages))
        if len(pieces) == 1 and not pieces[0].logprobs:
            pieces[0].logprobs = logprobs_to_wire(_attribute(value, "additional_properties"))
        yield from pieces
    elif (contents := _attribute(value, "contents")) is not None:
        source: Any = value
        # A message has no merge mode; an update is recognised by having one, though it is mostly None.
        whole = not hasattr(source, "merge_mode")
        yield Piece(
            contents,
            source,
            whole,
            role=_string(source, "role"),
            message_id=_string(source, "message_id"),
            author_name=_string(source, "author_name"),
            replace=not whole and source.merge_mode == "replace",
            finish_reason=_string(source, "finish_reason"),
            logprobs=logprobs_to_wire(_attribute(source, "additional_properties")),
        )
    elif _attribute(value, "additional_properties") is not None and _string(value, "type"):
        yield Piece([cast("Content", value)], value, whole=True)
    elif _string(value, "type") == "request_info":  # what a workflow waits for is the client's to answer
        from hosting.responses.workflow_requests import request_content

        yield from pieces_of(request_content(cast("Any", value)))
    elif _string(value, "type") in _OUTPUT_EVENTS:
        data = _attribute(value, "data")
        found = list(pieces_of(data))
        # A workflow's output may be any object; what is no message of any kind is shown as JSON.
        yield from found or ([] if data is None else pieces_of(output_text(data)))


def model_of(value: object) -> str | None:
    """The model that an update or a response reports, on itself, on what it was made from, or in its properties."""
    raw = _attribute(value, "raw_representation")
    properties = _attribute(value, "additional_properties")
    listed = cast("list[object]", raw) if isinstance(raw, list) else [raw]
    return (
        _string(value, "model")
        or next((model for entry in reversed(listed) if (model := _string(entry, "model"))), None)
        or (_text(cast("dict[str, object]", properties).get("model")) if isinstance(properties, dict) else None)
    )


class _Text:
    """A bare text, with the attributes that rendering reads."""

    type = "text"
    annotations = None
    merge_mode = None
    additional_properties: dict[str, Any] = {}  # noqa: RUF012 (never written to)

    def __init__(self, text: str) -> None:
        self.text = text


def _attribute(value: object, name: str) -> Any:
    """An attribute of a foreign object, which may raise whatever it likes."""
    try:
        return getattr(value, name, None)
    except Exception:
        return None


def _string(value: object, name: str) -> str | None:
    return _text(_attribute(value, name))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
