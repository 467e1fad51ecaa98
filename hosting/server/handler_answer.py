"""The answer of a response handler: the app makes the events itself, and may be told to come to an end."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

from hosting import telemetry
from hosting.read_budget import charge, read_at_most
from hosting.responses import Event, Item, new_envelope
from hosting.server.answer import FIRST_STORED_EVENT, Emit, StopCause, TurnInput
from hosting.server.chain_metadata_rows import StoredChainMetadata
from hosting.server.context import ModeFlags, PlatformContext, ResponseContext
from hosting.server.handler import ResponseHandler, run_handler
from hosting.server.options import ResponsesServerOptions
from hosting.server.transcript import Transcript
from hosting.state import Turn, TurnRecord, Turns
from hosting.state.items import find_items, turn_items
from hosting.state.lineage import places
from hosting.storage import StorageError

__all__ = ["HandlerAnswer", "chain_id"]

_log = logging.getLogger(__name__)

_WIND_DOWN = 10.0
"""Seconds that a handler has to end when its client has cancelled (the published server's figure)."""


def chain_id(turn: Turn) -> str:
    """The identity of the conversation that a turn belongs to: the same for all its turns, with an object or without."""
    return f"chain_{turn.place.chain}"


class HandlerAnswer:
    """See Answer."""

    agent = None

    def __init__(self, given: TurnInput, handler: ResponseHandler, options: ResponsesServerOptions) -> None:
        self._given, self._handler = given, handler
        request, turn, attempt = given.request, given.turn, given.attempt
        base = new_envelope(request, response_id=turn.response_id, model=given.model, created_at=given.created_at)
        first = max(attempt.earlier.next_sequence_number, FIRST_STORED_EVENT) if attempt.announced else 0
        self._transcript = Transcript(
            base,
            first_sequence_number=first,
            announced=attempt.announced,
            persisted=attempt.persisted,
            earlier=attempt.earlier,
        )
        self._signal = asyncio.Event()
        self._metadata: StoredChainMetadata | None = None
        facts = given.facts
        self._context = ResponseContext(
            response_id=turn.response_id,
            request=_without_nulls(request.to_body()),
            mode_flags=ModeFlags(stream=request.stream, store=request.store, background=request.background),
            conversation_id=request.conversation_id,
            conversation_chain_id=chain_id(turn),
            created_at=datetime.fromtimestamp(given.created_at, UTC),
            client_headers=facts.client_headers,
            query_parameters=facts.query_parameters,
            platform_context=PlatformContext(user_id_key=facts.user, call_id=facts.call_id, tenant=facts.tenant),
            is_recovery=attempt.persisted is not None,
            persisted_response=attempt.persisted,
            is_steered_turn=attempt.steered,
            shutdown=attempt.shutdown,
            input_items=given.items,
            recoverable=attempt.recoverable,
            history_limit=options.history_limit,
            sources=_Sources(given.turns, turn),
            pending=attempt.pending,
        )
        self._grace = options.shutdown_grace_period_seconds

    async def run(self, emit: Emit) -> bool:
        if self._given.request.store:
            self._metadata = await StoredChainMetadata.load(self._given.turns, self._given.turn.place.chain)
            self._context.conversation_chain_metadata = self._metadata.metadata
        ending = await run_handler(
            self._handler,
            self._context.request,
            self._context,
            self._signal,
            emit,
            self._transcript,
            checkpoint=self._given.attempt.checkpoint,
        )
        if ending != "deferred":
            return True
        await self._keep_metadata()
        return False

    async def _keep_metadata(self) -> None:
        """The handler leaves its turn to another process, in a way of its own: what it has noted goes along."""
        if self._metadata is None:
            return
        try:
            await self._metadata.save()
        except (StorageError, TypeError, ValueError) as error:
            _log.error(
                "The metadata of %s could not be stored: %s", self._given.turn.response_id, telemetry.describe(error)
            )

    def stop(self, cause: StopCause) -> float:
        if cause == "cancel_requested":
            self._context.client_cancelled = True
        elif cause == "shutdown":
            self._context.shutdown.set()
        self._signal.set()
        match cause:
            case "newer_input":
                return float("inf")  # the handler says how its turn ends
            case "shutdown":
                return self._grace
            case _:
                return _WIND_DOWN

    def fail(self, *, message: str | None = None) -> list[Event]:
        return self._transcript.fail(message=message)

    def cancel(self) -> list[Event]:
        return self._transcript.cancel()

    def interrupt(self, reason: str) -> list[Event]:
        return self._transcript.interrupt(reason)

    def terminal(self) -> Event:
        return self._transcript.terminal()

    @property
    def response(self) -> dict[str, Any]:
        return self._transcript.response

    def record(self) -> TurnRecord:
        continues = self.response["status"] in ("completed", "incomplete")
        return TurnRecord(
            self.response,
            self._given.items,
            open_calls=self._transcript.open_calls if continues else (),
            continues=continues,
            extra=self._metadata.operations() if self._metadata is not None else (),
        )


class _Sources:
    """What a context has to look up."""

    def __init__(self, turns: Turns, turn: Turn) -> None:
        self._turns, self._turn = turns, turn

    async def find_items(self, ids: Sequence[str]) -> Mapping[str, Item]:
        with read_at_most(self._turns.max_history_bytes):
            return await find_items(self._turns, ids)

    async def history(self, limit: int | None) -> Sequence[Item]:
        newest: list[Item] = []
        with read_at_most(self._turns.max_history_bytes):
            async with aclosing(turn_items(self._turns, places(self._turn.before)[::-1])) as found:
                async for _, given, made, size in found:
                    charge(size)
                    newest += reversed([*given, *made])
                    if limit is not None and len(newest) >= limit:
                        break
        return newest[:limit][::-1]


def _without_nulls(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None}
