"""AgentState: the agent, and the sessions of its conversations."""

import asyncio
import gc
import subprocess
import sys
from typing import Any, cast

import pytest
from agent_framework import Agent, AgentSession, SupportsAgentRun

from demo_agent import create_demo_chat_client
from hosting.state import AgentState, SessionStore, accepts_options


class FakeAgent:
    """The least that SupportsAgentRun asks for."""

    id = "fake"
    name = "Fake"
    description = None

    def __init__(self) -> None:
        self.created: list[str | None] = []

    def create_session(self, *, session_id: str | None = None) -> AgentSession:
        self.created.append(session_id)
        session = AgentSession(session_id=session_id, service_session_id=f"thread-{len(self.created)}")
        session.state["greeted"] = []
        return session

    def get_session(self, service_session_id: Any, *, session_id: str | None = None) -> AgentSession:
        return AgentSession(session_id=session_id, service_session_id=service_session_id)

    def run(self, messages: Any = None, *, stream: bool = False, session: Any = None, **_: Any) -> Any:
        raise NotImplementedError


class SlowStore(SessionStore):
    """Lets others in during each `get`, and counts the writes."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0

    async def get(self, session_id: str) -> AgentSession | None:
        await asyncio.sleep(0)
        return await super().get(session_id)

    async def set(self, session_id: str, session: AgentSession) -> None:
        self.writes += 1
        await super().set(session_id, session)


def state_of(agent: FakeAgent, store: Any = None) -> AgentState[Any]:
    return AgentState(cast("Any", agent), session_store=store)


def test_an_agent_is_the_target_at_once() -> None:
    agent = Agent(client=create_demo_chat_client())
    assert AgentState(agent).target is agent


async def test_a_factory_of_agents_is_resolved_once() -> None:
    state = AgentState(lambda: Agent(client=create_demo_chat_client()))
    with pytest.raises(RuntimeError, match="get_target"):
        _ = state.target
    assert isinstance(await state.get_target(), SupportsAgentRun)
    assert state.target is await state.get_target()


async def test_without_cache_each_call_gets_an_agent_of_its_own() -> None:
    state = AgentState(lambda: Agent(client=create_demo_chat_client()), cache_target=False)
    assert await state.get_target() is not await state.get_target()


def test_each_state_has_an_in_memory_store_of_its_own_by_default() -> None:
    one, two = state_of(FakeAgent()), state_of(FakeAgent())
    assert type(one.session_store) is SessionStore
    assert one.session_store is not two.session_store


def test_a_store_that_is_false_is_used_all_the_same() -> None:
    class Empty(SessionStore):
        def __len__(self) -> int:
            return 0

    store = Empty()
    assert state_of(FakeAgent(), store).session_store is store


async def test_the_framework_s_own_store_can_be_used() -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from agent_framework import SessionStore as FrameworkStore

        store = FrameworkStore()
    state = state_of(FakeAgent(), store)
    await state.set_session("s", AgentSession(session_id="s"))
    assert await state.get_session("s") is not None


async def test_a_new_session_comes_from_the_agent_and_has_the_id() -> None:
    agent = FakeAgent()
    session = await state_of(agent).get_or_create_session("s1")
    assert (session.session_id, session.service_session_id, agent.created) == ("s1", "thread-1", ["s1"])


async def test_a_stored_session_is_returned_and_none_created() -> None:
    agent = FakeAgent()
    state = state_of(agent)
    stored = AgentSession(session_id="other")
    stored.state["n"] = 1
    await state.set_session("s1", stored)
    session = await state.get_or_create_session("s1")
    assert (session.session_id, session.state, agent.created) == ("other", {"n": 1}, [])


async def test_nothing_is_stored_before_the_run() -> None:
    store = SlowStore()
    state = state_of(FakeAgent(), store)
    await state.get_or_create_session("s1")
    assert store.writes == 0
    assert await state.get_session("s1") is None


async def test_each_caller_gets_a_copy_of_its_own() -> None:
    state = state_of(FakeAgent())
    first = await state.get_or_create_session("s1")
    first.state["greeted"].append("first")
    second = await state.get_or_create_session("s1")
    assert second.state == {"greeted": []}
    await state.set_session("s1", first)
    first.state["greeted"].append("later")
    assert (await state.get_or_create_session("s1")).state == {"greeted": ["first"]}


async def test_overlapping_callers_create_one_session() -> None:
    agent = FakeAgent()
    state = state_of(agent, SlowStore())
    sessions = await asyncio.gather(*(state.get_or_create_session("s1") for _ in range(5)))
    assert agent.created == ["s1"]
    assert {session.service_session_id for session in sessions} == {"thread-1"}
    assert len(set(map(id, sessions))) == 5


async def test_other_ids_do_not_wait_for_each_other() -> None:
    blocked = asyncio.Event()

    class Blocking(SessionStore):
        async def get(self, session_id: str) -> AgentSession | None:
            if session_id == "slow":
                await blocked.wait()
            return await super().get(session_id)

    state = state_of(FakeAgent(), Blocking())
    slow = asyncio.create_task(state.get_or_create_session("slow"))
    assert (await state.get_or_create_session("fast")).session_id == "fast"
    blocked.set()
    assert (await slow).session_id == "slow"


async def test_an_id_that_nobody_uses_any_more_leaves_nothing_behind() -> None:
    agent = FakeAgent()
    state = state_of(agent)
    session = await state.get_or_create_session("s1")
    assert len(state._created) == 1
    del session
    gc.collect()
    assert (len(state._locks), len(state._created), len(state._originals)) == (0, 0, 0)
    await state.get_or_create_session("s1")
    assert agent.created == ["s1", "s1"]


async def test_get_session_gives_none_for_an_unknown_id_and_creates_nothing() -> None:
    agent = FakeAgent()
    assert await state_of(agent).get_session("resp_unknown") is None
    assert agent.created == []


@pytest.mark.parametrize("wrong", ["", None, 7, ["s"]])
async def test_an_id_that_is_no_string_or_empty_is_refused(wrong: Any) -> None:
    agent = FakeAgent()
    state = state_of(agent)
    for call in (
        state.get_session(wrong),
        state.get_or_create_session(wrong),
        state.set_session(wrong, AgentSession()),
    ):
        with pytest.raises(ValueError, match="session_id"):
            await call
    assert agent.created == []


async def test_a_failing_store_fails_the_lookup_and_blocks_nobody() -> None:
    class Failing(SessionStore):
        failures = 1

        async def get(self, session_id: str) -> AgentSession | None:
            if self.failures:
                self.failures -= 1
                raise OSError("storage is away")
            return await super().get(session_id)

    state = state_of(FakeAgent(), Failing())
    with pytest.raises(OSError, match="away"):
        await state.get_or_create_session("s1")
    assert (await state.get_or_create_session("s1")).session_id == "s1"


async def test_a_conversation_with_a_real_agent_as_the_seed_writes_it() -> None:
    state = AgentState(lambda: Agent(client=create_demo_chat_client()))
    session_id = "resp_0"
    for turn in range(1, 4):
        session = await state.get_or_create_session(session_id)
        target = await state.get_target()
        result = await target.run("[[history]]" if turn == 3 else f"turn {turn}", session=session)
        session_id = f"resp_{turn}"
        await state.set_session(session_id, session)
    assert result.text == "history users=3 first=turn 1"
    branch = await state.get_or_create_session("resp_1")
    assert (await (await state.get_target()).run("[[history]]", session=branch)).text == "history users=2 first=turn 1"


def test_accepts_options_tells_agents_that_take_options() -> None:
    class Exact(FakeAgent):
        def run(self, messages: Any = None, *, stream: bool = False, session: Any = None) -> Any:  # type: ignore[override]
            raise NotImplementedError

    class Named(FakeAgent):
        def run(self, messages: Any = None, *, options: Any = None) -> Any:  # type: ignore[override]
            raise NotImplementedError

    assert accepts_options(Agent(client=create_demo_chat_client()))
    assert accepts_options(Named())
    assert accepts_options(FakeAgent())  # takes any keyword
    assert not accepts_options(Exact())
    assert not accepts_options(object())


def test_accepts_options_is_false_for_an_agent_made_of_a_workflow() -> None:
    from agent_framework import WorkflowAgent

    assert not accepts_options(WorkflowAgent.__new__(WorkflowAgent))


def test_the_modules_import_neither_the_framework_nor_azure() -> None:
    code = (
        "import hosting.state.agent_state, hosting.state.workflow_state, hosting.state.sessions, sys;"
        "print([m for m in sys.modules if m.partition('.')[0] in ('agent_framework', 'azure', 'aiohttp')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
