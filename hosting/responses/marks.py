"""What additional_properties say about a text: agent-framework's marks for refusals and for raw reasoning."""

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from agent_framework import Content

__all__ = ["RAW_REASONING_MARK", "REFUSAL_MARK", "is_refusal", "raw_reasoning"]

# Both are written twice: in the namespace of their owner, and flat as older versions of the framework read them.
REFUSAL_MARK: dict[str, Any] = {"core": {"model_output_kind": "refusal"}, "model_output_kind": "refusal"}
RAW_REASONING_MARK: dict[str, Any] = {"openai": {"reasoning_text": True}, "reasoning_text": True}


def is_refusal(content: "Content") -> bool:
    """Whether a text is a refusal to answer."""
    return _value(content, "core", "model_output_kind") == "refusal"


def raw_reasoning(content: "Content") -> str | bool:
    """True when the text is the raw reasoning, the raw text itself when it comes beside a summary, else False."""
    mark = _value(content, "openai", "reasoning_text")
    return mark if isinstance(mark, str) else mark is True


def _value(content: "Content", namespace: str, name: str) -> Any:
    properties: Any = content.additional_properties
    if not properties:
        return None
    owned = properties.get(namespace)
    if isinstance(owned, dict) and name in owned:
        return cast("dict[str, Any]", owned)[name]
    return properties.get(name)
