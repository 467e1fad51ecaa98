"""The turns of a caller's conversations: one parallel read to begin one, one atomic write to commit it.

Rows of a turn, all in the partition of its chain:

    turn row      <log, position>   documents: input, output (wire items), messages (what the agent's history keeps)
    response row  <response id>     documents: response (without its output), lineage, open_calls
    session row   <response id>     document:  session (only when the agent keeps something in it)

They are written in one transaction at the end of the turn. If the process dies before it, nothing of the turn exists and
the conversation stands where it was; after it, everything does. A turn that failed or was cancelled is kept in a log of
its own, so that it can be retrieved, but the conversation does not continue through it.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from hosting.ids import new_chain, parse_id, response_id
from hosting.state.lineage import (
    MAIN,
    Lineage,
    Place,
    Segment,
    decode_lineage,
    encode_lineage,
    extend,
    next_place,
    places,
)
from hosting.storage import Delete, Entity, Insert, Json, Put, RowExists, RowMissing, Store, keys

__all__ = ["PreviousResponseNotFound", "StoredResponse", "Turn", "TurnRecord", "Turns"]

# One query page holds 1,000 rows. Long logs are read as parallel ranges of this many, so that a turn has one round trip
# whatever its position; a wider range would put its second page behind its first.
_RANGE = 500


class PreviousResponseNotFound(LookupError):
    """`previous_response_id` names no stored response of this caller."""


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


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """What a finished turn leaves behind."""

    response: dict[str, Any]
    """The response object, with its output."""
    input: Sequence[dict[str, Any]]
    messages: Sequence[Json] | None = None
    session: Json = None
    open_calls: Sequence[str] = ()
    continues: bool = True
    """Whether a later turn may build on it: false for a failed or cancelled one."""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response as it was committed, and where its items are."""

    response: dict[str, Any]
    place: Place
    before: Lineage = field(default=())


class Turns:
    """The conversations of one scope (a tenant, or a user of it)."""

    def __init__(self, store: Store, scope: str) -> None:
        self._store = store
        self._scope = scope

    async def begin(self, previous: str | None, *, history: bool) -> Turn:
        """Begin a turn after the response `previous`, or a new conversation. One parallel read; one more for a fork.

        Raises PreviousResponseNotFound, and StorageError.
        """
        if previous is None:
            chain = new_chain()
            return Turn(response_id(chain), Place(chain, MAIN, 0), history=[] if history else None)
        parsed = parse_id(previous, "resp")
        if parsed is None:
            raise PreviousResponseNotFound(previous)
        # The id alone says which rows a plain follow-up needs: the log up to this turn, and the position after it, whose
        # presence tells a fork. What turns out to lie elsewhere is fetched in a second round.
        partition = self._partition(parsed.chain)
        first = 0 if history else parsed.turn + 1
        found, session, rows = await asyncio.gather(
            self._store.get(partition, keys.response_row(previous), documents=("lineage", "open_calls")),
            self._store.get(partition, keys.session_row(previous), documents=("session",)),
            self._rows(Segment(parsed.chain, MAIN, first, parsed.turn + 1), ("messages",) if history else ()),
        )
        if found is None:
            raise PreviousResponseNotFound(previous)
        lineage = _lineage_of(found)
        place = next_place(lineage, Place(parsed.chain, MAIN, 0))
        missing = [] if not history else [s for s in lineage if (s.chain, s.log) != (parsed.chain, MAIN)]
        if (place.chain, place.log) != (parsed.chain, MAIN):
            missing.append(Segment(place.chain, place.log, place.turn, place.turn))
        for more in await asyncio.gather(*(self._rows(segment, ("messages",)) for segment in missing)):
            rows |= more
        if place in rows:  # somebody has already continued here
            place = Place(new_chain(), MAIN, place.turn)
        return Turn(
            response_id(place.chain, place.turn),
            place,
            before=lineage,
            open_calls=tuple(cast("list[str]", found.documents.get("open_calls") or [])),
            session=session.documents.get("session") if session else None,
            history=_messages(rows, lineage) if history else None,
        )

    async def history(self, turn: Turn) -> list[Json]:
        """The stored messages before `turn`, oldest first: read now if `begin` was not asked for them."""
        if turn.history is None:
            rows: dict[Place, Entity] = {}
            for more in await asyncio.gather(*(self._rows(segment, ("messages",)) for segment in turn.before)):
                rows |= more
            turn.history = _messages(rows, turn.before)
        return turn.history

    async def commit(self, turn: Turn, record: TurnRecord) -> None:
        """Write the turn: all of it or nothing. Raises StorageError; after StorageUnavailable it may have been applied,
        and committing the same turn again is safe (the store tells our own rows by the response id).
        """
        nonce = turn.response_id[-24:]
        # The id has been announced, so the chain stays; a log named after the id can't be taken by anybody else.
        aside = Place(turn.place.chain, nonce, turn.place.turn)
        if not record.continues:
            await self._write(turn, record, aside, turn.before)
            return
        try:
            await self._write(turn, record, turn.place, extend(turn.before, turn.place))
        except RowExists:  # another turn took the position since `begin`: this one is a fork
            await self._write(turn, record, aside, extend(turn.before, aside))

    async def _write(self, turn: Turn, record: TurnRecord, place: Place, lineage: Lineage) -> None:
        response = {key: value for key, value in record.response.items() if key != "output"}
        items: dict[str, Json] = {"input": list(record.input), "output": record.response["output"]}
        if record.messages is not None:
            items["messages"] = list(record.messages)
        operations: list[Insert | Put | Delete] = [
            Insert(keys.turn_row(place.log, place.turn), {"response_id": turn.response_id}, items),
            Insert(
                keys.response_row(turn.response_id),
                {"log": place.log, "turn": place.turn, "status": str(response["status"])},
                {
                    "response": response,
                    "lineage": cast("Json", encode_lineage(lineage)),
                    "open_calls": list(record.open_calls),
                },
            ),
        ]
        if record.session is not None:
            operations.append(Insert(keys.session_row(turn.response_id), {}, {"session": record.session}))
        await self._store.commit(self._partition(place.chain), operations, token=turn.response_id)

    async def response(self, identifier: str) -> StoredResponse | None:
        """A stored response of this scope; None for any other id. Raises StorageError."""
        parsed = parse_id(identifier, "resp")
        if parsed is None:
            return None
        partition = self._partition(parsed.chain)
        found, row = await asyncio.gather(
            self._store.get(partition, keys.response_row(identifier), documents=("response", "lineage")),
            self._store.get(partition, keys.turn_row(MAIN, parsed.turn), documents=("output",)),
        )
        if found is None:
            return None
        place = Place(parsed.chain, str(found.fields["log"]), int(cast("int", found.fields["turn"])))
        if place.log != MAIN:
            row = await self._store.get(partition, keys.turn_row(place.log, place.turn), documents=("output",))
        if row is None:  # deleted between the two reads
            return None
        response = cast("dict[str, Any]", found.documents["response"])
        response["output"] = row.documents.get("output") or []
        lineage = _lineage_of(found)
        own = Segment(place.chain, place.log, place.turn, place.turn)
        before = lineage if not lineage or not _ends_with(lineage, own) else _without_last(lineage)
        return StoredResponse(response, place, before)

    async def delete(self, identifier: str) -> bool:
        """Delete a response, its items and its session; False when there is none. Raises StorageError.

        The position in the log stays taken, by an empty row: what was forked and what was continued must not change.
        Later turns keep their own items and no longer see the deleted ones.
        """
        parsed = parse_id(identifier, "resp")
        if parsed is None:
            return False
        partition = self._partition(parsed.chain)
        found = await self._store.get(partition, keys.response_row(identifier), documents=())
        if found is None:
            return False
        row = keys.turn_row(str(found.fields["log"]), int(cast("int", found.fields["turn"])))
        try:
            await self._store.commit(
                partition,
                [
                    Delete(keys.response_row(identifier), etag=found.etag),
                    Put(row, {"deleted": True}, {}),
                    Delete(keys.session_row(identifier)),
                ],
            )
        except RowMissing:  # another request deleted it first
            return False
        return True

    async def items(self, segment: Segment, *documents: str) -> dict[Place, Entity]:
        """The rows of a stretch of a log, with the named documents."""
        return await self._rows(segment, documents)

    async def _rows(self, segment: Segment, documents: Iterable[str]) -> dict[Place, Entity]:
        partition, wanted = self._partition(segment.chain), tuple(documents)
        starts = range(segment.first, segment.last + 1, _RANGE)
        ranges = [keys.turn_range(segment.log, start, min(start + _RANGE, segment.last + 1)) for start in starts]
        pages = await asyncio.gather(
            *(self._store.query(partition, first, last, documents=wanted) for first, last in ranges)
        )
        return {Place(segment.chain, segment.log, keys.turn_position(row.row)): row for page in pages for row in page}

    def _partition(self, chain: str) -> str:
        return keys.partition_key(self._scope, chain)


def _lineage_of(response_row: Entity) -> Lineage:
    return decode_lineage(cast("list[tuple[str, str, int, int]]", response_row.documents.get("lineage") or []))


def _messages(rows: dict[Place, Entity], lineage: Lineage) -> list[Json]:
    found = (rows[place].documents.get("messages") for place in places(lineage) if place in rows)
    return [message for messages in found if messages for message in cast("list[Json]", messages)]


def _ends_with(lineage: Lineage, own: Segment) -> bool:
    tip = lineage[-1]
    return (tip.chain, tip.log, tip.last) == (own.chain, own.log, own.last)


def _without_last(lineage: Lineage) -> Lineage:
    tip = lineage[-1]
    rest = lineage[:-1]
    return rest if tip.first == tip.last else (*rest, Segment(tip.chain, tip.log, tip.first, tip.last - 1))
