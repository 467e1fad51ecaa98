"""The functions of an app, as its worker describes them."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["DURABLE_CLIENT", "Function", "parse_functions"]

DURABLE_CLIENT = "durableClient"

# Trigger type in the metadata -> what devhost calls the kind of function.
_KINDS = {
    "httptrigger": "http",
    "timertrigger": "timer",
    "orchestrationtrigger": "orchestration",
    "activitytrigger": "activity",
    "entitytrigger": "entity",
}


@dataclass(frozen=True, slots=True)
class Function:
    """One function: its trigger and its other bindings."""

    name: str
    id: str
    # "http", "timer", "orchestration", "activity", "entity", or the trigger's own type when devhost does not emulate it.
    kind: str
    trigger: Mapping[str, Any]
    bindings: tuple[Mapping[str, Any], ...]

    @property
    def emulated(self) -> bool:
        """Whether devhost can run it."""
        return self.kind in _KINDS.values()

    @property
    def durable_name(self) -> str:
        """The name by which orchestrations, activities and entities are called; compared without regard to case."""
        keys = {"orchestration": "orchestration", "activity": "activity", "entity": "entityName"}
        return str(self.trigger.get(keys.get(self.kind, ""), None) or self.name).lower()

    @property
    def unsupported_bindings(self) -> list[str]:
        """Types of bindings, beside the trigger, that devhost leaves out."""
        known = {DURABLE_CLIENT.lower(), "http"}
        return [b["type"] for b in self.bindings if b is not self.trigger and b["type"].lower() not in known]


def parse_functions(metadata: Iterable[Mapping[str, Any]]) -> list[Function]:
    """Functions from what the worker library returns: `name`, `id`, and `bindings` as JSON strings."""
    functions: list[Function] = []
    for item in metadata:
        bindings = tuple(json.loads(raw) for raw in item["bindings"])
        trigger = next((b for b in bindings if b["type"].lower().endswith("trigger")), {"type": "none", "name": ""})
        kind = _KINDS.get(trigger["type"].lower(), trigger["type"])
        functions.append(Function(item["name"], item["id"], kind, trigger, bindings))
    return functions
