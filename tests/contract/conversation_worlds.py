"""What the suites of conversations share: one scope over a twin of storage, and turns as a server would write them."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from itertools import batched
from typing import Any

import pytest

from hosting.ids import conversation_id, item_id, response_id
from hosting.responses import normalize_input, with_ids
from hosting.state import TaskRef, Turn, TurnRecord, Turns
from hosting.state.conversation_row import Conversation, item_rows, owned, replace_row
from hosting.state.conversation_turns import ConversationPast, ConversationTurns
from hosting.state.conversations import Conversations
from hosting.state.lineage import MAIN, Place
from hosting.state.response_row import response_columns, running_columns
from hosting.storage import Insert, Operation, Put, Replace, Store, keys
from tests.contract.storage_twins import TWINS, fresh, open_twin

type Item = dict[str, Any]

NAMES = "conversations"


class Clock:
    """A time that tests set."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class World:
    """One scope."""

    store: Store
    scope: str = field(default_factory=lambda: keys.scope(fresh(), None))
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.conversations = Conversations(self.store, self.scope, self.clock)
        self.turns = ConversationTurns(self.store, self.scope, self.clock)
        self.responses = Turns(self.store, self.scope)

    async def begin(self, *texts: str, metadata: dict[str, str] | None = None) -> str:
        """A new conversation with one user message per text; its id."""
        return (await self.conversations.create(metadata or {}, users(*texts))).id

    async def add(self, identifier: str, *texts: str) -> list[Item]:
        return await self.conversations.append(identifier, users(*texts))

    async def texts(self, identifier: str, **options: Any) -> list[str]:
        """The texts of all items, oldest first unless the options say otherwise."""
        items, _ = await self.conversations.items(identifier, **{"descending": False, "limit": 100, **options})
        return [text_of(item) for item in items]

    async def remembered(self, identifier: str) -> list[str]:
        """The texts that an agent with table history would be given now."""
        past = await self.turns.read(identifier, history=True)
        return [content["text"] for message in past.turn().history or [] for content in message["contents"]]  # type: ignore[index, union-attr, call-overload]

    async def partition(self, identifier: str) -> list[str]:
        """The keys of all rows in the partition of a conversation."""
        partition = keys.partition_key(self.scope, keys.chain_of(identifier))
        return [row.row for row in await self.store.query(partition, "", "~", documents=())]

    # A foreground turn

    async def say(self, identifier: str, text: str, answer: str, *extra: Item) -> Turn:
        """A whole foreground turn."""
        past = await self.turns.read(identifier, history=True)
        turn = past.turn()
        held = await self.turns.hold(past.conversation, turn.response_id, self.clock.now + 60)
        await self.finish(held, turn, text, answer, *extra)
        return turn

    async def finish(self, held: Conversation, turn: Turn, text: str, answer: str, *extra: Item) -> Conversation:
        record = record_of(turn, text, answer, *extra)
        items = [*record.input, *record.response["output"]]
        return await self.turns.commit(held, turn.response_id, self.rows(turn, record, MAIN), items)

    def rows(self, turn: Turn, record: TurnRecord, log: str) -> list[Operation]:
        place = Place(turn.place.chain, log, turn.place.turn)
        columns = response_columns(record, place, turn.before)
        return [
            *self.responses.rows(turn.response_id, record, place),
            Insert(keys.response_row(turn.response_id), *columns),
        ]

    async def many_turns(self, conversation: Conversation, until: int) -> None:
        """Turns of one item each, up to a position: many transactions at once, not one after the other."""
        partition = keys.partition_key(self.scope, conversation.chain)
        positions = range(conversation.next, until)
        inserts = [
            Insert(keys.turn_row(MAIN, position), {}, _short_turn(conversation, position)) for position in positions
        ]
        for batch in batched(inserts, 100, strict=False):
            await self.store.commit(partition, batch)
        ahead = replace(conversation, next=until, turns=conversation.turns + len(positions))
        await self.store.commit(partition, [replace_row(ahead)])

    # A background turn

    async def accept(self, past: ConversationPast) -> Turn:
        """The transaction that accepts a background turn."""
        turn = past.turn()
        response = {"id": turn.response_id, "status": "queued", "output": []}
        task = TaskRef(turn.response_id, 0, stream=False)
        await self.store.commit(
            keys.partition_key(self.scope, turn.place.chain),
            [
                Insert(
                    keys.response_row(turn.response_id), *running_columns(response, [], turn.place, turn.before, task)
                ),
                owned(past.conversation, turn.response_id, now=self.clock.now),
            ],
        )
        return turn

    async def queue(self, identifier: str) -> Turn:
        return await self.accept(await self.turns.read(identifier, history=False))

    async def end(self, turn: Turn, text: str, answer: str, *extra: Item, status: str = "completed") -> None:
        """The final transaction of a background turn: it does not touch the row of the conversation."""
        record = record_of(turn, text, answer, *extra, status=status)
        log = MAIN if record.continues else turn.response_id[-24:]
        found = await self.responses.response(turn.response_id)
        assert found is not None
        columns = response_columns(record, Place(turn.place.chain, log, turn.place.turn), turn.before)
        rows = self.responses.rows(turn.response_id, record, Place(turn.place.chain, log, turn.place.turn))
        items = [*record.input, *record.response["output"]]
        if record.continues:
            rows += item_rows(turn.place.chain, turn.place.turn, items)
        final = Replace(keys.response_row(turn.response_id), *columns, found.etag)
        await self.store.commit(keys.partition_key(self.scope, turn.place.chain), [*rows, final])

    async def set_session(self, identifier: str, session: Any) -> None:
        partition = keys.partition_key(self.scope, keys.chain_of(identifier))
        await self.store.commit(partition, [Put(keys.session_row(identifier), {}, {"session": session})])


def _short_turn(conversation: Conversation, position: int) -> dict[str, Any]:
    text = str(position)
    items = with_ids(users(text), response_id(conversation.chain, position))
    message = {"type": "message", "role": "user", "contents": [{"type": "text", "text": text}]}
    return {"input": items, "output": [], "messages": [message]}


def users(*texts: str) -> list[Item]:
    """User messages without ids, in the normal form."""
    return normalize_input([{"role": "user", "content": text} for text in texts])


def user(text: str, **fields: Any) -> list[Item]:
    return normalize_input([{"role": "user", "content": text, **fields}])


def call(call_id: str, **fields: Any) -> Item:
    return normalize_input([{"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}", **fields}])[0]


def answer_to(call_id: str, **fields: Any) -> Item:
    return normalize_input([{"type": "function_call_output", "call_id": call_id, "output": "ok", **fields}])[0]


def record_of(turn: Turn, text: str, answer: str, *extra: Item, status: str = "completed") -> TurnRecord:
    given = [{"id": item_id("msg", turn.response_id), **item} for item in users(text)]
    content = [{"type": "output_text", "text": answer, "annotations": []}]
    made = {"id": item_id("msg", turn.response_id), "type": "message", "role": "assistant", "status": "completed"}
    output = [{**made, "content": content}, *({"id": item_id("fc", turn.response_id), **item} for item in extra)]
    response = {"id": turn.response_id, "status": status, "output": output}
    messages: list[Any] = [
        {"type": "message", "role": role, "contents": [{"type": "text", "text": said}]}
        for role, said in (("user", text), ("assistant", answer))
    ]
    return TurnRecord(response, given, messages, continues=status in ("completed", "incomplete"))


def text_of(item: Item) -> str:
    return "".join(part.get("text", "") for part in item["content"]) if item["type"] == "message" else item["type"]


def unknown_conversation() -> str:
    return conversation_id()


@pytest.fixture(params=TWINS)
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    async with open_twin(request.param, request, NAMES) as twin:
        yield World(twin.store)
