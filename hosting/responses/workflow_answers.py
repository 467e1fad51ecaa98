"""The client's answers to a paused workflow: which items of its input they are, and what the workflow is told."""

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from hosting.responses.errors import InvalidRequest, shortened
from hosting.responses.workflow_requests import OpenRequest, RequestKind

if TYPE_CHECKING:
    from agent_framework import WorkflowEvent

__all__ = ["decode_answer", "split_answers"]

type Json = dict[str, Any]

_ANSWERS: Mapping[str, tuple[RequestKind, str]] = {
    "mcp_approval_response": ("approval", "approval_request_id"),
    "function_call_output": ("call", "call_id"),
    "computer_call_output": ("computer", "call_id"),
}
_ASKED_BY: Mapping[str, tuple[RequestKind, str]] = {
    "mcp_approval_request": ("approval", "id"),
    "function_call": ("call", "call_id"),
    "computer_call": ("computer", "call_id"),
}
_MOST_VALUES = 200_000
"""Of an answer in JSON. Where the body was checked, it was one text."""
_NAMES: Mapping[RequestKind, str] = {
    "approval": "approval request found for approval response with approval_request_id",
    "call": "tool call found for function call output with call_id",
    "computer": "tool call found for computer call output with call_id",
}


def split_answers(items: Iterable[Json], requests: Sequence[OpenRequest]) -> tuple[dict[str, Json], list[Json]]:
    """The items that answer one of `requests`, by its request_id, and the other items, which are new input.

    An answer to something that the same input has brought along belongs to the new input. Raises InvalidRequest with param
    `input` for an answer to nothing, and for two answers to one request.
    """
    asked = {(request.kind, request.wire_id): request.request_id for request in requests}
    brought: set[tuple[RequestKind, str]] = set()
    answers: dict[str, Json] = {}
    others: list[Json] = []
    for item in items:
        if (question := _ASKED_BY.get(item["type"])) is not None:
            brought.add((question[0], str(item.get(question[1]))))
        answer = _ANSWERS.get(item["type"])
        key = (answer[0], str(item.get(answer[1]))) if answer is not None else None
        if key is None or (key in brought and key not in asked):
            others.append(item)
        elif key not in asked:
            raise InvalidRequest(f"No {_NAMES[key[0]]} {shortened(key[1])}.", param="input")
        elif asked[key] in answers:
            raise InvalidRequest(f"Two answers were given to {shortened(key[1])}.", param="input")
        else:
            answers[asked[key]] = item
    return answers, others


def decode_answer(item: Json, event: "WorkflowEvent[Any]") -> Any:
    """What the workflow is told, of the type that its request asks for. Raises InvalidRequest for another type.

    The output of a function call is text. When the text itself is of the right type, or one of the right texts, it is taken as
    it is; else as JSON; else as a word for the type, as `yes` is one for true.
    """
    import hosting.responses.contents as contents  # agent_framework comes with it

    request: Any = event.data
    if item["type"] == "mcp_approval_response":
        approved = bool(item["approve"])
        return approved if event.response_type is bool else request.to_function_approval_response(approved)
    if item["type"] == "computer_call_output":
        return contents.from_tool_output(item)
    from agent_framework import Content

    if event.response_type is Content and isinstance(request, Content) and request.type == "function_call":
        result = contents.from_tool_output(item)
        result.call_id, result.id = request.call_id, request.id  # the ids that the agent knows the call by
        return result
    return _typed(_text(item.get("output")), event.response_type, str(item["call_id"]))


def _typed(text: str, expected: Any, call_id: str) -> Any:
    from agent_framework import Content, Message
    from pydantic import PydanticUserError, TypeAdapter, ValidationError

    if expected is Content:
        return Content.from_text(text)
    if expected in (Message, list[Message]) and not isinstance(_parsed(text), dict | list):
        return Message("user", [text]) if expected is Message else [Message("user", [text])]
    if isinstance(expected, str):  # it would be evaluated
        raise TypeError("a response type is a type")
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(expected)
    except (PydanticUserError, NameError):  # a class that pydantic does not know, or that has one in a field
        return _coerced(_parsed(text), expected, call_id)
    try:
        return adapter.validate_python(text, strict=True)
    except ValidationError:
        pass
    try:
        return adapter.validate_python(text) if _parsed(text) is text else adapter.validate_json(text)
    except ValidationError as error:
        raise _invalid(call_id, _reason(error)) from None


def _coerced(value: Any, expected: Any, call_id: str) -> Any:
    """What the framework makes of a JSON value when it is given to a workflow; the functions are not public."""
    coercion = import_module("agent_framework._workflows._typing_utils")
    made = coercion.try_coerce_to_type(value, expected)
    if not coercion.is_instance_of(made, expected):
        raise _invalid(call_id, f"it has to be a {getattr(expected, '__name__', expected)}, as JSON")
    return made


def _invalid(call_id: str, reason: str) -> InvalidRequest:
    message = f"Invalid output for the function call {shortened(call_id)}: {reason}"
    return InvalidRequest(message, param="input", code="invalid_value")


def _parsed(text: str) -> Any:
    """The value of a JSON text; `text` itself when it is none, or one of more values than a body may have."""
    if sum(map(text.count, ",[{")) > _MOST_VALUES:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _reason(error: Any) -> str:
    first: Json = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = shortened(".".join(map(str, first["loc"])))  # keys of the answer are in it
    # What a validator of the app says may be meant for its developer.
    private = first["type"] in ("value_error", "assertion_error")
    text = "the value is not valid" if private else shortened(str(first["msg"]), 512)
    return f"{place}: {text}" if place else text


def _text(output: object) -> str:
    """The output of a call: a text, or parts whose texts count."""
    if isinstance(output, str):
        return output
    parts = cast("list[Json]", output) if isinstance(output, list) else []
    return "\n".join(str(part["text"]) for part in parts if isinstance(part.get("text"), str))
