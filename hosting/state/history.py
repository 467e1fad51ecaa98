"""Conversation history for agent-framework agents, kept in the turns' own log instead of the session.

A session that carries its own messages is read and written whole at every turn. This provider writes only what the turn
added, in the turn's transaction, and the history arrives with the read that begins the turn.
"""

from collections.abc import Sequence
from typing import Any, cast

from agent_framework import HistoryProvider, Message

from hosting.state.current_turn import running_turn
from hosting.storage import Json

__all__ = ["TableHistoryProvider", "uses_table_history"]


class TableHistoryProvider(HistoryProvider):
    """Loads and keeps the conversation of the agent that a turn runs.

    Outside a turn, and for an agent that another agent calls with a session of its own, messages stay in the session's
    state, as agent-framework's own in-memory provider keeps them.
    """

    def __init__(self, source_id: str = "history", **flags: Any) -> None:
        """`flags`: the `load_messages`, `store_inputs`, ... of agent-framework's HistoryProvider."""
        super().__init__(source_id, **flags)

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        turn = running_turn(session_id)
        if turn is not None:
            return await turn.messages()
        return list(state.get("messages", [])) if state is not None else []

    async def save_messages(
        self, session_id: str | None, messages: Sequence[Message], *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        turn = running_turn(session_id)
        if turn is not None:
            turn.added.extend(cast("Json", message.to_dict()) for message in messages)
        elif state is not None:
            state["messages"] = [*state.get("messages", []), *messages]


def uses_table_history(target: object) -> bool:
    """Whether an agent has this provider: then its turn reads the history together with all else."""
    providers: Sequence[object] = getattr(target, "context_providers", None) or ()
    return any(isinstance(provider, TableHistoryProvider) for provider in providers)
