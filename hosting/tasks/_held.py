"""The lease of one attempt, and with it the only way in which the attempt writes."""

import asyncio
import secrets
from collections.abc import Callable, Sequence

from hosting.storage import Operation, Replace, RowConflict, Store
from hosting.tasks._events import Event
from hosting.tasks._record import Record
from hosting.tasks._rows import Key, decode_record, encode_record
from hosting.tasks._transitions import Refused, Transition, apply

__all__ = ["Held"]


class Held:
    """The newest version of the record that the attempt knows. Writes are made one at a time, each on that version.

    Whoever else changes the record (a cancel, a newer input, a takeover) makes the next write fail; then the new version is
    loaded and decides. So a write that succeeds proves that nothing has changed.
    """

    def __init__(self, store: Store, key: Key, record: Record, etag: str) -> None:
        self._store, self._key = store, key
        self.record, self.etag = record, etag
        self.generation = record.generation
        self._lock = asyncio.Lock()

    async def refresh(self) -> Record | None:
        """Look at the stored record: one point read. None when it is gone. Raises StorageError."""
        async with self._lock:
            return await self._load()

    async def write(
        self, event: Event, extra: Callable[[Transition], Sequence[Operation]] = lambda _: ()
    ) -> Transition | Refused:
        """Apply `event` and commit it together with the operations that `extra` gives for the transition.

        Raises StorageUnavailable when it is not known whether the transaction was applied: write the same event again. If
        it was, the record has changed, by which the event is refused, or it changes nothing any more. Raises RowConflict when
        a row of `extra`, and not the record, does not fit.
        """
        async with self._lock:
            while True:
                transition = apply(self.record, event)
                if isinstance(transition, Refused):
                    return transition
                row = self._key.record_row
                operations = [Replace(row, encode_record(transition.record), {}, self.etag), *extra(transition)]
                token = f"{self.generation:x}-{secrets.token_hex(8)}"
                try:
                    etags = await self._store.commit(self._key.partition, operations, token=token)
                except RowConflict:
                    known = self.etag
                    if await self._load() is None:
                        return Refused("fenced")
                    if self.etag == known:
                        raise
                    continue
                self.record, self.etag = transition.record, etags[row]
                return transition

    async def _load(self) -> Record | None:
        entity = await self._store.get(self._key.partition, self._key.record_row, documents=())
        if entity is None:
            return None
        if entity.etag != self.etag:
            self.record, self.etag = decode_record(entity), entity.etag
        return self.record
