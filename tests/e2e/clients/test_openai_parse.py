"""Structured output: `responses.parse` and the stream helper with a pydantic model."""

import json
from typing import Any, Literal

import openai
import pydantic
import pytest

from tests.e2e.clients.conftest import Connect, ended


class Address(pydantic.BaseModel):
    street: str
    number: int | None


class Person(pydantic.BaseModel):
    name: str
    kind: Literal["guest", "member"]
    addresses: list[Address]


ANN = {
    "name": "Ann",
    "kind": "guest",
    "addresses": [{"street": "Main", "number": 3}, {"street": "Side", "number": None}],
}
TEXT = f"[[json {json.dumps(ANN)}]]"


def test_parse_gives_the_model(client: openai.OpenAI) -> None:
    made = client.responses.parse(model="agent", input=TEXT, text_format=Person)
    assert made.output_parsed == Person.model_validate(ANN)
    assert made.text is not None
    echoed: Any = made.text.format
    assert (echoed.type, echoed.name, echoed.strict) == ("json_schema", "Person", True)
    assert echoed.schema_["required"] == ["name", "kind", "addresses"]


async def test_parse_gives_the_model_async(connect: Connect) -> None:
    async with connect() as client:
        made = await client.responses.parse(model="agent", input=TEXT, text_format=Person)
    assert made.output_parsed == Person.model_validate(ANN)


def test_the_stream_helper_parses_the_end_of_the_text(client: openai.OpenAI) -> None:
    with client.responses.stream(model="agent", input=TEXT, text_format=Person) as stream:
        (done,) = [event for event in stream if event.type == "response.output_text.done"]
        final = stream.get_final_response()
    assert done.parsed == final.output_parsed == Person.model_validate(ANN)


def test_a_background_stream_is_parsed_when_it_is_resumed(client: openai.OpenAI) -> None:
    schema: Any = {"format": {"type": "json_schema", "name": "Person", "schema": Person.model_json_schema()}}
    stream = client.responses.create(model="agent", input=TEXT, text=schema, background=True, stream=True)
    identifier = next(iter(stream)).response.id  # type: ignore[union-attr]
    stream.close()
    with client.responses.stream(response_id=identifier, text_format=Person) as resumed:
        assert resumed.get_final_response().output_parsed == Person.model_validate(ANN)
    assert ended(client, identifier).output_text == json.dumps(ANN)


def test_text_that_is_no_such_json_is_the_clients_to_refuse(client: openai.OpenAI) -> None:
    with pytest.raises(pydantic.ValidationError):
        client.responses.parse(model="agent", input="hello", text_format=Person)


def test_the_arguments_of_a_tool_are_parsed(client: openai.OpenAI) -> None:
    class GetWeather(pydantic.BaseModel):
        location: str

    given: Any = openai.pydantic_function_tool(GetWeather, name="get_weather")["function"]
    tool: Any = {"type": "function", "strict": True, "name": given["name"], "parameters": given["parameters"]}
    made = client.responses.parse(model="agent", input="weather", tools=[tool])
    (call,) = [item for item in made.output if item.type == "function_call"]
    assert call.parsed_arguments == {"location": "San Francisco, CA"}
