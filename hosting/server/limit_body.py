"""Reading a request body that may be too long, too slow, or made to fill the memory once it is parsed."""

import asyncio
import re

from hosting.responses import ApiError, InvalidRequest
from hosting.server.http import Request

__all__ = ["MAX_JSON_VALUES", "check_json_size", "read_with_deadline"]

MAX_JSON_VALUES = 200_000
"""Values in a JSON body: array entries, members, arrays and objects. A request with 2,000 items and 128 tools has some 50,000.
An empty object takes 3 bytes on the wire and 80 in memory, so 32 MiB of them would be 900 MB."""

_MARKS = (b",", b"[", b"{")
"""Each value but the outermost one has one of these before it or is the first in an array or an object."""
_OTHER_BYTES = bytes(set(range(256)) - set(b',[{"'))
_STRING = re.compile(rb'"[^"]*"')


async def read_with_deadline(request: Request, longest: int, seconds: float) -> bytes:
    """The body of a request: at most `longest` bytes, all of it within `seconds`.

    Raises ApiError 408, 413 (at once when its length is announced) and 415, and ClientGone.
    """
    announced = request.headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and (len(announced) > 18 or int(announced) > longest):
        raise ApiError.request_too_large(longest)
    try:
        async with asyncio.timeout(seconds):
            return await request.read_body(longest)
    except TimeoutError:
        raise ApiError.request_timeout(seconds) from None


def check_json_size(raw: bytes) -> None:
    """Raise InvalidRequest when JSON text has more than MAX_JSON_VALUES values. Before it is parsed: afterwards is too late.

    Commas and brackets in strings make no values, but telling them apart takes a second look, which only a body with very
    many of them gets (some 10 ms per MB, whatever is in it). What is no JSON at all may pass: the parser says so.
    """
    if sum(map(raw.count, _MARKS)) > MAX_JSON_VALUES and not _few_values(raw):
        raise InvalidRequest(f"The body of the request has more than {MAX_JSON_VALUES} JSON values.")


def _few_values(raw: bytes) -> bool:
    bare = raw.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _OTHER_BYTES)
    # Now everything between two strings is a mark. It ends at the limit, also for strings without any marks between them,
    # because a member has two strings and a mark.
    values = end = 0
    for count, string in enumerate(_STRING.finditer(bare)):
        values += string.start() - end
        end = string.end()
        if values > MAX_JSON_VALUES or count > 2 * MAX_JSON_VALUES:
            return False
    return values + len(bare) - end <= MAX_JSON_VALUES
