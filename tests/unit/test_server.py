"""The server without HTTP and without Azurite: what it does when the agent, storage or the client fails."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from agent_framework import Agent, AgentResponse, AgentResponseUpdate, AgentSession, Content, Message, ResponseStream

from demo_agent import create_demo_chat_client
from hosting.server import Request, Response, ResponsesServer
from hosting.server.foreground import finish_running
from hosting.settings import load_settings
from hosting.state import AgentState, TableHistoryProvider
from hosting.storage import MemoryBlobs, MemoryTables, StorageUnavailable, Store, keys
from hosting.tasks import current_scope

Body = dict[str, Any]


class Tables(MemoryTables):
    """Storage that can be switched off, for reads or for writes."""

    reads = writes = True

    async def get(self, *args: Any, **options: Any) -> Any:
        self._check(self.reads)
        return await super().get(*args, **options)

    async def query(self, *args: Any, **options: Any) -> Any:
        self._check(self.reads)
        return await super().query(*args, **options)

    async def transact(self, *args: Any, **options: Any) -> Any:
        self._check(self.writes)
        return await super().transact(*args, **options)

    @staticmethod
    def _check(works: bool) -> None:
        if not works:
            raise StorageUnavailable("switched off")


def demo() -> Agent:
    return Agent(client=create_demo_chat_client(), context_providers=[TableHistoryProvider()])


def serve(agent: Callable[[], Any] = demo, tables: Tables | None = None, **env: str) -> ResponsesServer:
    store = Store(tables or Tables(), MemoryBlobs())
    settings = load_settings({"AZURE_FUNCTIONS_ENVIRONMENT": "Development", **env})
    return ResponsesServer(AgentState(agent), settings, lambda: store)


def post(body: Body, disconnected: Callable[[], Any] | None = None) -> Request:
    async def read(limit: int) -> bytes:
        return json.dumps(body).encode()

    extra: dict[str, Any] = {} if disconnected is None else {"disconnected": disconnected}
    return Request("POST", "/v1/responses", read=read, **extra)


async def create(server: ResponsesServer, text: str, previous: str | None = None) -> Body:
    response = await server.handle("v1/responses", post({"input": text, "previous_response_id": previous}))
    assert response.status == 200, response.body
    return parsed(response)


async def get(server: ResponsesServer, identifier: str) -> Response:
    request = Request("GET", f"/v1/responses/{identifier}", path_params={"response_id": identifier})
    return await server.handle("v1/responses/{response_id}", request)


async def stream(server: ResponsesServer, text: str) -> list[Body]:
    response = await server.handle("v1/responses", post({"input": text, "stream": True}))
    assert not isinstance(response.body, bytes)
    return [event async for chunk in response.body for event in events(chunk)]


def events(chunk: bytes) -> list[Body]:
    frames = [frame.split("data: ", 1) for frame in chunk.decode().split("\n\n") if "data: {" in frame]
    return [json.loads(data) for _, data in frames]


def parsed(response: Response) -> Body:
    assert isinstance(response.body, bytes)
    return json.loads(response.body)


async def test_storage_that_is_down_at_the_begin_is_a_503_that_clients_retry() -> None:
    tables = Tables()
    server = serve(tables=tables)
    first = await create(server, "hi")
    tables.reads = False
    response = await server.handle("v1/responses", post({"input": "x", "previous_response_id": first["id"]}))
    assert response.status == 503
    assert response.headers["retry-after"]
    assert set(parsed(response)["error"]) == {"message", "type", "param", "code"}


async def test_a_commit_that_fails_makes_the_response_failed() -> None:
    tables = Tables()
    server = serve(tables=tables)
    tables.writes = False
    answer = await create(server, "hi")
    assert (answer["status"], answer["error"]["code"]) == ("failed", "server_error")
    tables.writes = True
    assert (await get(server, answer["id"])).status == 404


async def test_a_stream_never_announces_completed_when_the_commit_failed() -> None:
    tables = Tables()
    server = serve(tables=tables)
    tables.writes = False
    found = [event["type"] for event in await stream(server, "hi")]
    assert found[-1] == "response.failed"
    assert "response.completed" not in found


class ScriptedAgent:
    """An agent of its own kind: no options, updates as the test says."""

    id = name = "scripted"
    description = None

    def __init__(self, *texts: str | BaseException, pause: float = 0, state: Any = None) -> None:
        self.texts = texts
        self.pause = pause
        self.state = state
        self.closed = 0
        self.scopes: list[str] = []

    def create_session(self, *, session_id: str | None = None) -> AgentSession:
        return AgentSession(session_id=session_id)

    def get_session(self, service_session_id: Any, *, session_id: str | None = None) -> AgentSession:
        raise NotImplementedError("not part of these tests")

    def run(self, messages: Any = None, *, stream: bool = False, session: AgentSession, **kwargs: Any) -> Any:
        if self.state is not None:
            session.state.update(self.state)
        self.scopes.append(current_scope())
        session.state["turns"] = session.state.get("turns", 0) + 1
        updates = self._updates(session.state["turns"])
        if stream:
            return ResponseStream(updates, finalizer=AgentResponse.from_updates)

        async def whole() -> AgentResponse:
            return AgentResponse.from_updates([update async for update in updates])

        return whole()

    async def _updates(self, turn: int) -> AsyncIterator[AgentResponseUpdate]:
        try:
            for text in (*self.texts, f"turn {turn}"):
                if isinstance(text, BaseException):
                    raise text
                yield AgentResponseUpdate(role="assistant", contents=[Content.from_text(text)])
                await asyncio.sleep(self.pause)
        finally:
            self.closed += 1


async def test_an_agent_without_options_is_served_and_its_session_goes_along() -> None:
    server = serve(ScriptedAgent)
    first = await create(server, "hi")
    second = await create(server, "hi", first["id"])
    fork = await create(server, "hi", first["id"])
    texts = [answer["output"][0]["content"][0]["text"] for answer in (first, second, fork)]
    assert texts == ["turn 1", "turn 2", "turn 2"]


async def test_an_agent_without_our_history_provider_remembers_through_its_session() -> None:
    server = serve(lambda: Agent(client=create_demo_chat_client()))
    first = await create(server, "one")
    second = await create(server, "two", first["id"])
    third = await create(server, "[[history]]", second["id"])
    assert third["output"][0]["content"][0]["text"] == "history users=3 first=one"


async def test_a_session_that_cannot_be_stored_fails_the_turn_and_not_the_conversation() -> None:
    agent = ScriptedAgent()
    server = serve(lambda: agent)
    first = await create(server, "hi")
    agent.state = {"bad": {1, 2}}
    assert (await create(server, "hi", first["id"]))["status"] == "failed"
    agent.state = None
    again = await create(server, "hi", first["id"])
    assert again["output"][0]["content"][0]["text"] == "turn 2"


@pytest.mark.parametrize(
    "error", [RuntimeError("secret detail"), ValueError("secret detail"), KeyError("secret detail")]
)
async def test_an_exception_in_mid_stream_ends_it_with_failed_and_no_detail(error: Exception) -> None:
    agent = ScriptedAgent("begun", error)
    server = serve(lambda: agent)
    found = await stream(server, "hi")
    assert found[-1]["type"] == "response.failed"
    assert "secret detail" not in json.dumps(found)
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    assert agent.closed == 1
    stored = parsed(await get(server, found[0]["response"]["id"]))
    assert stored["status"] == "failed"
    assert stored["output"][0]["content"][0]["text"] == "begun"


async def test_closing_the_stream_closes_the_agents_stream_and_stores_the_turn_as_cancelled() -> None:
    agent = ScriptedAgent("begun", pause=60)
    server = serve(lambda: agent)
    response = await server.handle("v1/responses", post({"input": "hi", "stream": True}))
    assert not isinstance(response.body, bytes)
    found: list[Body] = []
    async for chunk in response.body:
        found += events(chunk)
        if found[-1]["type"] == "response.output_text.delta":
            break
    await response.body.aclose()  # type: ignore[attr-defined]
    await finish_running(5)
    assert agent.closed == 1
    assert parsed(await get(server, found[0]["response"]["id"]))["status"] == "cancelled"


async def test_a_client_that_goes_while_it_waits_for_json_ends_the_run() -> None:
    agent = ScriptedAgent("begun", pause=60)
    server = serve(lambda: agent)
    gone = asyncio.Event()
    waiting = asyncio.create_task(server.handle("v1/responses", post({"input": "hi"}, gone.wait)))
    await asyncio.sleep(0.05)
    gone.set()
    assert (await waiting).status == 499
    await finish_running(5)
    assert agent.closed == 1


async def test_an_agent_that_cannot_be_made_is_a_500_without_detail() -> None:
    def broken() -> Any:
        raise RuntimeError("secret detail")

    response = await serve(broken).handle("v1/responses", post({"input": "hi"}))
    assert response.status == 500
    assert parsed(response)["error"]["code"] == "server_error"
    assert b"secret detail" not in response.body  # type: ignore[operator]


async def test_parallel_requests_do_not_mix_their_histories() -> None:
    server = serve()
    roots = [await create(server, f"root {number}") for number in range(5)]
    answers = await asyncio.gather(*(create(server, "[[history]]", root["id"]) for root in roots for _ in range(3)))
    texts = [answer["output"][0]["content"][0]["text"] for answer in answers]
    assert texts == [f"history users=2 first=root {number}" for number in range(5) for _ in range(3)]


def test_messages_are_what_the_framework_restores() -> None:
    """The log keeps `Message.to_dict()`; this pins that nothing of a tool call is lost on the way back."""
    call = Message("assistant", [Content.from_function_call("call_1", "f", arguments='{"a": 1}')])
    again = Message.from_dict(json.loads(json.dumps(call.to_dict())))
    assert again.contents[0].to_dict() == call.contents[0].to_dict()


@pytest.mark.parametrize("streams", [False, True])
async def test_a_run_that_nobody_reports_as_abandoned_ends_by_itself(streams: bool) -> None:
    agent = ScriptedAgent("begun", pause=60)
    server = serve(lambda: agent, HOSTING_FOREGROUND_SECONDS="0.1")
    answer = (await stream(server, "hi"))[-1]["response"] if streams else await create(server, "hi")
    assert (answer["status"], agent.closed) == ("failed", 1)
    assert "background" in answer["error"]["message"]


@pytest.mark.parametrize("streams", [False, True])
async def test_tasks_that_an_agent_starts_belong_to_the_caller(streams: bool) -> None:
    agent = ScriptedAgent()
    server = serve(lambda: agent)
    await (stream(server, "hi") if streams else create(server, "hi"))
    assert agent.scopes == [keys.scope("development", None)]


@pytest.mark.parametrize("streams", [False, True])
async def test_a_cancelled_error_of_the_agents_own_is_a_failure_like_any_other(streams: bool) -> None:
    server = serve(lambda: ScriptedAgent(asyncio.CancelledError()))
    answer = (await stream(server, "hi"))[-1]["response"] if streams else await create(server, "hi")
    assert answer["status"] == "failed"


async def test_a_server_that_closes_sends_new_requests_elsewhere() -> None:
    server = serve()
    await server.close()
    response = await server.handle("v1/responses", post({"input": "hi"}))
    assert (response.status, response.headers["retry-after"]) == (503, "1")
    assert parsed(response)["error"]["code"] == "service_unavailable"


async def test_an_agent_that_calls_exit_fails_its_own_response_only() -> None:
    class Quitter(ScriptedAgent):
        def run(self, *args: Any, **options: Any) -> Any:
            raise SystemExit(3)

    response = await serve(lambda: Quitter("never")).handle("v1/responses", post({"input": "hi"}))
    assert (response.status, parsed(response)["status"]) == (200, "failed")


@pytest.mark.parametrize("mode", [{}, {"stream": True}])
async def test_a_tool_that_calls_exit_is_a_tool_that_failed(mode: Body) -> None:
    def leave() -> str:
        """Leave."""
        raise SystemExit(3)

    server = serve(lambda: Agent(client=create_demo_chat_client(), tools=[leave]))
    response = await server.handle("v1/responses", post({"input": "[[call leave {}]]", **mode}))
    if isinstance(response.body, bytes):
        assert parsed(response)["status"] == "completed"
    else:
        said = [event async for chunk in response.body for event in events(chunk)]
        assert said[-1]["type"] == "response.completed"


async def test_a_factory_that_calls_exit_is_an_error_of_its_own_request() -> None:
    def factory() -> Agent:
        raise SystemExit(2)

    response = await serve(factory).handle("v1/responses", post({"input": "hi"}))
    assert (response.status, parsed(response)["error"]["code"]) == (500, "server_error")
