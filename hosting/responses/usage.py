"""Token counts: from agent-framework's loose dict to the five counters that the API's `usage` requires."""

from collections.abc import Mapping
from typing import Any, cast

__all__ = ["UsageCounter", "usage_from_details"]

type Json = dict[str, Any]


def usage_from_details(details: object) -> Json | None:
    """The `usage` of a response, None when nothing was counted. Missing counters are 0.

    A counter that is negative, or no int, counts as missing: a run that is done and paid for does not fail for it.
    """
    if not isinstance(details, Mapping):
        return None
    counts = cast("Mapping[str, object]", details)
    known = [_count(counts.get(name)) for name in ("input_token_count", "output_token_count", "total_token_count")]
    if all(count is None for count in known):
        return None
    received, sent, total = known
    received, sent = received or 0, sent or 0
    return {
        "input_tokens": received,
        "input_tokens_details": {
            "cached_tokens": _count(counts.get("cache_read_input_token_count")) or 0,
            "cache_write_tokens": _count(counts.get("cache_creation_input_token_count")) or 0,
        },
        "output_tokens": sent,
        "output_tokens_details": {"reasoning_tokens": _count(counts.get("reasoning_output_token_count")) or 0},
        "total_tokens": received + sent if total is None else total,
    }


class UsageCounter:
    """Adds up the counts that a stream reports on its way, one model call after the other."""

    def __init__(self) -> None:
        self._details: dict[str, int] | None = None

    def add(self, details: object, *, replace: bool = False) -> None:
        """Take in one report; `replace` makes it the whole count so far."""
        if not isinstance(details, Mapping):
            return
        if replace or self._details is None:
            self._details = {}
        for name, value in cast("Mapping[str, object]", details).items():
            if (count := _count(value)) is not None:
                self._details[name] = self._details.get(name, 0) + count

    @property
    def usage(self) -> Json | None:
        """The sum as the API has it, None when there was no report."""
        return usage_from_details(self._details)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
