"""A whole app's storage in memory, with a clock that the test moves, and retention over it."""

from typing import Any

from hosting.functions.retention import make_retention
from hosting.ids import item_id, parse_id, response_id
from hosting.settings import load_settings
from hosting.state import TaskRef, Turn, TurnRecord, Turns
from hosting.state.lineage import extend
from hosting.state.response_row import running_columns
from hosting.state.retention import Report, Retention, TickLimits
from hosting.storage import Insert, MemoryAppendBlobs, MemoryBlobs, MemoryTables, Meter, Operation, Put, Store, keys
from hosting.streaming import StreamRegistry
from hosting.tasks._record import Record, Slot
from hosting.tasks._rows import Key, encode_record
from hosting.testing import VirtualClock

DAY, HOUR = 86_400.0, 3_600.0
TENANT = keys.scope("tenant", None)
BIG = 400_000
"""Characters that spill."""


class World:
    """`env` are settings of the app."""

    def __init__(self, **env: str) -> None:
        self.clock = VirtualClock()
        now = self.clock.now
        self.meter = Meter()
        self.tables, self.blobs = MemoryTables(self.meter, now), MemoryBlobs(self.meter, now)
        self.store = Store(self.tables, self.blobs, self.meter)
        self.appends = MemoryAppendBlobs(self.meter, now)
        self.settings = load_settings(env)
        self.scope = TENANT
        self.registry = StreamRegistry(clock=now)
        self.registry.use_blob_replay(
            lambda: self.appends, scope=lambda: self.scope, cursor_fn=lambda event: event["n"], ttl_seconds=None
        )

    async def days(self, days: float) -> None:
        """Let time go by."""
        await self.clock.advance(days * DAY)

    def retention(self, store: Store | None = None, limits: TickLimits | None = None) -> Retention:
        """One process's."""
        used = store or self.store
        return make_retention(self.settings, used, self.appends, clock=self.clock.now, limits=limits)

    async def retain(self, **limits: float) -> Report:
        """A whole pass."""
        chosen = TickLimits(**{"between_passes": 0.0, **limits})  # type: ignore[arg-type]
        report = await self.retention(limits=chosen).run()
        assert report.finished
        return report

    # --- what is stored ---------------------------------------------------------------------------------------------

    def turns(self, scope: str = TENANT) -> Turns:
        return Turns(self.store, scope)

    async def say(self, text: str, previous: str | None = None, *, scope: str = TENANT, **record: Any) -> str:
        """A turn; its response id."""
        turns = self.turns(scope)
        turn = await turns.begin(previous, history=True)
        await turns.commit(turn, turn_record(turn, text, **record))
        return turn.response_id

    async def heard(self, previous: str, scope: str = TENANT) -> list[Any]:
        """What a turn after `previous` would know of the conversation. Only reads: to begin a fork is a write."""
        turns = self.turns(scope)
        stored = await turns.response(previous)
        assert stored is not None
        history = await turns.history(Turn(previous, stored.place, before=extend(stored.before, stored.place)))
        return [message["text"] for message in history]  # type: ignore[index,call-overload]

    async def running(self, status: str, *, task: str | None = "in_progress", previous: str | None = None) -> str:
        """A response that runs in the background, with a task in this state (None: there is no record of it)."""
        turn = await self.turns().begin(previous, history=False)
        ref = TaskRef(turn.response_id, 1, True)
        response = {"id": turn.response_id, "status": status, "output": []}
        rows: list[Operation] = [
            Insert(keys.response_row(turn.response_id), *running_columns(response, [], turn.place, turn.before, ref))
        ]
        key = Key(TENANT, turn.response_id)
        if task is not None:
            rows.append(Insert(key.record_row, encode_record(record_of(task))))
        await self.store.commit(key.partition, rows)
        return turn.response_id

    async def put(self, partition: str, row: str, fields: Any = None, documents: Any = None) -> None:
        await self.store.commit(partition, [Put(row, fields or {}, documents or {})])

    async def stream(self, identifier: str, events: int = 3, *, close: bool = True, scope: str = TENANT) -> None:
        self.scope = scope
        stream = await self.registry.take_over(identifier)
        for n in range(events):
            await stream.emit({"n": n, "text": "said"})
        await stream.flush()
        if close:
            await stream.close()

    # --- what is left -----------------------------------------------------------------------------------------------

    async def exists(self, identifier: str, scope: str = TENANT) -> bool:
        return await self.turns(scope).response(identifier) is not None

    def rows(self, partition: str | None = None) -> list[str]:
        """All row keys, but for the cursor."""
        return sorted(
            row
            for name, held in self.tables._partitions.items()
            if partition in (None, name) and name != "retention"
            for row in held.rows
        )

    def streams(self) -> set[str]:
        """The ids of the streams that are stored."""
        return {name.split("/")[2] for name in self.appends._blobs}

    def values(self) -> list[str]:
        return sorted(self.blobs._blobs)

    def everything(self) -> str:
        """All that is stored anywhere, as text."""
        rows = [str(row) for held in self.tables._partitions.values() for row in held.rows.values()]
        blobs = [data.decode() for data in self.blobs._blobs.values()]
        streams = [bytes(blob.data).decode() for blob in self.appends._blobs.values()]
        return "\n".join([*rows, *blobs, *streams])


def turn_record(turn: Turn, text: str, **fields: Any) -> TurnRecord:
    message = {"id": item_id("msg", turn.response_id), "type": "message", "text": text}
    response = {"id": turn.response_id, "status": fields.pop("status", "completed"), "output": [message]}
    return TurnRecord(response, [message], [{"text": text}], **fields)


def record_of(status: str, **fields: Any) -> Record:
    active = Slot(1, "i", "n", "fresh") if status == "in_progress" else None
    return Record("retention_any", "a title", "one_shot", status, active, **fields)  # type: ignore[arg-type]


def partition_of(identifier: str, scope: str = TENANT) -> str:
    parsed = parse_id(identifier)
    assert parsed is not None
    return keys.partition_key(scope, parsed.chain)


def new_response_id() -> str:
    return response_id()
