"""What the task of a background response is told."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, cast

__all__ = ["Work", "tenant_of"]


@dataclass(frozen=True, slots=True)
class Work:
    """The input of the task, whose id is the response's: all that another process needs, but for the items, which are in the
    response row."""

    body: dict[str, Any]
    model: str
    facts: dict[str, Any] = field(default_factory=dict[str, Any])

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Work":
        """From JSON, which another version of this code may have written: what this one does not know is left out. Raises
        TypeError when there is too little."""
        return cls(**{name: document[name] for name in cls.__slots__ if name in document})


def tenant_of(document: Mapping[str, Any], otherwise: str) -> str:
    """Whose request it was, by the input of a task; `otherwise` where it does not say, whatever is in it."""
    facts: object = document.get("facts")
    tenant = cast("Mapping[str, object]", facts).get("tenant") if isinstance(facts, Mapping) else None
    return tenant if isinstance(tenant, str) else otherwise
