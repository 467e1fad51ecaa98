"""What a turn does with its conversation: reads what came before it, takes it, writes itself at its end, lets it go.

    foreground   read -> hold (until a time) -> run -> commit: turn, response, session and conversation in one transaction
    background   read -> the transaction that accepts it has `owned` -> run -> its final transaction leaves the conversation be

If a process dies, a foreground turn lets go at the time that it named, and a background turn goes on elsewhere or ends by what
its response row says. Of two turns that want one conversation at once, exactly one gets it: the row's etag decides.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from hosting.gather import gather_all
from hosting.ids import parse_id, response_id
from hosting.state.conversation_items import ConversationItems
from hosting.state.conversation_row import (
    Conversation,
    ConversationLocked,
    ConversationNotFound,
    item_rows,
    with_turn,
)
from hosting.state.conversation_table import Change, ConversationTable
from hosting.state.lineage import MAIN, Place, Segment
from hosting.state.past import Turn
from hosting.state.turns import Turns
from hosting.storage import Entity, Json, Operation, RowConflict, Store, keys

__all__ = ["ConversationPast", "ConversationTurns"]

_FIRST = 500
"""Turns of the log that are read before it is known how many there are: those of nearly all conversations."""

_READS = 3

type Item = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ConversationPast:
    """What a turn has to know of its conversation, as it was at one moment."""

    conversation: Conversation
    """Knows of all turns that have ended; its owners are those that run or wait."""
    session: Json = None
    """The stored session of the conversation, None when there is none."""
    history: list[Json] | None = None
    """Stored messages of all turns, oldest first; None when they were not asked for."""
    present: frozenset[str] = frozenset()
    """Those of the ids asked about that are in the conversation already."""

    def turn(self, response: str | None = None) -> Turn:
        """A new turn at the end of the conversation, or that of a response whose id was announced before.

        `after_unfinished` says that others run or wait before a new one; what they leave is not in its past yet.
        """
        conversation = self.conversation
        announced = parse_id(response, "resp") if response is not None else None
        position = announced.turn if announced is not None else conversation.position
        place = Place(conversation.chain, MAIN, position)
        return Turn(
            response or response_id(place.chain, position),
            place,
            before=(Segment(place.chain, MAIN, 0, position - 1),) if position else (),
            open_calls=conversation.open_calls,
            session=self.session,
            history=self.history,
            after_unfinished=announced is None and bool(conversation.owners),
        )


class ConversationTurns:
    """The conversations of one scope, for turns. Every method may raise StorageError; `clock` gives seconds since the epoch."""

    def __init__(self, store: Store, scope: str, clock: Callable[[], float] = time.time) -> None:
        self._table = ConversationTable(store, scope)
        self._items = ConversationItems(self._table)
        self._turns = Turns(store, scope)
        self._clock = clock

    async def read(self, identifier: str, *, history: bool, given: Collection[str] = ()) -> ConversationPast:
        """What came before a turn. `given` are ids that its input items have, to be told from those that are there.

        One round trip, of two point reads and one read of the log for the history; one more for a log of over 500 turns, or
        when background turns have run since the row was last written. Raises ConversationNotFound; ConversationLocked when it
        changes all the time.
        """
        if parse_id(identifier, "conv") is None:
            raise ConversationNotFound(identifier)
        chain = keys.chain_of(identifier)
        for _ in range(_READS):
            stored, session, rows, present = await gather_all(
                self._table.get(identifier),
                self._session(identifier),
                self._log(chain, 0, _FIRST if history else 0),
                self._items.present(chain, given),
            )
            if stored is None:
                raise ConversationNotFound(identifier)
            settled, later = await gather_all(
                self._table.settled(stored, *(("messages",) if history else ())),
                self._log(chain, _FIRST, stored.next if history else 0),
            )
            known = {position: row for position, row in {**rows, **later}.items() if position < stored.next}
            if history and len(known) < stored.turns:
                continue  # a turn was written after the log was read and before the row was
            present |= await self._items.scattered(settled.conversation, given)
            messages = _messages({**known, **settled.tail}) if history else None
            return ConversationPast(settled.conversation, session, messages, present)
        raise ConversationLocked(identifier)

    async def hold(self, conversation: Conversation, owner: str, until: float) -> Conversation:
        """Take the conversation for the foreground response `owner`, until a time in seconds since the epoch. One write.

        `conversation` is as `read` gave it. Raises ConversationLocked when another turn has it, or was there in between, so
        that what was read is no longer its past; ConversationNotFound. Safe to repeat.
        """

        async def step(current: Conversation, _: RowConflict | None) -> Change:
            latest = (await self._table.settled(current)).conversation
            if latest.held_by(self._clock()) not in (None, owner) or latest.owners:
                raise ConversationLocked(conversation.id)
            if (latest.next, latest.open_calls) != (conversation.next, conversation.open_calls):
                raise ConversationLocked(conversation.id)
            return Change(replace(latest, holder=owner, until=until))

        return await self._table.change(conversation.id, step, stored=conversation)

    async def extend(self, conversation: Conversation, owner: str, until: float) -> Conversation:
        """Hold it longer. Raises ConversationLocked when it is no longer the owner's, ConversationNotFound."""

        async def step(current: Conversation, _: RowConflict | None) -> Change:
            if current.holder != owner:
                raise ConversationLocked(conversation.id)
            return Change(replace(current, until=until))

        return await self._table.change(conversation.id, step, stored=conversation)

    async def release(self, conversation: Conversation, owner: str, *, in_doubt: bool = False) -> None:
        """Let it go without a turn. Nothing happens when the owner does not have it. Safe to repeat. With `in_doubt` it is read
        first: the last write may have been applied without an answer, and `conversation` does not know of it."""

        async def step(current: Conversation, _: RowConflict | None) -> Change | None:
            return Change(_free(current)) if current.holder == owner else None

        try:
            await self._table.change(conversation.id, step, stored=None if in_doubt else conversation)
        except ConversationNotFound:
            return

    async def commit(
        self, conversation: Conversation, owner: str, rows: Sequence[Operation], items: Sequence[Item] | None
    ) -> Conversation:
        """Write the rows of the turn that `owner` held the conversation for, and let it go: all in one transaction.

        `rows` are those of the turn (see `Turns.rows`), its response and its session. `items` are its input and output, in
        order; None for a turn that the conversation does not continue through, whose rows lie elsewhere then. A change of
        metadata in between does no harm. Safe to repeat, also after StorageUnavailable: the response id is the transaction's
        token, and the response row tells that it was applied.

        Raises ConversationLocked when the time was over and another turn has come: nothing is written, and the turn can only
        be stored as one that failed, outside the conversation. ConversationNotFound when it was deleted: the same.
        """
        place = parse_id(owner, "resp")
        if place is None:
            raise ValueError(f"{owner!r} is no response id")

        async def step(current: Conversation, _: RowConflict | None) -> Change | None:
            if current.holder != owner:
                if await self._was_written(current.chain, owner):
                    return None
                raise ConversationLocked(conversation.id)
            if items is None:
                return Change(_free(current), rows)
            added = item_rows(current.chain, place.turn, items)
            return Change(_free(with_turn(current, place.turn, items)), [*rows, *added])

        return await self._table.change(conversation.id, step, stored=conversation, token=owner)

    async def _session(self, identifier: str) -> Json:
        partition = self._table.partition(keys.chain_of(identifier))
        found = await self._table.store.get(partition, keys.session_row(identifier), documents=("session",))
        return None if found is None else found.documents.get("session")

    async def _log(self, chain: str, first: int, end: int) -> dict[int, Entity]:
        if end <= first:
            return {}
        rows = await self._turns.items(Segment(chain, MAIN, first, end - 1), "messages")
        return {place.turn: row for place, row in rows.items()}

    async def _was_written(self, chain: str, response: str) -> bool:
        row = await self._table.store.get(self._table.partition(chain), keys.response_row(response), documents=())
        return row is not None


def _free(conversation: Conversation) -> Conversation:
    return replace(conversation, holder=None, until=0.0)


def _messages(rows: Mapping[int, Entity]) -> list[Json]:
    found = (rows[position].documents.get("messages") for position in sorted(rows))
    return [message for messages in found if messages for message in cast("list[Json]", messages)]
