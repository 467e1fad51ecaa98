"""The turns of a caller's conversations: one parallel read to begin one, one atomic write to commit it.

Rows of a turn, all in the partition of its chain:

    turn row      <log, position>   documents: input, output (wire items), messages (what the agent's history keeps)
    response row  <response id>     documents: response (without its output), lineage, open_calls
    session row   <response id>     document:  session (only when the agent keeps something in it)

They are written in one transaction at the end of the turn. If the process dies before it, nothing of the turn exists and
the conversation stands where it was; after it, everything does. A turn that failed or was cancelled is kept in a log of
its own, so that it can be retrieved, but the conversation does not continue through it.
"""

import sys
from collections.abc import Iterable
from itertools import batched
from typing import cast

from hosting.gather import gather_all
from hosting.ids import new_chain, parse_id, response_id
from hosting.read_budget import read_at_most
from hosting.state.lineage import MAIN, Lineage, Place, Segment, extend
from hosting.state.past import Past, Turn, ends_at, stored_messages
from hosting.state.response_row import (
    INLINE,
    StoredResponse,
    TurnRecord,
    conversation_of,
    lineage_of,
    response_columns,
    stored_response,
)
from hosting.state.retention_forks import keep_for_fork
from hosting.storage import Delete, Entity, Insert, Json, Operation, Put, RowExists, RowMissing, Store, keys

__all__ = ["PreviousResponseNotFound", "PreviousResponseUnfinished", "Turns"]

_BARE = ("response", "lineage", "opening")
_RESPONSE_DOCUMENTS = (*_BARE, "input", "output", "notes")

# One query page holds 1,000 rows. Long logs are read as parallel ranges of this many, so that a turn has one round trip
# whatever its position; a wider range would put its second page behind its first.
_RANGE = 500

_RANGES_AT_ONCE = 16
"""A log of more than 8,000 turns takes a second round trip: what is too much to be kept should not all be on its way."""

_SPECULATED = 10_000
"""Turns that are read on the word of an id alone. Whether a response with a later place exists is asked first."""


class PreviousResponseNotFound(LookupError):
    """`previous_response_id` names no stored response of this caller."""


class PreviousResponseUnfinished(LookupError):
    """`previous_response_id` names a response that still runs."""


class Turns:
    """The conversations of one scope (a tenant, or a user of it)."""

    def __init__(self, store: Store, scope: str, *, max_history_bytes: int = sys.maxsize) -> None:
        """`max_history_bytes` limits `history`, which is read while the turn runs; around `begin` and `resume` there is more
        to read, so their callers say it there."""
        self.store, self.scope, self.max_history_bytes = store, scope, max_history_bytes

    async def begin(
        self, previous: str | None, *, history: bool, unfinished: bool = False, session: bool = True
    ) -> Turn:
        """Begin a turn after the response `previous`, or a new conversation. One parallel read; for a fork one
        more, and a write.

        Without `session` it is not read: the turn is only accepted here, and `resume` reads it where the turn runs.
        With `unfinished`, `previous` may still be running: the turn gets the place behind it, and what came before it is
        for `resume` to find out. Raises PreviousResponseNotFound, PreviousResponseUnfinished, and StorageError.
        """
        if previous is None:
            chain = new_chain()
            return Turn(response_id(chain), Place(chain, MAIN, 0), history=[] if history else None)
        past = await self._read_past(previous, history, session)
        if past.running:
            if not unfinished or past.in_conversation:
                raise PreviousResponseUnfinished(previous)
            place = Place(past.place.chain, MAIN, past.place.turn + 1)
            return Turn(response_id(place.chain, place.turn), place, after_unfinished=True)
        place = past.next
        if place in past.rows or past.in_conversation:  # somebody has already continued here, or will
            place = Place(new_chain(), MAIN, place.turn)
            await keep_for_fork(self.store, self.scope, past.next.chain, place.chain)
        return past.turn(response_id(place.chain, place.turn), place, history)

    async def resume(self, response: str, previous: str | None, *, history: bool) -> Turn:
        """The turn of a response whose id was announced before, in another process perhaps. Costs and raises as `begin`."""
        parsed = parse_id(response, "resp")
        if parsed is None:
            raise ValueError(f"{response!r} is no response id")
        place = Place(parsed.chain, MAIN, parsed.turn)
        if previous is None:
            return Turn(response, place, history=[] if history else None)
        past = await self._read_past(previous, history)
        if past.running:
            raise PreviousResponseUnfinished(previous)
        return past.turn(response, place, history)

    async def _read_past(
        self, previous: str, history: bool, with_session: bool = True, *, again: bool = True
    ) -> "Past":
        parsed = parse_id(previous, "resp")
        if parsed is None:
            raise PreviousResponseNotFound(previous)
        # The id alone says which rows a plain follow-up needs: the log up to this turn, and the position after it, whose
        # presence tells a fork. What turns out to lie elsewhere is fetched in a second round.
        partition = self._partition(parsed.chain)
        first = 0 if history else parsed.turn
        if parsed.turn - first > _SPECULATED and not await self._exists(partition, previous):
            raise PreviousResponseNotFound(
                previous
            )  # anybody can write down an id that claims to be of turn 4,000,000,000
        found, session, rows = await gather_all(
            self.store.get(partition, keys.response_row(previous), documents=("lineage", "open_calls")),
            self.store.get(partition, keys.session_row(previous), documents=("session",))
            if with_session
            else _nothing(),
            self._rows(Segment(parsed.chain, MAIN, first, parsed.turn + 1), ("messages",) if history else ()),
        )
        if found is None:
            raise PreviousResponseNotFound(previous)
        if found.fields["log"] == INLINE and found.fields["status"] == "cancelled" and not lineage_of(found):
            # It may have been cancelled while it waited, when it was not known yet what comes before it.
            stored = await self.response(previous)
            if stored is not None and (behind := stored.response["previous_response_id"]) is not None:
                return await self._read_past(behind, history, with_session)
        past = Past(found, session, rows, Place(parsed.chain, MAIN, parsed.turn))
        if again and past.lineage and ends_at(past.lineage[-1], past.place) and past.place not in rows:
            # It has become final between the reads: the log and the session were read too early.
            return await self._read_past(previous, history, with_session, again=False)
        missing = [s for s in past.lineage if (s.chain, s.log) != (parsed.chain, MAIN)] if history else []
        if (past.next.chain, past.next.log) != (parsed.chain, MAIN):
            missing.append(Segment(past.next.chain, past.next.log, past.next.turn, past.next.turn))
        for more in await gather_all(*(self._rows(segment, ("messages",)) for segment in missing)):
            rows |= more
        return past

    async def _exists(self, partition: str, response: str) -> bool:
        return await self.store.get(partition, keys.response_row(response), documents=()) is not None

    async def history(self, turn: Turn) -> list[Json]:
        """The stored messages before `turn`, oldest first: read now if `begin` was not asked for them. Raises ReadTooLarge."""
        if turn.history is None:
            rows: dict[Place, Entity] = {}
            with read_at_most(self.max_history_bytes):
                for segment in turn.before:
                    rows |= await self._rows(segment, ("messages",))
            turn.history = stored_messages(rows, turn.before)
        return turn.history

    async def commit(self, turn: Turn, record: TurnRecord) -> None:
        """Write the turn: all of it or nothing. Raises StorageError; after StorageUnavailable it may have been applied,
        and committing the same turn again is safe (the store tells our own rows by the response id).
        """
        aside = _aside(turn)
        if not record.continues:
            await self._write(turn, record, aside, turn.before)
            return
        try:
            await self._write(turn, record, turn.place, extend(turn.before, turn.place))
        except RowExists:  # another turn took the position since `begin`: this one is a fork
            await self._write(turn, record, aside, extend(turn.before, aside))

    def final_rows(self, turn: Turn, record: TurnRecord) -> list[Operation]:
        """What `commit` would write of a turn of a conversation, for somebody else's transaction."""
        if not record.continues:
            return self._final_rows(turn, record, _aside(turn), turn.before)
        return self._final_rows(turn, record, turn.place, extend(turn.before, turn.place))

    def _final_rows(self, turn: Turn, record: TurnRecord, place: Place, lineage: Lineage) -> list[Operation]:
        return [
            *self.rows(turn.response_id, record, place),
            Insert(keys.response_row(turn.response_id), *response_columns(record, place, lineage)),
        ]

    async def _write(self, turn: Turn, record: TurnRecord, place: Place, lineage: Lineage) -> None:
        operations = self._final_rows(turn, record, place, lineage)
        await self.store.commit(self._partition(place.chain), operations, token=turn.response_id)

    def rows(self, response: str, record: TurnRecord, place: Place) -> list[Operation]:
        """The rows of a turn but for its response row: the log's, and the session's when there is one."""
        items: dict[str, Json] = {"input": list(record.input), "output": record.response["output"]}
        if record.messages is not None:
            items["messages"] = list(record.messages)
        rows: list[Operation] = [Insert(keys.turn_row(place.log, place.turn), {"response_id": response}, items)]
        if record.session is not None:
            rows.append(Insert(keys.session_row(response), {}, {"session": record.session}))
            if (conversation := conversation_of(record.response)) is not None:
                rows.append(Put(keys.session_row(conversation), {}, {"session": record.session}))
        return [*rows, *record.extra]

    async def response(self, identifier: str, *, items: bool = True) -> StoredResponse | None:
        """A stored response of this scope, final or running; None for any other id. Without `items` it has none, and can be had
        when blobs are away. Raises StorageError."""
        parsed = parse_id(identifier, "resp")
        if parsed is None:
            return None
        partition, wanted = self._partition(parsed.chain), ("output",) if items else ()
        found, row = await gather_all(
            self.store.get(partition, keys.response_row(identifier), documents=_RESPONSE_DOCUMENTS if items else _BARE),
            self.store.get(partition, keys.turn_row(MAIN, parsed.turn), documents=wanted),
        )
        if found is None:
            return None
        place = Place(parsed.chain, str(found.fields["log"]), int(cast("int", found.fields["turn"])))
        # Also when it has become final between the two reads: then the log was read too early.
        if place.log not in (MAIN, INLINE) or (place.log == MAIN and row is None):
            row = await self.store.get(partition, keys.turn_row(place.log, place.turn), documents=wanted)
        return stored_response(found, row, place)

    async def status(self, identifier: str) -> str | None:
        """The status of a stored response, or None: one read, of none of its documents. Raises StorageError."""
        parsed = parse_id(identifier, "resp")
        if parsed is None:
            return None
        found = await self.store.get(self._partition(parsed.chain), keys.response_row(identifier), documents=())
        return None if found is None else str(found.fields["status"])

    async def delete(self, identifier: str) -> bool:
        """Delete a response, its items and its session; False when there is none. Raises StorageError.

        The position in the log stays taken, by an empty row: what was forked and what was continued must not change.
        Later turns keep their own items and no longer see the deleted ones. The items of a turn of a conversation are the
        conversation's, as long as there is one.
        """
        parsed = parse_id(identifier, "resp")
        if parsed is None:
            return False
        partition = self._partition(parsed.chain)
        found = await self.store.get(partition, keys.response_row(identifier), documents=())
        if found is None:
            return False
        bucket = keys.checkpoint_bucket(identifier)  # of a workflow; first, so that a repeat finds what a failure left
        await self.store.delete_range(partition, f"{bucket}.", f"{bucket}/")
        operations: list[Operation] = [
            Delete(keys.response_row(identifier), etag=found.etag),
            Delete(keys.session_row(identifier)),
        ]
        # One that was cancelled from outside has no place in a log: a row in its own says that it was there (`had_ended`).
        log = str(found.fields["log"]) or identifier[-24:]
        if log != MAIN or not await self._is_kept_by_conversation(partition, found):
            row = keys.turn_row(log, int(cast("int", found.fields["turn"])))
            operations.append(Put(row, {"deleted": True, "response_id": identifier}, {}))
        try:
            await self.store.commit(partition, operations)
        except RowMissing:  # another request deleted it first
            return False
        return True

    async def _is_kept_by_conversation(self, partition: str, response: Entity) -> bool:
        conversation = response.fields.get("conversation")
        if conversation is None:
            return False
        return await self.store.get(partition, keys.conversation_row(str(conversation)), documents=()) is not None

    async def had_ended(self, identifier: str) -> bool:
        """Whether a response that is not there any more had ended: its place in a log stays taken. Raises StorageError."""
        parsed = parse_id(identifier, "resp")
        if parsed is None:
            return False
        partition = self._partition(parsed.chain)
        logs = (MAIN, identifier[-24:])  # of the conversation, or of its own: see `_aside`
        reads = (self.store.get(partition, keys.turn_row(log, parsed.turn), documents=()) for log in logs)
        return any(row is not None and _is_of(row, identifier) for row in await gather_all(*reads))

    async def items(self, segment: Segment, *documents: str) -> dict[Place, Entity]:
        """The rows of a stretch of a log, with the named documents."""
        return await self._rows(segment, documents)

    async def _rows(self, segment: Segment, documents: Iterable[str]) -> dict[Place, Entity]:
        partition, wanted = self._partition(segment.chain), tuple(documents)
        starts = range(segment.first, segment.last + 1, _RANGE)
        ranges = [keys.turn_range(segment.log, start, min(start + _RANGE, segment.last + 1)) for start in starts]
        pages: list[list[Entity]] = []
        for batch in batched(ranges, _RANGES_AT_ONCE, strict=False):
            reads = (self.store.query(partition, first, last, documents=wanted) for first, last in batch)
            pages += await gather_all(*reads)
        return {Place(segment.chain, segment.log, keys.turn_position(row.row)): row for page in pages for row in page}

    def _partition(self, chain: str) -> str:
        return keys.partition_key(self.scope, chain)


def _aside(turn: Turn) -> Place:
    """A place of the turn's own. The id has been announced, so the chain stays; a log named after the id can't be taken by
    anybody else."""
    return Place(turn.place.chain, turn.response_id[-24:], turn.place.turn)


def _is_of(row: Entity, response: str) -> bool:
    """Items that were added by hand are no response's; an earlier version has not said whose a deleted turn was."""
    owner = row.fields.get("response_id")
    return owner == response or (owner is None and bool(row.fields.get("deleted")))


async def _nothing() -> None:
    """In the place of a read that is not needed."""
