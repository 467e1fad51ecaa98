"""One attempt at a background response, in whichever process its task runs.

    look at the response row -> take the stream -> in_progress (these two fence an attempt before this one) -> answer ->
    one transaction: the turn, the response and the end of the task -> the stream is closed

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
from contextlib import suppress
from dataclasses import replace
from typing import Any

from hosting import telemetry
from hosting.read_budget import ReadTooLarge, read_at_most
from hosting.responses import CreateRequest, Event, parse_create_request
from hosting.server.answer import Answer, Attempt, TurnInput
from hosting.server.background_work import Work, tenant_of
from hosting.server.caller import RequestFacts
from hosting.server.drive import drive
from hosting.server.earlier_events import EarlierEvents, read_earlier
from hosting.server.rendered_answer import RenderedAnswer
from hosting.server.running_row import RunningRow
from hosting.server.stored_input import TOO_LONG
from hosting.server.targets import Targets
from hosting.server.transcript import INTERRUPTED
from hosting.server.turn_telemetry import turn_telemetry
from hosting.server.unanswered import load_agent, without_answer
from hosting.server.waiting_run import run_when_there_is_room
from hosting.server.working_memory import MemoryFull, WorkingMemory
from hosting.settings import Settings
from hosting.state import PreviousResponseNotFound, PreviousResponseUnfinished, StoredResponse, Turn, Turns
from hosting.state.conversation_row import ConversationLocked, ConversationNotFound, item_rows
from hosting.state.conversation_turns import ConversationTurns
from hosting.state.lineage import MAIN, Place, extend
from hosting.state.response_row import TurnRecord, conversation_of, response_columns
from hosting.storage import Operation, Replace, RowConflict, StorageError, StorageUnavailable, Store, keys
from hosting.streaming import EventStream, EventStreamNotFoundError, StreamFenced, streams
from hosting.tasks import TaskContext, current_scope
from hosting.tasks.engine import Key, Outcome, current_engine

__all__ = ["CANCELLED_GENERATION", "BackgroundRun"]

_log = logging.getLogger(__name__)

CANCELLED_GENERATION = 1 << 30
"""Of the writer that closes the stream of a cancelled response: later than every attempt's."""

_CLOSE_WITHIN = 60.0
"""Seconds after which the stream of an ended run is left open: followers see from the response row that it has ended."""

# Closers of streams whose handler has returned: asyncio itself keeps only weak references.
_closing: set[asyncio.Task[None]] = set()


class BackgroundRun:
    """Used once. `run` raises StorageError and EventStreamError, after which the task tries again."""

    def __init__(
        self,
        ctx: TaskContext[dict[str, Any]],
        targets: Targets,
        store: Store,
        memory: WorkingMemory,
        *,
        resilient: bool,
        settings: Settings,
    ) -> None:
        self._ctx, self._targets, self._store = ctx, targets, store
        self._id = ctx.input_id
        self._resilient, self._max_recoveries = resilient, settings.max_recoveries
        self._scope = current_scope()
        self._turns = Turns(store, self._scope, max_history_bytes=settings.max_history_bytes)
        self._share = memory.share(tenant_of(ctx.input, self._scope))
        self._row = keys.response_row(self._id)
        self._stored: StoredResponse | None = None
        self._stream: EventStream | None = None
        self._progress: RunningRow | None = None
        self._record: TurnRecord | None = None
        self._cancelled = asyncio.Event()  # from outside, as this run has found out by itself
        self._conflicts: set[str] = set()

    async def run(self) -> Any:
        """Run the attempt to its end; what it leaves is written when it has returned."""
        current_engine().commit_with_outcome(self._ctx, self._terminal_rows)
        return await run_when_there_is_room(self._ctx, self._share, self._store, self._begun_run)

    async def _begun_run(self) -> Any:
        try:
            return await self._run()
        except MemoryFull:
            self._stored = self._stream = None  # what waits for memory should have none
            raise

    async def _run(self) -> Any:
        try:
            stored = self._stored = await self._turns.response(self._id)
        except StorageError:
            # If this is the last attempt, the response is to be ended all the same: its items may be in a blob that is away.
            self._stored = await self._turns.response(self._id, items=False)
            raise
        if stored is None or stored.task is None:  # deleted
            return None
        stream = self._stream = await self._take_stream(stored) if stored.task.stream else None
        while self._stored is not None and self._stored.running:
            try:
                if not await self._answer(self._stored):
                    return await self._ctx.exit_for_recovery()  # the stream stays open for the next attempt
                break
            except _Changed:  # cancelled or deleted, or an attempt before this one was still at it
                self._stored = await self._turns.response(self._id)
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

    async def _answer(self, stored: StoredResponse) -> bool:
        """Run the answer; what it leaves is in the record. False: it was left to another process. Raises _Changed."""
        given = await self._input(stored)
        if given.attempt.persisted is not None and not self._may_run_again():
            return await self._fail(given, INTERRUPTED)
        try:
            with read_at_most(self._turns.max_history_bytes):
                given = replace(given, turn=await self._resume(given.request, given.model))
        except ReadTooLarge:
            return await self._fail(given, TOO_LONG)
        except (PreviousResponseNotFound, PreviousResponseUnfinished):
            return await self._fail(given, "The previous response is no longer there.")
        except ConversationNotFound:
            return await self._fail(given, "The conversation is no longer there.")
        self._share.admit()  # all that it needs is here
        answer = await load_agent(
            self._targets.answer(given), self._id
        )  # before it has begun: else it may not be tried again
        row = self._progress = RunningRow(self._store, self._scope, stored, given.turn.before)
        await self._begin(row)
        with turn_telemetry(answer, given, "background") as traced:

            async def emit(events: Sequence[Event]) -> None:
                traced.emitted(events)
                await self._emit(events)

            if not await drive(answer, self._ctx, emit, cancelled=self._cancelled):
                return False
            with suppress(RowConflict):  # the transaction of the end will find out, too
                await row.settle()
            await self._keep(answer, given)
            traced.ended(answer.response["status"], answer.response.get("usage"))
        return True

    async def _begin(self, row: RunningRow) -> None:
        """Mark the response as running, and by that keep an attempt before this one from writing it."""
        try:
            try:
                await row.write(row.stored.snapshot)
            except StorageUnavailable:
                await row.settle()
        except RowConflict as error:
            raise _Changed from error

    async def _fail(self, given: TurnInput, message: str) -> bool:
        answer = RenderedAnswer(given, None)
        await self._emit(answer.fail(message=message))
        await self._keep(answer, given)
        return True

    async def _emit(self, events: Sequence[Event]) -> None:
        if self._stream is None or self._cancelled.is_set():
            return
        try:
            for event in events:
                await self._stream.emit(event)
        except (StreamFenced, EventStreamNotFoundError):
            # Whoever cancels a response closes its stream at once, long before a run elsewhere looks whether it was told.
            found = await self._turns.response(self._id)
            if found is not None and found.running:
                raise
            self._cancelled.set()

    async def _checkpoint(self, snapshot: dict[str, Any]) -> None:
        """Store the progress of a handler. Raises StorageError; the earlier checkpoint stands then."""
        if self._stream is not None:
            await self._stream.flush()  # what the snapshot says has been said
        assert self._progress is not None
        await self._progress.write(snapshot)

    def _may_run_again(self) -> bool:
        crashes = current_engine().crashes(self._ctx)
        if crashes > self._max_recoveries:
            _log.error("%s is given up: %d processes have died at it", self._id, crashes)
            return False
        return self._resilient

    async def _keep(self, answer: Answer, given: TurnInput) -> None:
        try:
            self._record = answer.record()
        except (TypeError, ValueError) as error:
            _log.error("The session after %s can't be stored: %s", self._id, telemetry.describe(error))
            await self._emit(answer.fail(message="The response could not be stored."))
            self._record = TurnRecord(answer.response, given.items, continues=False)
        if self._stream is not None and not self._cancelled.is_set():
            await self._stream.flush()  # nobody may see the response complete before its events are there

    async def _input(self, stored: StoredResponse) -> TurnInput:
        items, ctx = stored.input or [], self._ctx
        work = Work.from_document(ctx.input)
        interrupted = stored.response["status"] == "in_progress"
        return TurnInput(
            request=parse_create_request({**work.body, "input": items}, allow_private_urls=True),
            items=items,
            turns=self._turns,
            turn=Turn(self._id, stored.place),
            model=work.model,
            created_at=stored.response["created_at"],
            stream=True,
            facts=RequestFacts.from_document(work.facts),
            attempt=Attempt(
                announced=True,
                earlier=await read_earlier(self._stream) if self._stream is not None else EarlierEvents(),
                persisted=stored.snapshot if interrupted else None,
                recoverable=self._resilient,
                steered=ctx.is_steered_turn,
                pending=lambda: ctx.pending_input_count,
                shutdown=ctx.shutdown,
                checkpoint=self._checkpoint if self._resilient else None,
            ),
        )

    async def _resume(self, request: CreateRequest, model: str) -> Turn:
        history = await load_agent(self._targets.reads_history(model), self._id)
        if request.conversation_id is not None:
            turns = ConversationTurns(self._store, self._scope)
            try:
                past = await turns.read(request.conversation_id, history=history)
            except ConversationLocked as error:  # others write all the time: the attempt is made again
                raise StorageUnavailable("the conversation could not be read") from error
            return past.turn(self._id)
        return await self._turns.resume(self._id, request.previous_response_id, history=history)

    def _terminal_rows(self, outcome: Outcome, conflict: RowConflict | None) -> Sequence[Operation]:
        """The turn and the final response, for the transaction that ends the task."""
        if conflict is not None:
            self._conflicts.add(conflict.row)
        stored, record = self._stored, self._record
        if stored is None or stored.task is None or not stored.running:
            return ()
        if self._row in self._conflicts:  # cancelled or deleted meanwhile: the row says so already
            return () if record is None else record.extra
        if record is None or outcome.kind != "completed":
            response = without_answer(stored.response, outcome, log=conflict is None)
            record = TurnRecord(response, stored.input or [], continues=False)
        place = stored.place
        aside = Place(place.chain, self._id[-24:], place.turn)
        place = Place(place.chain, MAIN, place.turn)
        if not record.continues or keys.turn_row(place.log, place.turn) in self._conflicts:
            place = aside  # a failed turn has no place in the conversation; a taken place makes the turn a branch
        row = self._progress or RunningRow(self._store, self._scope, stored, stored.before)
        lineage = extend(row.before, place) if record.continues else row.before
        columns = response_columns(record, place, lineage, stored.task, row.opening(record.response))
        final = Replace(self._row, *columns, row.etag)
        rows = [*self._turns.rows(self._id, record, place), final]
        if place.log == MAIN and conversation_of(record.response) is not None:
            rows += item_rows(place.chain, place.turn, [*record.input, *record.response["output"]])
        return rows

    async def _close_when_stored(self, stream: EventStream, seq: int) -> None:
        """Followers end when the stream is closed, and it must not be before the response is final."""
        key = Key(self._scope, self._ctx.task_id)
        try:
            async with asyncio.timeout(_CLOSE_WITHIN):
                await current_engine().wait(key, self._ctx.input_id, seq)
                await stream.close()
        except Exception as error:
            _log.info("The stream of %s stays open: %r", self._id, error)


class _Changed(Exception):
    """Somebody else has written the response row since it was read."""
