"""The turn that runs in this context: what an agent's history provider reads and adds to."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

from hosting.state.past import Turn
from hosting.state.turns import Turns
from hosting.storage import Json

if TYPE_CHECKING:
    from agent_framework import Message

__all__ = ["CurrentTurn", "current_turn", "running_turn"]


class CurrentTurn:
    """The turn that runs in this context, as the provider sees it."""

    def __init__(self, turns: Turns, turn: Turn, session_id: str) -> None:
        self._turns = turns
        self._turn = turn
        self.session_id = session_id
        self.added: list[Json] = []
        """Stored form of the messages that this turn adds."""

    async def messages(self) -> "list[Message]":
        """All messages before this turn, then what it has added so far. Raises StorageError."""
        from agent_framework import Message

        stored = [*await self._turns.history(self._turn), *self.added]
        return [Message.from_dict(cast("dict[str, Any]", message)) for message in stored]


_current: ContextVar[CurrentTurn | None] = ContextVar("hosting_current_turn", default=None)


@contextmanager
def current_turn(turn: CurrentTurn) -> Generator[None]:
    """Make `turn` the one that providers in this context read and add to."""
    token = _current.set(turn)
    try:
        yield
    finally:
        _current.reset(token)


def running_turn(session_id: str | None) -> CurrentTurn | None:
    """The turn of this context, when it is the one that the session `session_id` belongs to."""
    turn = _current.get()
    return turn if turn is not None and turn.session_id == session_id else None
