"""The recovery scan: whatever was accepted and has no outcome is being driven, or will be.

It reads the index of active work, not all records, however many rows that are. It needs nothing of Durable's own state, so
losing the whole task hub loses no work. It may run at any time, in several processes at once: all it does is idempotent.
"""

import heapq
import logging
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial

from hosting.gather import gather_at_most
from hosting.storage import CorruptValue, Delete, Entity, RowConflict, StorageError
from hosting.tasks._acceptance import load_record
from hosting.tasks._engine import Engine
from hosting.tasks._record import idle_since, slots
from hosting.tasks._rows import INDEX_PARTITIONS, INDEX_RANGE, IndexEntry, Key, decode_index, decode_record
from hosting.telemetry import backlog, instruments

__all__ = ["ScanReport", "scan"]

_log = logging.getLogger("hosting.tasks")

_OFTEN = 3
"""Deaths from which a task is named in the log. One that a neighbour brought about, and a second one, may be chance."""
_NAMED = 20
"""How many of them a scan names, the worst first: after a bad day there may be thousands."""


@dataclass(slots=True)
class ScanReport:
    """What a scan found: index rows, tasks for which it started a driver, left-over rows that it removed."""

    rows: int = 0
    driven: int = 0
    removed: int = 0
    oldest_waiting: float = 0.0
    """Longest time, in seconds, that a task has waited for somebody to take its lease."""
    most_crashes: int = 0
    """Of a task that has not ended."""
    often: list[tuple[int, Key, str]] = field(default_factory=list[tuple[int, Key, str]])
    """Tasks that have not ended and at which processes have died often: how often, which, their declared name."""


async def scan(engine: Engine, *, measured: bool = True) -> ScanReport:
    """Look through the index once. A task that can't be read or driven now is left to the next scan, and so is a row of the
    index that can't be read: it may be of a later version, or its task be found by hand. What it found is measured unless
    told otherwise: that measurements cease is how an operator learns that timers do not fire.

    Raises StorageError when storage does not give the index.
    """
    report = ScanReport()

    async def look(key: Key, entries: list[IndexEntry]) -> None:
        try:
            await _look(engine, key, entries, report)
        except StorageError as error:
            _log.warning("task %s: not looked after by this scan: %r", key.task_id, error, extra=key.log_fields())

    for partition in INDEX_PARTITIONS:
        rows = await engine.store.query_fields(partition, *INDEX_RANGE)
        found = _by_task(rows)
        report.rows += len(rows)
        looks = [partial(look, key, entries) for key, entries in found.items()]
        await gather_at_most(engine.options.scan_concurrency, looks)
    if measured:
        backlog.found(report.rows, report.oldest_waiting, report.most_crashes)
    for times, key, name in heapq.nlargest(_NAMED, report.often, key=lambda task: task[0]):
        about = {**key.log_fields(), "task_name": name, "crashes": times}
        _log.warning("task %s: %d processes have died at it, and it has not ended", key.task_id, times, extra=about)
    if report.driven or report.removed:
        _log.info("recovery scan: %d index rows, %d driven, %d removed", report.rows, report.driven, report.removed)
    return report


def _by_task(rows: list[Entity]) -> dict[Key, list[IndexEntry]]:
    found: defaultdict[Key, list[IndexEntry]] = defaultdict(list)
    for row in rows:
        try:
            entry = decode_index(row)
        except CorruptValue as error:
            _log.error("the recovery scan leaves out %s / %s: %r", row.partition, row.row, error)
            continue
        found[entry.key].append(entry)
    return found


async def _look(engine: Engine, key: Key, entries: list[IndexEntry], report: ScanReport) -> None:
    options, now = engine.options, engine.clock.now()
    if all(now - entry.created_at < options.idle.total_seconds() for entry in entries):
        return  # all of it is new: whoever accepted it is seeing to it
    entity = await load_record(engine.store, key)
    record = None if entity is None else decode_record(entity)
    if record is not None:
        since = idle_since(record, options.skew.total_seconds())
        # A lease that has lapsed means that its holder is gone; work without one may have a driver on its way.
        patience = 0.0 if record.lease_owner is not None else options.idle.total_seconds()
        if since is not None:
            # Before the driver: whether one can be started says nothing about when somebody comes.
            report.oldest_waiting = max(report.oldest_waiting, now - since)
            report.most_crashes = max(report.most_crashes, record.crashes)
            if record.crashes >= _OFTEN:
                report.often.append((record.crashes, key, record.name))
        if since is not None and now - since > patience and await engine.drive(key, record):
            report.driven += 1
            instruments().redriven.add(1, {"hosting.task.name": record.name})
    open_inputs = {slot.nonce for slot in slots(record)} if record is not None else set[str]()
    for entry in entries:
        if entry.nonce not in open_inputs and now - entry.created_at > options.stale.total_seconds():
            try:
                await engine.store.commit(key.index_partition, [Delete(entry.row, entry.etag)])
                report.removed += 1
            except RowConflict:
                continue  # another scan, or a `start` that wrote it anew
