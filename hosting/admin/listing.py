"""What a scope has stored, in the order of ids, page by page: memory does not grow with the number of rows."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from hosting.gather import gather_at_most
from hosting.state.response_row import RUNNING
from hosting.storage import CorruptValue, Entity, Page, ScopeRows
from hosting.tasks.engine import Key
from hosting.tasks.host import Engine

__all__ = ["ConversationLine", "ResponseLine", "list_conversations", "list_responses"]

_RESPONSES, _CONVERSATIONS = ("response.", "response/"), ("conversation.", "conversation/")
_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class ResponseLine:
    """A response. None is for what it does not have, or what can't be read."""

    id: str
    status: str | None
    created_at: int | None
    """In seconds since the epoch."""
    conversation: str | None
    task: str | None
    """The id of the task that runs it; None for one that ran with its request."""
    crashes: int | None
    """How many processes have died at it, while it runs. Those that stopped in order are not among them."""


@dataclass(frozen=True, slots=True)
class ConversationLine:
    """A conversation."""

    id: str
    created_at: int | None
    """In seconds since the epoch."""
    turns: int | None
    """As its row says: one that has just ended may not be counted yet."""


async def list_responses(engine: Engine, scope: str, *, running: bool = False) -> AsyncGenerator[ResponseLine]:
    """The responses of a scope, or those that have not ended. A request for each page of rows, and a read or two for each one
    that runs. Raises StorageError."""
    documents = () if running else ("response",)  # of those that run it is read later: they are few
    async for page in _pages(engine, scope, _RESPONSES, documents):
        rows = [row for row in page.items if not running or row.fields.get("status") in RUNNING]
        for line in await gather_at_most(_AT_ONCE, [partial(_response, engine, scope, row) for row in rows]):
            yield line


async def list_conversations(engine: Engine, scope: str) -> AsyncGenerator[ConversationLine]:
    """The conversations of a scope. Raises StorageError."""
    async for page in _pages(engine, scope, _CONVERSATIONS, ()):
        for row in page.items:
            if not row.fields.get("deleted"):
                yield ConversationLine(_id(row), _number(row, "created_at"), _number(row, "turns"))


async def _pages(
    engine: Engine, scope: str, rows: tuple[str, str], documents: tuple[str, ...]
) -> AsyncGenerator[Page[Entity]]:
    scan, token = ScopeRows(engine.store, scope), None
    while True:
        page = await scan.page(token, first=rows[0], last=rows[1], documents=documents)
        yield page
        if (token := page.next) is None:
            return


async def _response(engine: Engine, scope: str, row: Entity) -> ResponseLine:
    status, task = _text(row, "status"), _text(row, "task")
    crashes = await _crashes(engine, Key(scope, task), row) if task is not None and status in RUNNING else None
    return ResponseLine(_id(row), status, await _created(engine, row), _text(row, "conversation"), task, crashes)


async def _crashes(engine: Engine, key: Key, row: Entity) -> int | None:
    try:
        record = await engine.record(key)
    except CorruptValue:  # a broken row is no reason to show no other
        return None
    # A task of several turns counts for the one that is at work.
    if record is None or record.active is None or record.active.seq != row.fields.get("seq"):
        return None
    return record.crashes


async def _created(engine: Engine, row: Entity) -> int | None:
    document = row.documents.get("response")
    if document is None:  # not asked for, or too large for the row
        try:
            found = await engine.store.get(row.partition, row.row, documents=("response",))
        except CorruptValue:
            return None
        document = None if found is None else found.documents.get("response")
    created = cast("dict[str, Any]", document).get("created_at") if isinstance(document, dict) else None
    return created if isinstance(created, int) else None


def _id(row: Entity) -> str:
    """Ids of our grammar stand in a row key as they are."""
    return row.row.partition(".")[2]


def _text(row: Entity, name: str) -> str | None:
    value = row.fields.get(name)
    return value if isinstance(value, str) else None


def _number(row: Entity, name: str) -> int | None:
    value = row.fields.get(name)
    return value if isinstance(value, int) else None
