"""The brake on shorter lifetimes.

What a shorter lifetime removes is gone for good within hours, and it may have come about by mistake: a pipeline that did not
know the setting deploys the default. So it takes effect only some time after it was first seen; until then the longer one is
used, and setting that again ends it. Nothing here reads or writes: what is known lies in the row of the cursor.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

__all__ = ["Lifetime", "braked", "decode_lifetimes", "encode_lifetimes", "text_of"]

_FOR_EVER = 0.0


@dataclass(frozen=True, slots=True)
class Lifetime:
    """One setting, as the last passes have used it. In days; 0 is for ever."""

    used: float
    shorter: float | None = None
    """A shorter one that is set and waits; None: there is none."""
    since: float = 0.0
    """When that was first seen, in seconds since the epoch."""


def braked(known: Mapping[str, Lifetime], wanted: Mapping[str, float], now: float, wait: float) -> dict[str, Lifetime]:
    """What to use from now on, by setting: `wanted` is what is set now, in days (0 is for ever), `known` what `braked` said the
    last time. A shorter one waits for `wait` seconds; another one in its place begins to wait anew. What is not known yet is
    used as it is set.
    """
    return {name: _braked(known.get(name), days, now, wait) for name, days in wanted.items()}


def _braked(known: Lifetime | None, wanted: float, now: float, wait: float) -> Lifetime:
    if known is None or _length(wanted) >= _length(known.used):
        return Lifetime(wanted)
    since = known.since if known.shorter == wanted else now
    return Lifetime(wanted) if now - since >= wait else Lifetime(known.used, wanted, since)


def _length(days: float) -> float:
    return math.inf if days == _FOR_EVER else days


def text_of(days: float) -> str:
    """A lifetime for a person."""
    return "0 (for ever)" if days == _FOR_EVER else f"{days:g}"


def encode_lifetimes(lifetimes: Mapping[str, Lifetime]) -> str:
    """As it is kept: JSON of each setting's days, and of those that wait."""
    return json.dumps({name: [life.used, life.shorter, life.since] for name, life in lifetimes.items()})


def decode_lifetimes(text: str, names: Mapping[str, object]) -> dict[str, Lifetime]:
    """The reverse. Of a text that can't be read, each of `names` was for ever: so whatever is set has to wait."""
    try:
        found = cast("dict[str, list[Any]]", json.loads(text))
        return {
            name: Lifetime(_number(used), None if shorter is None else _number(shorter), _number(since))
            for name, (used, shorter, since) in found.items()
        }
    except (ValueError, TypeError, AttributeError, OverflowError):
        return {name: Lifetime(_FOR_EVER) for name in names}


def _number(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"{value!r} is no time")
    return number
