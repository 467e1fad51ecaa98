"""The life of a foreground turn: it runs in the process of its request and ends with it.

    begin (one parallel read) -> answer -> commit (one atomic write) -> the terminal event or the JSON answer

The commit comes before `response.completed` is announced, so a client that has seen it can chain on the response.
When the client goes, the run is told to end, or cancelled if it can't be told, and the turn is stored as cancelled, in a task
of its own: the web framework cancels whatever the request still awaits, over and over, and clean-up must not be part of it.
If the process dies in the middle, nothing of the turn is stored and the conversation stands where it was.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from math import isfinite
from typing import Any

from hosting import telemetry
from hosting.read_budget import ReadTooLarge
from hosting.responses import DONE, KEEP_ALIVE, ApiError, Event, encode_event, error_event
from hosting.server.answer import Answer, Emit, StopCause
from hosting.server.channel import Channel
from hosting.server.handler import ResponseNotCreated
from hosting.server.stored_input import TOO_LONG
from hosting.server.transcript import INTERRUPTED
from hosting.state import TurnRecord
from hosting.state.conversation_row import ConversationLocked, ConversationNotFound
from hosting.storage import StorageError
from hosting.tasks import use_scope

__all__ = ["ForegroundTurn", "finish_running", "run_to_end", "stream_events"]

_log = logging.getLogger(__name__)

_TOO_LONG = "The response took longer than a foreground request may. Use background mode for long runs."

_NOT_STORED = "The response could not be stored."

_LAST_WORDS = 2.0
"""Seconds that interrupted runs have to store their end when the process stops."""

_UNREAD = 30.0
"""Seconds after which a stream that nobody has begun to read is given up."""

_TERMINAL = frozenset({"response.completed", "response.failed", "response.incomplete"})

type Json = dict[str, Any]

# Runs that outlive their request for a moment (clean-up after a disconnect): asyncio itself keeps only weak references.
_running: "dict[asyncio.Task[Json], ForegroundTurn]" = {}


@dataclass(slots=True, eq=False)
class ForegroundTurn:
    """A turn that is ready to run once."""

    response_id: str
    answer: Answer
    commit: Callable[[TurnRecord], Awaitable[None]] | None
    """Stores the turn, all or nothing; safe to repeat. None for a response that is not stored."""
    held: AbstractAsyncContextManager[object]
    """What the turn holds while it runs: its place among the concurrent runs, the lock of its conversation."""
    scope: str
    """On whose behalf: tasks that the agent starts are the caller's."""
    traced: telemetry.Turn
    longest: float
    """Seconds after which the run is ended, whether or not somebody still waits."""
    interrupted: bool = False
    """Whether the run is cancelled because the process stops, not because its client has gone."""

    async def run(self, emit: Emit, emit_last: Emit) -> Json:
        """Run to the end and commit the turn; the final response object. Raises CancelledError and ResponseNotCreated.

        `emit` may wait for the reader, within `longest`. `emit_last` takes what is said after that, and never waits: a reader
        that stalls would keep the run, and all that it holds, as long as it likes.
        """
        async with self.held:
            with self.traced as traced:

                async def observed(events: Sequence[Event]) -> None:
                    traced.emitted(events)
                    await emit(events)

                try:
                    await self._answer(observed, emit_last)
                except asyncio.CancelledError:
                    await self._end_cancelled(emit_last)
                    traced.ended(self.answer.response["status"], self.answer.response.get("usage"))
                    raise
                if (why_not := await _to_its_end(self._commit())) is not None:
                    await emit_last(self.answer.fail(message=why_not))
                traced.ended(self.answer.response["status"], self.answer.response.get("usage"))
            await emit_last([self.answer.terminal()])
            return self.answer.response

    async def _answer(self, emit: Emit, emit_last: Emit) -> None:
        limit = asyncio.timeout(self.longest)
        try:
            async with limit:
                with use_scope(self.scope):
                    await self.answer.run(emit)
        except ResponseNotCreated:
            raise
        except (Exception, asyncio.CancelledError, SystemExit) as error:
            if limit.expired():
                _log.warning("%s took longer than %.0f s", self.response_id, self.longest)
                await emit_last(self.answer.fail(message=_TOO_LONG))
                return
            if isinstance(error, asyncio.CancelledError) and _being_cancelled():
                raise
            # Also a CancelledError that is the agent's own, of a task or a cancel scope inside it; and its sys.exit(), which
            # would take all the other turns of this process with it.
            self.traced.ended("failed", error=error)
            _log.error("The agent failed in %s: %s", self.response_id, telemetry.describe(error))
            await emit_last(self.answer.fail(message=TOO_LONG if isinstance(error, ReadTooLarge) else None))

    async def _end_cancelled(self, emit_last: Emit) -> None:
        # The process may stop while a turn whose client has gone is being stored: that cancels a second time.
        if not self.interrupted:
            self.answer.cancel()  # nobody is there to read it
            await _to_its_end(self._commit())
            return
        await emit_last(self.answer.fail(message=INTERRUPTED))
        await _to_its_end(self._commit())
        await emit_last([self.answer.terminal()])

    async def _commit(self) -> str | None:
        """Store the turn; what its client reads when that is not possible (logged). Tried twice: a commit is safe to repeat."""
        if self.commit is None:
            return None
        try:
            record = self.answer.record()
        except (TypeError, ValueError) as error:  # the app put something into the session that can't be read back
            _log.error("The session after %s can't be stored: %s", self.response_id, telemetry.describe(error))
            return _NOT_STORED
        for attempt in (1, 2):
            try:
                await self.commit(record)
            except StorageError as error:
                _log.error("Commit %d of 2 of %s failed: %s", attempt, self.response_id, telemetry.describe(error))
            except ConversationNotFound:
                _log.info("%s: its conversation was deleted while it ran", self.response_id)
                return "The conversation is no longer there."
            except ConversationLocked:
                _log.error("%s has lost its conversation, it can't be stored there", self.response_id)
                return "Another turn has taken over the conversation."
            else:
                return None
        return _NOT_STORED

    def stop(self, run: "asyncio.Task[Json]", cause: StopCause) -> None:
        """Have the run end: it is told, and cancelled when its time for that is over."""
        if run.done():
            return
        seconds = self.answer.stop(cause)
        if not seconds:
            run.cancel()
        elif isfinite(seconds) and cause != "shutdown":
            asyncio.get_running_loop().call_later(seconds, run.cancel)


async def _to_its_end[T](commit: Coroutine[Any, Any, T]) -> T:
    """The answer is complete: neither a client that goes now nor a process that stops undoes it."""
    task = asyncio.ensure_future(commit)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:  # the one may come after the other
            cancelled = error
    if cancelled is not None and task.exception() is None:
        raise cancelled
    return task.result()


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _discard(events: Sequence[Event]) -> None:
    """The JSON answer needs the final object only."""


async def run_to_end(turn: ForegroundTurn, disconnected: Callable[[], Awaitable[None]]) -> Json | None:
    """Run a turn for a client that waits for one JSON answer; None when the client went first. Raises ResponseNotCreated."""
    run = _start(turn, _discard, _discard)
    gone = asyncio.ensure_future(disconnected())
    try:
        await asyncio.wait({run, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not run.done():
            return None
        if run.cancelled():  # the process stops: the turn is stored as failed by then
            return turn.answer.response
        return run.result()
    finally:
        gone.cancel()
        turn.stop(run, "cancel_requested")  # no-op when it is done; else its own task stores the turn as cancelled


def stream_events(turn: ForegroundTurn, keep_alive_seconds: float) -> AsyncIterator[bytes]:
    """Start a turn for a client that reads server-sent events. Closing the iterator ends the run."""
    channel = Channel()
    run = _start(turn, channel.put, channel.put_last)
    run.add_done_callback(lambda _: channel.close())
    # A client may be gone before anything asks for the first event, and then nothing closes the iterator.
    unread = asyncio.get_running_loop().call_later(_UNREAD, turn.stop, run, "cancel_requested")
    return _read(turn, run, channel, keep_alive_seconds, unread)


async def _read(
    turn: ForegroundTurn,
    run: "asyncio.Task[Json]",
    channel: Channel,
    keep_alive_seconds: float,
    unread: asyncio.TimerHandle,
) -> AsyncIterator[bytes]:
    last, ended = -1, False
    try:
        unread.cancel()
        async for events in channel.read(keep_alive_seconds):
            if not events:
                yield KEEP_ALIVE
                continue
            last = events[-1]["sequence_number"]
            ended = events[-1]["type"] in _TERMINAL
            yield b"".join(map(encode_event, events))
        if not ended:  # an agent's failure is an event, so this is a handler without a response, or a defect of ours
            error = None if run.cancelled() else run.exception()
            said = telemetry.describe(error) if error is not None else "cancelled"
            _log.error("The run of %s ended without a terminal event: %s", turn.response_id, said)
            yield encode_event(error_event(ApiError.server_error(), sequence_number=last + 1))
        yield DONE
    finally:
        channel.abandon()
        turn.stop(run, "cancel_requested")


def _start(turn: ForegroundTurn, emit: Emit, emit_last: Emit) -> "asyncio.Task[Json]":
    run = asyncio.create_task(turn.run(emit, emit_last), name=f"turn {turn.response_id}")
    _running[run] = turn
    run.add_done_callback(lambda _: _running.pop(run))
    return run


async def finish_running(seconds: float) -> None:
    """Let the runs of this process finish, for at most so long. Then they are stored as failed, if there is time."""
    if not _running:
        return
    for run, turn in list(_running.items()):
        turn.stop(run, "shutdown")
    await asyncio.wait(list(_running), timeout=seconds)
    if not _running:
        return
    for run, turn in list(_running.items()):
        turn.interrupted = True
        run.cancel()
    await asyncio.wait(list(_running), timeout=_LAST_WORDS)
