"""A foreground turn's hold on its conversation: taken before the headers of the answer, kept while the run lasts."""

import asyncio
import logging
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from hosting.state import TurnRecord, Turns
from hosting.state.conversation_row import Conversation, ConversationLocked, ConversationNotFound
from hosting.state.conversation_turns import ConversationTurns
from hosting.state.past import Turn
from hosting.storage import StorageError

__all__ = ["ConversationHold"]

_log = logging.getLogger(__name__)

_LEASE = 30.0
"""Seconds after which the conversation of a process that has died is free again."""

_RENEW = 8.0
"""Seconds between two renewals: three of them may fail."""


class ConversationHold:
    """Take it with `take`, then use it as a context manager around the run: what was not committed is let go at the end."""

    def __init__(self, turns: Turns, turn: Turn, conversation: Conversation) -> None:
        self._turns, self._turn = turns, turn
        self._table = ConversationTurns(turns.store, turns.scope)
        self._conversation = conversation
        self._renewing: asyncio.Task[None] | None = None
        self._committed = False
        self._in_doubt = False
        """Whether it may be held without our knowing: the write was not answered."""

    async def take(self) -> None:
        """One write. Raises ConversationLocked, ConversationNotFound, StorageError."""
        owner = self._turn.response_id
        self._in_doubt = True
        try:
            self._conversation = await self._table.hold(self._conversation, owner, time.time() + _LEASE)
        except (ConversationLocked, ConversationNotFound):
            self._in_doubt = False
            raise
        self._in_doubt = False
        self._renewing = asyncio.create_task(self._renew(), name=f"conversation of {owner}")

    async def commit(self, record: TurnRecord) -> None:
        """Write the turn and let the conversation go, in one transaction; safe to repeat. Raises StorageError, and
        ConversationLocked or ConversationNotFound when the conversation was lost: nothing is written then."""
        turn, output = self._turn, record.response["output"]
        items = [*record.input, *output] if record.continues else None
        rows = self._turns.final_rows(turn, record)
        await self._table.commit(self._conversation, turn.response_id, rows, items)
        self._committed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            with suppress(asyncio.CancelledError):
                await self._renewing
        if self._committed:
            return
        try:
            release = self._table.release(self._conversation, self._turn.response_id, in_doubt=self._in_doubt)
            await asyncio.shield(release)
        except (StorageError, ConversationLocked):
            _log.warning("The conversation of %s is let go when its time is over", self._turn.response_id)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(_RENEW)
            try:
                until = time.time() + _LEASE
                self._conversation = await self._table.extend(self._conversation, self._turn.response_id, until)
            except StorageError:
                _log.warning("The hold of %s on its conversation was not renewed, trying again", self._turn.response_id)
            except (ConversationLocked, ConversationNotFound):
                _log.warning("%s has lost its conversation", self._turn.response_id)
                return
