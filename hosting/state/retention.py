"""What keeps storage from growing for ever: a timer that goes through all of it, a bounded piece at a time, and deletes what
has expired. docs/retention.md says what that is, and why it is a scan.

A pass is a list of sweeps, one after the other; a sweep is a number of pages. Where the pass is stands in one row, the
cursor, so that the next invocation goes on there. Everything a page does can be done again, by this process or by another
one at the same time: a crash, or two timers at once, cost requests and nothing else.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from hosting.storage import (
    Insert,
    Replace,
    RowConflict,
    StorageDenied,
    StorageError,
    StorageUnavailable,
    Store,
)

__all__ = ["Report", "Retention", "Sweep", "TickLimits"]

_log = logging.getLogger("hosting.retention")

PARTITION, ROW = "retention", "cursor"


class Sweep(NamedTuple):
    """One kind of thing that expires."""

    name: str
    page: Callable[[str | None], Awaitable[tuple[str | None, int]]]
    """Does one page, from a token (None: from the beginning): the token of the next one (None: that was the last), and how
    many things it has removed. Raises StorageError; then the page is done again later."""


@dataclass(frozen=True, slots=True)
class TickLimits:
    """What one invocation may do at most, within a page (some seconds, a thousand rows or streams)."""

    seconds: float = 240.0
    removals: int = 100_000
    between_passes: float = 6 * 3600.0
    """A pass begins this long after the one before began, at the earliest."""


@dataclass(slots=True)
class Report:
    """What one invocation did: things removed, by sweep, and whether it came to the end of the pass."""

    removed: dict[str, int] = field(default_factory=dict[str, int])
    pages: int = 0
    finished: bool = False


@dataclass(frozen=True, slots=True)
class _Cursor:
    """Where the pass is. No `sweep`: it has ended."""

    began: float
    sweep: str
    token: str | None
    etag: str | None
    """None: there is no row yet."""


class Retention:
    """The timer's work. `clock` is the time of day (seconds since the epoch), `elapsed` measures how long this takes."""

    def __init__(
        self,
        store: Store,
        sweeps: Sequence[Sweep],
        *,
        limits: TickLimits | None = None,
        clock: Callable[[], float] = time.time,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._sweeps, self._limits = store, sweeps, limits or TickLimits()
        self._clock, self._elapsed = clock, elapsed

    async def run(self) -> Report:
        """Go on with the pass, or begin one when it is time, until it ends or the limits are reached.

        Storage that is away, or another process that is at it, ends it early without an error: the next invocation goes
        on. Raises StorageDenied.
        """
        report, began = Report(), self._elapsed()
        try:
            cursor = await self._load()
            while cursor.sweep:
                cursor = await self._page(cursor, report)
                enough = sum(report.removed.values()) >= self._limits.removals
                if enough or self._elapsed() - began >= self._limits.seconds:
                    break
        except RowConflict:
            _log.info("another process is at it: this one stops")
        except StorageUnavailable as error:
            _log.warning("storage is away, the next invocation goes on: %r", error)
        if report.pages:
            _log.info("%d pages, removed: %s", report.pages, report.removed)
        return report

    async def _page(self, cursor: _Cursor, report: Report) -> _Cursor:
        index = next((n for n, sweep in enumerate(self._sweeps) if sweep.name == cursor.sweep), None)
        if index is None:  # left by another version of the app
            return await self._save(cursor, self._sweeps[0].name, None)
        sweep = self._sweeps[index]
        report.pages += 1
        try:
            token, removed = await sweep.page(cursor.token)
            report.removed[sweep.name] = report.removed.get(sweep.name, 0) + removed
        except (StorageUnavailable, StorageDenied):
            raise
        except StorageError:
            # A token that storage does not know any more, say. What is left of this sweep is for the next pass: one bad page
            # must not keep everything behind it.
            _log.exception("a page of %s failed", sweep.name)
            token = None
        if token is not None:
            return await self._save(cursor, sweep.name, token)
        if index + 1 < len(self._sweeps):
            return await self._save(cursor, self._sweeps[index + 1].name, None)
        report.finished = True
        return await self._save(cursor, "", None)

    async def _load(self) -> _Cursor:
        found = await self._store.get(PARTITION, ROW, documents=())
        now = self._clock()
        if found is None:
            return _Cursor(now, self._sweeps[0].name, None, None)
        fields = found.fields
        cursor = _Cursor(
            float(cast("float", fields["began"])),
            str(fields["sweep"]),
            str(fields["token"]) or None,
            found.etag,
        )
        if not cursor.sweep and now - cursor.began >= self._limits.between_passes:
            return _Cursor(now, self._sweeps[0].name, None, found.etag)
        return cursor

    async def _save(self, cursor: _Cursor, sweep: str, token: str | None) -> _Cursor:
        fields = {"began": cursor.began, "sweep": sweep, "token": token or ""}
        write = Insert(ROW, fields) if cursor.etag is None else Replace(ROW, fields, {}, cursor.etag)
        etags = await self._store.commit(PARTITION, [write])
        return _Cursor(cursor.began, sweep, token, etags[ROW])
