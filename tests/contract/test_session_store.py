"""One contract for session stores: in memory, in the table over its in-memory twin, in the table over Azurite."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agent_framework import Agent, AgentSession, Message

from demo_agent import create_demo_chat_client
from devhost.azurite import Azurite
from hosting.state import AgentState, SessionStore, TableSessionStore
from hosting.storage import Store, connect, keys, memory_store

type AnyStore = SessionStore | TableSessionStore

ACME, OTHER = keys.scope("acme", None), keys.scope("other", None)


def session_of(text: str = "hi", **state: Any) -> AgentSession:
    session = AgentSession(session_id="s1", service_session_id="thread-1")
    session.state = {"in_memory": {"messages": [Message("user", [text])]}, **state}
    return session


def text_of(session: AgentSession | None) -> str:
    assert session is not None
    return session.state["in_memory"]["messages"][0].text


@pytest.fixture(params=["in memory", "table in memory", "table in Azurite"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[AnyStore]:
    if request.param == "in memory":
        yield SessionStore()
        return
    tables = memory_store()
    if request.param == "table in Azurite":
        azurite: Azurite = request.getfixturevalue("azurite")
        tables = connect({"AzureWebJobsStorage": azurite.connection_string}, table="sessions", container="sessions")
    try:
        yield TableSessionStore(tables, keys.scope(uuid.uuid4().hex, None))
    finally:
        await tables.close()


async def test_an_unknown_id_is_none(store: AnyStore) -> None:
    assert await store.get("never-stored") is None


async def test_what_is_set_can_be_got(store: AnyStore) -> None:
    await store.set("s1", session_of("hello", more={"n": [1, 2.5, None]}))
    back = await store.get("s1")
    assert type(back) is AgentSession
    assert (back.session_id, back.service_session_id) == ("s1", "thread-1")
    assert text_of(back) == "hello"
    assert back.state["more"] == {"n": [1, 2.5, None]}


async def test_the_session_keeps_its_own_id_under_another_key(store: AnyStore) -> None:
    await store.set("resp_2", session_of())
    back = await store.get("resp_2")
    assert back is not None
    assert back.session_id == "s1"


async def test_one_session_under_two_ids_is_two_snapshots(store: AnyStore) -> None:
    session = session_of("first")
    await store.set("resp_1", session)
    session.state["in_memory"]["messages"] = [Message("user", ["second"])]
    await store.set("resp_2", session)
    assert [text_of(await store.get(key)) for key in ("resp_1", "resp_2")] == ["first", "second"]


async def test_set_replaces(store: AnyStore) -> None:
    await store.set("s1", session_of("first", only_first=1))
    await store.set("s1", session_of("second"))
    back = await store.get("s1")
    assert text_of(back) == "second"
    assert "only_first" not in (back.state if back else {})


async def test_changes_after_set_are_not_stored(store: AnyStore) -> None:
    session = session_of(items=[1])
    await store.set("s1", session)
    session.state["items"].append(2)
    back = await store.get("s1")
    assert back is not None
    assert back.state["items"] == [1]


async def test_changes_to_what_was_got_are_not_stored(store: AnyStore) -> None:
    await store.set("s1", session_of(items=[1]))
    first, second = await store.get("s1"), await store.get("s1")
    assert first is not None
    assert first is not second
    first.state["items"].append(2)
    first.service_session_id = "changed"
    third = await store.get("s1")
    assert third is not None
    assert (third.state["items"], third.service_session_id) == ([1], "thread-1")


async def test_deleted_is_unknown(store: AnyStore) -> None:
    await store.set("s1", session_of())
    await store.set("s2", session_of())
    await store.delete("s1")
    assert await store.get("s1") is None
    assert await store.get("s2") is not None


async def test_deleting_an_unknown_id_is_no_error(store: AnyStore) -> None:
    await store.delete("never-stored")
    await store.delete("never-stored")


@pytest.mark.parametrize("wrong", ["", None, 7, b"s1", ["s1"]])
async def test_an_id_that_is_no_string_or_empty_is_refused(store: AnyStore, wrong: Any) -> None:
    for call in (store.get(wrong), store.set(wrong, session_of()), store.delete(wrong)):
        with pytest.raises(ValueError, match="session_id"):
            await call


@pytest.mark.parametrize(
    "session_id",
    [
        "a/b\\c#d?e",
        "tab\tnew\nline\x00",
        "ünïcodé ☃ 🚀",
        "' or 1 eq 1 or '",
        "../../etc",
        " ",
        "%2F",
        "resp_1",
        "Resp_1",
    ],
)
async def test_any_other_string_is_an_id_of_its_own(store: AnyStore, session_id: str) -> None:
    await store.set(session_id, session_of(session_id))
    assert text_of(await store.get(session_id)) == session_id
    assert await store.get(session_id + "x") is None
    assert await store.get(session_id.swapcase() + " ") is None


async def test_ids_that_differ_in_case_only_are_two(store: AnyStore) -> None:
    await store.set("ID", session_of("upper"))
    await store.set("id", session_of("lower"))
    assert [text_of(await store.get(key)) for key in ("ID", "id")] == ["upper", "lower"]


async def test_a_very_long_id_works(store: AnyStore) -> None:
    session_id = "x" * 5000
    await store.set(session_id, session_of("long"))
    assert text_of(await store.get(session_id)) == "long"
    assert await store.get(session_id + "x") is None


async def test_a_dict_that_looks_like_a_message_is_no_trap(store: AnyStore) -> None:
    state = {"event": {"type": "message", "x": 1}, "list": [{"type": "message", "role": "user", "contents": []}]}
    await store.set("s1", session_of(**state))
    back = await store.get("s1")
    assert back is not None
    assert {key: back.state[key] for key in state} == state


async def test_a_session_of_megabytes_works(store: AnyStore) -> None:
    text = "é☃🚀x" * 600_000
    await store.set("s1", session_of(text))
    assert text_of(await store.get("s1")) == text
    await store.set("s1", session_of("small again"))
    assert text_of(await store.get("s1")) == "small again"
    await store.delete("s1")
    assert await store.get("s1") is None


async def test_concurrent_writers_of_one_id_leave_one_of_their_sessions(store: AnyStore) -> None:
    texts = [f"writer {n}" for n in range(8)]
    await asyncio.gather(*(store.set("s1", session_of(text, echo=text)) for text in texts))
    back = await store.get("s1")
    assert text_of(back) in texts
    assert back is not None
    assert back.state["echo"] == text_of(back)


async def test_a_conversation_goes_on_over_the_store_and_branches(store: AnyStore) -> None:
    for key, previous, text in (("r1", None, "one"), ("r2", "r1", "two"), ("r3", "r1", "other two")):
        # A state of its own each turn: another process, so to say.
        state = AgentState(lambda: Agent(client=create_demo_chat_client()), session_store=store)
        session = await state.get_or_create_session(previous or key)
        await (await state.get_target()).run(text, session=session)
        await state.set_session(key, session)
    tip = await AgentState(lambda: Agent(client=create_demo_chat_client()), session_store=store).get_session("r3")
    assert tip is not None
    texts = [message.text for message in tip.state["in_memory"]["messages"] if message.role == "user"]
    assert texts == ["one", "other two"]


async def test_it_passes_for_the_framework_s_store(store: AnyStore) -> None:
    import agent_framework

    assert isinstance(store, agent_framework.SessionStore)
    assert isinstance(store, type(store))
    assert type(store) in (SessionStore, TableSessionStore)
    with pytest.raises(ValueError, match="session_id"):
        store.validate_session_id("")


# What only the table can promise.


@pytest.fixture
async def tables() -> AsyncIterator[Store]:
    store = memory_store()
    yield store
    await store.close()


async def test_what_can_not_be_restored_is_refused_at_set_and_the_old_session_stays(tables: Store) -> None:
    store = TableSessionStore(tables, ACME)
    await store.set("s1", session_of("good"))
    with pytest.raises(TypeError, match=r"session state\.deep\[0\]\.key"):
        await store.set("s1", session_of("bad", deep=[{"key": object()}]))
    assert text_of(await store.get("s1")) == "good"


async def test_ids_of_another_scope_are_not_found(tables: Store) -> None:
    one, other = TableSessionStore(tables, ACME), TableSessionStore(tables, OTHER)
    await one.set("s1", session_of("acme"))
    assert await other.get("s1") is None
    await other.set("s1", session_of("other"))
    await other.delete("s1")
    assert text_of(await one.get("s1")) == "acme"


async def test_a_scope_function_is_asked_for_each_call(tables: Store) -> None:
    scopes = iter([ACME, OTHER, ACME])
    store = TableSessionStore(tables, lambda: next(scopes))
    await store.set("s1", session_of())
    assert await store.get("s1") is None
    assert await store.get("s1") is not None


def test_a_scope_of_another_make_is_refused(tables: Store) -> None:
    with pytest.raises(ValueError, match="scope"):
        TableSessionStore(tables, "acme")


async def test_stores_over_the_same_tables_see_each_other(tables: Store) -> None:
    await TableSessionStore(tables, ACME).set("s1", session_of("shared"))
    assert text_of(await TableSessionStore(tables, ACME).get("s1")) == "shared"


def test_an_instance_is_of_its_own_class_while_the_framework_is_not_loaded() -> None:
    import subprocess
    import sys

    code = (
        "from hosting.state import SessionStore, TableSessionStore; import sys;"
        "stores = SessionStore(), TableSessionStore(None, '0' * 32);"
        "assert [s.__class__ for s in stores] == [SessionStore, TableSessionStore];"
        "assert 'agent_framework' not in sys.modules;"
        "import warnings; warnings.simplefilter('error');"
        "import agent_framework as af;"
        "assert all(isinstance(s, af.SessionStore) for s in stores), stores;"
        "assert not isinstance(stores[0], TableSessionStore) and not isinstance(stores[1], SessionStore);"
        "print('ok')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("ok", "")
