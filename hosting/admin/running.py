"""What is at work or waits to be, of all tenants: from the index of active work, which the recovery scan reads too."""

import heapq
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from hosting.gather import gather_at_most
from hosting.ids import parse_id
from hosting.storage import AgedEntity, Aging, CorruptValue
from hosting.tasks.engine import INDEX_PARTITIONS, Key, Record
from hosting.tasks.host import Engine

__all__ = ["Found", "RunningLine", "State", "oldest_running"]

_AT_ONCE = 16

type State = Literal["running", "lapsed", "backing off", "waiting", "queued", "ended", "unreadable"]
"""`running`: a process has the lease. `lapsed`: the one that had it is gone, and none has taken it over. `backing off`: until
its next attempt. `waiting`: for somebody to take it up. `queued`: behind another input of its task. `ended`: its index row is
left over, and the recovery scan removes it."""


@dataclass(frozen=True, slots=True)
class RunningLine:
    """An input that has not ended. None is for what it does not have, or what can't be read."""

    scope: str
    """The digest that `--scope` takes."""
    response: str | None
    """None for a task that runs no response."""
    task: str
    """The task's id."""
    name: str | None
    """As its task is declared."""
    age: int
    """Seconds since it was accepted."""
    state: State
    lease: int | None
    """Seconds for which the lease still holds; below 0: since it has lapsed."""
    crashes: int | None
    """How many processes have died at it. Those that stopped in order are not among them."""


@dataclass(frozen=True, slots=True)
class Found:
    """The oldest ones, the very oldest first, and how many there are in all."""

    lines: list[RunningLine]
    total: int


@dataclass(frozen=True, slots=True)
class _Entry:
    """A row of the index. `age` in seconds."""

    age: float
    key: Key
    nonce: str


async def oldest_running(engine: Engine, most: int) -> Found:
    """The `most` oldest of them. One request for each 1,000 rows of the index, 16 at least, and a read for each task of those
    that are shown, some at a time; memory does not grow with the others. Raises StorageError."""
    now, total = engine.clock.now(), 0
    kept: list[tuple[float, int, _Entry]] = []  # a heap, its youngest first
    async for row in _index(engine):
        entry = _entry(row, now)
        total += 1
        heapq.heappush(kept, (entry.age, total, entry))
        if len(kept) > most:
            heapq.heappop(kept)
    entries = [entry for _, _, entry in sorted(kept, key=lambda item: (-item[0], item[1]))]
    records = await _records(engine, {entry.key for entry in entries})
    return Found([_line(entry, records[entry.key], engine, now) for entry in entries], total)


async def _index(engine: Engine) -> AsyncGenerator[AgedEntity]:
    aging = Aging(engine.store)
    for partition in INDEX_PARTITIONS:
        async for page in aging.partition(partition):
            for row in page:
                yield row


def _entry(row: AgedEntity, now: float) -> _Entry:
    """A row that can't be decoded is as old as its last write, and its task is unknown."""
    created = row.fields.get("created_at")
    born = float(created) if isinstance(created, int | float) else row.written
    key = Key(str(row.fields.get("scope", "")), str(row.fields.get("task_id", "")))
    return _Entry(max(0.0, now - born), key, str(row.fields.get("nonce", "")))


async def _records(engine: Engine, keys: Iterable[Key]) -> dict[Key, Record | State]:
    """What is known of each task; "ended" for one without a record."""

    async def read(key: Key) -> tuple[Key, Record | State]:
        try:
            return key, await engine.record(key) or "ended"
        except (CorruptValue, ValueError):  # the record, or the scope in the index row: no reason to show no other
            return key, "unreadable"

    return dict(await gather_at_most(_AT_ONCE, [partial(read, key) for key in keys]))


def _line(entry: _Entry, record: Record | State, engine: Engine, now: float) -> RunningLine:
    key, age = entry.key, int(entry.age)
    if isinstance(record, str):
        response = key.task_id if parse_id(key.task_id, "resp") else None
        return RunningLine(key.scope, response, key.task_id, None, age, record, None, None)
    active = record.active is not None and record.active.nonce == entry.nonce
    slot = record.active if active else next((s for s in record.queue if s.nonce == entry.nonce), None)
    response = slot.input_id if slot is not None and parse_id(slot.input_id, "resp") else None
    lease = int(record.lease_expires - now) if active and record.lease_owner is not None else None
    state: State
    if slot is None:
        state = "ended"
    elif not active:
        state = "queued"
    elif lease is not None:
        state = "running" if now < record.lease_expires + engine.options.skew.total_seconds() else "lapsed"
    else:
        state = "backing off" if record.not_before > now else "waiting"
    crashes = record.crashes if active else None
    return RunningLine(key.scope, response, key.task_id, record.name, age, state, lease, crashes)
