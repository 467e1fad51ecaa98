"""From what a client says to agent-framework contents: parts of messages, outputs of tools, decisions.

Importing this imports agent_framework.
"""

from collections.abc import Iterable
from typing import Any, cast

from agent_framework import Content
from agent_framework.exceptions import ContentError

from hosting.responses.annotations import annotations_from_wire
from hosting.responses.errors import InvalidRequest
from hosting.responses.logprobs import logprobs_property
from hosting.responses.marks import REFUSAL_MARK
from hosting.responses.media import guess_media_type
from hosting.responses.tool_results import arguments_text

__all__ = ["from_approval_response", "from_part", "from_text", "from_tool_output", "from_uri", "objects_in"]

type Json = dict[str, Any]


def from_text(text: str) -> Content:
    """A plain text."""
    return Content.from_text(text)


def from_part(part: Json) -> Content | None:
    """The content of a message's part; None for an empty text."""
    match part["type"]:
        case "input_text" | "output_text":
            annotations: Any = annotations_from_wire(part.get("annotations") or ())
            properties = logprobs_property(part.get("logprobs") or ())
            made = Content.from_text(part["text"], annotations=annotations or None, additional_properties=properties)
            return made if part["text"] else None
        case "refusal":
            return Content.from_text(part["refusal"], additional_properties=REFUSAL_MARK) if part["refusal"] else None
        case "input_image":
            return _image(part)
        case "input_audio":
            audio = cast("Json", part["input_audio"])
            media_type = "audio/mpeg" if audio["format"] == "mp3" else "audio/wav"
            return from_uri(f"data:{media_type};base64,{audio['data']}", media_type)
        case _:
            return _file(part)


def from_tool_output(item: Json) -> Content:
    """What a tool returned, whoever ran it."""
    call_id = str(item.get("call_id") or item.get("id") or "")
    match item["type"]:
        case "computer_call_output":
            return Content(
                "computer_tool_result",
                id=item.get("id"),
                call_id=call_id,
                screenshot=_image(item["output"]) if len(item["output"]) > 1 else None,
                acknowledged_safety_checks=item.get("acknowledged_safety_checks"),
            )
        case "shell_call_output":
            limit = item.get("max_output_length")
            return Content.from_shell_tool_result(
                call_id=call_id,
                outputs=[_command_output(entry) for entry in objects_in(item.get("output"))],
                max_output_length=limit if isinstance(limit, int) else None,
            )
        case "local_shell_call_output":
            output = Content.from_shell_command_output(stdout=arguments_text(item.get("output")))
            return Content.from_shell_tool_result(call_id=call_id, outputs=[output])
        case _:
            output = item.get("output", item.get("tools"))
            if item["type"] in ("function_call_output", "custom_tool_call_output") and isinstance(output, list):
                parts = (from_part(part) for part in cast("list[Json]", output))
                return Content.from_function_result(call_id, result=[part for part in parts if part is not None])
            return Content.from_function_result(call_id, result=arguments_text(output))


def from_approval_response(item: Json) -> Content:
    """A user's decision. The request it answers is in the agent's session, under the same id."""
    return Content("function_approval_response", id=item["approval_request_id"], approved=item["approve"])


def from_uri(
    uri: str,
    media_type: str,
    *,
    properties: Json | None = None,
    name: str | None = None,
    file_id: str | None = None,
) -> Content:
    """An image, a sound or a file. Raises InvalidRequest for a URI that is none."""
    try:
        return Content.from_uri(
            uri, media_type=media_type, name=name, file_id=file_id, additional_properties=properties
        )
    except ContentError:  # what the framework refuses is the client's mistake; its own exception is no ValueError
        raise InvalidRequest(f"Invalid URI in 'input': '{uri[:80]}'.", param="input", code="invalid_value") from None


def objects_in(value: object) -> list[Json]:
    """The objects in a list; anything else has none."""
    entries = cast("Iterable[object]", value) if isinstance(value, list) else ()
    return [cast("Json", entry) for entry in entries if isinstance(entry, dict)]


def _image(part: Json) -> Content:
    properties: Json = {"openai": {"content_type": "input_image"}, "openai_content_type": "input_image"}
    if detail := part.get("detail"):
        properties["openai"]["image_detail"] = properties["detail"] = detail
    url: str | None = part.get("image_url")
    if url is None:
        return Content("hosted_file", file_id=part["file_id"], media_type="image/*", additional_properties=properties)
    default = url[5:].partition(";")[0] if url.startswith("data:") else "image/*"
    media_type = default if url.startswith("data:") else guess_media_type(url, default)
    return from_uri(url, media_type, properties=properties, file_id=part.get("file_id"))


def _file(part: Json) -> Content:
    properties: Json = {"openai": {"content_type": "input_file"}, "openai_content_type": "input_file"}
    name: str | None = part.get("filename")
    if name:
        properties["filename"] = name
    uri: str | None = part.get("file_data") or part.get("file_url")
    if uri is None:
        return Content("hosted_file", file_id=part["file_id"], name=name, additional_properties=properties)
    if uri.startswith("data:"):
        media_type = uri[5:].partition(";")[0]
    else:
        media_type = guess_media_type(name or uri, "application/octet-stream")
    return from_uri(uri, media_type, properties=properties, name=name, file_id=part.get("file_id"))


def _command_output(entry: Json) -> Content:
    outcome = entry.get("outcome")
    details = cast("Json", outcome) if isinstance(outcome, dict) else {}
    code = details.get("exit_code")
    return Content.from_shell_command_output(
        stdout=arguments_text(entry.get("stdout")),
        stderr=arguments_text(entry.get("stderr")),
        exit_code=code if isinstance(code, int) else None,
        timed_out=details.get("type") == "timeout",
    )
