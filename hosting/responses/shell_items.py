"""Commands of a shell: `shell_call` and `shell_call_output`, two items as in the API, each in one piece."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from hosting.responses.output import Item, Output

if TYPE_CHECKING:
    from agent_framework import Content

__all__ = ["ShellItems"]

type Json = dict[str, Any]


class ShellItems:
    """All such items of one run."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._last_call = ""
        self._ids: set[tuple[str, str]] = set()

    def call(self, content: "Content") -> None:
        """Commands to run."""
        self._last_call = self._unique("shell_call", content.call_id)
        action: Json = {"commands": list(content.commands or ())}
        action |= {"timeout_ms": content.timeout_ms, "max_output_length": content.max_output_length}
        item: Item = {"id": self._output.new_id("sh"), "type": "shell_call", "status": "completed"}
        item |= {"call_id": self._last_call, "action": action, "environment": {"type": "local"}}
        self._output.whole(item, item | {"status": "in_progress"})

    def result(self, content: "Content", outputs: Sequence[Any]) -> None:
        """What came of them; `outputs` are contents, one a command. Without a call_id they are those of the last call."""
        item: Item = {"id": self._output.new_id("sho"), "type": "shell_call_output", "status": "completed"}
        item["call_id"] = self._unique("shell_call_output", content.call_id or self._last_call)
        item["output"] = [_command_output(output) for output in outputs]
        item["max_output_length"] = content.max_output_length
        self._output.whole(item)

    def _unique(self, kind: str, call_id: str | None) -> str:
        """Clients tell shell items apart by their call_id, so none may come twice."""
        call_id = call_id or f"call_{uuid4().hex}"
        while (kind, call_id) in self._ids:
            call_id += "_"
        self._ids.add((kind, call_id))
        return call_id


def _command_output(output: Any) -> Json:
    code = output.exit_code
    outcome: Json = {"type": "timeout"} if output.timed_out else {"type": "exit", "exit_code": code or 0}
    return {"stdout": output.stdout or "", "stderr": output.stderr or "", "outcome": outcome}
