"""What a request would show the agent, without running it: how many tokens that is, and made shorter.

    POST v1/responses/input_tokens
    POST v1/responses/compact

The effective input is the items of the turns before, then those of the request, references resolved. Nothing is stored.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any

from hosting.ids import response_id
from hosting.read_budget import charge
from hosting.responses import ApiError, CreateRequest, with_ids
from hosting.responses.compaction import compact, parse_compact_request
from hosting.responses.token_count import estimate_input_tokens, parse_input_tokens_request
from hosting.server.caller import Callers
from hosting.server.http import Endpoint, Request, Response, json_response
from hosting.server.limits import Limits
from hosting.server.parsed_body import parse_body
from hosting.server.stored_input import begun_after, history_limit, with_referenced_items
from hosting.settings import Settings
from hosting.state import Turn, Turns
from hosting.state.conversation_row import ConversationLocked, ConversationNotFound
from hosting.state.conversation_turns import ConversationTurns
from hosting.state.items import turn_items
from hosting.state.lineage import places
from hosting.storage import Store

__all__ = ["EffectiveInput"]

type Item = dict[str, Any]

_SLACK = 2
"""How much more than a turn these read: a conversation that has become too long for a turn can still be made shorter."""


class EffectiveInput:
    """The endpoints. They raise ApiError, NotAuthenticated and StorageError."""

    def __init__(self, callers: Callers, limits: Limits, settings: Settings, open_store: Callable[[], Store]) -> None:
        self._callers, self._limits, self._settings, self._open_store = callers, limits, settings, open_store
        self.routes: Mapping[str, Mapping[str, Endpoint]] = {
            "v1/responses/input_tokens": {"POST": self._count},
            "v1/responses/compact": {"POST": self._compact},
        }
        """As `ResponsesServer.routes`."""

    async def _count(self, request: Request) -> Response:
        asked, history = await self._effective(request, parse_input_tokens_request)
        return json_response({"object": "response.input_tokens", "input_tokens": estimate_input_tokens(asked, history)})

    async def _compact(self, request: Request) -> Response:
        asked, history = await self._effective(request, parse_compact_request)
        identifier = response_id()
        items = [*history, *with_ids(asked.input_items, identifier)]
        return json_response(compact(items, response_id=identifier, created_at=int(time.time())))

    async def _effective(
        self, request: Request, parse: Callable[[object], CreateRequest]
    ) -> tuple[CreateRequest, list[Item]]:
        """The request, and the items of the turns before it."""
        caller = self._callers.caller(request)
        body = await self._limits.guarded(request, caller).read_body(self._settings.max_request_bytes)
        parsed = parse_body(body)
        self._limits.check_items(parsed)
        turns = Turns(self._open_store(), self._callers.scope_of(caller))
        with history_limit(_SLACK * self._settings.max_history_bytes):
            asked = await with_referenced_items(turns, parse(parsed), longest=self._settings.max_request_bytes)
            if asked.conversation_id is not None:
                turn = await _begun_in(turns, asked.conversation_id)
            else:
                turn = await begun_after(turns, asked.previous_response_id)
            history: list[Item] = []
            async with aclosing(turn_items(turns, places(turn.before))) as found:
                async for _, given, made, size in found:
                    charge(size)
                    history += [*given, *made]
        return asked, history


async def _begun_in(turns: Turns, conversation: str) -> Turn:
    try:
        return (await ConversationTurns(turns.store, turns.scope).read(conversation, history=False)).turn()
    except ConversationNotFound:
        raise ApiError.conversation_not_found(conversation) from None
    except ConversationLocked:
        raise ApiError.conversation_locked() from None
