"""Stores of sessions: `session id -> AgentSession` (surface of the second seed), in memory and in the table."""

import copy
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

from hosting.state._session_codec import decode_session, encode_session
from hosting.storage import Delete, Put, Store, keys

if TYPE_CHECKING:
    from agent_framework import AgentSession
    from agent_framework import SessionStore as FrameworkSessionStore
else:
    FrameworkSessionStore = object

__all__ = ["SessionStore", "SupportsSessionStore", "TableSessionStore", "check_session_id"]


class SupportsSessionStore(Protocol):
    """What AgentState needs of a store; agent-framework's own stores have it too."""

    async def get(self, session_id: str) -> "AgentSession | None":
        """A copy of the stored session, or None."""
        ...

    async def set(self, session_id: str, session: "AgentSession") -> None:
        """Store a copy of `session`, in place of what is stored under the id."""
        ...

    async def delete(self, session_id: str) -> None:
        """Forget the id; unknown ids are no error."""
        ...


def check_session_id(session_id: object) -> str:
    """`session_id` if it is a non-empty string. Raises ValueError otherwise."""
    if not isinstance(session_id, str) or not session_id:
        raise ValueError("session_id must be a non-empty string")
    return session_id


class _PassesForFrameworkStore:
    """Lets an instance pass for agent-framework's SessionStore without importing it.

    That class is a plain one, so `isinstance` needs either a real subclass, whose definition costs the import at cold start
    and raises the framework's ExperimentalWarning, or this: whoever asks has imported the framework already.
    """

    if not TYPE_CHECKING:

        @property
        def __class__(self):
            sessions = sys.modules.get("agent_framework._sessions")
            return getattr(sessions, "SessionStore", type(self))

    @staticmethod
    def validate_session_id(session_id: str) -> None:
        """Part of the framework's class. Raises ValueError unless `session_id` is a non-empty string."""
        check_session_id(session_id)


class SessionStore(_PassesForFrameworkStore, FrameworkSessionStore):
    """Sessions in this process's memory, for trying out and for tests: never evicted, gone with the process.

    Every method raises ValueError unless the id is a non-empty string. Sessions are copied in and out, so that one branch
    of a conversation can't change what another continues from.
    """

    def __init__(self) -> None:
        self._sessions: dict[str, AgentSession] = {}

    async def get(self, session_id: str) -> "AgentSession | None":
        return copy.deepcopy(self._sessions.get(check_session_id(session_id)))

    async def set(self, session_id: str, session: "AgentSession") -> None:
        self._sessions[check_session_id(session_id)] = copy.deepcopy(session)

    async def delete(self, session_id: str) -> None:
        self._sessions.pop(check_session_id(session_id), None)


class TableSessionStore(_PassesForFrameworkStore, FrameworkSessionStore):
    """Sessions in the table, one row each, in the partition that the id's chain names.

    The scope says whose ids they are, `hosting.storage.keys.scope(tenant, user)`: those of other scopes are not found.
    Give a function to take it from the request that is running.

    Every method raises ValueError unless the id is a non-empty string, and StorageError when storage does. There is no
    compare-and-set: of two writers of one id the last one wins.
    """

    def __init__(self, store: Store, scope: str | Callable[[], str]) -> None:
        """Raises ValueError for a scope that `keys.scope` did not make."""
        if isinstance(scope, str):
            keys.partition_key(scope, keys.chain_of("any"))
        self._store = store
        self._scope = scope

    async def get(self, session_id: str) -> "AgentSession | None":
        """Raises ValueError also for a session that can't be restored, for example after its state types have changed."""
        partition, row = self._key(session_id)
        entity = await self._store.get(partition, row, documents=("session",))
        document = entity.documents.get("session") if entity is not None else None
        return None if document is None else decode_session(cast("Mapping[str, Any]", document))

    async def set(self, session_id: str, session: "AgentSession") -> None:
        """Raises TypeError, with its path in the session, for a value that couldn't be read back; see `encode_session`.

        When this raises StorageUnavailable the session may be stored or not; storing it again is safe.
        """
        partition, row = self._key(session_id)
        await self._store.commit(partition, [Put(row, {}, {"session": encode_session(session)})])

    async def delete(self, session_id: str) -> None:
        partition, row = self._key(session_id)
        await self._store.commit(partition, [Delete(row)])

    def _key(self, session_id: str) -> tuple[str, str]:
        check_session_id(session_id)
        scope = self._scope if isinstance(self._scope, str) else self._scope()
        return keys.partition_key(scope, keys.chain_of(session_id)), keys.session_row(session_id)
