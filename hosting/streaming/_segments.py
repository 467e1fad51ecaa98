"""How segments are named and found. Pure functions.

`<prefix><first>.jsonl`: all events of the segment have numbers from `first` on, all before it have smaller ones. Names
sort as numbers do. A listing by prefix, one request, is all that a resume needs to find its place.
"""

from collections.abc import Sequence
from typing import NamedTuple

from hosting.storage import BlobInfo
from hosting.streaming._lines import MOST

__all__ = ["Place", "find", "first_of", "segment_name"]

_DIGITS = len(str(MOST))
_SUFFIX = ".jsonl"


class Place(NamedTuple):
    """Where reading goes on: the bytes before `offset` are read, of which `held` could not be judged yet; `last` is the
    number of the last event before. `born` tells the blob from a later one of the same name."""

    segment: str
    offset: int
    last: int
    held: bytes = b""
    born: str = ""


def segment_name(prefix: str, first: int) -> str:
    """The segment of a stream (`prefix` ends in a slash) that begins at `first`."""
    return f"{prefix}{first:0{_DIGITS}}{_SUFFIX}"


def first_of(name: str) -> int:
    """The number in a segment's name."""
    return int(name.removesuffix(_SUFFIX)[-_DIGITS:])


def find(infos: Sequence[BlobInfo], after: int) -> Place:
    """The start of the segment with the first event after number `after`; `infos` are all of the stream, at least one."""
    name = infos[0].name
    for info in infos:
        if first_of(info.name) > after + 1:
            break
        name = info.name
    return Place(name, 0, first_of(name) - 1)
