"""Removing all that a scope has stored.

    tasks are told to end -> rows -> events of streams -> spilled values -> the index of active work

Each step goes through what is there now, in bounded batches, and keeps no place: if it ends anywhere, the next run finds the
rest. A run of the app that is at work meanwhile has lost its record, so it can't store its end, and hears of it at its next
look; but what it was about to write when it had looked last, and a foreground turn, may come later. So it takes a second run.
"""

import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import batched, groupby

from hosting.gather import gather_at_most
from hosting.storage import (
    AgedEntity,
    Aging,
    AppendBlobs,
    BlobInfo,
    CorruptValue,
    Delete,
    Entity,
    Page,
    RowConflict,
    ScopeRows,
)
from hosting.tasks.engine import INDEX_PARTITIONS, Key
from hosting.tasks.host import Engine

__all__ = ["Contents", "Erasure"]

_log = logging.getLogger(__name__)

_OPERATIONS = 100
_AT_ONCE = 16


@dataclass(slots=True)
class Contents:
    """What a scope has, or had: how many of each."""

    rows: Counter[str] = field(default_factory=Counter[str])
    """By kind, the first word of their keys: `response`, `turn`, `conversation`..."""
    stream_blobs: int = 0
    value_blobs: int = 0
    tasks: int = 0
    """That have not ended."""

    @property
    def total(self) -> int:
        """Of everything; 0 is an empty scope."""
        return self.rows.total() + self.stream_blobs + self.value_blobs + self.tasks


class Erasure:
    """Of one scope. `progress` is told after each page what has been done. Raises ValueError for what is no scope."""

    def __init__(
        self, engine: Engine, blobs: AppendBlobs, scope: str, progress: Callable[[str], None] = lambda _: None
    ) -> None:
        self._engine, self._store, self._blobs, self._scope = engine, engine.store, blobs, scope
        self._rows, self._aging = ScopeRows(engine.store, scope), Aging(engine.store)
        self._progress = progress
        # The slash and the hyphen end the scope: one that begins alike is another one.
        self._streams, self._values = f"streams/{scope}/", f"values/{scope}-"

    async def count(self) -> Contents:
        """What there is, without a change. Raises StorageError."""
        found = Contents()
        async for _, tasks in self._tasks():
            found.tasks += len({key for key, _ in tasks})
        async for page in _pages(self._rows.page):
            found.rows.update(_kind(row) for row in page)
        async for page in _pages(lambda token: self._blobs.page(self._streams, token)):
            found.stream_blobs += len(page)
        async for page in _pages(lambda token: self._aging.blobs(self._values, token)):
            found.value_blobs += len(page)
        return found

    async def run(self) -> Contents:
        """Remove it; what has gone. Raises StorageError: then some of it is left, and another run goes on."""
        gone = Contents()
        async for _, tasks in self._tasks():
            ended = {key for key, _ in tasks}
            await gather_at_most(_AT_ONCE, [partial(self._end, key) for key in ended])
            gone.tasks += len(ended)
            self._progress(f"unfinished tasks: {gone.tasks:,} told to end")
        async for page in _pages(self._rows.page):
            await self._remove(page)
            gone.rows.update(_kind(row) for row in page)
            self._progress(f"rows: {gone.rows.total():,} removed")
        async for page in _pages(lambda token: self._blobs.page(self._streams, token)):
            await gather_at_most(_AT_ONCE, [partial(self._blobs.delete, info.name) for info in page])
            gone.stream_blobs += len(page)
            self._progress(f"stream blobs: {gone.stream_blobs:,} removed")
        # The transactions have removed those that rows referred to. These were left by a process that died, or is at it now.
        async for page in _pages(lambda token: self._aging.blobs(self._values, token)):
            await self._aging.discard([info.name for info in page])
            gone.value_blobs += len(page)
            self._progress(f"value blobs: {gone.value_blobs:,} removed")
        async for partition, tasks in self._tasks():
            for batch in batched(tasks, _OPERATIONS, strict=False):
                await self._store.commit(partition, [Delete(row.row) for _, row in batch])
        return gone

    async def _tasks(self) -> AsyncGenerator[tuple[str, list[tuple[Key, AgedEntity]]]]:
        """Tasks with an input that has not ended, with their index rows, page by page, and the partition of these. The index
        is everybody's: of others, nothing is kept."""
        for partition in INDEX_PARTITIONS:
            async for page in self._aging.partition(partition):
                mine = [row for row in page if row.fields.get("scope") == self._scope]
                if mine:
                    yield partition, [(Key(self._scope, str(row.fields.get("task_id"))), row) for row in mine]

    async def _end(self, key: Key) -> None:
        """Whoever runs it is fenced out at once, and told at its next look."""
        try:
            await self._engine.delete(key)
        except CorruptValue as error:  # a broken record goes with the other rows
            _log.warning("task %s could not be told to end: %r", key.task_id, error)

    async def _remove(self, rows: Sequence[Entity]) -> None:
        chains = [(partition, list(found)) for partition, found in groupby(rows, lambda row: row.partition)]
        await gather_at_most(_AT_ONCE, [partial(self._remove_chain, *chain) for chain in chains])

    async def _remove_chain(self, partition: str, rows: Sequence[Entity]) -> None:
        for batch in batched(rows, _OPERATIONS, strict=False):
            try:
                await self._store.commit(partition, [Delete(row.row, row.etag) for row in batch])
            except RowConflict:
                # Somebody has written one of them since, or was faster: whatever is there goes. This takes a read for each.
                await self._store.commit(partition, [Delete(row.row) for row in batch])


async def _pages[T: (Entity, BlobInfo)](
    page: Callable[[str | None], Awaitable[Page[T]]],
) -> AsyncGenerator[list[T]]:
    """The pages that have something."""
    token = None
    while True:
        found = await page(token)
        if found.items:
            yield found.items
        if (token := found.next) is None:
            return


def _kind(row: Entity) -> str:
    return row.row.partition(".")[0]
