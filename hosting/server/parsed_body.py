"""JSON bodies, counted as what they are once they are parsed.

A body counts with its bytes (hosting/server/working_memory.py). Python keeps a text with one emoji in it in four bytes a
character, whatever the others are, so such a text is up to four times what came over the wire; and it stays that for as long
as its turn runs.
"""

import re
import sys
from typing import Any, cast

from hosting.read_budget import charge
from hosting.responses import parse_json_body

__all__ = ["parse_body"]

_LONG = 32 * 1024
"""Characters from which on a text is looked at: shorter ones are few bytes, or limited in number with all other values."""


_BEYOND = (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4")
"""What the UTF-8 form of a character begins with that makes a text take four bytes for each."""

_ESCAPED = re.compile(rb"\\u[dD][89abAB]")
"""The same as an escape: then it is the value that becomes one text again, when halves of pairs are looked for."""


def parse_body(raw: bytes) -> object:
    """As `parse_json_body`. Charges for what its texts take beyond their bytes: while it is parsed for all of it, which is one
    text then, and afterwards for those that are like this and long. Raises what `charge` raises, mostly before it is parsed."""
    during = _while_parsed(raw) * len(raw)
    charge(during)
    try:
        value = parse_json_body(raw)
    except BaseException:
        charge(-during)
        raise
    charge(_widened(value) - during)
    return value


def _while_parsed(raw: bytes) -> int:
    if any(byte in raw for byte in _BEYOND) or _ESCAPED.search(raw):
        return 3
    return 0 if raw.isascii() else 1


def _widened(value: object) -> int:
    total, waiting = 0, [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, str):
            if len(found) > _LONG and (size := sys.getsizeof(found)) > 1.5 * len(found):
                total += max(0, size - len(found.encode()))
        elif isinstance(found, dict):
            waiting.extend(cast("dict[str, Any]", found).values())
        elif isinstance(found, list):
            waiting.extend(cast("list[Any]", found))
    return total
