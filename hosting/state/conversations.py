"""The Conversations of one scope: made, changed and deleted, and their items (see conversation_row for what one is).

Items that are added by hand make a turn of the log with input only, in the form that the turn of a response has:

    turn row   <main log, position>   field: added_at; documents: input (the items), output (none), messages
    item row   <item id>              field: position; only for an item whose id does not say it

The row of the conversation is replaced in the same transaction, so that items come one after the other, and never twice.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import batched
from typing import Any, cast

from hosting.gather import gather_all
from hosting.ids import response_id
from hosting.responses import messages_from_items, open_calls, with_ids
from hosting.state.conversation_items import ConversationItems
from hosting.state.conversation_row import (
    Conversation,
    ConversationLocked,
    ConversationNotFound,
    DuplicateItem,
    ItemNotFound,
    deleted_row,
    foreign_ids,
    insert_row,
    item_rows,
    new_conversation,
    with_turn,
)
from hosting.state.conversation_table import Change, ConversationTable
from hosting.state.lineage import MAIN
from hosting.storage import Delete, Entity, Insert, Json, Operation, Replace, RowConflict, Store, keys

__all__ = ["Conversations"]

_ATTEMPTS = 8
_BATCH = 99
"""Rows deleted in one transaction, beside that of the conversation itself."""

type Item = dict[str, Any]


class Conversations:
    """The conversations of one scope (a tenant, or a user of it). Ids of other scopes are not found.

    Items are given in their normal form (`normalize_input`), references resolved. Every method may raise StorageError; when
    that is StorageUnavailable, a write may or may not have been applied. `clock` gives seconds since the epoch.
    """

    def __init__(self, store: Store, scope: str, clock: Callable[[], float] = time.time) -> None:
        self._table = ConversationTable(store, scope)
        self._items = ConversationItems(self._table)
        self._clock = clock

    async def create(self, metadata: dict[str, str], items: Sequence[Item] = ()) -> Conversation:
        """A new conversation, with its first items. One write."""
        conversation = new_conversation(metadata, int(self._clock()))
        rows: list[Operation] = []
        if items:
            conversation, rows, _ = self._with_items(conversation, items)
        row = insert_row(conversation)
        etags = await self._table.commit(conversation.chain, [*rows, row])
        return replace(conversation, etag=etags[row.row])

    async def get(self, identifier: str) -> Conversation | None:
        """The conversation, or None. One read."""
        return await self._table.get(identifier)

    async def update(self, identifier: str, metadata: dict[str, str]) -> Conversation:
        """Put `metadata` in the place of the old one, also while a turn runs. Raises ConversationNotFound."""

        async def step(current: Conversation, _: RowConflict | None) -> Change:
            return Change(replace(current, metadata=metadata))

        return await self._table.change(identifier, step)

    async def delete(self, identifier: str) -> bool:
        """Remove the conversation, its session, and the items that were added by hand; False when there is none.

        Responses stay, with their items. A turn that is running ends as a response without a conversation. When this fails
        half-way or the process dies, the conversation is there as it was or not found any more, and deleting it again removes
        the rest.
        """
        found, known = await self._table.row(identifier), False
        for _ in range(_ATTEMPTS):
            if found is None:
                return known
            known = True
            try:
                await self._delete(identifier, found)
            except RowConflict:  # somebody has written, or another request deletes it too
                found = await self._table.row(identifier)
            else:
                return True
        raise ConversationLocked(identifier)

    async def append(self, identifier: str, items: Sequence[Item]) -> list[Item]:
        """Add items at the end, all or none; returns them as they are stored, each with an id.

        One read and one write; a parallel read more for ids that the caller gives. Raises ConversationNotFound,
        ConversationLocked while a turn runs, and DuplicateItem.
        """
        stored: list[Item] = []
        given = [item["id"] for item in items if "id" in item]

        async def step(current: Conversation, conflict: RowConflict | None) -> Change:
            # A turn row that exists is one that the conversation does not know of: the log is looked at.
            recheck = conflict is not None and conflict.row.startswith("turn.")
            conversation = (await self._table.settled(current, recheck=recheck)).conversation
            self._check_free(conversation)
            present = await self._items.present(conversation.chain, given)
            present |= await self._items.scattered(conversation, given)
            for item_id in given:
                if item_id in present:
                    raise DuplicateItem(item_id)
            conversation, rows, stored[:] = self._with_items(conversation, items)
            return Change(conversation, rows)

        await self._table.change(identifier, step)
        return stored

    async def items(
        self, identifier: str, *, after: str | None = None, descending: bool = True, limit: int = 20
    ) -> tuple[list[Item], bool]:
        """A page of the items, and whether there are more: see ConversationItems.page.

        Raises ConversationNotFound, and ItemNotFound when `after` is no item of it.
        """
        conversation = await self._settled(identifier)
        return await self._items.page(conversation, after, descending=descending, limit=limit)

    async def item(self, identifier: str, item_id: str) -> Item:
        """An item. Raises ConversationNotFound and ItemNotFound."""
        return await self._items.item(await self._settled(identifier), item_id)

    async def delete_item(self, identifier: str, item_id: str) -> Conversation:
        """Remove an item, from what agents remember too, and from the response that it belongs to; the conversation stays.

        Raises ConversationNotFound, ConversationLocked while a turn runs, and ItemNotFound.
        """

        async def step(current: Conversation, _: RowConflict | None) -> Change:
            conversation = (await self._table.settled(current)).conversation
            self._check_free(conversation)
            row = await self._items.row_of(conversation, item_id)
            if row is None:
                raise ItemNotFound(item_id)
            documents, removed = _without(row, item_id)
            rows: list[Operation] = [Replace(row.row, row.fields, documents, row.etag)]
            if foreign_ids(conversation.chain, keys.turn_position(row.row), [removed]):
                rows.append(Delete(keys.item_row(item_id)))
            return Change(replace(conversation, open_calls=await self._open_calls(conversation, removed)), rows)

        return await self._table.change(identifier, step)

    async def _settled(self, identifier: str) -> Conversation:
        conversation = await self._table.get(identifier)
        if conversation is None:
            raise ConversationNotFound(identifier)
        return (await self._table.settled(conversation)).conversation

    def _check_free(self, conversation: Conversation) -> None:
        if conversation.owners or conversation.held_by(self._clock()) is not None:
            raise ConversationLocked(conversation.id)

    def _with_items(
        self, conversation: Conversation, items: Sequence[Item]
    ) -> tuple[Conversation, list[Operation], list[Item]]:
        """The conversation with one more turn, the turn's rows, and the items with their ids."""
        chain, position = conversation.chain, conversation.next
        stored = with_ids(items, response_id(chain, position))
        documents: dict[str, Json] = {"input": list(stored), "output": [], "messages": _messages(stored)}
        turn = Insert(keys.turn_row(MAIN, position), {"added_at": int(self._clock())}, documents)
        # Whoever held the conversation has let it go or was too late: it must not write any more.
        advanced = replace(with_turn(conversation, position, stored), holder=None, until=0.0)
        return advanced, [turn, *item_rows(chain, position, stored, new=True)], stored

    async def _open_calls(self, conversation: Conversation, removed: Item) -> tuple[str, ...]:
        """The open calls without an item: without the call, or with the one that nothing answers any more."""
        call_id = removed.get("call_id")
        if not isinstance(call_id, str):
            return conversation.open_calls
        if open_calls([{"type": "function_call", "call_id": call_id}, removed]):  # it answers nothing
            closed = open_calls([removed])
            return tuple(name for name in conversation.open_calls if name not in closed)
        related: list[Item] = []
        async for _, items in self._items.turns(conversation, 0, descending=False):
            related += [item for item in items if item.get("call_id") == call_id and item["id"] != removed["id"]]
        return tuple(dict.fromkeys([*conversation.open_calls, *open_calls(related)]))

    async def _delete(self, identifier: str, found: Entity) -> None:
        chain = keys.chain_of(identifier)
        partition, store = self._table.partition(chain), self._table.store
        turns, items, notes, session = await gather_all(
            store.query(partition, *keys.turn_range(MAIN), documents=()),
            store.query(partition, *keys.item_range(), documents=()),
            store.query(partition, *keys.chain_metadata_range(), documents=()),
            store.get(partition, keys.session_row(identifier), documents=()),
        )
        added = [row for row in turns if "added_at" in row.fields]
        rows = [*added, *items, *notes, *([session] if session is not None else [])]
        etag = found.etag
        if len(rows) > _BATCH and not found.fields.get("deleted"):
            mark = deleted_row(identifier, etag)
            etag = (await self._table.commit(chain, [mark]))[mark.row]
        batches = [[Delete(row.row, row.etag) for row in batch] for batch in batched(rows, _BATCH, strict=False)] or [
            []
        ]
        for batch in batches[:-1]:
            await self._table.commit(chain, batch)
        await self._table.commit(chain, [*batches[-1], Delete(found.row, etag)])


def _without(row: Entity, item_id: str) -> tuple[dict[str, Json], Item]:
    """The documents of a turn without an item, and the item."""
    documents = dict(row.documents)
    removed: list[Item] = []
    left: list[Item] = []
    for name in ("input", "output"):
        kept: list[Item] = []
        for item in cast("list[Item]", documents.get(name) or []):
            (removed if item["id"] == item_id else kept).append(item)
        documents[name] = cast("Json", kept)
        left += kept
    if "messages" in documents:  # else its agent keeps what it remembers elsewhere
        documents["messages"] = _messages(left)
    return documents, removed[0]


def _messages(items: Sequence[Item]) -> Json:
    """What an agent's history keeps of the items."""
    return [cast("Json", message.to_dict()) for message in messages_from_items(items)]
