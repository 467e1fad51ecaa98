"""agent-framework's own client of the Responses API, with our endpoint as its service: agents that call a hosted agent."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import openai
import pydantic
import pytest
from agent_framework import Agent, Content, Message, tool
from agent_framework.openai import OpenAIChatClient

from tests.e2e.clients.conftest import Connect
from tests.e2e.clients.test_openai_sync import PIXEL

TWO_CALLS = '[[calls get_weather {"location": "Oslo"} ;; get_weather {"location": "Rome"}]]'


class Person(pydantic.BaseModel):
    name: str
    age: int


@tool(approval_mode="never_require")
def get_weather(location: str) -> str:
    """The weather."""
    return f"sunny in {location}"


@pytest.fixture
async def client(connect: Connect) -> AsyncIterator[OpenAIChatClient]:
    async with connect() as connection:
        yield OpenAIChatClient(model="agent", async_client=connection)


@pytest.fixture
def agent(client: OpenAIChatClient) -> Agent:
    return Agent(client=client, name="caller", instructions="Be brief.", tools=[get_weather])


async def until_done(agent: Agent, session: Any, made: Any, **options: Any) -> Any:
    """Poll with the continuation token, as agent-framework's guide does."""
    async with asyncio.timeout(30):
        while made.continuation_token is not None:
            await asyncio.sleep(0.05)
            made = await agent.run(session=session, options={"continuation_token": made.continuation_token, **options})
    return made


async def test_a_run_with_usage(agent: Agent) -> None:
    made = await agent.run("hello")
    assert made.text == "Echo: hello"
    assert made.usage_details is not None
    assert made.usage_details["output_token_count"] == 2


async def test_a_stream_and_its_final_response(agent: Agent) -> None:
    stream = agent.run("one two", stream=True)
    texts = [update.text async for update in stream if update.text]
    assert texts[:3] == ["Echo:", " one", " two"]
    assert (await stream.get_final_response()).text == "Echo: one two"


@pytest.mark.parametrize("stream", [False, True])
async def test_tools_run_at_the_client(agent: Agent, stream: bool) -> None:
    made: Any = await agent.run(TWO_CALLS, stream=True).get_final_response() if stream else await agent.run(TWO_CALLS)
    results = [item.result for message in made.messages for item in message.contents if item.type == "function_result"]
    assert results == ["sunny in Oslo", "sunny in Rome"]
    assert made.text == "Tool result: sunny in Rome"


async def test_a_tool_that_the_client_approves(client: OpenAIChatClient) -> None:
    erased: list[str] = []

    @tool(approval_mode="always_require")
    def erase(path: str) -> str:
        """Erase a file."""
        erased.append(path)
        return "gone"

    agent = Agent(client=client, tools=[erase])
    session = agent.create_session()
    paused = await agent.run('[[call erase {"path": "/x"}]]', session=session)
    (request,) = paused.user_input_requests
    assert erased == []
    done = await agent.run(Message("user", [request.to_function_approval_response(True)]), session=session)
    assert (done.text, erased) == ("Tool result: gone", ["/x"])


async def test_a_session_that_the_server_keeps(agent: Agent) -> None:
    session = agent.create_session()
    await agent.run("[[reason because]]", session=session)
    await agent.run("weather", session=session)
    assert str(session.service_session_id).startswith("resp_")
    assert (await agent.run("[[context]]", session=session)).text == (
        "context types=message,reasoning,message,message,function_call,function_call_output,message,message"
    )


async def test_a_session_that_the_client_keeps(client: OpenAIChatClient) -> None:
    agent = Agent(client=client, tools=[get_weather], default_options={"store": False})
    session = agent.create_session()
    await agent.run("one", session=session)
    await agent.run("weather", session=session)
    assert session.service_session_id is None
    assert (await agent.run("[[history]]", session=session)).text == "history users=3 first=one"


async def test_a_session_that_is_a_conversation(agent: Agent, connect: Connect) -> None:
    async with connect() as api:
        conversation = await api.conversations.create()
        session = agent.get_session(conversation.id)
        await agent.run("weather", session=session)
        await agent.run("again", session=session, stream=True).get_final_response()
        assert (await agent.run("[[history]]", session=session)).text == "history users=3 first=weather"
        assert session.service_session_id == conversation.id
        items = [item.type async for item in api.conversations.items.list(conversation.id, order="asc")]
    assert items == ["message", "function_call", "function_call_output", *["message"] * 5]


async def test_a_background_run_is_polled_with_its_continuation_token(agent: Agent) -> None:
    session = agent.create_session()
    made = await agent.run("[[slow 5 30]]", session=session, options={"background": True})
    assert made.continuation_token is not None
    assert (await until_done(agent, session, made)).text == "tick0 tick1 tick2 tick3 tick4"
    assert (await agent.run("[[history]]", session=session)).text == "history users=2 first=[[slow 5 30]]"


async def test_tools_of_a_background_run(agent: Agent) -> None:
    """agent-framework#7538, #5394."""
    session = agent.create_session()
    made = await agent.run("weather", session=session, options={"background": True})
    done = await until_done(agent, session, made, background=True)
    assert done.text == "Tool result: sunny in San Francisco, CA"


async def test_a_background_stream_is_resumed_from_its_beginning(agent: Agent) -> None:
    """agent-framework#1764: it asks for the stream without `starting_after` and needs all of it."""
    session = agent.create_session()
    cut = agent.run("[[slow 12 30]]", session=session, stream=True, options={"background": True})
    token: Any = None
    async for update in cut:
        token = update.continuation_token or token
        if "tick3" in update.text:
            break
    await cut.close()
    assert token is not None
    resumed = agent.run(session=session, stream=True, options={"continuation_token": token})
    assert (await resumed.get_final_response()).text == " ".join(f"tick{n}" for n in range(12))


@pytest.mark.parametrize("stream", [False, True])
async def test_the_answer_has_a_type(agent: Agent, stream: bool) -> None:
    text, options = '[[json {"name": "Ann", "age": 3}]]', {"response_format": Person}
    made: Any = (
        await agent.run(text, stream=True, options=options).get_final_response()
        if stream
        else await agent.run(text, options=options)
    )
    assert made.value == Person(name="Ann", age=3)


async def test_an_image_goes_in(agent: Agent) -> None:
    message = Message("user", [Content.from_text("look"), Content.from_uri(PIXEL, media_type="image/png")])
    assert (await agent.run(message)).text == "Echo: look"


async def test_an_incomplete_answer_says_so(client: OpenAIChatClient) -> None:
    made = await client.get_response([Message("user", ["[[incomplete]]"])])
    assert (made.text, made.finish_reason) == ("partial", "length")


async def test_an_unknown_session_is_an_error_of_the_service(agent: Agent) -> None:
    with pytest.raises(Exception, match="Previous response with id") as refused:
        await agent.run("hi", session=agent.get_session("resp_" + "0" * 50))
    assert isinstance(refused.value.__cause__, openai.BadRequestError)
