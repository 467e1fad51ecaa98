"""ResponseContext: what a response handler knows about the turn that it runs.

Built from values that the server has anyway. What needs storage comes through ContextSources, so that a test can build
a context without any.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NoReturn, Protocol, cast

from hosting.responses import Item, item_references
from hosting.server.chain_metadata import ChainMetadata

__all__ = ["ContextSources", "ExitForRecovery", "ModeFlags", "PlatformContext", "ResponseContext"]


class ContextSources(Protocol):
    """What a context has to look up. Called at most when the handler asks; may raise StorageError."""

    async def find_items(self, ids: Sequence[str]) -> Mapping[str, Item]:
        """Stored items of the caller's by id, for references in the input. Unknown ids are left out."""
        ...

    async def history(self, limit: int | None) -> Sequence[Item]:
        """The items before this turn, oldest first; of more than `limit` the newest ones. None is no limit."""
        ...


class _NoSources:
    """Nothing is stored."""

    async def find_items(self, ids: Sequence[str]) -> Mapping[str, Item]:
        return {}

    async def history(self, limit: int | None) -> Sequence[Item]:
        return ()


class ExitForRecovery(BaseException):
    """How `exit_for_recovery` leaves a handler. No Exception, so that a handler's own `except Exception` lets it pass."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModeFlags:
    """The three switches of a request, with their effective values."""

    stream: bool = False
    store: bool = True
    background: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class PlatformContext:
    """Who is calling, as the server has authenticated it."""

    user_id_key: str | None = None
    """The user, where the caller names one."""
    call_id: str | None = None
    """The id of the call at the platform in front of this server."""
    tenant: str | None = None
    """The tenant. (Not in the published package, which has one.)"""


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class ResponseContext:
    """One turn, or one attempt at it (seed, "Recovery-aware ResponseContext"). The fields are the server's to set."""

    response_id: str
    request: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The body of the request; the same after a recovery."""
    mode_flags: ModeFlags = field(default_factory=ModeFlags)
    conversation_id: str | None = None
    """The conversation that the request names."""
    conversation_chain_id: str = ""
    """A stable identity of the chain of turns, with a conversation object or without."""
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    """When the response was accepted, in UTC; the same after a recovery."""
    client_headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """The `x-client-*` headers of the request, names in lower case."""
    query_parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    platform_context: PlatformContext = field(default_factory=PlatformContext)

    is_recovery: bool = False
    """An earlier attempt at this turn began and did not finish."""
    persisted_response: Mapping[str, Any] | None = None
    """The response as it was last stored, at `created` or at a checkpoint; None unless `is_recovery`."""
    is_steered_turn: bool = False
    """This turn waited behind another one."""
    client_cancelled: bool = False
    """The cancel endpoint was called, or the client of a foreground response went away. What the handler emits from then
    on is discarded."""
    shutdown: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when this process is stopping; the handler's cancellation signal is set too."""
    conversation_chain_metadata: ChainMetadata = field(default_factory=ChainMetadata)

    input_items: Sequence[Item] = ()
    """For the server: the input in its normal form, references unresolved. Handlers call get_input_items."""
    recoverable: bool = False
    """For the server: whether another process will run the handler again when this one leaves."""
    history_limit: int | None = 100
    """For the server: see ResponsesServerOptions.default_fetch_history_count."""
    sources: ContextSources = field(default_factory=_NoSources)
    """For the server."""
    pending: Callable[[], int] = lambda: 0
    """For the server: what pending_input_count tells."""
    _history: Sequence[Item] | None = field(default=None, init=False)

    @property
    def pending_input_count(self) -> int:
        """How many newer turns wait behind this one, as far as this process knows by now."""
        return self.pending()

    async def get_input_items(self, *, resolve_references: bool = True) -> list[Item]:
        """The items of the input; a string is one user message.

        References to stored items are replaced by these; one that points nowhere is dropped. May raise StorageError.
        """
        items = list(self.input_items)
        if not resolve_references or not (wanted := item_references(items)):
            return items
        found = await self.sources.find_items(wanted)
        resolved = (found.get(item["id"]) if item["type"] == "item_reference" else item for item in items)
        return [item for item in resolved if item is not None]

    async def get_input_text(self, *, resolve_references: bool = True) -> str:
        """All `input_text` parts of the input, joined by line ends; "" when there are none. May raise StorageError."""
        items = await self.get_input_items(resolve_references=resolve_references)
        return "\n".join(part["text"] for item in items for part in _parts(item) if part.get("type") == "input_text")

    async def get_history(self) -> list[Item]:
        """The items before this turn, oldest first, looked up once. May raise StorageError, and ReadTooLarge when they exceed
        HOSTING_MAX_HISTORY_BYTES."""
        if self._history is None:
            self._history = await self.sources.history(self.history_limit)
        return list(self._history)

    async def exit_for_recovery(self) -> NoReturn:
        """Leave the turn to another process; the response stays in progress. Does not return.

        Raises RuntimeError unless this process is stopping and the response is one that is run again: `store` and
        `background`, on a server with `resilient_background`.
        """
        if not self.recoverable:
            raise RuntimeError("exit_for_recovery() needs a background response and resilient_background=True")
        if not self.shutdown.is_set():
            raise RuntimeError("exit_for_recovery() is for a process that shuts down: context.shutdown is not set")
        raise ExitForRecovery

    def __repr__(self) -> str:
        return f"ResponseContext({self.response_id!r}, is_recovery={self.is_recovery})"


def _parts(item: Item) -> list[Item]:
    content = item.get("content")
    return cast("list[Item]", content) if isinstance(content, list) and item.get("type") == "message" else []
