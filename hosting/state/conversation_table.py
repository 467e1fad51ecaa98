"""Reading and changing the rows of conversations: what has been written behind a checkpoint, and who comes first."""

import asyncio
import random
import secrets
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from hosting.gather import gather_all
from hosting.ids import parse_id
from hosting.read_budget import ReadTooLarge, read_at_most
from hosting.state.conversation_row import (
    Conversation,
    ConversationLocked,
    ConversationNotFound,
    decode_conversation,
    replace_row,
    with_turn,
)
from hosting.state.lineage import MAIN
from hosting.state.response_row import RUNNING
from hosting.storage import Entity, Operation, RowConflict, StorageUnavailable, Store, keys

__all__ = ["Change", "ConversationTable", "Settled", "Step", "row_items"]

_ATTEMPTS = 8
_PAUSE = 0.01
"""Seconds. The pause before the second of them is at most twice that, and each may be twice as long as the one before it."""

_TAIL_BYTES = 8 * 1024 * 1024
"""Turns behind the row that are read at once. Larger ones are read one by one: there are few, each of any size."""

_ITEMS = ("input", "output")
_TELLING = ("type", "id", "call_id", "status")

type Item = dict[str, Any]
type _Tail = dict[int, tuple[list[Item], Entity]]
"""Position to what there is to know of its items, and to the row."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A conversation that knows of all its turns, and whose owners are those that run."""

    conversation: Conversation
    tail: Mapping[int, Entity] = field(default_factory=dict[int, Entity])
    """The turns that the stored row did not know of, by position."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a conversation becomes, and the rows of its partition that are written with it."""

    conversation: Conversation
    rows: Sequence[Operation] = ()


type Step = Callable[[Conversation, RowConflict | None], Awaitable[Change | None]]
"""From a conversation as it is stored, and what kept the last attempt from being written. None: there is nothing to change."""


@dataclass(frozen=True, slots=True)
class _Owner:
    """What the response row of an owner says."""

    response: str
    running: bool
    known: bool
    position: int | None
    """Where in the main log its turn is, if it ended there."""


class ConversationTable:
    """The conversations of one scope. Every method may raise StorageError."""

    def __init__(self, store: Store, scope: str) -> None:
        self.store, self.scope = store, scope

    def partition(self, chain: str) -> str:
        """Where everything of a chain is."""
        return keys.partition_key(self.scope, chain)

    async def row(self, identifier: str) -> Entity | None:
        """The row of a conversation, also of one that is being deleted. One read."""
        if parse_id(identifier, "conv") is None:
            return None
        return await self.store.get(self.partition(keys.chain_of(identifier)), keys.conversation_row(identifier))

    async def get(self, identifier: str) -> Conversation | None:
        """A conversation as it is stored. One read."""
        found = await self.row(identifier)
        return None if found is None else decode_conversation(identifier, found)

    async def settled(self, stored: Conversation, *documents: str, recheck: bool = False) -> Settled:
        """`stored` with what its owners have done since. Costs nothing without owners, else one round trip: a read for each of
        them and one of the log. The tail has `documents`, besides its items.

        With `recheck` the log is read in any case: somebody has written there who did not change the row.
        """
        if not stored.owners and not recheck:
            return Settled(stored)
        owners, tail = await gather_all(
            gather_all(*(self._owner(stored, response) for response in stored.owners)),
            self._tail(stored, documents),
        )
        if any(not owner.known or _is_missing(owner, stored, tail) for owner in owners):
            tail = await self._tail(stored, documents)  # it ended while we looked
        conversation = replace(stored, owners=tuple(owner.response for owner in owners if owner.running))
        for position, (items, _) in tail.items():
            conversation = with_turn(conversation, position, items)
        return Settled(conversation, {position: row for position, (_, row) in tail.items()})

    async def change(
        self, identifier: str, step: Step, *, stored: Conversation | None = None, token: str = ""
    ) -> Conversation:
        """Replace a conversation by what `step` makes of it, together with other rows, in one transaction; returns it.

        `stored` saves the first read. Of two writers at once one is faster, and the other's `step` sees what that one has
        made. A transaction whose answer was lost is repeated as it is, and recognizes itself: nothing is written twice.
        `token` names the transaction where a later call has to recognize it too.

        Raises ConversationNotFound; ConversationLocked when others were faster over and over; and what `step` raises.
        """
        row, conflict = keys.conversation_row(identifier), None
        for attempt in range(_ATTEMPTS):
            if conflict is not None:
                await asyncio.sleep(random.uniform(0, _PAUSE * 2**attempt))
            current, stored = stored or await self.get(identifier), None
            if current is None:
                raise ConversationNotFound(identifier)
            change = await step(current, conflict)
            if change is None:
                return current
            operations = [*change.rows, replace_row(replace(change.conversation, etag=current.etag))]
            try:
                etags = await self.commit(current.chain, operations, token)
            except RowConflict as error:
                conflict = error
            else:
                return replace(change.conversation, etag=etags[row])
        raise ConversationLocked(identifier)

    async def commit(self, chain: str, operations: Sequence[Operation], token: str = "") -> dict[str, str]:
        """`Store.commit`, once more when it is not known whether the transaction was applied."""
        partition, token = self.partition(chain), token or secrets.token_hex(8)
        try:
            return await self.store.commit(partition, operations, token=token)
        except StorageUnavailable:
            return await self.store.commit(partition, operations, token=token)

    async def _owner(self, stored: Conversation, response: str) -> _Owner:
        found = await self.store.get(self.partition(stored.chain), keys.response_row(response), documents=())
        if found is None:  # deleted
            return _Owner(response, running=False, known=False, position=None)
        running, ended_here = found.fields["status"] in RUNNING, found.fields["log"] == MAIN
        position = int(cast("int", found.fields["turn"])) if ended_here and not running else None
        return _Owner(response, running, known=True, position=position)

    async def _tail(self, stored: Conversation, documents: Collection[str]) -> _Tail:
        partition, bounds = self.partition(stored.chain), keys.turn_range(MAIN, stored.next)
        budget = None
        try:
            with read_at_most(_TAIL_BYTES) as budget:
                rows = await self.store.query(partition, *bounds, documents={*_ITEMS, *documents})
                return {keys.turn_position(row.row): (_told(row), row) for row in rows}
        except ReadTooLarge as error:
            if error.budget is not budget:
                raise
        tail: _Tail = {}
        for row in await self.store.query(partition, *bounds, documents=documents):
            with read_at_most(sys.maxsize) as budget:
                found = await self.store.get(partition, row.row, documents=_ITEMS)
                tail[keys.turn_position(row.row)] = (_told(found) if found is not None else [], row)
                budget.refund()
        return tail


def _told(row: Entity) -> list[Item]:
    """What a conversation has to know of the items of a turn, whatever else is in them."""
    return [{name: item[name] for name in _TELLING if name in item} for item in row_items(row)]


def _is_missing(owner: _Owner, stored: Conversation, tail: _Tail) -> bool:
    return owner.position is not None and owner.position >= stored.next and owner.position not in tail


def row_items(row: Entity) -> list[Item]:
    """The items in the row of a turn."""
    given, made = (cast("list[Item]", row.documents.get(name) or []) for name in ("input", "output"))
    return [*given, *made]
