"""The row of a background response while one attempt runs it: replaced as the run goes on, under the version it knows.

Whoever else writes the row (a cancel, a later attempt) makes that version an old one, and this attempt's writes are refused.
A write whose answer is lost may have been applied all the same. It is repeated with the token that it had before anything
else is written, and by that told from a write of somebody else: reading the row again could not do so.
"""

import asyncio
import logging
import secrets
from collections.abc import Sequence
from typing import Any

from hosting.state import StoredResponse
from hosting.state.lineage import Lineage
from hosting.state.response_row import running_columns
from hosting.storage import Operation, Replace, StorageUnavailable, Store, keys

__all__ = ["RunningRow"]

_log = logging.getLogger(__name__)

_CHANGING = frozenset({"status", "output", "error", "incomplete_details", "completed_at", "usage"})
"""Fields of a response that follow from its run. The others are in its announcement, which must stay what it was."""

_PATIENCE = 300.0
"""Seconds for which `settle` waits for storage, as long as a task's own outcome is tried to be stored."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


class RunningRow:
    """`stored` is the row as the attempt has read it; `before` the turns before this one, which was not known when the
    response was accepted behind another one that ran."""

    def __init__(self, store: Store, scope: str, stored: StoredResponse, before: Lineage) -> None:
        self.stored, self.before = stored, before
        self.etag = stored.etag
        self._store = store
        self._partition = keys.partition_key(scope, stored.place.chain)
        self._row = keys.response_row(stored.response["id"])
        self._in_doubt: tuple[Sequence[Operation], str] | None = None

    async def write(self, snapshot: dict[str, Any]) -> None:
        """Store the response as being in progress. Raises RowConflict when somebody else has written the row, and
        StorageUnavailable, after which `settle` finds out what came of it.
        """
        await self._settle_once()
        stored = self.stored
        assert stored.task is not None
        columns = running_columns(
            {**snapshot, "status": "in_progress"},
            stored.input or [],
            stored.place,
            self.before,
            stored.task,
            self.opening(snapshot),
        )
        self._in_doubt = [Replace(self._row, *columns, self.etag)], secrets.token_hex(8)
        await self._settle_once()

    def opening(self, response: dict[str, Any]) -> dict[str, Any] | None:
        """The announcement, when it no longer follows from the response: a handler may change the response's fields."""
        if self.stored.opening is not None:
            return self.stored.opening
        announced = self.stored.response
        same = all(response.get(name) == announced[name] for name in announced if name not in _CHANGING)
        return None if same else announced

    async def settle(self) -> None:
        """Wait until it is known what came of the last write. Raises RowConflict as `write`; StorageUnavailable when storage
        is away for minutes: then the attempt has to be made again."""
        loop = asyncio.get_running_loop()
        give_up, pause = loop.time() + _PATIENCE, _FIRST_PAUSE
        while True:
            try:
                return await self._settle_once()
            except StorageUnavailable as error:
                if loop.time() + pause > give_up:
                    raise
                _log.warning("%s: was its progress stored? Asking again: %r", self.stored.response["id"], error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _settle_once(self) -> None:
        if self._in_doubt is None:
            return
        operations, token = self._in_doubt
        try:
            etags = await self._store.commit(self._partition, operations, token=token)
        except StorageUnavailable:
            raise
        except Exception:  # refused: certainly not stored. (A call that is cancelled leaves the doubt.)
            self._in_doubt = None
            raise
        self._in_doubt = None
        self.etag = etags[self._row]
