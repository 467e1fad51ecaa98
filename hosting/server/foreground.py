"""The life of a foreground turn: it runs in the process of its request and ends with it.

    begin (one parallel read) -> agent -> commit (one atomic write) -> the terminal event or the JSON answer

The commit comes before `response.completed` is announced, so a client that has seen it can chain on the response.
When the client goes, the run is cancelled, the agent's stream is closed and the turn is stored as cancelled, in a task of
its own: the web framework cancels whatever the request still awaits, over and over, and clean-up must not be part of it.
If the process dies in the middle, nothing of the turn is stored and the conversation stands where it was.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hosting.responses import (
    DONE,
    KEEP_ALIVE,
    ApiError,
    CreateRequest,
    ResponseRenderer,
    encode_event,
    error_event,
    stored_input_items,
)
from hosting.server.agent_run import AgentRun, Emit, Event
from hosting.server.channel import Channel
from hosting.state import Turn, Turns
from hosting.storage import StorageError
from hosting.tasks import use_scope

__all__ = ["ForegroundTurn", "finish_running", "run_to_end", "stream_events"]

_log = logging.getLogger(__name__)

_TOO_LONG = "The response took longer than a foreground request may. Use background mode for long runs."

# Runs that outlive their request for a moment (clean-up after a disconnect): asyncio itself keeps only weak references.
_running: set[asyncio.Task[dict[str, Any]]] = set()


@dataclass(slots=True)
class ForegroundTurn:
    """A validated request with its agent and its place in the conversation, ready to run once."""

    request: CreateRequest
    target: Any
    turn: Turn
    turns: Turns
    model: str
    store: bool
    scope: str
    """On whose behalf: tasks that the agent starts are the caller's."""
    longest: float
    """Seconds after which the run is ended, whether or not somebody still waits."""

    async def run(self, emit: Emit) -> dict[str, Any]:
        """Run the agent and commit the turn; the final response object. Raises only CancelledError."""
        items = stored_input_items(self.request, self.turn.response_id)
        renderer = ResponseRenderer(
            response_id=self.turn.response_id, request=self.request, model=self.model, created_at=int(time.time())
        )
        run = AgentRun(self.target, self.request, items, self.turns, self.turn)
        try:
            await emit(renderer.start())
            try:
                async with asyncio.timeout(self.longest):
                    with use_scope(self.scope):
                        await run.run(renderer, emit, stream=self.request.stream)
            except TimeoutError:
                _log.warning("%s took longer than %.0f s", self.turn.response_id, self.longest)
                await emit(renderer.fail(message=_TOO_LONG))
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and _being_cancelled():
                    raise
                # Also a CancelledError that is the agent's own, of a task or a cancel scope inside it.
                _log.error("The agent failed in %s", self.turn.response_id, exc_info=error)
                await emit(renderer.fail())
        except asyncio.CancelledError:
            renderer.cancel()
            await self._commit(renderer, run)
            raise
        if not await self._commit(renderer, run):
            await emit(renderer.fail(code="server_error", message="The response could not be stored."))
        await emit([renderer.terminal()])
        return renderer.response

    async def _commit(self, renderer: ResponseRenderer, run: AgentRun) -> bool:
        """Store the turn; False when that is not possible (logged). Tried twice: a commit is safe to repeat."""
        if not self.store:
            return True
        try:
            record = run.record(renderer)
        except TypeError:  # the app put something into the session that can't be read back
            _log.exception("The session after %s can't be stored", self.turn.response_id)
            return False
        for attempt in (1, 2):
            try:
                await self.turns.commit(self.turn, record)
            except StorageError:
                _log.exception("Commit %d of 2 of %s failed", attempt, self.turn.response_id)
            else:
                return True
        return False


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _discard(events: Sequence[Event]) -> None:
    """The JSON answer needs the final object only."""


async def run_to_end(turn: ForegroundTurn, disconnected: Callable[[], Awaitable[None]]) -> dict[str, Any] | None:
    """Run a turn for a client that waits for one JSON answer; None when the client went first."""
    run = _start(turn, _discard)
    gone = asyncio.ensure_future(disconnected())
    try:
        await asyncio.wait({run, gone}, return_when=asyncio.FIRST_COMPLETED)
        if run.done():
            return run.result()
        return None
    finally:
        gone.cancel()
        run.cancel()  # no-op when it is done; else its own task stores the turn as cancelled


async def stream_events(turn: ForegroundTurn, keep_alive_seconds: float) -> AsyncIterator[bytes]:
    """Run a turn for a client that reads server-sent events. Closing the iterator cancels the run."""
    channel = Channel()
    run = _start(turn, channel.put)
    run.add_done_callback(lambda _: channel.close())
    last = -1
    try:
        async for events in channel.read(keep_alive_seconds):
            if not events:
                yield KEEP_ALIVE
                continue
            last = events[-1]["sequence_number"]
            yield b"".join(map(encode_event, events))
        if run.cancelled() or run.exception() is not None:  # a defect of ours: an agent's failure is an event
            _log.error("The run of %s ended without a terminal event", turn.turn.response_id, exc_info=run.exception())
            fault = ApiError.server_error()
            yield encode_event(error_event(fault, sequence_number=last + 1))
        yield DONE
    finally:
        run.cancel()


def _start(turn: ForegroundTurn, emit: Emit) -> asyncio.Task[dict[str, Any]]:
    run = asyncio.create_task(turn.run(emit), name=f"turn {turn.turn.response_id}")
    _running.add(run)
    run.add_done_callback(_running.discard)
    return run


async def finish_running(seconds: float) -> None:
    """Let the runs of this process finish, for at most so long. What is left is as if the process had died."""
    if _running:
        await asyncio.wait(_running, timeout=seconds)
