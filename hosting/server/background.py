"""Background responses: accepted in one transaction, run as a task by whichever process is there, cancelled from anywhere.

A response that is not steered is a one-shot task of its own. With steerable conversations, the responses of a chain are
the turns of one task: a new one waits behind the one that runs, and that one is told to come to an end.
"""

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from hosting.ids import new_chain, parse_id, response_id
from hosting.responses import ApiError, CreateRequest, ResponseRenderer, stored_input_items
from hosting.server.background_run import BackgroundRun
from hosting.server.background_work import Work
from hosting.server.caller import RequestFacts
from hosting.server.cancel_response import cancel_response
from hosting.server.options import ResponsesServerOptions
from hosting.server.targets import Targets
from hosting.server.unanswered import AgentNotLoaded
from hosting.server.working_memory import WorkingMemory
from hosting.settings import Settings
from hosting.state import StoredResponse, TaskRef, Turn, Turns
from hosting.state.conversation_row import ConversationLocked, ConversationNotFound, owned
from hosting.state.conversation_turns import ConversationPast, ConversationTurns
from hosting.state.lineage import Place
from hosting.state.response_row import running_columns
from hosting.state.retention_forks import keep_for_fork
from hosting.storage import Insert, Operation, RowConflict, StorageError, Store, keys
from hosting.streaming import EventStreamError, streams
from hosting.tasks import (
    LastInputIdPreconditionFailed,
    RetryPolicy,
    SteeringQueueFull,
    TaskConflictError,
    TaskContext,
    multi_turn_task,
    task,
)
from hosting.tasks.engine import Key, Slot, StartRequest, current_engine

__all__ = ["BackgroundResponses", "Submission"]

_LONGEST = timedelta(days=7)
"""The most that a task may take. An agent that should be stopped earlier has a limit of its own."""

_RACES = 5
"""Times that a conversation may have changed between reading it and taking part in it."""

# Only for what storage does to us, and for an agent that can't be made, which a deployment may have broken and the next one
# mends: an agent's own failure is an answer, and never runs it again.
_MENDED = (StorageError, EventStreamError, AgentNotLoaded)
_RETRY = RetryPolicy(max_attempts=10, max_delay=timedelta(seconds=30), retry_on=_MENDED)


@dataclass(frozen=True, slots=True)
class Submission:
    """A validated request with its place in the conversation."""

    request: CreateRequest
    turn: Turn
    turns: Turns
    scope: str
    model: str
    created_at: int
    facts: RequestFacts
    past: ConversationPast | None = None
    """Of the conversation that it is a turn of."""
    renamed: Callable[[str, str], Awaitable[None]] | None = None
    """Awaited with its old and its new id before it is accepted under the new one."""


class BackgroundResponses:
    """The background responses of this process's app. Declares their tasks when it is made."""

    def __init__(
        self,
        targets: Targets,
        options: ResponsesServerOptions,
        settings: Settings,
        open_store: Callable[[], Store],
        memory: WorkingMemory,
    ) -> None:
        self._options, self._open_store = options, open_store

        async def run(ctx: TaskContext[dict[str, Any]]) -> Any:
            run = BackgroundRun(
                ctx,
                targets,
                open_store(),
                memory,
                resilient=options.resilient_background,
                settings=settings,
            )
            return await run.run()

        self._single = task(run, name="hosting.response", timeout=_LONGEST, retry=_RETRY)
        self._chain = multi_turn_task(run, name="hosting.conversation", timeout=_LONGEST, retry=_RETRY, steerable=True)

    async def accept(self, submission: Submission) -> StoredResponse:
        """Store the response as queued and its run as a task, in one transaction. It is durable when this returns.

        Raises ApiError: 409 conversation_fork_not_supported for a turn that can't queue, 429 when nine wait; StorageError.
        """
        try:
            return await self._accept_in_turn(submission)
        except LastInputIdPreconditionFailed as refused:
            if submission.turn.after_unfinished:
                raise ApiError.conflict(
                    "Another response already waits behind the one that is running: continue from that one.",
                    code="conversation_fork_not_supported",
                    param="previous_response_id",
                ) from None
            return await self._accept_elsewhere(submission, refused.actual_last_input_id)
        except SteeringQueueFull:
            raise ApiError.rate_limited("Too many turns wait behind the running one.", retry_after=5) from None
        except TaskConflictError:
            raise ApiError.conversation_locked() from None

    async def _accept_elsewhere(self, submission: Submission, last: str | None) -> StoredResponse:
        """Accept a turn whose predecessor is not the last one that the chain's task knows of, `last`.

        Either that one came earlier, and foreground turns after it, which need no task: then the turn is the next one all the
        same. Or it is a branch of an older response, which needs no place in the queue: it is a conversation of its own.
        """
        if _came_before(last, submission.turn.place):
            with suppress(LastInputIdPreconditionFailed):  # another turn was faster: this one is a branch
                return await self._accept(submission, last)
        branched = await _renamed(submission, _branched(submission))
        parent, fork = submission.turn.place.chain, branched.turn.place.chain
        await keep_for_fork(self._open_store(), submission.scope, parent, fork)
        return await self._accept(branched, submission.request.previous_response_id)

    async def _accept_in_turn(self, submission: Submission) -> StoredResponse:
        """Accept; again with a later place, when the conversation has gone on since it was read."""
        for _ in range(_RACES):
            try:
                return await self._accept(submission, submission.request.previous_response_id)
            except ConversationLocked:
                raise ApiError.conversation_locked() from None
            except RowConflict as conflict:
                past = submission.past
                if past is None or conflict.row != keys.conversation_row(past.conversation.id):
                    raise
                submission = await self._read_again(submission, past.conversation.id)
        raise ApiError.conversation_locked()

    async def _read_again(self, submission: Submission, conversation: str) -> Submission:
        turns = submission.turns
        try:
            past = await ConversationTurns(turns.store, turns.scope).read(conversation, history=False)
        except ConversationNotFound:
            raise ApiError.conversation_not_found(conversation) from None
        if past.conversation.owners and not self._options.steerable_conversations:
            raise ApiError.conversation_locked()
        return await _renamed(submission, replace(submission, turn=past.turn(), past=past))

    async def _accept(self, submission: Submission, last: str | None) -> StoredResponse:
        """Accept, if `last` is the newest turn that the chain's task knows of; None does not ask."""
        request, turn, past = submission.request, submission.turn, submission.past
        items = stored_input_items(request, turn.response_id)
        renderer = ResponseRenderer(
            response_id=turn.response_id, request=request, model=submission.model, created_at=submission.created_at
        )
        renderer.enqueue()
        steerable = self._options.steerable_conversations
        task_id = _chain_task(turn.place.chain) if steerable else turn.response_id
        work = Work(_without_input(request), submission.model, submission.facts.to_document())
        accepted: list[StoredResponse] = []

        def rows(slot: Slot) -> list[Operation]:
            ref = TaskRef(task_id, slot.seq, request.stream)
            columns = running_columns(renderer.response, items, turn.place, turn.before, ref)
            accepted[:] = [StoredResponse(renderer.response, turn.place, turn.before, "", items, ref)]
            row = Insert(keys.response_row(turn.response_id), *columns)
            if past is None:
                return [row]
            return [row, owned(past.conversation, turn.response_id, now=time.time())]

        declared = (self._chain if steerable else self._single).declared
        await current_engine().start(
            StartRequest(
                declared,
                Key(submission.scope, task_id),
                turn.response_id,
                work.to_document(),
                if_last_input_id=last if steerable else None,
                known_new=not steerable or (request.previous_response_id is None and past is None),
            ),
            rows,
        )
        return accepted[-1]

    async def cancel(self, turns: Turns, identifier: str, *, foreground: bool = False) -> dict[str, Any]:
        """See `cancel_response`."""
        return await cancel_response(turns, identifier, engine=current_engine(), streams=streams, foreground=foreground)


def _chain_task(chain: str) -> str:
    """The id of the task that a chain's turns belong to: in our grammar, so that it lies in the chain's partition."""
    return f"chain_{chain}{'0' * 32}"


def _without_input(request: CreateRequest) -> dict[str, Any]:
    """The items are in the response row already, which spills: a task's input may not be as large as a request."""
    return {name: value for name, value in request.to_body().items() if name != "input"}


def _came_before(last: str | None, place: Place) -> bool:
    """Whether a task's last turn lies before a place in its chain; no turn at all does."""
    if last is None:
        return True
    parsed = parse_id(last, "resp")
    return parsed is not None and parsed.chain == place.chain and parsed.turn < place.turn


async def _renamed(before: Submission, after: Submission) -> Submission:
    if before.renamed is not None:
        await before.renamed(before.turn.response_id, after.turn.response_id)
    return after


def _branched(submission: Submission) -> Submission:
    turn = submission.turn
    place = replace(turn.place, chain=new_chain())
    return replace(submission, turn=replace(turn, response_id=response_id(place.chain, place.turn), place=place))
