"""Token counts as handlers give them, to the form that the API requires."""

from collections.abc import Mapping
from typing import Any, cast

from hosting.responses.usage import usage_from_details

__all__ = ["whole_usage"]

type Json = dict[str, Any]


def whole_usage(usage: Mapping[str, Any]) -> Json:
    """`usage` with every counter that the API requires, 0 where one is missing or no count.

    agent-framework's names (`input_token_count`) are taken too; other fields stay.
    """
    if (counted := usage_from_details(usage)) is not None:
        return counted
    received, sent = _count(usage, "input_tokens"), _count(usage, "output_tokens")
    inputs, outputs = _mapping(usage, "input_tokens_details"), _mapping(usage, "output_tokens_details")
    return {
        **usage,
        "input_tokens": received,
        "input_tokens_details": {
            **inputs,
            "cached_tokens": _count(inputs, "cached_tokens"),
            "cache_write_tokens": _count(inputs, "cache_write_tokens"),
        },
        "output_tokens": sent,
        "output_tokens_details": {**outputs, "reasoning_tokens": _count(outputs, "reasoning_tokens")},
        "total_tokens": _count(usage, "total_tokens") or received + sent,
    }


def _count(counts: Mapping[str, Any], name: str) -> int:
    value = counts.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _mapping(counts: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = counts.get(name)
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
