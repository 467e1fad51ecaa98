"""The agent that routes run, and the sessions of its conversations (surface of the second seed)."""

import asyncio
import copy
import inspect
import weakref
from typing import TYPE_CHECKING

from hosting.state._targets import Target, TargetSource
from hosting.state.sessions import SessionStore, SupportsSessionStore, check_session_id

if TYPE_CHECKING:
    from agent_framework import AgentSession, SupportsAgentRun

__all__ = ["AgentState", "accepts_options"]


class AgentState[AgentT: SupportsAgentRun]:
    """Resolves one agent for many requests and pairs it with a session store.

    Sessions are working copies: what a run does to one is in the store only after `set_session`. Nothing here locks over a
    run, or checks that an id belongs to the caller; that is the app's part.
    """

    def __init__(
        self,
        target: TargetSource[AgentT],
        *,
        session_store: SupportsSessionStore | None = None,
        cache_target: bool = True,
    ) -> None:
        """`target`: an agent, a factory (sync or async) of agents, or an awaitable of one.

        Without `session_store`, sessions live in this process's memory: on Azure Functions good for trying out only.
        `cache_target=False` calls the factory on each `get_target()`. Raises ValueError when that is asked of an
        awaitable, and TypeError for None.
        """
        self._target = Target(target, cache_target=cache_target)
        self._session_store: SupportsSessionStore = SessionStore() if session_store is None else session_store
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        # New sessions, as the agent made them, for as long as somebody works on a copy and has not stored one.
        self._created: weakref.WeakValueDictionary[str, AgentSession] = weakref.WeakValueDictionary()
        self._originals: weakref.WeakKeyDictionary[AgentSession, AgentSession] = weakref.WeakKeyDictionary()

    async def get_target(self) -> AgentT:
        """The agent, resolved first where needed. Raises whatever the factory or awaitable raises."""
        return await self._target.get()

    @property
    def target(self) -> AgentT:
        """The agent, if it is there without waiting. Raises RuntimeError otherwise: `await get_target()` first."""
        return self._target.available

    @property
    def session_store(self) -> SupportsSessionStore:
        """The store that this state reads and writes."""
        return self._session_store

    async def get_session(self, session_id: str) -> "AgentSession | None":
        """The stored session, or None. For ids that a caller names: an id nobody stored must not begin a conversation.

        Raises ValueError unless the id is a non-empty string.
        """
        return await self._session_store.get(session_id)

    async def get_or_create_session(self, session_id: str) -> "AgentSession":
        """The stored session, or else a new one from the agent's `create_session`.

        A new session is not written here: a first request that fails leaves nothing behind, and one that succeeds costs
        one write, not two. Callers that overlap on an id nobody stored yet get independent copies of one new session
        (`create_session` is called once for them); the one who stores last wins.

        Raises ValueError unless the id is a non-empty string.
        """
        # The lock is gone from the dictionary when the last caller that uses it is, so idle ids cost nothing.
        async with self._locks.setdefault(check_session_id(session_id), asyncio.Lock()):
            stored = await self._session_store.get(session_id)
            if stored is not None:
                return stored
            original = self._created.get(session_id)
            if original is None:
                agent = await self.get_target()
                original = self._created[session_id] = agent.create_session(session_id=session_id)
            session = copy.deepcopy(original)
            self._originals[session] = original
            return session

    async def set_session(self, session_id: str, session: "AgentSession") -> None:
        """Store `session` under `session_id`; call it after the run, or after the last update of a stream.

        Raises ValueError unless the id is a non-empty string, and what the store raises for what it can't keep.
        """
        await self._session_store.set(session_id, session)


def accepts_options(target: object) -> bool:
    """Whether `target.run` takes `options`. Agent does; the SupportsAgentRun protocol and WorkflowAgent do not."""
    run = getattr(target, "run", None)
    if not callable(run):
        return False
    try:
        parameters = inspect.signature(run).parameters
    except (TypeError, ValueError):  # no signature to be had: some callables written in C
        return False
    named = parameters.get("options")
    if named is not None and named.kind is not inspect.Parameter.POSITIONAL_ONLY:
        return True
    return any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
