"""One attempt at a background response, in whichever process its task runs.

    look at the response row -> in_progress (which fences an attempt before this one) -> agent -> one transaction: the
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
from dataclasses import asdict, dataclass
from typing import Any

from hosting.responses import ResponseRenderer, parse_create_request
from hosting.server.agent_run import AgentRun, Event
from hosting.server.earlier_events import EarlierEvents
from hosting.server.transcript import INTERRUPTED
from hosting.state import AgentState, PreviousResponseNotFound, PreviousResponseUnfinished, StoredResponse, Turns
from hosting.state.lineage import MAIN, Lineage, Place, extend
from hosting.state.response_row import TurnRecord, response_columns, running_columns
from hosting.storage import Operation, Put, Replace, RowChanged, RowConflict, RowMissing, Store, keys
from hosting.streaming import EventStream, EventStreamError, StreamFenced, streams
from hosting.tasks import TaskContext, current_scope
from hosting.tasks.engine import Key, Outcome, current_engine

__all__ = ["CANCELLED_GENERATION", "FIRST_STORED_EVENT", "BackgroundRun", "Work"]

_log = logging.getLogger(__name__)

FIRST_STORED_EVENT = 2
"""Number of the first event that is in the stream."""

CANCELLED_GENERATION = 1 << 30
"""Of the writer that closes the stream of a cancelled response: later than every attempt's."""

_STUBBORN = 10.0
"""Seconds that an agent has to end when it is cancelled."""

_CLOSE_WITHIN = 60.0
"""Seconds after which the stream of an ended run is left open: followers see from the response row that it has ended."""

# Closers of streams whose handler has returned: asyncio itself keeps only weak references.
_closing: set[asyncio.Task[None]] = set()


@dataclass(frozen=True, slots=True)
class Work:
    """The input of the task: all that another process needs, but for the items, which are in the response row."""

    response_id: str
    previous: str | None
    body: dict[str, Any]
    model: str

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


class BackgroundRun:
    """Used once. `run` raises StorageError and EventStreamError, after which the task tries again."""

    def __init__(
        self, ctx: TaskContext[dict[str, Any]], work: Work, state: AgentState[Any], store: Store, *, resilient: bool
    ) -> None:
        self._ctx, self._work, self._state, self._store = ctx, work, state, store
        self._resilient = resilient
        self._scope = current_scope()
        self._turns = Turns(store, self._scope)
        self._row = keys.response_row(work.response_id)
        self._stored: StoredResponse | None = None
        self._etag = ""
        self._before: Lineage = ()
        self._record: TurnRecord | None = None
        self._conflicts: set[str] = set()

    async def run(self) -> None:
        """Run the attempt to its end; what it leaves is written when it has returned."""
        current_engine().commit_with_outcome(self._ctx, self._terminal_rows)
        stored = self._stored = await self._turns.response(self._work.response_id)
        if stored is None or stored.task is None:  # deleted
            return
        stream = await self._take_stream(stored) if stored.task.stream else None
        if stored.running and await self._begin(stored):
            await self._answer(stored, stream)
        if stream is not None:
            closer = asyncio.create_task(self._close_when_stored(stream, stored.task.seq))
            _closing.add(closer)
            closer.add_done_callback(_closing.discard)

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
        assert stored.task is not None
        response = {**stored.response, "status": "in_progress"}
        columns = running_columns(response, stored.input or [], stored.place, stored.before, stored.task)
        partition = keys.partition_key(self._scope, stored.place.chain)
        try:
            etags = await self._store.commit(partition, [Replace(self._row, *columns, stored.etag)])
        except (RowChanged, RowMissing):
            return False
        self._etag = etags[self._row]
        return True

    async def _answer(self, stored: StoredResponse, stream: EventStream | None) -> None:
        request = parse_create_request({**self._work.body, "input": stored.input or []}, allow_private_urls=True)
        items = stored.input or []

        async def emit(events: Sequence[Event]) -> None:
            if stream is not None:
                for event in events:
                    await stream.emit(event)

        earlier = await _read_earlier(stream) if stream is not None else EarlierEvents()
        number = max(earlier.next_sequence_number, FIRST_STORED_EVENT)
        left_open = [
            {"type": "response.output_item.done", "sequence_number": number + n, "output_index": index, "item": item}
            for n, (index, item) in enumerate(earlier.left_open())
        ]
        await emit(left_open)
        renderer = ResponseRenderer(
            response_id=self._work.response_id,
            request=request,
            model=self._work.model,
            created_at=stored.response["created_at"],
            first_sequence_number=number + len(left_open) - FIRST_STORED_EVENT,
            first_output_index=earlier.used_indexes,
        )
        renderer.enqueue()  # these two are announced already, or stand for the ones before a crash

        if stored.response["status"] == "in_progress" and not self._resilient:
            await emit(renderer.fail(message=INTERRUPTED))
            self._record = TurnRecord(renderer.response, items, continues=False)
        else:
            await self._run_agent(renderer, request, items, emit)
        if stream is not None:
            await stream.flush()  # nobody may see the response complete before its events are there

    async def _run_agent(self, renderer: ResponseRenderer, request: Any, items: Any, emit: Any) -> None:
        await emit(renderer.start())
        try:
            target = await self._state.get_target()
            from hosting.state import uses_table_history  # imports agent-framework, which the agent has done by now

            turn = await self._turns.resume(
                self._work.response_id, self._work.previous, history=uses_table_history(target)
            )
        except (PreviousResponseNotFound, PreviousResponseUnfinished):
            await emit(renderer.fail(message="The previous response is no longer there."))
            self._record = TurnRecord(renderer.response, items, continues=False)
            return
        self._before = turn.before
        run = AgentRun(target, request, items, self._turns, turn)
        agent = asyncio.create_task(run.run(renderer, emit, stream=True), name=f"agent {self._work.response_id}")
        told = asyncio.create_task(self._ctx.cancel.wait())
        try:
            await asyncio.wait({agent, told}, return_when=asyncio.FIRST_COMPLETED)
            if agent.done():
                if error := agent.exception():
                    raise error
            else:
                await self._stop(agent, renderer, emit)
        except EventStreamError:
            raise  # not the agent's fault: the attempt is made again, or belongs to somebody else
        except Exception:
            _log.exception("The agent failed in %s", self._work.response_id)
            await emit(renderer.fail())
        finally:
            told.cancel()
            agent.cancel()
        try:
            self._record = run.record(renderer)
        except TypeError:
            _log.exception("The session after %s can't be stored", self._work.response_id)
            await emit(renderer.fail(message="The response could not be stored."))
            self._record = TurnRecord(renderer.response, items, continues=False)

    async def _stop(self, agent: "asyncio.Task[None]", renderer: ResponseRenderer, emit: Any) -> None:
        """End the agent early, for the reason that the task gives."""
        agent.cancel()
        await asyncio.wait({agent}, timeout=_STUBBORN)
        match self._ctx.cancel_cause:
            case "lease_lost":
                # Nobody has asked for an end. It may be that no other attempt has begun (this process was only slow), and
                # then an answer of ours would count. So give none: the engine stops us, and the work is begun again.
                await asyncio.get_running_loop().create_future()
            case "newer_input":
                await emit(renderer.interrupt("steered"))
            case "timeout":
                await emit(renderer.fail(message="The response took longer than it may."))
            case _:
                await emit(renderer.cancel())

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
        columns = response_columns(record, place, lineage, stored.task)
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
