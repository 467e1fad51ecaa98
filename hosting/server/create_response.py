"""`POST /v1/responses`: who asks, what it continues, and whether it runs here or in the background."""

import inspect
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from hosting import telemetry
from hosting.identity import Caller
from hosting.ids import parse_id
from hosting.responses import (
    DONE,
    ApiError,
    CreateRequest,
    InvalidRequest,
    check_open_calls,
    encode_event,
    parse_create_request,
    stored_input_items,
)
from hosting.responses.builders import INTERNAL_METADATA
from hosting.responses.replay import replay_events
from hosting.server.answer import TurnInput
from hosting.server.background import BackgroundResponses, Submission
from hosting.server.caller import Callers, RequestFacts
from hosting.server.conversation_hold import ConversationHold
from hosting.server.follow import follow_accepted, follow_response
from hosting.server.foreground import ForegroundTurn, run_to_end, stream_events
from hosting.server.http import SSE_HEADERS, Request, Response, json_response
from hosting.server.idempotency import RepeatableRequest, body_digest, check_replayable, response_deleted
from hosting.server.limit_leases import Lease
from hosting.server.limits import Limits
from hosting.server.options import ResponsesServerOptions
from hosting.server.parsed_body import parse_body
from hosting.server.stored_input import begun_after, history_limit, with_referenced_items
from hosting.server.targets import Targets
from hosting.server.turn_telemetry import create_span, turn_telemetry
from hosting.server.waiting_turn import CancelledWithItsReader, WaitingTurn, end_of
from hosting.server.workflow_session import check_workflow_answers
from hosting.settings import Settings
from hosting.state import StoredResponse, Turn, Turns
from hosting.state.conversation_row import ConversationLocked, ConversationNotFound
from hosting.state.conversation_turns import ConversationPast, ConversationTurns
from hosting.state.idempotency import IdempotencyKeys
from hosting.state.lineage import MAIN, Place
from hosting.storage import StorageError, Store

__all__ = ["CreateResponse"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A validated request, and on whose behalf it runs."""

    create: CreateRequest
    turns: Turns
    scope: str
    model: str
    facts: RequestFacts
    past: ConversationPast | None = None
    """Of the conversation that it names."""


class CreateResponse:
    """The endpoint. `open_store` gives the store of the process."""

    def __init__(
        self,
        targets: Targets,
        callers: Callers,
        background: BackgroundResponses,
        limits: Limits,
        settings: Settings,
        options: ResponsesServerOptions,
        open_store: Callable[[], Store],
        keep_alive: float,
    ) -> None:
        self._targets, self._callers, self._background = targets, callers, background
        self._settings, self._options, self._open_store = settings, options, open_store
        self._limits, self._keep_alive = limits, keep_alive

    async def _read(self, request: Request, caller: Caller) -> tuple[object, str]:
        """What the body says, and its digest. The bytes are gone then: a turn may run for an hour."""
        body = await self._limits.guarded(request, caller).read_body(self._settings.max_request_bytes)
        return parse_body(body), body_digest(request, body)

    async def __call__(self, request: Request) -> Response:
        """Raises ApiError, NotAuthenticated, StorageError."""
        caller = self._callers.caller(request)
        scope = self._callers.scope_of(caller)
        parsed, digest = await self._read(request, caller)
        self._limits.check_items(parsed)
        create = _without_notes(parse_create_request(parsed))
        turns = Turns(self._open_store(), scope, max_history_bytes=self._settings.max_history_bytes)
        model = self._targets.model(create.model)
        asked = _Asked(create, turns, scope, model, self._callers.facts(request, caller))
        async with self._limits.admit(caller, scope, background=create.background, stream=create.stream) as lease:
            repeatable = RepeatableRequest(IdempotencyKeys(self._open_store(), scope), request, digest)
            if (known := await repeatable.known()) is not None:
                stored = await turns.response(known)
                if stored is None and await turns.had_ended(known):
                    stored = await turns.response(known)  # it may have ended between the two
                    if stored is None:
                        raise response_deleted()
                if stored is not None:
                    return lease.answer(await self._replayed(asked, stored, request))
            with history_limit(self._settings.max_history_bytes):
                create = await with_referenced_items(turns, create, longest=self._settings.max_request_bytes)
                asked, turn = await self._begin(replace(asked, create=create))
            request.share.admit()  # all that it needs is here, and what follows can't be taken back by refusing it
            if (earlier := await repeatable.claim(turn)) is not None:
                return lease.answer(await self._repeat(asked, turn, earlier, request, repeatable))
            if not create.background and not turn.after_unfinished:
                try:
                    return lease.answer(await self._run_here(asked, turn, request, lease))
                except (ApiError, StorageError):  # nothing of it has run: what goes wrong later is in the answer
                    await repeatable.release(turn)
                    raise
            try:
                stored = await self._accept(asked, turn, repeatable)
            except ApiError:  # refused: it will not run. (When storage fails it may have been accepted.)
                await repeatable.release(turn)
                raise
            # From here on it is accepted, and the key is its own whatever keeps the client from its answer.
            return lease.answer(await self._accepted(asked, turn, stored, request))

    async def _begin(self, asked: _Asked) -> tuple[_Asked, Turn]:
        """The turn, and the request as it is to be run. Raises ApiError for what can't be continued."""
        create = asked.create
        history = not create.background and await self._targets.reads_history(asked.model)
        if create.conversation_id is not None:
            asked, turn = await self._begin_in_conversation(asked, create.conversation_id, history)
        else:
            turn = await self._begin_after(asked, history)
        if not turn.after_unfinished:
            check_open_calls(turn.open_calls, asked.create)
            check_workflow_answers(turn.session, asked.create)
        return asked, turn

    async def _begin_after(self, asked: _Asked, history: bool) -> Turn:
        create = asked.create
        return await begun_after(
            asked.turns,
            create.previous_response_id,
            history=history,
            unfinished=self._options.steerable_conversations and create.store,
            session=not create.background,
        )

    async def _begin_in_conversation(self, asked: _Asked, identifier: str, history: bool) -> tuple[_Asked, Turn]:
        create, turns = asked.create, asked.turns
        given = [item["id"] for item in create.input_items if "id" in item]
        try:
            past = await ConversationTurns(turns.store, turns.scope).read(identifier, history=history, given=given)
        except ConversationNotFound:
            raise ApiError.conversation_not_found(identifier) from None
        except ConversationLocked:
            raise ApiError.conversation_locked() from None
        if create.store and past.conversation.owners and not self._options.steerable_conversations:
            raise ApiError.conversation_locked()
        if past.present:  # clients send again what the conversation has: it is there once
            items = tuple(item for item in create.input_items if item.get("id") not in past.present)
            if not items:
                raise InvalidRequest.duplicate_item("input", given[0])
            asked = replace(asked, create=replace(create, input_items=items))
        turn = past.turn()
        if not create.store:  # it takes no part in the conversation: nothing to wait for, nothing to write
            turn = replace(turn, after_unfinished=False)
        return replace(asked, past=past), turn

    async def _run_here(self, asked: _Asked, turn: Turn, request: Request, lease: Lease) -> Response:
        create, turns = asked.create, asked.turns
        given = TurnInput(
            request=create,
            items=stored_input_items(create, turn.response_id),
            turns=turns,
            turn=turn,
            model=asked.model,
            created_at=int(time.time()),
            stream=create.stream,
            facts=asked.facts,
        )
        async with AsyncExitStack() as stack:
            answer = await self._targets.answer(given)
            commit = partial(turns.commit, turn) if create.store else None
            if asked.past is not None and create.store:
                hold = await stack.enter_async_context(ConversationHold(turns, turn, asked.past.conversation))
                await self._take(hold)
                commit = hold.commit
            stack.enter_context(lease.hand_over())
            stack.enter_context(request.share)
            run = ForegroundTurn(
                turn.response_id,
                answer,
                commit,
                stack.pop_all(),
                asked.scope,
                turn_telemetry(answer, given, "foreground", self._options.create_span_hook),
                self._settings.foreground_seconds,
            )
        if create.stream:
            return Response(200, stream_events(run, self._keep_alive), dict(SSE_HEADERS), "text/event-stream")
        response = await run_to_end(run, request.disconnected)
        if response is None:
            _log.info("%s: the client went away, its run is cancelled", turn.response_id)
            return Response(499)  # nobody reads it; the number tells the log
        return json_response(response)

    async def _take(self, hold: ConversationHold) -> None:
        try:
            await hold.take()
        except ConversationLocked:
            raise ApiError.conversation_locked() from None
        except ConversationNotFound as error:
            raise ApiError.conversation_not_found(str(error)) from None

    async def _accept(self, asked: _Asked, turn: Turn, repeatable: RepeatableRequest) -> StoredResponse:
        """Accept a response that a task runs. Raises ApiError when it is refused."""
        create = asked.create
        submission = Submission(
            create,
            turn,
            asked.turns,
            asked.scope,
            asked.model,
            int(time.time()),
            asked.facts,
            asked.past,
            repeatable.move,
        )
        with create_span(self._options.create_span_hook, turn, asked.model, create.conversation_id):
            return await self._background.accept(submission)

    async def _accepted(self, asked: _Asked, turn: Turn, stored: StoredResponse, request: Request) -> Response:
        """Answer with the first state of an accepted response, its events, or its end."""
        create, turns = asked.create, asked.turns
        if create.stream:
            response = await follow_accepted(turns, stored, self._keep_alive)
            if not create.background and not isinstance(response.body, bytes):
                response.body = CancelledWithItsReader(response.body, WaitingTurn(self._background, turns, stored))
            return response
        if create.background:
            return json_response(await self._queued_body(create, stored) if turn.after_unfinished else stored.response)
        return await WaitingTurn(self._background, turns, stored).end(request)

    async def _queued_body(self, create: CreateRequest, stored: StoredResponse) -> dict[str, Any]:
        """What a turn that waits is answered with: the app may say it in its own way."""
        acceptor = self._targets.acceptor
        if acceptor is None:
            return stored.response
        try:
            body = acceptor(create.to_body(), stored.response)
            return dict(await body if inspect.isawaitable(body) else body)
        except Exception as error:
            _log.error("The response acceptor failed for %s: %s", stored.response["id"], telemetry.describe(error))
            return stored.response

    async def _repeat(
        self, asked: _Asked, turn: Turn, earlier: str, request: Request, repeatable: RepeatableRequest
    ) -> Response:
        """Answer a repeated request with what the first one made."""
        create, turns = asked.create, asked.turns
        stored = await turns.response(earlier)
        if stored is None and create.background and not await turns.had_ended(earlier):
            # The process died between the claim of the key and the acceptance, or is just there: accepting it under the
            # claimed id is safe, because only one of two acceptances of one id can succeed.
            try:
                accepted = await self._accept(asked, _at(turn, earlier), repeatable)
            except ApiError:
                stored = await turns.response(earlier)
            else:
                return await self._accepted(asked, turn, accepted, request)
        if stored is None:
            message = "The first request with this Idempotency-Key has not ended, or its response was not stored."
            raise ApiError.conflict(message, code="idempotency_key_in_use", retry=create.store)
        return await self._replayed(asked, stored, request)

    async def _replayed(self, asked: _Asked, stored: StoredResponse, request: Request) -> Response:
        """A stored response in the form that was asked for. Raises ApiError 409 for one that is no answer."""
        if stored.running and not stored.response["background"] and not asked.create.stream:
            # A turn that waits behind another one. Who repeats its request may not be alone: its going cancels nothing.
            final = await end_of(asked.turns, stored, request)
            if final is None:
                return Response(499)
            stored = final
        check_replayable(stored)
        if not asked.create.stream:
            return json_response(stored.response)
        if stored.task is not None:
            return await follow_response(asked.turns, stored, -1, self._keep_alive)
        chunks = [encode_event(event) for event in replay_events(stored.response)]
        return Response(200, _pieces([*chunks, DONE]), dict(SSE_HEADERS), "text/event-stream")


def _at(turn: Turn, identifier: str) -> Turn:
    """The turn under an id that was claimed before."""
    parsed = parse_id(identifier, "resp")
    assert parsed is not None
    return replace(turn, response_id=identifier, place=Place(parsed.chain, MAIN, parsed.turn))


def _without_notes(create: CreateRequest) -> CreateRequest:
    """The key under which handlers keep notes of their own is not the client's to set."""
    if INTERNAL_METADATA not in create.metadata:
        return create
    return replace(create, metadata={key: value for key, value in create.metadata.items() if key != INTERNAL_METADATA})


async def _pieces(chunks: Sequence[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
