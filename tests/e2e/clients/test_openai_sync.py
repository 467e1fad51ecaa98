"""The official `openai` client, synchronous: what its users do with responses, beyond the README's first steps."""

from typing import Any

import openai
import pytest

from devhost.testing import DevHost
from tests.e2e.clients.conftest import ended

PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
DOCUMENT = "data:application/pdf;base64,JVBERi0xLjQK"
WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather",
    "parameters": {"type": "object", "properties": {"location": {"type": "string"}}},
    "strict": False,
}


def ask(client: openai.OpenAI, given: Any, **fields: Any) -> Any:
    return client.responses.create(model="agent", input=given, **fields)


def answer(call: Any, output: str) -> Any:
    return [{"type": "function_call_output", "call_id": call.call_id, "output": output}]


# Streams


def test_the_stream_helper_gives_snapshots_and_the_final_response(client: openai.OpenAI) -> None:
    with client.responses.stream(model="agent", input="one two") as stream:
        events = list(stream)
        final = stream.get_final_response()
    snapshots = [event.snapshot for event in events if event.type == "response.output_text.delta"]
    assert snapshots == ["Echo:", "Echo: one", "Echo: one two"]
    completed = events[-1]
    assert completed.type == "response.completed"
    assert completed.response.output_text == final.output_text == "Echo: one two"
    assert client.responses.retrieve(final.id).output_text == final.output_text


def test_the_stream_helper_collects_the_arguments_of_parallel_calls(client: openai.OpenAI) -> None:
    text = '[[calls get_weather {"location": "A"} ;; get_weather {"location": "B"}]]'
    with client.responses.stream(model="agent", input=text, tools=[WEATHER]) as stream:
        done = [event.arguments for event in stream if event.type == "response.function_call_arguments.done"]
        final = stream.get_final_response()
    assert done == ['{"location": "A"}', '{"location": "B"}']
    assert [item.arguments for item in final.output if item.type == "function_call"] == done


def test_the_stream_helper_passes_reasoning_on(client: openai.OpenAI) -> None:
    with client.responses.stream(model="agent", input="[[reason because it is so]]") as stream:
        said = [event.delta for event in stream if event.type == "response.reasoning_summary_text.delta"]
        final = stream.get_final_response()
    assert "".join(said) == "because it is so"
    assert [item.type for item in final.output] == ["reasoning", "message"]


def test_a_failure_is_the_last_event_of_the_stream_helper(client: openai.OpenAI) -> None:
    with client.responses.stream(model="agent", input="[[fail out of coffee]]") as stream:
        last = list(stream)[-1]
    assert last.type == "response.failed"
    assert last.response.error is not None
    assert (last.response.error.code, last.response.error.message) == ("server_error", "out of coffee")


# The life of a stored response


def test_create_retrieve_and_delete_are_of_one_mind_over_both_workers(a: openai.OpenAI, b: openai.OpenAI) -> None:
    made = ask(a, "hi", metadata={"team": "blue"}, instructions="Be brief.")
    found = b.responses.retrieve(made.id)
    assert found.to_dict() == made.to_dict()
    assert found.metadata == {"team": "blue"}
    assert b.responses.delete(made.id) is None
    with pytest.raises(openai.NotFoundError):
        a.responses.retrieve(made.id)


def test_input_items_page_by_themselves(a: openai.OpenAI, b: openai.OpenAI) -> None:
    made = ask(a, [{"role": "user", "content": f"line {n}"} for n in range(45)])
    assert [item.content[0].text for item in b.responses.input_items.list(made.id, order="asc")] == [
        f"line {n}" for n in range(45)
    ]
    newest_first = [item.content[0].text for item in b.responses.input_items.list(made.id, limit=7)]
    assert newest_first == [f"line {n}" for n in reversed(range(45))]


def test_the_request_is_echoed(client: openai.OpenAI) -> None:
    fields: dict[str, Any] = {
        "instructions": "Be brief.",
        "temperature": 0.3,
        "top_p": 0.5,
        "max_output_tokens": 500,
        "max_tool_calls": 3,
        "parallel_tool_calls": False,
        "truncation": "auto",
        "user": "someone",
        "metadata": {"a": "b"},
        "tools": [WEATHER],
        "tool_choice": "none",
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"format": {"type": "text"}, "verbosity": "low"},
        "service_tier": "default",
        "safety_identifier": "hashed",
        "prompt_cache_key": "key",
    }
    made = ask(client, "hi", **fields).to_dict()
    assert {name: made[name] for name in fields if name not in ("tools", "reasoning")} == {
        name: value for name, value in fields.items() if name not in ("tools", "reasoning")
    }
    assert {name: made["tools"][0][name] for name in WEATHER} == WEATHER
    assert (made["reasoning"]["effort"], made["reasoning"]["summary"]) == ("low", "auto")


# What goes back in


def test_the_output_goes_back_in_with_the_nulls_of_model_dump(client: openai.OpenAI) -> None:
    """openai-python#3008."""
    made = ask(client, "[[reason because]] weather", include=["reasoning.encrypted_content"])
    history = [{"role": "user", "content": "one"}, *[item.model_dump() for item in made.output]]
    again = ask(client, [*history, {"role": "user", "content": "[[context]]"}], store=False)
    assert again.output_text == "context types=message,reasoning,message,message"


def test_a_call_and_its_output_go_back_in_without_anything_stored(client: openai.OpenAI) -> None:
    asked = ask(client, "weather", tools=[WEATHER], store=False)
    (call,) = asked.output
    history = [{"role": "user", "content": "weather"}, call.model_dump(), *answer(call, "sunny")]
    assert ask(client, history, tools=[WEATHER], store=False).output_text == "Tool result: sunny"


def test_references_stand_for_reasoning_and_messages(a: openai.OpenAI, b: openai.OpenAI) -> None:
    made = ask(a, "[[reason because]]")
    references = [{"type": "item_reference", "id": item.id} for item in made.output]
    again = ask(b, [*references, {"role": "user", "content": "[[context]]"}])
    assert again.output_text == "context types=reasoning,message,message"


def test_images_and_files_are_taken_and_listed(client: openai.OpenAI) -> None:
    parts = [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": PIXEL, "detail": "low"},
        {"type": "input_image", "image_url": "https://example.com/cat.png", "detail": "auto"},
        {"type": "input_file", "filename": "a.pdf", "file_data": DOCUMENT},
    ]
    made = ask(client, [{"role": "user", "content": parts}], include=["message.input_image.image_url"])
    assert made.output_text == "Echo: look"
    (item,) = client.responses.input_items.list(made.id, include=["message.input_image.image_url"])
    kept = [part.to_dict() for part in item.content]  # type: ignore[union-attr]
    assert [{name: part[name] for name in given} for part, given in zip(kept, parts, strict=True)] == parts


# Tools


@pytest.mark.parametrize("answered_in_background", [False, True])
@pytest.mark.parametrize("asked_in_background", [False, True])
def test_a_call_is_answered_whichever_way_it_was_made(
    a: openai.OpenAI, b: openai.OpenAI, asked_in_background: bool, answered_in_background: bool
) -> None:
    """agent-framework#7538: after a background response the API knew of no call."""
    asked = ended(b, ask(a, "weather", tools=[WEATHER], background=asked_in_background).id)
    (call,) = asked.output
    made = ask(b, answer(call, "42"), tools=[WEATHER], previous_response_id=asked.id, background=answered_in_background)
    assert ended(a, made.id).output_text == "Tool result: 42"


# Background


def test_a_background_response_is_polled_to_its_end(a: openai.OpenAI, b: openai.OpenAI) -> None:
    made = ask(a, "[[slow 5 50]]", background=True)
    assert made.status in ("queued", "in_progress")
    assert ended(b, made.id).output_text == "tick0 tick1 tick2 tick3 tick4"


def test_a_cut_stream_is_resumed_with_the_stream_helper(a: openai.OpenAI, b: openai.OpenAI) -> None:
    text, last, identifier = "", -1, ""
    with ask(a, "[[slow 12 40]]", background=True, stream=True) as stream:
        for event in stream:
            last = event.sequence_number
            if event.type == "response.created":
                identifier = event.response.id
            if event.type == "response.output_text.delta":
                text += event.delta
            if text.endswith("tick4"):
                break
    with b.responses.stream(response_id=identifier, starting_after=last) as resumed:
        later = list(resumed)
        final = resumed.get_final_response()
    assert [event.sequence_number for event in later] == list(range(last + 1, last + 1 + len(later)))
    text += "".join(event.delta for event in later if event.type == "response.output_text.delta")
    assert text == final.output_text == " ".join(f"tick{n}" for n in range(12))


def test_a_stream_is_retrieved_raw_from_any_number(a: openai.OpenAI, b: openai.OpenAI) -> None:
    events = list(ask(a, "one two", background=True, stream=True))
    identifier = events[0].response.id
    again = list(b.responses.retrieve(identifier, stream=True))
    assert [event.to_dict() for event in again] == [event.to_dict() for event in events]
    tail = list(a.responses.retrieve(identifier, stream=True, starting_after=events[-3].sequence_number))
    assert [event.to_dict() for event in tail] == [event.to_dict() for event in events[-2:]]


def test_cancel_is_final_for_everybody(a: openai.OpenAI, b: openai.OpenAI) -> None:
    made = ask(a, "[[slow 200 50]]", background=True, stream=True)
    identifier = next(iter(made)).response.id
    assert b.responses.cancel(identifier).status == "cancelled"
    assert list(made)[-1].response.status == "cancelled"
    assert a.responses.cancel(identifier).status == "cancelled"
    assert a.responses.retrieve(identifier).status == "cancelled"


# Headers, and other clients of the same package


def test_every_answer_has_a_request_id(client: openai.OpenAI) -> None:
    raw = client.responses.with_raw_response.create(model="agent", input="hi")
    assert raw.request_id
    assert raw.parse()._request_id == raw.request_id
    with pytest.raises(openai.NotFoundError) as missing:
        client.responses.retrieve("resp_" + "0" * 50)
    assert missing.value.request_id
    assert missing.value.request_id != raw.request_id


def test_a_streamed_answer_has_a_request_id(client: openai.OpenAI) -> None:
    with client.responses.with_streaming_response.create(model="agent", input="hi", stream=True) as raw:
        assert raw.headers["x-request-id"]
        assert raw.headers["content-type"].startswith("text/event-stream")
        assert "response.completed" in "".join(raw.iter_text())


def test_the_azure_client_works_with_a_base_url(host: DevHost) -> None:
    """Its `azure_endpoint` would put `/openai` before every path; it sends `api-key` and an api-version, which is ignored."""
    with openai.AzureOpenAI(base_url=f"{host.base_url}/v1", api_key="any", api_version="preview") as azure:
        made = azure.responses.create(model="agent", input="hi")
        assert azure.responses.retrieve(made.id).output_text == "Echo: hi"
        with azure.responses.stream(model="agent", input="hi") as stream:
            assert stream.get_final_response().output_text == "Echo: hi"


def test_the_models_are_listed_and_retrieved(client: openai.OpenAI) -> None:
    (model,) = client.models.list()
    assert client.models.retrieve(model.id) == model


def test_input_tokens_are_counted(client: openai.OpenAI) -> None:
    assert client.responses.input_tokens.count(model="agent", input="one two three").input_tokens > 0


# The package has no type for the user's messages in a compacted output, which the API documents.
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")
def test_a_compacted_conversation_goes_back_in(client: openai.OpenAI) -> None:
    first = ask(client, "first")
    second = ask(client, "second", previous_response_id=first.id)
    compacted = client.responses.compact(model="agent", previous_response_id=second.id)
    assert compacted.output[-1].type == "compaction"
    again = ask(client, [*compacted.output, {"role": "user", "content": "[[history]]"}])
    assert again.output_text.startswith("history users=3")
