"""Where the turns of a conversation lie: pure, no I/O.

A chain is a table partition; in it, a log is a row of positions 0, 1, 2, ... and each position is taken by one turn for
ever. Most conversations are one log. A turn that finds its position taken is a fork: it goes on elsewhere and remembers
the stretch of the old log that it grew from. A lineage is that memory: the stretches from the first turn to the newest.

    chain A, log main:  0  1  2  3  4            lineage of A4:  [A main 0..4]
                              \
    chain B, log main:         3  4              lineage of B4:  [A main 0..2] [B main 3..4]

A fork that is known when the turn starts gets a chain of its own (a partition of its own, so that a thousand forks of one
response do not share one partition's throughput). One that is found only at commit, because two turns raced for the
position, keeps its chain, since its id has been announced, and takes a log of its own there.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

__all__ = ["MAIN", "Lineage", "Place", "Segment", "decode_lineage", "encode_lineage", "extend", "next_place", "places"]

MAIN = "main"
"""The log of a chain that is no fork found at commit."""


@dataclass(frozen=True, slots=True)
class Place:
    """One position in one log."""

    chain: str
    log: str
    turn: int


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of one log; both ends belong to it."""

    chain: str
    log: str
    first: int
    last: int


type Lineage = tuple[Segment, ...]


def next_place(lineage: Lineage, fallback: Place) -> Place:
    """Where the turn after `lineage` belongs; `fallback` when nothing came before."""
    if not lineage:
        return fallback
    tip = lineage[-1]
    return Place(tip.chain, tip.log, tip.last + 1)


def extend(lineage: Lineage, place: Place) -> Lineage:
    """The lineage with one more turn at `place`."""
    if lineage and (lineage[-1].chain, lineage[-1].log, lineage[-1].last + 1) == (place.chain, place.log, place.turn):
        return (*lineage[:-1], replace(lineage[-1], last=place.turn))
    return (*lineage, Segment(place.chain, place.log, place.turn, place.turn))


def places(lineage: Lineage) -> list[Place]:
    """Every position of a lineage, oldest first."""
    return [
        Place(segment.chain, segment.log, turn)
        for segment in lineage
        for turn in range(segment.first, segment.last + 1)
    ]


def encode_lineage(lineage: Lineage) -> list[tuple[str, str, int, int]]:
    """The stored form."""
    return [(segment.chain, segment.log, segment.first, segment.last) for segment in lineage]


def decode_lineage(stored: Iterable[tuple[str, str, int, int]]) -> Lineage:
    """What `encode_lineage` gave."""
    return tuple(Segment(*segment) for segment in stored)
