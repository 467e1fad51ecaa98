"""Options for the agent, out of a request: a fixed list, each translated to agent-framework's name and form.

What is not on the list never reaches the agent. In particular a body can't set what the app passes to its tools
(`additional_function_arguments`), choose the model, or switch where history is kept (`store`, `conversation`).
"""

from typing import TYPE_CHECKING, Any

from hosting.responses.create_request import CreateRequest

if TYPE_CHECKING:
    from agent_framework import FunctionTool

__all__ = ["options_from_request"]

type Json = dict[str, Any]


def options_from_request(request: CreateRequest) -> Json:
    """agent-framework ChatOptions; only what the request sets.

    instructions, temperature, top_p, presence_penalty, frequency_penalty, reasoning as they are; max_output_tokens as
    max_tokens, parallel_tool_calls as allow_multiple_tool_calls, text.format as response_format, text.verbosity as
    verbosity. Function tools become declarations without code, so that a call of one ends the run and goes to the
    client. Other tools are not passed on: they would run at the app's cost.
    """
    text = request.text or {}
    options: Json = {
        "instructions": request.instructions or None,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "presence_penalty": request.presence_penalty,
        "frequency_penalty": request.frequency_penalty,
        "max_tokens": request.max_output_tokens,
        "allow_multiple_tool_calls": request.parallel_tool_calls,
        "response_format": _response_format(text.get("format")),
        "verbosity": text.get("verbosity"),
        "reasoning": {name: value for name, value in (request.reasoning or {}).items() if value is not None} or None,
        "tools": [_declaration(tool) for tool in request.tools if tool["type"] == "function"] or None,
        "tool_choice": _tool_choice(request.tool_choice),
    }
    return {name: value for name, value in options.items() if value is not None}


def _declaration(tool: Json) -> "FunctionTool":
    from agent_framework import FunctionTool

    parameters: Json = tool.get("parameters") or {"type": "object", "properties": {}}
    return FunctionTool(name=tool["name"], description=tool.get("description") or "", func=None, input_model=parameters)


def _response_format(format: Json | None) -> Json | None:
    """Chat-completions form, which all chat clients of the framework take."""
    match (format or {}).get("type"):
        case "json_object":
            return {"type": "json_object"}
        case "json_schema":
            assert format is not None
            schema = {
                name: format[name]
                for name in ("name", "schema", "strict", "description")
                if format.get(name) is not None
            }
            return {"type": "json_schema", "json_schema": schema}
        case _:
            return None


def _tool_choice(choice: str | Json) -> str | Json | None:
    """A mode string, or the framework's `{"mode", ...}`. Choices of tools that are not passed on are left out."""
    if isinstance(choice, str):
        return None if choice == "auto" else choice
    match choice["type"]:
        case "function":
            return {"mode": "required", "required_function_name": choice["name"]}
        case "allowed_tools":
            names = [tool["name"] for tool in choice["tools"] if tool["type"] == "function"]
            return {"mode": choice["mode"], "allowed_tools": names}
        case _:
            return None
