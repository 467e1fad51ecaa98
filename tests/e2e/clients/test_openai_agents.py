"""openai-agents, whose runner executes tools and hands over at the client's side, with our endpoint as its model."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import openai
import pydantic
import pytest
from agents import (
    Agent,
    ModelSettings,
    OpenAIConversationsSession,
    OpenAIResponsesModel,
    Runner,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from agents.exceptions import ModelBehaviorError
from agents.memory import OpenAIResponsesCompactionSession

from tests.e2e.clients.conftest import Connect

set_tracing_disabled(True)  # it would send every run to OpenAI

TWO_CALLS = '[[calls get_weather {"location": "Oslo"} ;; get_weather {"location": "Rome"}]]'


@pytest.fixture
async def client(connect: Connect) -> AsyncIterator[openai.AsyncOpenAI]:
    async with connect() as opened:
        yield opened


@pytest.fixture
def agent(client: openai.AsyncOpenAI) -> Agent:
    return make(client, tools=[get_weather])


def make(client: openai.AsyncOpenAI, name: str = "assistant", **fields: Any) -> Agent:
    return Agent(name=name, model=OpenAIResponsesModel(model="agent", openai_client=client), **fields)


async def run(agent: Agent, given: Any, **options: Any) -> Any:
    return await Runner.run(agent, given, **options)


@function_tool
async def get_weather(location: str) -> str:
    """The weather."""
    await asyncio.sleep(0.05 if location == "Oslo" else 0)  # the first call ends last
    return f"sunny in {location}"


async def test_a_tool_runs_at_the_client(agent: Agent) -> None:
    done = await run(agent, "weather")
    assert done.final_output == "Tool result: sunny in San Francisco, CA"
    assert [type(item).__name__ for item in done.new_items] == [
        "ToolCallItem",
        "ToolCallOutputItem",
        "MessageOutputItem",
    ]


async def test_parallel_calls_are_all_answered(agent: Agent) -> None:
    done = await run(agent, TWO_CALLS)
    outputs = [item.output for item in done.new_items if item.type == "tool_call_output_item"]
    assert sorted(outputs) == ["sunny in Oslo", "sunny in Rome"]
    assert done.final_output.startswith("Tool result: sunny in ")


async def test_a_run_is_streamed(agent: Agent) -> None:
    streamed = Runner.run_streamed(agent, "weather")
    deltas, named = "", []
    async for event in streamed.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            deltas += event.data.delta
        elif event.type == "run_item_stream_event":
            named.append(event.name)
    assert deltas == streamed.final_output == "Tool result: sunny in San Francisco, CA"
    assert named == ["tool_called", "tool_output", "message_output_created"]


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_agent_hands_over_to_another_one(client: openai.AsyncOpenAI, streamed: bool) -> None:
    critic = make(client, "critic", instructions="You criticise.")
    writer = make(client, "writer", instructions="You write.", handoffs=[critic])
    text = "[[call transfer_to_critic {}]]"
    if streamed:
        done: Any = Runner.run_streamed(writer, text)
        async for _ in done.stream_events():
            pass
    else:
        done = await run(writer, text)
    assert done.last_agent is critic
    assert done.final_output == 'Tool result: {"assistant": "critic"}'


async def test_a_session_on_the_conversations_api(agent: Agent, client: openai.AsyncOpenAI) -> None:
    """openai-agents-python#3268: the session could not be saved when there was reasoning in it."""
    session = OpenAIConversationsSession(openai_client=client)
    await run(agent, "[[reason because]]", session=session)
    await run(agent, "weather", session=session)
    # Another process, which knows the id only.
    session = OpenAIConversationsSession(conversation_id=session.session_id, openai_client=client)
    done = await run(agent, "[[context]]", session=session)
    assert done.final_output == (
        "context types=message,reasoning,message,message,function_call,function_call_output,message,message"
    )
    items: list[Any] = await session.get_items()
    assert [item["type"] for item in items] == [*done.final_output.removeprefix("context types=").split(","), "message"]
    assert [item["id"] for item in await session.get_items(limit=3)] == [item["id"] for item in items[-3:]]
    popped: Any = await session.pop_item()
    assert popped["id"] == items[-1]["id"]
    assert len(await session.get_items()) == len(items) - 1
    await session.clear_session()


async def test_a_session_of_more_than_a_page(agent: Agent, client: openai.AsyncOpenAI) -> None:
    session = OpenAIConversationsSession(openai_client=client)
    await session.add_items([{"role": "user", "content": f"line {n}"} for n in range(47)])
    done = await run(agent, "[[history]]", session=session)
    assert done.final_output == "history users=48 first=line 0"
    assert len(await session.get_items()) == 49


async def test_a_session_that_resends_everything(agent: Agent) -> None:
    session = SQLiteSession("mine")
    await run(agent, "[[reason because]]", session=session)
    await run(agent, "weather", session=session)
    done = await run(agent, "[[context]]", session=session)
    session.close()
    assert done.final_output == (
        "context types=message,reasoning,message,message,function_call,function_call_output,message,message"
    )


@pytest.mark.parametrize("mode", ["previous_response_id", "input"])
async def test_a_session_that_is_compacted(agent: Agent, client: openai.AsyncOpenAI, mode: Any) -> None:
    kept = SQLiteSession(f"compacted {mode}")
    session = OpenAIResponsesCompactionSession(kept.session_id, kept, client=client, compaction_mode=mode)
    for number in range(3):
        await run(agent, f"turn {number}", session=session)
    await session.run_compaction({"force": True})
    assert [item["type"] for item in await session.get_items()] == ["message"] * 3 + ["compaction"]  # type: ignore[typeddict-item]
    done = await run(agent, "[[history]]", session=session)
    kept.close()
    assert done.final_output == "history users=4 first=turn 0"


async def test_the_server_keeps_the_conversation(agent: Agent, client: openai.AsyncOpenAI) -> None:
    conversation = await client.conversations.create()
    await run(agent, TWO_CALLS, conversation_id=conversation.id)
    done = await run(agent, "[[context]]", conversation_id=conversation.id)
    assert done.final_output == (
        "context types=message,function_call,function_call,function_call_output,function_call_output,message,message"
    )


async def test_runs_are_chained_by_response_ids(agent: Agent) -> None:
    first = await run(agent, "weather", auto_previous_response_id=True)
    second = await run(agent, "[[history]]", previous_response_id=first.last_response_id)
    assert second.final_output == "history users=2 first=weather"


async def test_the_whole_history_goes_back_in(agent: Agent) -> None:
    first = await run(agent, "[[reason because]]")
    second = await run(agent, [*first.to_input_list(), {"role": "user", "content": "weather"}])
    third = await run(agent, [*second.to_input_list(), {"role": "user", "content": "[[context]]"}])
    assert third.final_output == (
        "context types=message,reasoning,message,message,function_call,function_call_output,message,message"
    )


async def test_the_output_has_a_type(client: openai.AsyncOpenAI) -> None:
    class Person(pydantic.BaseModel):
        name: str
        age: int

    done = await run(make(client, output_type=Person), '[[json {"name": "Ann", "age": 3}]]')
    assert done.final_output == Person(name="Ann", age=3)


async def test_all_model_settings_are_taken_and_usage_comes_back(client: openai.AsyncOpenAI) -> None:
    settings = ModelSettings(
        temperature=0.1,
        top_p=0.5,
        max_tokens=100,
        truncation="auto",
        parallel_tool_calls=True,
        tool_choice="auto",
        store=True,
        metadata={"a": "b"},
        reasoning={"effort": "low", "summary": "auto"},  # type: ignore[arg-type]
        verbosity="low",
        top_logprobs=2,
        response_include=["reasoning.encrypted_content"],
        extra_query={"api-version": "preview"},
    )
    done = await run(make(client, tools=[get_weather], model_settings=settings), "hi")
    assert done.final_output == "Echo: hi"
    assert done.raw_responses[0].usage.output_tokens == 2


async def test_a_failed_response_is_an_exception(agent: Agent) -> None:
    with pytest.raises(ModelBehaviorError, match="out of coffee"):
        await run(agent, "[[fail out of coffee]]")


async def test_a_locked_conversation_is_waited_for(connect: Connect) -> None:
    """careme#379. The clients ask again by themselves, each in its way, when another turn is about to end."""
    async with connect(max_retries=2) as client:
        conversation = await client.conversations.create()
        running = await client.responses.create(
            model="agent", input="[[slow 8 50]]", conversation=conversation.id, stream=True
        )
        async for event in running:
            if event.type == "response.output_text.delta":
                break
        waiting = asyncio.create_task(run(make(client), "[[history]]", conversation_id=conversation.id))
        async for _ in running:
            pass
        assert (await waiting).final_output == "history users=2 first=[[slow 8 50]]"
