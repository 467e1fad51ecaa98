"""`start`: an input is stored, or refused, in one transaction; and its index row before it."""

import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import cast

from hosting.gather import gather_all
from hosting.storage import (
    CorruptValue,
    Delete,
    Entity,
    Insert,
    Json,
    Operation,
    Put,
    Replace,
    RowConflict,
    StorageError,
    StorageUnavailable,
    Store,
)
from hosting.tasks._attempt_rows import input_fields
from hosting.tasks._codec import JSONValue
from hosting.tasks._events import Accept
from hosting.tasks._exceptions import LastInputIdPreconditionFailed, SteeringQueueFull, TaskConflictError
from hosting.tasks._options import TaskOptions
from hosting.tasks._record import Record, Slot, slots
from hosting.tasks._registry import Declared
from hosting.tasks._rows import IndexEntry, Key, decode_record, encode_index, encode_record, outcome_range, outcome_seq
from hosting.tasks._seams import Clock
from hosting.tasks._transitions import Refused, apply

__all__ = ["Acceptance", "Accepted", "StartRequest", "drop_index_row", "load_record"]

_log = logging.getLogger("hosting.tasks")
_PAUSE = 0.2
_TITLE_LENGTH = 256


@dataclass(frozen=True, slots=True)
class StartRequest:
    """What `start` was asked for, checked and encoded."""

    declared: Declared
    key: Key
    input_id: str
    document: JSONValue
    if_last_input_id: str | None = None
    known_new: bool = False
    """The task_id was made for this call: there is no record to look for."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """An input that is stored and will run, and the record with it."""

    slot: Slot
    record: Record

    @property
    def queued(self) -> bool:
        return any(slot.seq == self.slot.seq for slot in self.record.queue)


class Acceptance:
    """One call of `start`.

    What a crash leaves: before the index row, nothing; before the transaction, an index row that the scan removes; after
    it, an accepted input that the scan drives.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        options: TaskOptions,
        request: StartRequest,
        rows: Callable[[Slot], Sequence[Operation]],
    ) -> None:
        self._store, self._clock, self._options = store, clock, options
        self._request, self._key, self._rows = request, request.key, rows
        self._nonce = secrets.token_hex(8)
        self._give_up = clock.now() + options.accept_patience.total_seconds()
        self._in_doubt = False
        """The answer of a transaction was lost: the input may be accepted."""
        self._input_fields = input_fields(request.input_id, clock.now())

    async def run(self) -> Accepted:
        """Accept the input. What is raised: see `Engine.start`."""
        key, began, etag = self._key, self._clock.now(), None
        index = Insert(key.index_row(self._nonce), encode_index(IndexEntry(key, self._nonce, began)))
        try:
            etags, entity = await gather_all(
                self._patiently(lambda: self._store.commit(key.index_partition, [index], token=self._nonce)),
                self._first_look(),
            )
            etag = etags[index.row]
            accepted = await self._accept(entity, etag)
        except (TaskConflictError, LastInputIdPreconditionFailed, SteeringQueueFull, RowConflict):
            await drop_index_row(self._store, key, self._nonce, etag)
            raise
        except CorruptValue:
            if not self._in_doubt:  # else it may have been accepted, and the scan must find it
                await drop_index_row(self._store, key, self._nonce, etag)
            raise
        if self._clock.now() - began > self._options.stale.total_seconds() / 2:
            # Storage was so slow that the scan may have taken the row for a left-over.
            await self._store.commit(key.index_partition, [Put(index.row, index.fields)])
        return accepted

    async def _first_look(self) -> Entity | None:
        return None if self._request.known_new else await self._load()

    async def _load(self) -> Entity | None:
        return await self._patiently(lambda: load_record(self._store, self._key))

    async def _patiently[T](self, call: Callable[[], Awaitable[T]]) -> T:
        """Do what can be done again, until storage is there or `accept_patience` is over."""
        while True:
            try:
                return await call()
            except StorageUnavailable:
                if self._clock.now() >= self._give_up:
                    raise
            await self._clock.sleep(_PAUSE)

    async def _accept(self, entity: Entity | None, index_etag: str) -> Accepted:
        event = self._event(index_etag)
        while True:
            record = None if entity is None else decode_record(entity)
            if self._in_doubt and record is not None and (known := await self._find(record)) is not None:
                return known
            transition = apply(record, event)
            if isinstance(transition, Refused):
                raise self._refusal(transition, record)
            slot = cast("Slot", transition.accepted)
            try:
                # The nonce as token: the store recognizes its own transaction after a lost answer.
                await self._store.commit(
                    self._key.partition, self._operations(entity, transition.record, slot), token=self._nonce
                )
            except RowConflict:
                seen = entity.etag if entity else None
                entity = await self._load()
                if (entity.etag if entity else None) == seen:
                    raise  # the record is as it was: a row of the caller does not fit
            except StorageUnavailable:
                if self._clock.now() >= self._give_up:
                    raise
                self._in_doubt = True
                await self._clock.sleep(_PAUSE)
                entity = await self._load()
            else:
                return Accepted(slot, transition.record)

    def _event(self, index_etag: str) -> Accept:
        request, declared = self._request, self._request.declared
        title = declared.title or f"{declared.name}:{self._key.task_id[:8]}"
        return Accept(
            now=self._clock.now(),
            name=declared.name,
            title=title[:_TITLE_LENGTH],
            kind=declared.kind,
            steerable=declared.steerable,
            input_id=request.input_id,
            nonce=self._nonce,
            if_last_input_id=request.if_last_input_id,
            index_etag=index_etag,
        )

    def _operations(self, entity: Entity | None, record: Record, slot: Slot) -> list[Operation]:
        row, state = self._key.record_row, encode_record(record)
        document = cast("Json", self._request.document)
        return [
            Insert(row, state) if entity is None else Replace(row, state, {}, entity.etag),
            Insert(self._key.input_row(slot.seq), self._input_fields, {"input": document}),
            *self._rows(slot),
        ]

    async def _find(self, record: Record) -> Accepted | None:
        """After a lost answer: our input, whether it waits, runs or has ended meanwhile; None when it was not accepted."""
        for slot in slots(record):
            if slot.nonce == self._nonce:
                return Accepted(slot, record)
        first, last = outcome_range(self._key, self._request.input_id)
        partition = self._key.partition
        for row in await self._patiently(lambda: self._store.query(partition, first, last, documents=())):
            if row.fields.get("nonce") == self._nonce:
                return Accepted(Slot(outcome_seq(row.row), self._request.input_id, self._nonce, "fresh"), record)
        return None

    def _refusal(self, refused: Refused, record: Record | None) -> Exception:
        if refused.reason == "precondition":
            return LastInputIdPreconditionFailed(
                actual_last_input_id=record.last_input_id if record else None,
                expected_last_input_id=self._request.if_last_input_id,
                task_id=self._key.task_id,
            )
        if refused.reason == "queue_full":
            return SteeringQueueFull()
        return TaskConflictError(current_status=record.status if record else None)


async def load_record(store: Store, key: Key) -> Entity | None:
    """The row of a record: one point read."""
    return await store.get(key.partition, key.record_row, documents=())


async def drop_index_row(store: Store, key: Key, nonce: str, etag: str | None) -> None:
    """Remove an index row that is done with. If that fails, the recovery scan does it later."""
    try:
        await store.commit(key.index_partition, [Delete(key.index_row(nonce), etag)])
    except StorageError as error:
        _log.info("task %s: its index row stays until the next scan: %r", key.task_id, error, extra=key.log_fields())
