"""pydantic-ai with its model class for the Responses API."""

from collections.abc import AsyncIterator
from typing import Any

import openai
import pydantic
import pytest
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
from pydantic_ai.providers.openai import OpenAIProvider

from tests.e2e.clients.conftest import Connect


class Person(pydantic.BaseModel):
    name: str
    age: int


def get_weather(location: str) -> str:
    """The weather."""
    return f"sunny in {location}"


@pytest.fixture
async def client(connect: Connect) -> AsyncIterator[openai.AsyncOpenAI]:
    async with connect() as opened:
        yield opened


@pytest.fixture
def model(client: openai.AsyncOpenAI) -> OpenAIResponsesModel:
    return OpenAIResponsesModel("agent", provider=OpenAIProvider(openai_client=client))


async def test_a_run_with_usage(model: OpenAIResponsesModel) -> None:
    done = await Agent(model).run("hello")
    assert done.output == "Echo: hello"
    assert done.usage.output_tokens == 2


async def test_a_streamed_run(model: OpenAIResponsesModel) -> None:
    async with Agent(model).run_stream("one two") as stream:
        assert await stream.get_output() == "Echo: one two"


async def test_tools_run_at_the_client(model: OpenAIResponsesModel) -> None:
    text = '[[calls get_weather {"location": "Oslo"} ;; get_weather {"location": "Rome"}]]'
    assert (await Agent(model, tools=[get_weather]).run(text)).output == "Tool result: sunny in Rome"


@pytest.mark.parametrize("previous", [None, "auto"])
async def test_a_conversation_goes_on(model: OpenAIResponsesModel, previous: Any) -> None:
    settings = OpenAIResponsesModelSettings(openai_previous_response_id=previous) if previous else None
    agent = Agent(model, tools=[get_weather])
    first = await agent.run("one")
    second = await agent.run("weather", message_history=first.all_messages(), model_settings=settings)
    third = await agent.run("[[history]]", message_history=second.all_messages(), model_settings=settings)
    assert third.output == "history users=3 first=one"


async def test_a_conversation_that_the_server_keeps(model: OpenAIResponsesModel, client: openai.AsyncOpenAI) -> None:
    conversation = await client.conversations.create()
    settings = OpenAIResponsesModelSettings(openai_conversation_id=conversation.id)
    agent = Agent(model, tools=[get_weather])
    await agent.run("weather", model_settings=settings)
    assert (await agent.run("[[history]]", model_settings=settings)).output == "history users=2 first=weather"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (NativeOutput(Person), '[[json {"name": "Ann", "age": 3}]]'),
        (Person, '[[call final_result {"name": "Ann", "age": 3}]]'),
    ],
    ids=["as text", "as a call"],
)
async def test_the_output_has_a_type(model: OpenAIResponsesModel, kind: Any, text: str) -> None:
    assert (await Agent(model, output_type=kind).run(text)).output == Person(name="Ann", age=3)


async def test_a_failed_response_is_an_exception(model: OpenAIResponsesModel) -> None:
    with pytest.raises(ModelAPIError, match="out of coffee"):
        await Agent(model).run("[[fail out of coffee]]")
