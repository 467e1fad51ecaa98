"""What the README promises, with the real OpenAI client."""

import asyncio
import time

import openai
import pytest

from devhost.testing import DevHost


def ask(client: openai.OpenAI, text: str, previous: str | None = None) -> openai.types.responses.Response:
    return client.responses.create(model="agent", input=text, previous_response_id=previous)


def test_text(client: openai.OpenAI) -> None:
    response = ask(client, "Hello there")
    assert response.output_text == "Echo: Hello there"
    assert response.status == "completed"
    assert response.usage is not None
    assert response.usage.output_tokens == 3


async def test_text_async(host: DevHost) -> None:
    async with openai.AsyncOpenAI(base_url=f"{host.base_url}/v1", api_key="any") as client:
        response = await client.responses.create(model="agent", input="Hello")
    assert response.output_text == "Echo: Hello"


def test_a_stream_is_accepted_by_the_clients_accumulator(client: openai.OpenAI) -> None:
    with client.responses.stream(model="agent", input="one two three") as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert "".join(deltas) == final.output_text == "Echo: one two three"
    assert len(deltas) == 4


async def test_a_stream_is_accepted_async(host: DevHost) -> None:
    async with openai.AsyncOpenAI(base_url=f"{host.base_url}/v1", api_key="any") as client:
        async with client.responses.stream(model="agent", input="one two") as stream:
            final = await stream.get_final_response()
    assert final.output_text == "Echo: one two"


def test_a_stream_arrives_as_it_is_made(client: openai.OpenAI) -> None:
    arrived: list[float] = []
    for event in client.responses.create(model="agent", input="[[slow 6 400]]", stream=True):
        if event.type == "response.output_text.delta":
            arrived.append(time.monotonic())
    assert len(arrived) == 6
    # Five pauses of 400 ms: buffered anywhere, the deltas would arrive together.
    assert arrived[-1] - arrived[0] > 0.5


def test_sequence_numbers_are_contiguous_and_the_order_is_right(client: openai.OpenAI) -> None:
    events = list(client.responses.create(model="agent", input="one two", stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]


def test_thirty_turns(client: openai.OpenAI) -> None:
    previous = ask(client, "turn 0").id
    for number in range(1, 30):
        previous = ask(client, f"turn {number}", previous).id
    assert ask(client, "[[history]]", previous).output_text == "history users=31 first=turn 0"


def test_a_conversation_started_streaming_goes_on_without(client: openai.OpenAI) -> None:
    with client.responses.stream(model="agent", input="first") as stream:
        first = stream.get_final_response()
    assert ask(client, "[[history]]", first.id).output_text == "history users=2 first=first"


def test_a_fork_of_an_old_response(client: openai.OpenAI) -> None:
    first = ask(client, "one")
    second = ask(client, "two", first.id)
    ask(client, "three", second.id)
    fork = ask(client, "other two", first.id)
    assert ask(client, "[[history]]", fork.id).output_text == "history users=3 first=one"
    again = ask(client, "[[history]]", first.id)
    assert again.output_text == "history users=2 first=one"


def test_parallel_children_of_one_response(client: openai.OpenAI, host: DevHost) -> None:
    first = ask(client, "root")

    async def children() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{host.base_url}/v1", api_key="any", max_retries=0) as parallel:
            made = await asyncio.gather(
                *(
                    parallel.responses.create(model="agent", input=f"child {n}", previous_response_id=first.id)
                    for n in range(8)
                )
            )
        return [response.id for response in made]

    for child in asyncio.run(children()):
        assert ask(client, "[[history]]", child).output_text == "history users=3 first=root"


def test_completed_means_stored(client: openai.OpenAI) -> None:
    """lmstudio-bug-tracker#1188: the event was sent before the record was stored."""
    for event in client.responses.create(model="agent", input="hi", stream=True):
        if event.type == "response.completed":
            assert ask(client, "[[history]]", event.response.id).output_text == "history users=2 first=hi"
            return
    pytest.fail("no response.completed")


TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather",
    "parameters": {"type": "object", "properties": {"location": {"type": "string"}}},
    "strict": False,
}


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_round_trip(client: openai.OpenAI, stream: bool) -> None:
    if stream:
        with client.responses.stream(model="agent", input="What is the weather?", tools=[TOOL]) as events:  # type: ignore[list-item]
            asked = events.get_final_response()
    else:
        asked = client.responses.create(model="agent", input="What is the weather?", tools=[TOOL])  # type: ignore[list-item]
    (call,) = [item for item in asked.output if item.type == "function_call"]
    assert (call.name, call.arguments) == ("get_weather", '{"location": "San Francisco, CA"}')
    answered = client.responses.create(
        model="agent",
        previous_response_id=asked.id,
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}],
        tools=[TOOL],  # type: ignore[list-item]
    )
    assert answered.output_text == "Tool result: sunny"
    assert ask(client, "[[context]]", answered.id).output_text == (
        "context types=message,function_call,function_call_output,message,message"
    )


def test_parallel_tool_calls(client: openai.OpenAI) -> None:
    asked = client.responses.create(
        model="agent",
        input='[[calls get_weather {"location": "A"} ;; get_weather {"location": "B"}]]',
        tools=[TOOL],  # type: ignore[list-item]
    )
    calls = [item for item in asked.output if item.type == "function_call"]
    assert [call.arguments for call in calls] == ['{"location": "A"}', '{"location": "B"}']
    with pytest.raises(openai.BadRequestError, match=f"No tool output found for function call {calls[1].call_id}"):
        client.responses.create(
            model="agent",
            previous_response_id=asked.id,
            input=[{"type": "function_call_output", "call_id": calls[0].call_id, "output": "x"}],
        )


def test_a_call_left_unanswered_is_refused_and_the_conversation_survives(client: openai.OpenAI) -> None:
    asked = client.responses.create(model="agent", input="weather?", tools=[TOOL])  # type: ignore[list-item]
    with pytest.raises(openai.BadRequestError, match="No tool output found for function call"):
        ask(client, "never mind", asked.id)
    (call,) = [item for item in asked.output if item.type == "function_call"]
    answered = client.responses.create(
        model="agent",
        previous_response_id=asked.id,
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": "rain"}],
    )
    assert answered.output_text == "Tool result: rain"


def test_an_output_that_answers_no_call_is_refused(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="No tool call found for function call output with call_id call_x"):
        client.responses.create(
            model="agent", input=[{"type": "function_call_output", "call_id": "call_x", "output": "1"}]
        )


def test_retrieve_gives_what_create_gave(client: openai.OpenAI) -> None:
    made = client.responses.create(
        model="my-model", input="hi", instructions="Be brief.", metadata={"k": "v"}, temperature=0.5
    )
    found = client.responses.retrieve(made.id)
    assert found.model_dump() == made.model_dump()
    assert (found.model, found.instructions, found.metadata, found.temperature) == (
        "my-model",
        "Be brief.",
        {"k": "v"},
        0.5,
    )


def test_delete_removes_it_everywhere(client: openai.OpenAI) -> None:
    made = ask(client, "hi")
    client.responses.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.input_items.list(made.id)
    with pytest.raises(openai.BadRequestError) as refused:
        ask(client, "more", made.id)
    assert refused.value.code == "previous_response_not_found"


def test_store_false_leaves_nothing(client: openai.OpenAI) -> None:
    first = ask(client, "one")
    made = client.responses.create(model="agent", input="two", store=False, previous_response_id=first.id)
    assert made.store is False
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id)
    with pytest.raises(openai.BadRequestError):
        ask(client, "three", made.id)
    assert ask(client, "[[history]]", first.id).output_text == "history users=2 first=one"


def test_five_megabytes_in_and_out(client: openai.OpenAI) -> None:
    big = "0123456789" * 500_000
    made = ask(client, big)
    assert made.output_text == f"Echo: {big}"
    assert client.responses.retrieve(made.id).output_text == made.output_text
    assert ask(client, "[[history]]", made.id).output_text == f"history users=2 first={big}"


def test_input_items_are_paged(client: openai.OpenAI) -> None:
    previous = None
    for number in range(6):
        previous = ask(client, f"turn {number}", previous).id
    assert previous is not None
    pages = client.responses.input_items.list(previous, limit=3, order="asc")
    texts = [item.content[0].text for item in pages]  # type: ignore[union-attr]
    assert texts == [f"{who}turn {n}" for n in range(6) for who in ("", "Echo: ")][:-1]
    newest = client.responses.input_items.list(previous, limit=2)
    assert [item.content[0].text for item in newest.data] == ["turn 5", "Echo: turn 4"]  # type: ignore[union-attr]
    assert newest.has_more
    after = client.responses.input_items.list(previous, limit=2, after=newest.data[-1].id)
    assert [item.content[0].text for item in after.data] == ["turn 4", "Echo: turn 3"]  # type: ignore[union-attr]


def test_reasoning_is_an_item_of_its_own(client: openai.OpenAI) -> None:
    made = ask(client, "[[reason because]]")
    assert [item.type for item in made.output] == ["reasoning", "message"]
    assert made.output[0].summary[0].text == "because"  # type: ignore[union-attr]


@pytest.mark.parametrize("stream", [False, True])
def test_a_failure_ends_the_response_and_not_the_conversation(client: openai.OpenAI, stream: bool) -> None:
    first = ask(client, "one")
    if stream:
        events = list(
            client.responses.create(
                model="agent", input="[[fail out of coffee]]", previous_response_id=first.id, stream=True
            )
        )
        assert events[-1].type == "response.failed"
        failed = events[-1].response
    else:
        failed = ask(client, "[[fail out of coffee]]", first.id)
    assert failed.status == "failed"
    assert failed.error is not None
    assert (failed.error.code, failed.error.message) == ("server_error", "out of coffee")
    assert client.responses.retrieve(failed.id).status == "failed"
    assert ask(client, "[[history]]", first.id).output_text == "history users=2 first=one"


def test_the_text_of_an_exception_stays_inside(client: openai.OpenAI) -> None:
    failed = ask(client, "[[raise]]")
    assert failed.status == "failed"
    assert failed.error is not None
    assert "told to raise" not in failed.error.message


def test_incomplete(client: openai.OpenAI) -> None:
    made = ask(client, "[[incomplete]]")
    assert made.status == "incomplete"
    assert made.incomplete_details is not None
    assert (made.incomplete_details.reason, made.output_text) == ("max_output_tokens", "partial")
    assert ask(client, "[[history]]", made.id).output_text == "history users=2 first=[[incomplete]]"


def test_an_item_reference_stands_for_the_item(client: openai.OpenAI) -> None:
    made = ask(client, "remember me")
    reference = {"type": "item_reference", "id": made.output[0].id}
    again = client.responses.create(
        model="agent",
        input=[{"role": "user", "content": "first"}, reference, {"role": "user", "content": "[[context]]"}],  # type: ignore[list-item]
    )
    assert again.output_text == "context types=message,message,message"
    with pytest.raises(openai.BadRequestError, match="not found"):
        client.responses.create(model="agent", input=[{**reference, "id": "msg_" + "0" * 50}])  # type: ignore[list-item]
