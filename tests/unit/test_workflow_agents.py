"""Agents inside hosted workflows: their tools, approvals and calls of the client's functions; and the helpers of the seed
with a workflow's events.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from agent_framework import (
    Agent,
    AgentExecutor,
    AgentResponse,
    Executor,
    FunctionTool,
    Message,
    Workflow,
    WorkflowBuilder,
    WorkflowContext,
    WorkflowExecutor,
    handler,
    tool,
)

from demo_agent import create_demo_chat_client
from hosting.responses import responses_from_run, responses_from_streaming_run
from hosting.state import AgentState, WorkflowState
from tests.server_world import World, serve, texts
from tests.unit.workflow_desk import answer, decide, desk, output, user

paid: list[int] = []


@tool(approval_mode="always_require")
def pay(amount: int) -> str:
    """Pay an amount."""
    paid.append(amount)
    return f"paid {amount}"


@tool(approval_mode="never_require")
def lookup(order: int) -> str:
    """Look an order up."""
    return f"order {order}"


def agent(name: str, *tools: FunctionTool) -> Agent:
    return Agent(client=create_demo_chat_client(), name=name, tools=list(tools))


def team() -> Workflow:
    """One agent, then another one that sees what the first has said."""
    first, second = AgentExecutor(agent("first", pay, lookup)), AgentExecutor(agent("second"))
    return WorkflowBuilder(start_executor=first, name="team").add_edge(first, second).build()


def alone() -> Workflow:
    return WorkflowBuilder(start_executor=AgentExecutor(agent("only", pay, lookup)), name="alone").build()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    paid.clear()
    states = {"alone": WorkflowState(alone, cache_target=False), "team": WorkflowState(team, cache_target=False)}
    async with serve(hosted=states) as running:
        yield running


async def test_each_agent_says_its_own_message(world: World) -> None:
    response = await world.create("hi", model="team")
    assert texts(response) == ["Echo: hi", "Echo: hi"]
    assert response["usage"]["output_tokens"] > 0


async def test_an_agent_remembers_the_conversation(world: World) -> None:
    first = await world.create("hi", model="alone")
    await world.kill()
    await world.restart(1)
    second = await world.create("[[history]]", model="alone", previous_response_id=first["id"])
    assert texts(second) == ["history users=2 first=hi"]


async def test_a_tool_of_the_agent_is_run_and_shown(world: World) -> None:
    response = await world.create('[[call lookup {"order": 7}]]', model="alone")
    assert [item["type"] for item in response["output"]] == ["mcp_call", "message"]
    assert texts(response) == ["Tool result: order 7"]


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_tool_that_needs_an_approval_waits_for_it_over_processes(world: World, streamed: bool) -> None:
    given = '[[call pay {"amount": 5}]]'
    if streamed:
        paused = (await (await world.stream(given, model="alone")).ends())[-1]["response"]
    else:
        paused = await world.create(given, model="alone")
    (request,) = output(paused, "mcp_approval_request")
    assert (request["name"], json.loads(request["arguments"]), paid) == ("pay", {"amount": 5}, [])
    assert output(paused, "function_call") == []
    await world.kill()
    await world.restart(1)
    done = await world.create([decide(request["id"])], model="alone", previous_response_id=paused["id"])
    assert (done["status"], texts(done), paid) == ("completed", ["Tool result: paid 5"], [5])


async def test_a_tool_that_is_declined_is_not_run(world: World) -> None:
    paused = await world.create('[[call pay {"amount": 5}]]', model="alone")
    (request,) = output(paused, "mcp_approval_request")
    done = await world.create([decide(request["id"], False)], model="alone", previous_response_id=paused["id"])
    assert (done["status"], paid) == ("completed", [])


async def test_the_agent_after_a_pause_is_run_when_it_is_answered(world: World) -> None:
    paused = await world.create('[[call pay {"amount": 5}]]', model="team")
    assert texts(paused) == []
    (request,) = output(paused, "mcp_approval_request")
    done = await world.create([decide(request["id"])], model="team", previous_response_id=paused["id"])
    assert texts(done)[0] == "Tool result: paid 5"
    assert len(texts(done)) == 2


async def test_a_function_of_the_client_is_called_and_its_output_goes_to_the_agent(world: World) -> None:
    tools = [{"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}]
    paused = await world.create('[[call get_weather {"city": "Oslo"}]]', model="alone", tools=tools)
    (call,) = output(paused, "function_call")
    assert (call["name"], json.loads(call["arguments"])) == ("get_weather", {"city": "Oslo"})
    await world.kill()
    await world.restart(1)
    done = await world.create(answer(paused, "sunny"), model="alone", tools=tools, previous_response_id=paused["id"])
    assert (done["status"], texts(done)) == ("completed", ["Tool result: sunny"])


class Front(Executor):
    @handler
    async def read(self, messages: list[Message], ctx: WorkflowContext[list[Message]]) -> None:
        await ctx.send_message(messages)


def crowd() -> Workflow:
    front, first, second = Front(id="front"), AgentExecutor(agent("first")), AgentExecutor(agent("second"))
    return WorkflowBuilder(start_executor=front, name="crowd").add_fan_out_edges(front, [first, second]).build()


async def test_agents_that_speak_at_the_same_time_are_two_messages_also_on_a_stream() -> None:
    async with serve(hosted=WorkflowState(crowd, cache_target=False)) as world:
        whole = await world.create("[[slow 6 5]]")
        streamed = (await (await world.stream("[[slow 6 5]]")).ends())[-1]["response"]
        assert len(texts(whole)) == 2
        assert texts(streamed) == texts(whole)
        assert texts(whole)[0] == texts(whole)[1]


def nested() -> Workflow:
    inner = WorkflowExecutor(desk(), id="inner", propagate_request=True, allow_direct_output=True)
    return WorkflowBuilder(start_executor=inner, name="outer").build()


async def test_a_workflow_inside_a_workflow_pauses_and_goes_on_in_another_process() -> None:
    async with serve(hosted=WorkflowState(nested, cache_target=False)) as world:
        paused = await world.create("ask")
        assert texts(paused) == ["1: ask"]
        await world.kill()
        await world.restart(1)
        done = await world.create([*answer(paused, "true"), user("more")], previous_response_id=paused["id"])
        assert texts(done) == ["ticket 1: yes", "2: more"]


# D2: a workflow as an agent, hosted as agents are


async def test_a_workflow_agent_that_pauses_is_rendered() -> None:
    async with serve(hosted=AgentState(lambda: desk().as_agent("desk"), cache_target=False)) as world:
        for streamed in (False, True):
            paused = (
                (await (await world.stream("ask")).ends())[-1]["response"] if streamed else await world.create("ask")
            )
            assert (paused["status"], texts(paused)) == ("completed", ["1: ask"])
            (call,) = output(paused, "function_call")
            assert call["name"] == "request_info"
            assert isinstance(json.loads(call["arguments"]), dict)


@dataclass
class HasStatus:
    """What D2 was about: an object that is no transport, and has a status."""

    status: Any
    error: Any = "text"


# E4: the helpers take a workflow's results and streams


async def test_a_result_of_a_workflow_is_rendered_by_the_helper() -> None:
    result = await desk().run([_user("hello")])
    made = responses_from_run(result, response_id="resp_1")
    assert (made["status"], texts(made)) == ("completed", ["1: hello"])


async def test_a_stream_of_a_workflow_is_rendered_by_the_helper() -> None:
    stream = desk().run([_user("hello")], stream=True)
    events = [
        json.loads(line.partition("data: ")[2].strip())
        async for line in responses_from_streaming_run(stream, response_id="resp_1")
        if "data: {" in line
    ]
    assert events[0]["type"] == "response.created"
    assert events[-1]["type"] == "response.completed"
    assert texts(events[-1]["response"]) == ["1: hello"]


@pytest.mark.parametrize("streamed", [False, True])
async def test_what_a_workflow_waits_for_is_rendered_by_the_helpers(streamed: bool) -> None:
    given = [_user("ask")]
    if streamed:
        lines = [
            line async for line in responses_from_streaming_run(desk().run(given, stream=True), response_id="resp_1")
        ]
        made = json.loads(next(line for line in reversed(lines) if "data: {" in line).partition("data: ")[2])[
            "response"
        ]
    else:
        made = responses_from_run(await desk().run(given), response_id="resp_1")
    (call,) = output(made, "function_call")
    assert (call["name"], json.loads(call["arguments"])) == ("request_info", {"number": 1})


@pytest.mark.parametrize("status", [200, "running", HasStatus, print], ids=repr)
def test_a_raw_object_with_a_status_is_no_transport(status: Any) -> None:
    result = AgentResponse(messages=[Message("assistant", ["fine"])], raw_representation=HasStatus(status))
    assert responses_from_run(result, response_id="resp_1")["status"] == "completed"


def _user(text: str) -> Any:
    return Message("user", [text])
