"""From the parts and items of the wire to agent-framework contents. Importing this imports agent_framework."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from agent_framework import Content
from agent_framework.exceptions import ContentError

from hosting.responses.annotations import annotations_from_wire
from hosting.responses.calls import SERVER_LABEL
from hosting.responses.errors import InvalidRequest
from hosting.responses.logprobs import logprobs_property
from hosting.responses.marks import RAW_REASONING_MARK, REFUSAL_MARK
from hosting.responses.media import guess_media_type
from hosting.responses.tool_results import arguments_text

__all__ = [
    "from_approval_response",
    "from_assistant_item",
    "from_part",
    "from_server_call",
    "from_server_result",
    "from_text",
    "from_tool_output",
]

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
            return _from_uri(f"data:{media_type};base64,{audio['data']}", media_type)
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
                outputs=[_command_output(entry) for entry in _mappings(item.get("output"))],
                max_output_length=limit if isinstance(limit, int) else None,
            )
        case "local_shell_call_output":
            output = Content.from_shell_command_output(stdout=_text(item.get("output")))
            return Content.from_shell_tool_result(call_id=call_id, outputs=[output])
        case _:
            output = item.get("output", item.get("tools"))
            if item["type"] in ("function_call_output", "custom_tool_call_output") and isinstance(output, list):
                parts = (from_part(part) for part in cast("list[Json]", output))
                return Content.from_function_result(call_id, result=[part for part in parts if part is not None])
            return Content.from_function_result(call_id, result=_text(output))


def from_approval_response(item: Json) -> Content:
    """A user's decision. The request it answers is in the agent's session, under the same id."""
    return Content("function_approval_response", id=item["approval_request_id"], approved=item["approve"])


def from_server_call(item: Json) -> Content:
    """A call that the agent executed itself, out of the `mcp_call` that it was shown as."""
    return Content.from_function_call(_call_id(item), item["name"], arguments=item.get("arguments") or "{}")


def from_server_result(item: Json) -> Content:
    """The result of such a call."""
    failed = item.get("error") is not None
    text = _error_text(item["error"]) if failed else _text(item.get("output"))
    return Content.from_function_result(_call_id(item), result=text, exception="ToolFailed" if failed else None)


def from_assistant_item(item: Json) -> list[Content]:
    """The contents of an item that the model or its service made; none for one that says nothing."""
    convert = _ITEMS.get(item["type"])
    return convert(item) if convert is not None else []


def _reasoning(item: Json) -> list[Content]:
    made = [Content.from_text_reasoning(id=item.get("id"), text=part["text"]) for part in item.get("summary") or ()]
    made += [
        Content.from_text_reasoning(id=item.get("id"), text=part["text"], additional_properties=RAW_REASONING_MARK)
        for part in item.get("content") or ()
    ]
    if encrypted := item.get("encrypted_content"):
        if not made:
            made = [Content.from_text_reasoning(id=item.get("id"))]
        made[0].protected_data = encrypted
    return made


def _function_call(item: Json) -> list[Content]:
    properties: Json = {"openai": {"item_id": item["id"]}, "fc_id": item["id"]} if "id" in item else {}
    return [
        Content.from_function_call(
            item["call_id"], item["name"], arguments=item["arguments"], additional_properties=properties
        )
    ]


def _informational_call(item: Json) -> list[Content]:
    """A call of a kind that agents don't execute: the model may know of it, nobody acts on it."""
    arguments: Any = item.get("input", item.get("operation", item.get("arguments")))
    return [
        Content.from_function_call(
            str(item.get("call_id") or item.get("id") or ""),
            str(item.get("name") or item["type"].removesuffix("_call")),
            arguments=arguments_text(arguments),
            informational_only=True,
        )
    ]


def _mcp_call(item: Json) -> list[Content]:
    call_id = _call_id(item)
    made = [
        Content.from_mcp_server_tool_call(
            call_id, item["name"], server_name=item["server_label"], arguments=item.get("arguments")
        )
    ]
    if item.get("output") is not None or item.get("error") is not None:
        text = _text(item["output"]) if item.get("output") is not None else _error_text(item["error"])
        made.append(Content.from_mcp_server_tool_result(call_id, output=[Content.from_text(text)]))
    return made


def _approval_request(item: Json) -> list[Content]:
    own = item["server_label"] == SERVER_LABEL
    call = Content.from_function_call(
        item["id"],
        item["name"],
        arguments=item.get("arguments"),
        id=item["id"] if own else None,
        hosted=not own,
        server_name=None if own else item["server_label"],
    )
    return [Content.from_function_approval_request(item["id"], call)]


def _computer_call(item: Json) -> list[Content]:
    single, actions = item.get("action"), _mappings(item.get("actions"))
    properties: Json = {"openai": {"computer_action_format": "single"}} if isinstance(single, dict) else {}
    return [
        Content(
            "computer_tool_call",
            id=item.get("id") or item["call_id"],
            call_id=item["call_id"],
            actions=[cast("Json", single)] if isinstance(single, dict) else actions,
            pending_safety_checks=cast("Any", _mappings(item.get("pending_safety_checks"))) or None,
            additional_properties=properties,
        )
    ]


def _web_search(item: Json) -> list[Content]:
    action = item.get("action")
    arguments = cast("Json", action) if isinstance(action, dict) else {}
    made = [Content.from_search_tool_call(_call_id(item), tool_name="web_search", arguments=arguments)]
    if sources := _mappings(arguments.get("sources")):
        made.append(Content.from_search_tool_result(_call_id(item), tool_name="web_search", result=sources))
    return made


def _file_search(item: Json) -> list[Content]:
    queries: Json = {"queries": item.get("queries") or []}
    made = [Content.from_search_tool_call(_call_id(item), tool_name="file_search", arguments=queries)]
    if results := _mappings(item.get("results")):
        made.append(Content.from_search_tool_result(_call_id(item), tool_name="file_search", result=results))
    return made


def _code_interpreter(item: Json) -> list[Content]:
    code = [Content.from_text(item["code"])] if isinstance(item.get("code"), str) else []
    made = [Content.from_code_interpreter_tool_call(call_id=_call_id(item), inputs=code)]
    outputs: list[Content] = []
    for output in _mappings(item.get("outputs")):
        if output.get("type") == "image" and isinstance(output.get("url"), str):
            outputs.append(_from_uri(output["url"], guess_media_type(output["url"], "image/png")))
        else:
            outputs.append(Content.from_text(_text(output.get("logs"))))
    if item.get("outputs") is not None:
        made.append(Content.from_code_interpreter_tool_result(call_id=_call_id(item), outputs=outputs))
    return made


def _image_generation(item: Json) -> list[Content]:
    made = [Content.from_image_generation_tool_call(image_id=_call_id(item))]
    if isinstance(result := item.get("result"), str) and result:
        uri = result if result.startswith(("http://", "https://")) else f"data:image/png;base64,{result}"
        output = _from_uri(uri, guess_media_type(uri, "image/png"))
        made.append(Content.from_image_generation_tool_result(image_id=_call_id(item), outputs=output))
    return made


def _shell_call(item: Json) -> list[Content]:
    action = cast("Json", item["action"]) if isinstance(item.get("action"), dict) else {}
    commands: Any = action.get("commands", action.get("command"))
    limits: Json = {
        name: value
        for name in ("timeout_ms", "max_output_length")
        if isinstance(value := action.get(name), int) and not isinstance(value, bool)
    }
    listed = [str(command) for command in cast("list[object]", commands)] if isinstance(commands, list) else []
    return [Content.from_shell_tool_call(call_id=item["call_id"], commands=listed, **limits)]


_ITEMS: Mapping[str, Callable[[Json], list[Content]]] = {
    "reasoning": _reasoning,
    "function_call": _function_call,
    "custom_tool_call": _informational_call,
    "apply_patch_call": _informational_call,
    "tool_search_call": _informational_call,
    "mcp_call": _mcp_call,
    "mcp_approval_request": _approval_request,
    "computer_call": _computer_call,
    "web_search_call": _web_search,
    "file_search_call": _file_search,
    "code_interpreter_call": _code_interpreter,
    "image_generation_call": _image_generation,
    "shell_call": _shell_call,
    "local_shell_call": _shell_call,
}


def _image(part: Json) -> Content:
    properties: Json = {"openai": {"content_type": "input_image"}, "openai_content_type": "input_image"}
    if detail := part.get("detail"):
        properties["openai"]["image_detail"] = properties["detail"] = detail
    url: str | None = part.get("image_url")
    if url is None:
        return Content("hosted_file", file_id=part["file_id"], media_type="image/*", additional_properties=properties)
    default = url[5:].partition(";")[0] if url.startswith("data:") else "image/*"
    media_type = default if url.startswith("data:") else guess_media_type(url, default)
    return _from_uri(url, media_type, properties=properties, file_id=part.get("file_id"))


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
    return _from_uri(uri, media_type, properties=properties, name=name, file_id=part.get("file_id"))


def _from_uri(
    uri: str,
    media_type: str,
    *,
    properties: Json | None = None,
    name: str | None = None,
    file_id: str | None = None,
) -> Content:
    try:
        return Content.from_uri(
            uri, media_type=media_type, name=name, file_id=file_id, additional_properties=properties
        )
    except ContentError:  # what the framework refuses is the client's mistake; its own exception is no ValueError
        raise InvalidRequest(f"Invalid URI in 'input': '{uri[:80]}'.", param="input", code="invalid_value") from None


def _call_id(item: Json) -> str:
    return str(item.get("id") or "call_unknown")


def _error_text(error: object) -> str:
    """The text of an MCP error in any of its forms."""
    if isinstance(error, dict):
        entries = cast("Json", error)
        if isinstance(message := entries.get("message"), str):
            return message
        texts = [_text(entry.get("text")) for entry in _mappings(entries.get("content"))]
        return "\n".join(filter(None, texts)) or json.dumps(entries, default=str)
    return _text(error)


def _command_output(entry: Json) -> Content:
    outcome = entry.get("outcome")
    details = cast("Json", outcome) if isinstance(outcome, dict) else {}
    code = details.get("exit_code")
    return Content.from_shell_command_output(
        stdout=_text(entry.get("stdout")),
        stderr=_text(entry.get("stderr")),
        exit_code=code if isinstance(code, int) else None,
        timed_out=details.get("type") == "timeout",
    )


def _mappings(value: object) -> list[Json]:
    """The objects in a list; anything else has none."""
    entries = cast("Iterable[object]", value) if isinstance(value, list) else ()
    return [cast("Json", entry) for entry in entries if isinstance(entry, dict)]


def _text(value: object) -> str:
    return "" if value is None else arguments_text(value)
