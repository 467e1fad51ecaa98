"""From the bytes of a request body to plain JSON values that the rest of the house can take as they are.

Rejected here once, so that no later step has to care: nesting that would exhaust the stack, numbers that JSON has no
form for, and halves of surrogate pairs, which neither UTF-8 nor the storage services can hold.
"""

import json
from typing import Any, NoReturn, cast

from hosting.responses.errors import InvalidRequest
from hosting.responses.well_formed import well_formed

__all__ = ["MAX_DEPTH", "check_depth", "parse_json_body"]

MAX_DEPTH = 128
"""Levels of arrays and objects in a body. Conversations need about 10, JSON schemas in tools some 20 more."""

_MALFORMED = (
    "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP library "
    "correctly. The server expects a JSON payload, but what was sent was not valid JSON.)"
)


def parse_json_body(raw: bytes) -> object:
    """The JSON value of a request body. Of equal keys in one object the last one counts.

    Half a surrogate pair becomes U+FFFD (see well_formed).

    Raises InvalidRequest for anything else that is not JSON in UTF-8 (a byte order mark is allowed), for NaN and
    infinite numbers, and for more than MAX_DEPTH levels.
    """
    try:
        text = raw.decode("utf-8-sig")
        body = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):  # ValueError covers JSONDecodeError, UnicodeDecodeError and overlong integers
        raise InvalidRequest(_MALFORMED) from None
    check_depth(body)
    return _without_lone_surrogates(body) if "\\u" in text else body


def check_depth(body: object) -> None:
    """Raises InvalidRequest when `body` has more than MAX_DEPTH levels. Goes level by level, so it can't overflow."""
    level = [body]
    for _ in range(MAX_DEPTH + 1):
        level = [child for value in level for child in _children(value) if isinstance(child, (dict, list))]
        if not level:
            return
    raise InvalidRequest(f"The body of the request is nested more than {MAX_DEPTH} levels deep.")


def _children(value: object) -> "list[Any]":
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).values())
    return cast("list[Any]", value) if isinstance(value, list) else []


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise ValueError(digits)
    return number


def _without_lone_surrogates(body: object) -> object:
    text = json.dumps(body, ensure_ascii=False)
    clean = well_formed(text)
    return body if clean is text else json.loads(clean)
