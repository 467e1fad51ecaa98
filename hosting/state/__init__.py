"""What a conversation remembers: agents and workflows, sessions, turns."""

from typing import TYPE_CHECKING, Any

from hosting.state.agent_state import AgentState, accepts_options
from hosting.state.checkpoint_cursors import CheckpointCursors, CursorChanged
from hosting.state.current_turn import CurrentTurn, current_turn
from hosting.state.past import Turn
from hosting.state.response_row import StoredResponse, TaskRef, TurnRecord
from hosting.state.sessions import (
    SessionStore,
    SupportsSessionStore,
    TableSessionStore,
    decode_session,
    encode_session,
)
from hosting.state.turns import PreviousResponseNotFound, PreviousResponseUnfinished, Turns
from hosting.state.workflow_state import SupportsBuild, WorkflowState

if TYPE_CHECKING:
    from hosting.state.checkpoints import TableCheckpointStorage
    from hosting.state.history import TableHistoryProvider, uses_table_history

__all__ = [
    "AgentState",
    "CheckpointCursors",
    "CurrentTurn",
    "CursorChanged",
    "PreviousResponseNotFound",
    "PreviousResponseUnfinished",
    "SessionStore",
    "StoredResponse",
    "SupportsBuild",
    "SupportsSessionStore",
    "TableCheckpointStorage",
    "TableHistoryProvider",
    "TableSessionStore",
    "TaskRef",
    "Turn",
    "TurnRecord",
    "Turns",
    "WorkflowState",
    "accepts_options",
    "current_turn",
    "decode_session",
    "encode_session",
    "uses_table_history",
]

_LAZY = {"TableCheckpointStorage": "checkpoints", "TableHistoryProvider": "history", "uses_table_history": "history"}


def __getattr__(name: str) -> Any:
    # Subclasses of agent-framework's own: they are loaded with the agent, not with the app.
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f"hosting.state.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
