"""What an agent's own tools mean for a response: which calls show live, and which names a client can't declare.

Agents are recognised by their attributes: agent_framework is not imported for it.
"""

from collections.abc import Iterable, Iterator
from typing import Any, cast

from hosting.responses.create_request import CreateRequest
from hosting.responses.errors import InvalidRequest

__all__ = ["check_tool_names", "executable_tools"]


def executable_tools(agent: object) -> frozenset[str]:
    """Names of the functions that the agent executes itself without asking: `server_tools` of a renderer.

    Functions that wait for an approval are not among them, nor those of MCP servers that are not connected yet.
    """
    return frozenset(
        tool.name
        for tool in _functions(agent)
        if getattr(tool, "func", None) is not None and getattr(tool, "approval_mode", None) == "never_require"
    )


def check_tool_names(request: CreateRequest, agent: object) -> None:
    """Raises InvalidRequest when the client declares a function that the agent has under the same name.

    agent-framework refuses to run with both; what the client gets to know is only a name that it chose itself.
    """
    own = {tool.name for tool in _functions(agent)}
    for index, tool in enumerate(request.tools):
        if tool["type"] == "function" and tool["name"] in own:
            raise InvalidRequest(
                f"Invalid 'tools[{index}].name': '{tool['name']}' is a tool of the agent. Choose another name.",
                param=f"tools[{index}].name",
                code="invalid_value",
            )


def _functions(agent: object) -> Iterator[Any]:
    options: object = getattr(agent, "default_options", None)
    tools: object = cast("dict[str, Any]", options).get("tools") if isinstance(options, dict) else None
    for tool in [*_listed(tools), *_listed(getattr(agent, "mcp_tools", None))]:
        yield from (entry for entry in [tool, *_listed(getattr(tool, "functions", None))] if _is_function(entry))


def _is_function(tool: Any) -> bool:
    return isinstance(getattr(tool, "name", None), str) and hasattr(tool, "approval_mode") and hasattr(tool, "func")


def _listed(value: object) -> list[Any]:
    if value is None:
        return []
    return list(cast("Iterable[Any]", value)) if isinstance(value, (list, tuple)) else [value]
