"""The row of a conversation: what it says, who has it, and how a turn moves it. Pure, no I/O.

A conversation is a chain, and its items are the turns of the chain's main log. Its row is a checkpoint of that log up to the
position `next`: how many turns there are, and which calls are open. Whoever appends replaces the row in the same transaction,
so that of two writers exactly one gets on. Only the end of a background turn does not touch the row (a change of metadata must
not get in its way): what its turn has written behind the checkpoint is found by its owner, see ConversationTable.settled.

A foreground turn holds the conversation until a time, because its process may die. A background turn holds it exactly as long
as its own response row says that it is running, whatever dies.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from hosting.ids import conversation_id, parse_id
from hosting.responses import open_calls
from hosting.storage import Entity, Insert, Json, Operation, Put, Replace, Scalar, keys

__all__ = [
    "Conversation",
    "ConversationLocked",
    "ConversationNotFound",
    "DuplicateItem",
    "ItemNotFound",
    "decode_conversation",
    "deleted_row",
    "foreign_ids",
    "insert_row",
    "item_rows",
    "new_conversation",
    "owned",
    "replace_row",
    "with_turn",
]

_OWNERS = 12
"""Turns that may run or wait in one conversation. The queue of steered turns is shorter."""

_INDEXED = 64
"""Items of one turn with ids of foreign make that get a row of their own: a transaction takes 100 rows. With more of them in
one turn, items of the conversation are looked for in its log."""

type Item = dict[str, Any]


class ConversationNotFound(LookupError):
    """The scope has no such conversation, or no longer."""


class ConversationLocked(Exception):
    """Another turn has the conversation, or has taken it away meanwhile."""


class ItemNotFound(LookupError):
    """The conversation has no such item."""


class DuplicateItem(ValueError):
    """The conversation has an item with the id `item_id` already."""

    def __init__(self, item_id: str) -> None:
        super().__init__(f"an item {item_id!r} is there already")
        self.item_id = item_id


@dataclass(frozen=True, slots=True)
class Conversation:
    """One version of a conversation's row; `etag` names it."""

    id: str
    created_at: int
    """In seconds since the epoch."""
    metadata: dict[str, str]
    next: int = 0
    """The position behind the last turn that the row knows of."""
    turns: int = 0
    """How many positions before `next` are taken. Not all are: a turn that failed leaves its own free."""
    open_calls: tuple[str, ...] = ()
    """call_ids in the turns before `next` that a client has to answer."""
    holder: str | None = None
    """The response id of the foreground turn that has the conversation until `until`, in seconds since the epoch."""
    until: float = 0.0
    owners: tuple[str, ...] = ()
    """Response ids of background turns. Each has the conversation as long as its response row says that it is running."""
    scattered: bool = False
    """Some items can only be found by reading the log."""
    etag: str = ""

    @property
    def chain(self) -> str:
        return keys.chain_of(self.id)

    @property
    def position(self) -> int:
        """Where the next turn goes: behind all turns, those that run included."""
        return max([self.next, *(parsed.turn + 1 for owner in self.owners if (parsed := parse_id(owner)) is not None)])

    def held_by(self, now: float) -> str | None:
        """The foreground turn that has the conversation at the time `now`."""
        return self.holder if self.until > now else None

    def to_object(self) -> dict[str, Any]:
        """The Conversation object of the API."""
        return {
            "id": self.id,
            "object": "conversation",
            "created_at": self.created_at,
            "metadata": self.metadata,
        }


def new_conversation(metadata: dict[str, str], created_at: int) -> Conversation:
    """A conversation in a chain of its own, not stored yet."""
    return Conversation(conversation_id(), created_at, metadata)


def insert_row(conversation: Conversation) -> Insert:
    """Writes a new conversation."""
    return Insert(keys.conversation_row(conversation.id), *_columns(conversation))


def replace_row(conversation: Conversation) -> Replace:
    """Writes `conversation` over the version of its etag."""
    return Replace(keys.conversation_row(conversation.id), *_columns(conversation), conversation.etag)


def deleted_row(identifier: str, etag: str) -> Replace:
    """Marks it as deleted, while what belongs to it is being removed: it is not found any more."""
    return Replace(keys.conversation_row(identifier), {"deleted": True}, {}, etag)


def decode_conversation(identifier: str, found: Entity) -> Conversation | None:
    """The conversation in its row; None when it is deleted."""
    fields, documents = found.fields, found.documents
    if fields.get("deleted"):
        return None
    return Conversation(
        identifier,
        int(cast("int", fields["created_at"])),
        cast("dict[str, str]", documents.get("metadata") or {}),
        next=int(cast("int", fields["next"])),
        turns=int(cast("int", fields["turns"])),
        open_calls=tuple(cast("list[str]", documents.get("open_calls") or [])),
        holder=cast("str | None", fields.get("holder")),
        until=float(cast("float", fields.get("until", 0.0))),
        owners=tuple(cast("list[str]", documents.get("owners") or [])),
        scattered=bool(fields.get("scattered")),
        etag=found.etag,
    )


def _columns(conversation: Conversation) -> tuple[dict[str, Scalar], dict[str, Json]]:
    fields: dict[str, Scalar] = {
        "created_at": conversation.created_at,
        "next": conversation.next,
        "turns": conversation.turns,
    }
    if conversation.holder is not None:
        fields |= {"holder": conversation.holder, "until": conversation.until}
    if conversation.scattered:
        fields["scattered"] = True
    documents: dict[str, Json] = {"metadata": cast("Json", conversation.metadata)}
    for name, values in (("open_calls", conversation.open_calls), ("owners", conversation.owners)):
        if values:
            documents[name] = list(values)
    return fields, documents


def with_turn(conversation: Conversation, position: int, items: Sequence[Item]) -> Conversation:
    """The conversation with a turn of these items, at a position that is not before `next`."""
    waiting = [{"type": "function_call", "call_id": call_id} for call_id in conversation.open_calls]
    foreign = foreign_ids(conversation.chain, position, items)
    return replace(
        conversation,
        next=position + 1,
        turns=conversation.turns + 1,
        open_calls=tuple(dict.fromkeys(open_calls([*waiting, *items]))),
        scattered=conversation.scattered or len(foreign) > _INDEXED,
    )


def owned(conversation: Conversation, response: str, *, now: float) -> Replace:
    """For the transaction that accepts a background turn: the conversation with one more owner.

    `conversation` is as `ConversationTurns.read` gave it, so its owners are those that run. Raises ConversationLocked when a
    foreground turn has it, or when too many wait; the transaction raises RowChanged when another writer was faster.
    """
    if conversation.held_by(now) is not None or len(conversation.owners) >= _OWNERS:
        raise ConversationLocked(conversation.id)
    return replace_row(replace(conversation, holder=None, until=0.0, owners=(*conversation.owners, response)))


def foreign_ids(chain: str, position: int, items: Iterable[Item]) -> list[str]:
    """The ids of items of a turn that do not say where the turn is: clients and handlers may make ids of their own."""
    found: list[str] = []
    for item in items:
        parsed = parse_id(item["id"])
        if parsed is None or (parsed.chain, parsed.turn) != (chain, position):
            found.append(item["id"])
    return found


def item_rows(chain: str, position: int, items: Iterable[Item], *, new: bool = False) -> list[Operation]:
    """For the transaction that writes a turn: where its items with ids of foreign make are. `new` refuses ids that exist."""
    make = Insert if new else Put
    ids = dict.fromkeys(foreign_ids(chain, position, items))
    return [make(keys.item_row(identifier), {"position": position}) for identifier in list(ids)[:_INDEXED]]
