"""What keeps storage from growing for ever: a timer that goes through all of it, a bounded piece at a time, and deletes what
has expired. docs/retention.md says what that is, and why it is a scan.

A pass is a list of sweeps, one after the other; a sweep is a number of pages. Where the pass is stands in one row, the
cursor, so that the next invocation goes on there. Everything a page does can be done again, by this process or by another
one at the same time: a crash, or two timers at once, cost requests and nothing else.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple, cast

from hosting.state.retention_brake import Lifetime, braked, decode_lifetimes, encode_lifetimes, text_of
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
_NOTHING: Mapping[str, float] = MappingProxyType({})


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
    lifetimes: Mapping[str, Lifetime]
    """Empty: no pass has said which ones it used."""


class Retention:
    """The timer's work. `clock` is the time of day (seconds since the epoch), `elapsed` measures how long this takes.

    `lifetimes` are the settings that decide what is removed, in days (0 is for ever); a shorter one waits `shrink_seconds`, see
    `retention_brake`. `sweeps` is told which ones hold, and gives what a pass goes through.
    """

    def __init__(
        self,
        store: Store,
        sweeps: Callable[[Mapping[str, float]], Sequence[Sweep]],
        *,
        lifetimes: Mapping[str, float] = _NOTHING,
        shrink_seconds: float = 0.0,
        limits: TickLimits | None = None,
        clock: Callable[[], float] = time.time,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._sweeps_for, self._limits = store, sweeps, limits or TickLimits()
        self._wanted, self._wait = lifetimes, shrink_seconds
        self._clock, self._elapsed = clock, elapsed
        self._sweeps: Sequence[Sweep] = ()

    async def run(self) -> Report:
        """Go on with the pass, or begin one when it is time, until it ends or the limits are reached.

        Storage that is away, or another process that is at it, ends it early without an error: the next invocation goes
        on. Raises StorageDenied.
        """
        report, began = Report(), self._elapsed()
        try:
            cursor = await self._begin()
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

    async def _begin(self) -> _Cursor:
        """Where to go on, with what holds for all that this invocation removes. That is stored before anything is removed by
        it: so whoever comes next knows it, wherever this process ends."""
        cursor, now = await self._load(), self._clock()
        lifetimes = braked(cursor.lifetimes, self._wanted, now, self._wait)
        self._sweeps = self._sweeps_for({name: life.used for name, life in lifetimes.items()})
        begins = cursor.etag is None or (not cursor.sweep and now - cursor.began >= self._limits.between_passes)
        if begins:
            cursor = replace(cursor, began=now, sweep=self._sweeps[0].name, token=None)
        if lifetimes != cursor.lifetimes:
            before = cursor.lifetimes
            cursor = await self._save(replace(cursor, lifetimes=lifetimes), cursor.sweep, cursor.token)
            self._say(before, lifetimes, always=begins)
        elif begins:
            self._say(lifetimes, lifetimes, always=True)
        return cursor

    def _say(self, before: Mapping[str, Lifetime], now: Mapping[str, Lifetime], *, always: bool) -> None:
        """Name what waits: once when it is first seen, and `always` with each pass. And what holds from now on."""
        for name, life in now.items():
            old = before.get(name, life)
            if life.shorter is not None:
                if always or life != old:
                    when = datetime.fromtimestamp(life.since + self._wait, UTC).strftime("%Y-%m-%dT%H:%MZ")
                    _log.error(
                        "%s is %s and was %s: %s holds until %s, then what is older is removed for good. If this is a mistake, "
                        "set it back before; HOSTING_RETENTION_SHRINK_HOURS says how long this waits",
                        name,
                        text_of(life.shorter),
                        text_of(life.used),
                        text_of(life.used),
                        when,
                    )
            elif life != old:
                _log.warning("%s: %s holds from now on, after %s", name, text_of(life.used), text_of(old.used))

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
        if found is None:
            return _Cursor(0.0, "", None, None, {})
        fields = found.fields
        lifetimes = fields.get("lifetimes")
        return _Cursor(
            float(cast("float", fields["began"])),
            str(fields["sweep"]),
            str(fields["token"]) or None,
            found.etag,
            {} if lifetimes is None else decode_lifetimes(str(lifetimes), self._wanted),
        )

    async def _save(self, cursor: _Cursor, sweep: str, token: str | None) -> _Cursor:
        fields = {"began": cursor.began, "sweep": sweep, "token": token or ""}
        if cursor.lifetimes:
            fields["lifetimes"] = encode_lifetimes(cursor.lifetimes)
        write = Insert(ROW, fields) if cursor.etag is None else Replace(ROW, fields, {}, cursor.etag)
        etags = await self._store.commit(PARTITION, [write])
        return replace(cursor, sweep=sweep, token=token, etag=etags[ROW])
