r"""What a segment is made of: lines of JSON. Pure functions.

    {"writer":"5f1c...","after":41}      a writer goes on from here; the last event before is number 41 (-1: none);
                                         "generation" may follow; each segment begins with one
    {"seq":42,"event":...}               an event; "at" (seconds since the epoch) may stand between the two
    {"next":512}                         the last line of a segment: the stream goes on in the one that begins at 512
    {"end":611}                          the last line of the stream

Numbers rise from line to line. A writer that finds a piece of a line at the end (the writer before it died in the middle
of an event too long for one append) spoils it with ` torn` before its own line, so that it can never be read as whole.
"""

import json
import re
from typing import Any, NamedTuple

__all__ = [
    "MOST",
    "Damage",
    "Event",
    "Owner",
    "Portion",
    "end_line",
    "event_line",
    "fits",
    "is_end",
    "next_line",
    "parse",
    "writer_line",
]

MOST = 2**53 - 1
"""The greatest number of an event: what a JSON number holds exactly in every language. It has 16 digits."""

_EVENT = re.compile(rb'\{"seq":(\d{1,16}),(?:"at":(\d+(?:\.\d+)?),)?"event":(.+)\}')
_TORN = b" torn\n"
_NUMBERS = ("after", "generation", "next", "end")


class Event(NamedTuple):
    """An event line: its number, its JSON text, and when it was emitted, if the line says so."""

    seq: int
    data: bytes
    at: float | None = None


class Damage(NamedTuple):
    """Lines that can't be read, in place of events that were there. Numbers up to `seq` may be lost."""

    seq: int


class Owner(NamedTuple):
    """Who writes: a random token of the writer, and the generation it was given, if any."""

    token: str
    generation: int | None = None


class Portion(NamedTuple):
    """What some bytes of a segment say. `held` is the part at the end that can't be judged yet."""

    items: list[Event | Damage]
    held: bytes
    next: int | None
    """The first number of the next segment, when this one ends here."""
    ended: bool
    """The stream ends here."""
    owner: Owner | None = None
    """Of the last `writer` line."""


def fits(number: object, last: int) -> bool:
    """Whether an event that follows number `last` can have this one."""
    return type(number) is int and max(last, -1) < number <= MOST


def event_line(seq: int, data: bytes, at: float | None = None) -> bytes:
    """`data` is JSON without newlines."""
    when = b"" if at is None else b'"at":%.3f,' % at
    return b'{"seq":%d,%b"event":%b}\n' % (seq, when, data)


def writer_line(owner: Owner, after: int, *, torn: bool) -> bytes:
    """`torn`: the segment ends in the middle of a line."""
    generation = b"" if owner.generation is None else b',"generation":%d' % owner.generation
    return (_TORN if torn else b"") + b'{"writer":"%b","after":%d%b}\n' % (owner.token.encode(), after, generation)


def next_line(first: int) -> bytes:
    """The segment is complete."""
    return b'{"next":%d}\n' % first


def end_line(last: int) -> bytes:
    """The stream is complete."""
    return b'{"end":%d}\n' % last


def is_end(tail: bytes) -> bool:
    """Whether the last bytes of a segment (64 are enough) close the stream."""
    return tail.endswith(b"}\n") and tail.rstrip(b"\n").rpartition(b"\n")[2].startswith(b'{"end":')


def parse(held: bytes, data: bytes, last: int) -> Portion:
    """Read `data`, which follows `held` of the portion before it, in which event `last` was the last one (-1: none).

    A line that can't be read is judged by the next one that can: if that goes on where we are, the line never was an
    event (a writer died in the middle of it); otherwise events are lost, which a Damage says.
    """
    text = held + data
    items: list[Event | Damage] = []
    start, bad, owner = 0, -1, None
    while (end := text.find(b"\n", start)) >= 0:
        line = text[start:end]
        match = _EVENT.fullmatch(line)
        if match is not None and (seq := int(match[1])) > last:
            if bad >= 0 and seq - 1 > last:
                items.append(Damage(seq - 1))
            bad = -1
            items.append(Event(seq, match[3], float(match[2]) if match[2] else None))
            last = seq
        elif match is not None or (control := _control(line)) is None:
            bad = start if bad < 0 else bad  # no line, or an event where it can't be
        else:
            reached = _reached(control)
            if bad >= 0 and reached is not None:
                if reached > last:
                    items.append(Damage(reached))
                last, bad = max(last, reached), -1
            if "next" in control or "end" in control:
                return Portion(items, b"", control.get("next"), "end" in control, owner)
            if "writer" in control:
                owner = Owner(str(control["writer"]), control.get("generation"))
        start = end + 1
    return Portion(items, text[start if bad < 0 else bad :], None, False, owner)


def _control(line: bytes) -> dict[str, Any] | None:
    """A line that is no event; None when it can't be read. Unknown ones are for later versions of this format."""
    try:
        value: Any = json.loads(line)
    except ValueError:
        return None
    if not isinstance(value, dict) or "seq" in value:
        return None
    if any(name in value and type(value[name]) is not int for name in _NUMBERS):  # pyright: ignore[reportUnknownArgumentType]
        return None
    return value  # pyright: ignore[reportUnknownVariableType]


def _reached(control: dict[str, Any]) -> int | None:
    """The number of the last event before a control line."""
    if "next" in control:
        return control["next"] - 1
    return control.get("end", control.get("after"))
