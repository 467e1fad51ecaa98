"""A turn that has begun, and what was read of the turns before it."""

from dataclasses import dataclass
from typing import cast

from hosting.state.lineage import MAIN, Lineage, Place, Segment, next_place, places
from hosting.state.response_row import RUNNING, lineage_of
from hosting.storage import Entity, Json

__all__ = ["Past", "Turn", "ends_at", "stored_messages"]


@dataclass(slots=True)
class Turn:
    """A turn that has begun: where it will be written and what came before it."""

    response_id: str
    place: Place
    before: Lineage = ()
    open_calls: tuple[str, ...] = ()
    """call_ids of client tools that the previous turn left to be answered."""
    session: Json = None
    """The stored session of the previous turn, None when it kept none."""
    history: list[Json] | None = None
    """Stored messages of all earlier turns, oldest first; None when they were not asked for."""
    after_unfinished: bool = False
    """The previous response still runs, so nothing else in here is known yet."""


class Past:
    """What was read about the turns before a new one."""

    def __init__(self, found: Entity, session: Entity | None, rows: dict[Place, Entity], place: Place) -> None:
        self.running = found.fields["status"] in RUNNING
        self.in_conversation = "conversation" in found.fields
        self.lineage = lineage_of(found)
        self.rows = rows
        self.place = place
        self.next = next_place(self.lineage, Place(place.chain, MAIN, 0))
        self._found, self._session = found, session

    def turn(self, response: str, place: Place, history: bool) -> Turn:
        """The turn of a response at a place behind them, with the history if that was read."""
        return Turn(
            response,
            place,
            before=self.lineage,
            open_calls=tuple(cast("list[str]", self._found.documents.get("open_calls") or [])),
            session=self._session.documents.get("session") if self._session else None,
            history=stored_messages(self.rows, self.lineage) if history else None,
        )


def ends_at(segment: Segment, place: Place) -> bool:
    """Whether a place is the last one of a stretch of a log."""
    return (segment.chain, segment.log, segment.last) == (place.chain, place.log, place.turn)


def stored_messages(rows: dict[Place, Entity], lineage: Lineage) -> list[Json]:
    """What agents' histories keep of the turns of a lineage, oldest first."""
    found = (rows[place].documents.get("messages") for place in places(lineage) if place in rows)
    return [message for messages in found if messages for message in cast("list[Json]", messages)]
