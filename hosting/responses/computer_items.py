"""Computer use: `computer_call` and `computer_call_output`, two items as in the API, each in one piece."""

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from hosting.responses.output import Item, Output

if TYPE_CHECKING:
    from agent_framework import Content

__all__ = ["ComputerItems"]


class ComputerItems:
    """All such items of one run."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._last_call = ""

    def call(self, content: "Content") -> None:
        """Actions to take."""
        item: Item = {"id": self._output.new_id("cu"), "type": "computer_call", "status": "completed"}
        self._last_call = content.call_id or f"call_{uuid4().hex}"
        item |= {
            "call_id": self._last_call,
            "actions": list(content.actions or ()),
            "pending_safety_checks": list(content.pending_safety_checks or ()),
        }
        self._output.whole(item, item | {"status": "in_progress"})

    def result(self, content: "Content") -> None:
        """What the screen shows then. Without a call_id it is the result of the last call."""
        screenshot: dict[str, Any] = {"type": "computer_screenshot"}
        if content.screenshot is not None and content.screenshot.uri:
            screenshot["image_url"] = content.screenshot.uri
        elif content.screenshot is not None and content.screenshot.file_id:
            screenshot["file_id"] = content.screenshot.file_id
        call_id = content.call_id or self._last_call
        if not call_id:
            return  # the output of no call: no client could send it back
        item: Item = {"id": self._output.new_id("cuo"), "type": "computer_call_output", "status": "completed"}
        item |= {"call_id": call_id, "output": screenshot}
        if content.acknowledged_safety_checks:
            item["acknowledged_safety_checks"] = list(content.acknowledged_safety_checks)
        self._output.whole(item)
