"""The sweep over the table: rows that expire by themselves, and chains that expire as a whole.

A chain (a partition) lives as long as its newest row: a conversation that goes on needs its first turn, however old. It is
removed when nothing in it was written for the lifetime, nothing in it runs, and no chain that has grown out of it is left.
The looks cost a request for each chain that has an old row, and nothing for the others.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from itertools import batched, groupby
from typing import Protocol

from hosting.gather import gather_at_most
from hosting.ids import parse_id
from hosting.state.response_row import RUNNING
from hosting.storage import (
    AgedEntity,
    Aging,
    Delete,
    Older,
    RowConflict,
    Scalar,
    StorageError,
    StorageUnavailable,
    Store,
    keys,
)

__all__ = ["ANY_ROW", "IDEMPOTENCY", "Lifetimes", "RowSweep", "TaskRows", "response_runs"]

_log = logging.getLogger("hosting.retention")

ANY_ROW = ("", "~")
IDEMPOTENCY = ("idempotency.", "idempotency/")
_CONVERSATION = "conversation."
_ENTRANCES = ("response.", _CONVERSATION, "task.")
"""Rows by which a client or a task comes to the others."""
_AT_ONCE = 16
_OPERATIONS = 100


class TaskRows(Protocol):
    """What has to be known of tasks (`hosting/tasks/retention.py`)."""

    @property
    def outcomes(self) -> tuple[str, str]:
        """The row keys of outcomes: `first <= row < last`."""
        ...

    def record_row(self, scope: str, task_id: str) -> str:
        """The row of a task's record."""
        ...

    def is_record(self, row: str) -> bool:
        """Whether a row is the record of a task."""
        ...

    def in_progress(self, fields: Mapping[str, Scalar]) -> bool:
        """Whether the task of a record is at work, or about to be."""
        ...

    def expires(self, fields: Mapping[str, Scalar]) -> float:
        """When an outcome may go, in seconds since the epoch."""
        ...


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """In seconds; None is for ever."""

    chains: float | None
    """Of a chain, from the last write to it: its responses, items, sessions, tasks, and all else."""
    conversations: float | None
    """The same for a chain that is a Conversation."""
    outcomes: float
    """Of a task's outcome. (Each row says when it expires; this is when to begin to look at it.)"""
    idempotency: float
    """Of an `Idempotency-Key`, from its last claim."""

    @property
    def shortest(self) -> float | None:
        """The least that a chain is kept, whatever it is."""
        return min((life for life in (self.chains, self.conversations) if life is not None), default=None)


class RowSweep:
    """`page` is the sweep. `clock` tells the time in seconds since the epoch."""

    def __init__(self, store: Store, tasks: TaskRows, lifetimes: Lifetimes, clock: Callable[[], float]) -> None:
        self._store, self._aging, self._tasks = store, Aging(store), tasks
        self._lifetimes, self._clock = lifetimes, clock

    async def page(self, token: str | None) -> tuple[str | None, int]:
        """See `hosting.state.retention.Sweep`: rows removed."""
        now = self._clock()
        page = await self._aging.scan(self._older(now), token)
        chains = [(name, list(rows)) for name, rows in groupby(page.items, lambda row: row.partition)]

        async def look(partition: str, rows: Sequence[AgedEntity]) -> int:
            try:
                return await self._look(partition, rows, now)
            except StorageUnavailable:
                raise
            except StorageError as error:
                _log.error("a chain is left to the next pass", exc_info=error)
                return 0

        # Partitions of other kinds (the index of tasks, our own cursor) are looked after by those who write them.
        looks = [partial(look, name, rows) for name, rows in chains if keys.parse_partition(name)]
        return page.next, sum(await gather_at_most(_AT_ONCE, looks))

    def _older(self, now: float) -> list[Older]:
        older = [
            Older(*IDEMPOTENCY, now - self._lifetimes.idempotency),
            Older(*self._tasks.outcomes, now - self._lifetimes.outcomes),
        ]
        shortest = self._lifetimes.shortest
        return older if shortest is None else [*older, Older(*ANY_ROW, now - shortest)]

    async def _look(self, partition: str, rows: Sequence[AgedEntity], now: float) -> int:
        """Remove of a chain what has expired; `rows` are its old ones, or some of them."""
        single = [row for row in rows if self._expires_alone(row, now)]
        removed = await self._remove(partition, single)
        shortest = self._lifetimes.shortest
        if shortest is None or len(single) == len(rows):
            return removed
        whole = await self._whole_if_expired(partition, now, shortest)
        return removed + await self._remove(partition, whole)

    def _expires_alone(self, row: AgedEntity, now: float) -> bool:
        first, last = self._tasks.outcomes
        if first <= row.row < last:
            return self._tasks.expires(row.fields) <= now
        return IDEMPOTENCY[0] <= row.row < IDEMPOTENCY[1] and row.written < now - self._lifetimes.idempotency

    async def _whole_if_expired(self, partition: str, now: float, shortest: float) -> list[AgedEntity]:
        """All rows of a chain in the order in which to remove them; none when it has to stay."""
        rows: list[AgedEntity] = []
        async with aclosing(self._aging.partition(partition)) as pages:
            async for page in pages:
                if any(row.written >= now - shortest for row in page):
                    return []  # no need to read on
                rows += page
        # What is left of one that is deleted are its responses, and what a deletion that died has not come to.
        conversation = any(row.row.startswith(_CONVERSATION) and not row.fields.get("deleted") for row in rows)
        life = self._lifetimes.conversations if conversation else self._lifetimes.chains
        if life is None or any(row.written >= now - life for row in rows):
            return []
        scope = partition.partition("-")[0]
        if self._runs(scope, rows) or await self._is_needed(scope, rows):
            return []
        # What leads to the rest goes first, the newest before the older: so, if this ends half-way, nobody can come in by a
        # response whose history is gone; what is left is as old as before, and found by the next pass.
        return sorted(rows, key=lambda row: (row.row.startswith(_ENTRANCES), row.row), reverse=True)

    def _runs(self, scope: str, rows: Sequence[AgedEntity]) -> bool:
        """Whether anything is at work in a chain, or waits to be."""
        records = {row.row: row.fields for row in rows if self._tasks.is_record(row.row)}
        if any(self._tasks.in_progress(fields) for fields in records.values()):
            return True
        for row in rows:
            if row.row.startswith("response.") and row.fields.get("status") in RUNNING:
                # A response that never got its end although its task did will not get it any more.
                record = self._tasks.record_row(scope, str(row.fields.get("task", "")))
                if record not in records:
                    return True
        return False

    async def _is_needed(self, scope: str, rows: Sequence[AgedEntity]) -> bool:
        """Whether a chain that has grown out of this one is still there: its turns begin here."""
        forks = [chain for row in rows if (chain := keys.forked_chain(row.row)) is not None]
        for chain in forks:
            if not await self._aging.is_empty(keys.partition_key(scope, chain)):
                return True
        return False

    async def _remove(self, partition: str, rows: Sequence[AgedEntity]) -> int:
        """Remove rows as they were seen, in transactions, until one of them was changed meanwhile; how many went."""
        removed = 0
        for batch in batched(rows, _OPERATIONS, strict=False):
            try:
                await self._store.commit(partition, [Delete(row.row, row.etag) for row in batch])
            except RowConflict:  # somebody has written here, or removes the same: the next pass looks again
                break
            removed += len(batch)
        return removed


async def response_runs(store: Store, scope: str, identifier: str) -> bool | None:
    """Whether a response of a scope has not ended; None for what is no response id, or no scope. Raises StorageError."""
    parsed = parse_id(identifier, "resp")
    if parsed is None:
        return None
    try:
        partition = keys.partition_key(scope, parsed.chain)
    except ValueError:
        return None
    found = await store.get(partition, keys.response_row(identifier), documents=())
    return found is not None and found.fields.get("status") in RUNNING
