"""One attempt at a background response, in whichever process its task runs.

    look at the response row -> in_progress (which fences an attempt before this one) -> answer -> one transaction: the
    turn, the response and the end of the task -> the stream is closed

Events are numbered 0 `response.created` and 1 `response.queued`, which follow from the response row and are stored nowhere,
then as they come, in the stream. The terminal event follows from the final response row and is stored nowhere either: so no
crash can leave a response that is complete and a stream that says otherwise.

If the process dies anywhere in here, the task is entered again elsewhere. A resilient response runs again, and its events
go on at the next number with a `response.in_progress` that tells readers to start over from the snapshot in it. Another one
is marked failed.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from hosting.responses import CreateRequest, Event, parse_create_request
from hosting.server.answer import Answer, Attempt, Emit, TurnInput
from hosting.server.caller import RequestFacts
from hosting.server.drive import drive
from hosting.server.earlier_events import EarlierEvents
from hosting.server.rendered_answer import RenderedAnswer
from hosting.server.targets import Targets
from hosting.server.transcript import INTERRUPTED
from hosting.state import PreviousResponseNotFound, PreviousResponseUnfinished, StoredResponse, Turn, Turns
from hosting.state.lineage import MAIN, Lineage, Place, extend
from hosting.state.response_row import TurnRecord, response_columns, running_columns
from hosting.storage import (
    Operation,
    Put,
    Replace,
    RowChanged,
    RowConflict,
    RowMissing,
    StorageUnavailable,
    Store,
    keys,
)
from hosting.streaming import EventStream, StreamFenced, streams
from hosting.tasks import TaskContext, current_scope
from hosting.tasks.engine import Key, Outcome, current_engine

__all__ = ["CANCELLED_GENERATION", "BackgroundRun", "Work"]

_log = logging.getLogger(__name__)

CANCELLED_GENERATION = 1 << 30
"""Of the writer that closes the stream of a cancelled response: later than every attempt's."""

_CLOSE_WITHIN = 60.0
"""Seconds after which the stream of an ended run is left open: followers see from the response row that it has ended."""

_CHANGING = frozenset({"status", "output", "error", "incomplete_details", "completed_at", "usage"})
"""Fields of a response that follow from its run. The others are in its announcement, which must stay what it was."""

# Closers of streams whose handler has returned: asyncio itself keeps only weak references.
_closing: set[asyncio.Task[None]] = set()


@dataclass(frozen=True, slots=True)
class Work:
    """The input of the task: all that another process needs, but for the items, which are in the response row."""

    response_id: str
    previous: str | None
    body: dict[str, Any]
    model: str
    facts: dict[str, Any] = field(default_factory=dict[str, Any])

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


class BackgroundRun:
    """Used once. `run` raises StorageError and EventStreamError, after which the task tries again."""

    def __init__(
        self,
        ctx: TaskContext[dict[str, Any]],
        work: Work,
        targets: Targets,
        store: Store,
        *,
        resilient: bool,
        max_recoveries: int,
    ) -> None:
        self._ctx, self._work, self._targets, self._store = ctx, work, targets, store
        self._resilient, self._max_recoveries = resilient, max_recoveries
        self._scope = current_scope()
        self._turns = Turns(store, self._scope)
        self._row = keys.response_row(work.response_id)
        self._stored: StoredResponse | None = None
        self._stream: EventStream | None = None
        self._etag = ""
        self._before: Lineage = ()
        self._record: TurnRecord | None = None
        self._conflicts: set[str] = set()

    async def run(self) -> Any:
        """Run the attempt to its end; what it leaves is written when it has returned."""
        current_engine().commit_with_outcome(self._ctx, self._terminal_rows)
        stored = self._stored = await self._turns.response(self._work.response_id)
        if stored is None or stored.task is None:  # deleted
            return None
        stream = self._stream = await self._take_stream(stored) if stored.task.stream else None
        if stored.running and await self._begin(stored) and not await self._answer(stored):
            return await self._ctx.exit_for_recovery()  # the stream stays open for the next attempt
        if stream is not None:
            closer = asyncio.create_task(self._close_when_stored(stream, stored.task.seq))
            _closing.add(closer)
            closer.add_done_callback(_closing.discard)
        return None

    async def _take_stream(self, stored: StoredResponse) -> EventStream | None:
        try:
            return await streams.take_over(stored.response["id"], generation=self._ctx.recovery_count)
        except StreamFenced:
            if stored.running:
                raise
            return None  # whoever has cancelled it has the stream

    async def _begin(self, stored: StoredResponse) -> bool:
        """Mark the response as running, and by that keep an attempt before this one from writing it; False when it was
        cancelled or deleted meanwhile.
        """
        self._etag = stored.etag
        try:
            await self._write_progress({**stored.snapshot, "status": "in_progress"})
        except (RowChanged, RowMissing):
            return False
        return True

    async def _write_progress(self, snapshot: dict[str, Any]) -> None:
        stored = self._stored
        assert stored is not None
        assert stored.task is not None
        columns = running_columns(
            snapshot, stored.input or [], stored.place, stored.before, stored.task, self._opening(snapshot)
        )
        partition = keys.partition_key(self._scope, stored.place.chain)
        etags = await self._store.commit(partition, [Replace(self._row, *columns, self._etag)])
        self._etag = etags[self._row]

    def _opening(self, response: dict[str, Any]) -> dict[str, Any] | None:
        """The announcement, when it no longer follows from the response: a handler may change the response's fields."""
        stored = self._stored
        assert stored is not None
        if stored.opening is not None:
            return stored.opening
        announced = stored.response
        same = all(response.get(name) == announced[name] for name in announced if name not in _CHANGING)
        return None if same else announced

    async def _checkpoint(self, snapshot: dict[str, Any]) -> None:
        """Store the progress of a handler. Raises StorageError; the earlier checkpoint stands then."""
        if self._stream is not None:
            await self._stream.flush()  # what the snapshot says has been said
        try:
            await self._write_progress({**snapshot, "status": "in_progress"})
        except StorageUnavailable:
            await self._learn_etag()  # it may have been written all the same
            raise

    async def _learn_etag(self) -> None:
        found = await self._turns.response(self._work.response_id)
        if found is not None and found.running:
            self._etag = found.etag

    async def _answer(self, stored: StoredResponse) -> bool:
        """Run the answer; what it leaves is in the record. False: it was left to another process."""
        stream = self._stream

        async def emit(events: Sequence[Event]) -> None:
            if stream is not None:
                for event in events:
                    await stream.emit(event)

        given = await self._input(stored)
        if given.attempt.persisted is not None and not self._may_run_again():
            answer: Answer = RenderedAnswer(given, None)
            await emit(answer.fail(message=INTERRUPTED))
        else:
            try:
                given = replace(given, turn=await self._resume(given.request))
                answer = await self._targets.answer(given)
            except (PreviousResponseNotFound, PreviousResponseUnfinished):
                answer = RenderedAnswer(given, None)
                await emit(answer.fail(message="The previous response is no longer there."))
            else:
                self._before = given.turn.before
                if not await drive(answer, self._ctx, emit):
                    return False
        await self._keep(answer, given, emit)
        if stream is not None:
            await stream.flush()  # nobody may see the response complete before its events are there
        return True

    def _may_run_again(self) -> bool:
        if self._ctx.recovery_count > self._max_recoveries:
            _log.error("%s is given up: %d runs of it have died", self._work.response_id, self._ctx.recovery_count)
            return False
        return self._resilient

    async def _keep(self, answer: Answer, given: TurnInput, emit: Emit) -> None:
        try:
            self._record = answer.record()
        except (TypeError, ValueError):
            _log.exception("The session after %s can't be stored", self._work.response_id)
            await emit(answer.fail(message="The response could not be stored."))
            self._record = TurnRecord(answer.response, given.items, continues=False)

    async def _input(self, stored: StoredResponse) -> TurnInput:
        items, ctx = stored.input or [], self._ctx
        interrupted = stored.response["status"] == "in_progress"
        return TurnInput(
            request=parse_create_request({**self._work.body, "input": items}, allow_private_urls=True),
            items=items,
            turns=self._turns,
            turn=Turn(self._work.response_id, stored.place),
            model=self._work.model,
            created_at=stored.response["created_at"],
            stream=True,
            facts=RequestFacts(**self._work.facts),
            attempt=Attempt(
                announced=True,
                earlier=await _read_earlier(self._stream) if self._stream is not None else EarlierEvents(),
                persisted=stored.snapshot if interrupted else None,
                recoverable=self._resilient,
                steered=ctx.is_steered_turn,
                pending=lambda: ctx.pending_input_count,
                shutdown=ctx.shutdown,
                checkpoint=self._checkpoint if self._resilient else None,
            ),
        )

    async def _resume(self, request: CreateRequest) -> Turn:
        history = await self._targets.reads_history(self._work.model)
        return await self._turns.resume(self._work.response_id, self._work.previous, history=history)

    def _terminal_rows(self, outcome: Outcome, conflict: RowConflict | None) -> Sequence[Operation]:
        """The turn and the final response, for the transaction that ends the task."""
        if conflict is not None:
            self._conflicts.add(conflict.row)
        stored = self._stored
        if stored is None or stored.task is None or not stored.running or self._row in self._conflicts:
            return ()  # cancelled or deleted meanwhile: the row says so already
        record = self._record
        if record is None or outcome.kind != "completed":
            # The attempt failed for good without coming to an answer, storage being away for many minutes.
            error = {"code": "server_error", "message": INTERRUPTED, "type": "server_error", "param": None}
            response: dict[str, Any] = {**stored.response, "status": "failed", "error": error, "output": []}
            record = TurnRecord(response, stored.input or [], continues=False)
        place = stored.place
        aside = Place(place.chain, self._work.response_id[-24:], place.turn)
        place = Place(place.chain, MAIN, place.turn)
        if not record.continues or keys.turn_row(place.log, place.turn) in self._conflicts:
            place = aside  # a failed turn has no place in the conversation; a taken place makes the turn a branch
        lineage = extend(self._before, place) if record.continues else self._before
        columns = response_columns(record, place, lineage, stored.task, self._opening(record.response))
        etag = self._etag or stored.etag
        final = Replace(self._row, *columns, etag) if etag else Put(self._row, *columns)
        return [*self._turns.rows(self._work.response_id, record, place), final]

    async def _close_when_stored(self, stream: EventStream, seq: int) -> None:
        """Followers end when the stream is closed, and it must not be before the response is final."""
        key = Key(self._scope, self._ctx.task_id)
        try:
            async with asyncio.timeout(_CLOSE_WITHIN):
                await current_engine().wait(key, self._ctx.input_id, seq)
                await stream.close()
        except Exception as error:
            _log.info("The stream of %s stays open: %r", self._work.response_id, error)


async def _read_earlier(stream: EventStream) -> EarlierEvents:
    """What an interrupted attempt has put into the stream: it took the stream's end, so nothing comes after that."""
    earlier = EarlierEvents()
    last = await stream.last_cursor()
    if last is None:
        return earlier
    async with aclosing(stream.subscribe()) as events:
        async for event in events:
            earlier.add(event)
            if event["sequence_number"] >= last:
                break
    return earlier
