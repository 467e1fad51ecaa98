"""An account with several tenants in it, over both twins, and the operator beside the app."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hosting.admin.account import Account
from hosting.ids import item_id, response_id
from hosting.state import TaskRef, TurnRecord, Turns
from hosting.state.conversation_row import insert_row, new_conversation
from hosting.state.idempotency import IdempotencyKeys
from hosting.state.lineage import MAIN, Place
from hosting.state.response_row import running_columns
from hosting.state.usage_counters import SharedBucket, TokenBucket
from hosting.storage import AppendBlobs, Insert, MemoryAppendBlobs, RawOperation, connect_append_blobs, keys
from hosting.streaming import StreamRegistry
from hosting.tasks import TaskContext, task
from hosting.tasks._engine import Engine
from hosting.tasks._options import TaskOptions
from hosting.tasks._rows import Key
from hosting.tasks.engine import StartRequest
from tests.contract.storage_twins import Twin, open_twin

__all__ = ["BIG", "AdminWorld", "Nobody", "Snapshot", "open_admin_world"]

BIG = "x" * 400_000
"""Too long for a row: it goes to a blob."""

type Snapshot = dict[str, str]
"""Everything that is stored: names and versions."""


@task(name="tests.admin.job")
async def job(ctx: TaskContext[str]) -> str:
    return ctx.input


class Nobody:
    """A driver that drives nothing."""

    async def ensure(self, key: Key, activation: int, generation: int) -> None:
        pass


class AdminWorld:
    """See the module."""

    def __init__(self, twin: Twin, appends: AppendBlobs) -> None:
        self.twin, self.store, self.appends = twin, twin.store, appends
        self.engine = Engine(twin.store, Nobody(), options=TaskOptions())
        self.account = Account("the account", twin.store, appends, self.engine)

    async def say(self, scope: str, text: str = "hi", *, created_at: int = 1_700_000_000, **more: Any) -> str:
        """A turn that has ended."""
        turns = Turns(self.store, scope)
        turn = await turns.begin(None, history=True)
        item = {"id": item_id("msg", turn.response_id), "type": "message", "text": text}
        response = {"id": turn.response_id, "status": "completed", "created_at": created_at, "output": [item], **more}
        await turns.commit(turn, TurnRecord(response, [item], [{"text": text}]))
        return turn.response_id

    async def converse(self, scope: str, created_at: int = 1_700_000_000) -> str:
        """A conversation without a turn."""
        conversation = new_conversation({"topic": "secret"}, created_at)
        await self.store.commit(keys.partition_key(scope, conversation.chain), [insert_row(conversation)])
        return conversation.id

    async def start(self, scope: str, *, status: str = "in_progress", **more: Any) -> str:
        """A background response that has not ended, with its task, its index row and its stream."""
        identifier = response_id()
        place = Place(identifier.removeprefix("resp_")[:18], MAIN, 0)
        response = {
            "id": identifier,
            "status": status,
            "background": True,
            "created_at": 1_700_000_001,
            "output": [],
            **more,
        }
        columns = running_columns(response, [], place, (), TaskRef(identifier, 1, True))
        row = Insert(keys.response_row(identifier), *columns)
        request = StartRequest(job.declared, Key(scope, identifier), identifier, "input", known_new=True)
        await self.engine.start(request, lambda _: [row])
        stream = await self.streams(scope).take_over(identifier)
        await stream.emit({"sequence_number": 2})
        await stream.flush()
        return identifier

    async def fill(self, scope: str) -> None:
        """One of everything that a tenant can have."""
        response = await self.say(scope, BIG)
        await self.converse(scope)
        await self.start(scope)
        await IdempotencyKeys(self.store, scope).claim("key", "digest", response, time.time())
        await SharedBucket(self.store, scope, TokenBucket(10)).take(1, time.time())
        key = Key(scope, "a job of the app")
        await self.engine.start(StartRequest(job.declared, key, "input-1", "input", known_new=True))
        await self.twin.blobs.put(f"values/{key.partition}/turn.main.00000000/input-1-2", b"left behind")

    async def look_alikes(self, scope: str) -> None:
        """What begins as the scope's own names do, and isn't its own."""
        for partition in (scope, f"{scope}0-{'0' * 18}", f"{scope}.{'0' * 18}", f"{scope[:-1]}-{'0' * 18}"):
            await self.twin.tables.transact(partition, [RawOperation("put", "turn.main.00000000", {"fields": "{}"})])
            await self.twin.blobs.put(f"values/{partition}/turn.main.00000000/input-1-2", b"of somebody else")
        for name in (f"streams/{scope}0/x/0.jsonl", f"streams/{scope[:-1]}/x/0.jsonl", f"streams/{scope}.jsonl"):
            await self.appends.create(name)

    def streams(self, scope: str) -> StreamRegistry:
        """The streams of a scope, in a process of their own."""
        registry = StreamRegistry()
        registry.use_blob_replay(
            lambda: self.appends, scope=lambda: scope, cursor_fn=lambda event: event["sequence_number"]
        )
        return registry

    async def snapshot(self, *, without: Sequence[str] = ()) -> Snapshot:
        """All that is stored, but for what belongs to these scopes."""
        found: Snapshot = {}
        token: str | None = None
        while True:
            page = await self.twin.tables.scan(None, token)
            for row in page.items:
                of_task = row.raw.partition.startswith("active-") and any(
                    scope in row.raw.properties["fields"] for scope in without
                )
                if not of_task and not row.raw.partition.startswith(tuple(f"{scope}-" for scope in without)):
                    found[f"{row.raw.partition}|{row.raw.row}"] = row.raw.etag
            if (token := page.next) is None:
                break
        theirs = tuple(prefix for scope in without for prefix in (f"values/{scope}-", f"streams/{scope}/"))
        names = {*await self.twin.blobs.list(""), *(info.name for info in await self.appends.list(""))}
        return found | {name: "" for name in names if not name.startswith(theirs)}


@asynccontextmanager
async def open_admin_world(request: pytest.FixtureRequest, kind: str, names: str) -> AsyncIterator[AdminWorld]:
    """An account of its own."""
    async with open_twin(kind, request, names) as twin:
        if kind == "memory":
            appends: AppendBlobs = MemoryAppendBlobs()
        else:
            connection = request.getfixturevalue("azurite").connection_string
            appends = connect_append_blobs({"AzureWebJobsStorage": connection}, container=names)
        try:
            yield AdminWorld(twin, appends)
        finally:
            await appends.close()
