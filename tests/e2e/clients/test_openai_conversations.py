"""The Conversations API through the `openai` client, and responses that belong to a conversation."""

from typing import Any

import openai
import pytest

from tests.e2e.clients.conftest import ended
from tests.e2e.clients.test_openai_sync import WEATHER, answer, ask


def types(client: openai.OpenAI, conversation: str) -> list[str]:
    return [item.type for item in client.conversations.items.list(conversation, order="asc")]


def test_a_conversation_is_made_changed_and_deleted(a: openai.OpenAI, b: openai.OpenAI) -> None:
    made = a.conversations.create(metadata={"team": "blue"})
    assert b.conversations.retrieve(made.id) == made
    assert b.conversations.update(made.id, metadata={"team": "red"}).metadata == {"team": "red"}
    assert a.conversations.update(made.id, metadata=None).metadata == {}
    deleted = a.conversations.delete(made.id)
    assert (deleted.id, deleted.object, deleted.deleted) == (made.id, "conversation.deleted", True)
    with pytest.raises(openai.NotFoundError):
        b.conversations.retrieve(made.id)


def test_items_are_added_read_and_deleted(a: openai.OpenAI, b: openai.OpenAI) -> None:
    conversation = a.conversations.create(items=[{"type": "message", "role": "user", "content": "one"}])
    added = a.conversations.items.create(
        conversation.id,
        items=[{"role": "assistant", "content": "two"}, {"type": "reasoning", "summary": []}],  # type: ignore[list-item]
        include=["reasoning.encrypted_content"],
    )
    assert [item.type for item in added.data] == ["message", "reasoning"]
    assert (added.first_id, added.last_id, added.has_more) == (added.data[0].id, added.data[1].id, False)
    second = added.data[0]
    assert b.conversations.items.retrieve(str(second.id), conversation_id=conversation.id) == second
    assert b.conversations.items.delete(str(second.id), conversation_id=conversation.id).id == conversation.id
    assert types(a, conversation.id) == ["message", "reasoning"]
    with pytest.raises(openai.NotFoundError):
        a.conversations.items.retrieve(str(second.id), conversation_id=conversation.id)


def test_more_than_a_hundred_items_page_by_themselves(a: openai.OpenAI, b: openai.OpenAI) -> None:
    conversation = a.conversations.create()
    for page in range(6):
        a.conversations.items.create(
            conversation.id, items=[{"role": "user", "content": f"{page * 20 + n}"} for n in range(20)]
        )
    ask(b, "the end", conversation=conversation.id)
    items = list(b.conversations.items.list(conversation.id, order="asc", limit=50))
    texts = [item.content[0].text for item in items]  # type: ignore[union-attr]
    assert texts == [*map(str, range(120)), "the end", "Echo: the end"]
    newest_first = list(a.conversations.items.list(conversation.id, limit=100))
    assert [item.id for item in newest_first] == [item.id for item in reversed(items)]


def test_a_conversation_remembers_over_workers_and_modes(a: openai.OpenAI, b: openai.OpenAI) -> None:
    conversation = a.conversations.create(items=[{"role": "user", "content": "zero"}])
    assert ask(a, "one", conversation=conversation.id).conversation.id == conversation.id
    with b.responses.stream(model="agent", input="two", conversation=conversation.id) as stream:
        stream.until_done()
    ended(a, ask(b, "three", conversation={"id": conversation.id}, background=True).id)
    events = list(ask(a, "four", conversation=conversation.id, background=True, stream=True))
    assert events[-1].response.conversation.id == conversation.id
    assert ask(b, "[[history]]", conversation=conversation.id).output_text == "history users=6 first=zero"
    assert len(types(a, conversation.id)) == 11


@pytest.mark.parametrize("background", [False, True])
def test_a_call_is_answered_in_its_conversation(a: openai.OpenAI, b: openai.OpenAI, background: bool) -> None:
    conversation = a.conversations.create()
    asked = ended(b, ask(a, "weather", tools=[WEATHER], conversation=conversation.id, background=background).id)
    with pytest.raises(openai.BadRequestError, match="No tool output found for function call"):
        ask(b, "never mind", conversation=conversation.id)
    made = ask(b, answer(asked.output[0], "42"), conversation=conversation.id, background=background)
    assert ended(a, made.id).output_text == "Tool result: 42"
    assert types(a, conversation.id) == ["message", "function_call", "function_call_output", "message"]


def test_what_the_conversation_has_is_not_there_twice(client: openai.OpenAI) -> None:
    """openai-agents-js#425: clients send what they have listed again."""
    conversation = client.conversations.create()
    ask(client, "[[reason because]]", conversation=conversation.id)
    listed: list[Any] = [item.model_dump() for item in client.conversations.items.list(conversation.id, order="asc")]
    again = ask(client, [*listed, {"role": "user", "content": "[[history]]"}], conversation=conversation.id)
    assert again.output_text == "history users=2 first=[[reason because]]"
    assert types(client, conversation.id) == ["message", "reasoning", "message", "message", "message"]


@pytest.mark.parametrize("text", ["[[fail out of coffee]]", "[[raise]]"])
@pytest.mark.parametrize("background", [False, True])
def test_a_failed_turn_leaves_nothing_in_the_conversation(client: openai.OpenAI, text: str, background: bool) -> None:
    conversation = client.conversations.create()
    ask(client, "one", conversation=conversation.id)
    failed = ended(client, ask(client, text, conversation=conversation.id, background=background).id)
    assert failed.status == "failed"
    assert ask(client, "[[history]]", conversation=conversation.id).output_text == "history users=2 first=one"


def test_a_cancelled_turn_leaves_nothing_in_the_conversation(a: openai.OpenAI, b: openai.OpenAI) -> None:
    conversation = a.conversations.create()
    made = ask(a, "[[slow 200 50]]", conversation=conversation.id, background=True)
    assert b.responses.cancel(made.id).status == "cancelled"
    assert ask(b, "[[history]]", conversation=conversation.id).output_text == "history users=1 first=[[history]]"


def test_a_newer_message_steers_the_turn_that_runs(a: openai.OpenAI, b: openai.OpenAI) -> None:
    conversation = a.conversations.create()
    first = ask(a, "[[slow 200 50]]", conversation=conversation.id, background=True, stream=True)
    for event in first:
        if event.type == "response.output_text.delta":
            break
    second = ask(b, "[[history]]", conversation=conversation.id)
    assert second.output_text == "history users=2 first=[[slow 200 50]]"
    last = list(first)[-1]
    assert (last.type, last.response.incomplete_details.reason) == ("response.incomplete", "steered")
    assert types(a, conversation.id) == ["message"] * 4


def test_a_turn_that_is_not_stored_reads_and_leaves_no_trace(client: openai.OpenAI) -> None:
    conversation = client.conversations.create(items=[{"role": "user", "content": "zero"}])
    made = ask(client, "[[history]]", conversation=conversation.id, store=False)
    assert made.output_text == "history users=2 first=zero"
    assert types(client, conversation.id) == ["message"]


def test_a_response_of_a_conversation_can_be_continued_beside_it(client: openai.OpenAI) -> None:
    conversation = client.conversations.create()
    first = ask(client, "one", conversation=conversation.id)
    ask(client, "two", conversation=conversation.id)
    beside = ask(client, "[[history]]", previous_response_id=first.id)
    assert beside.output_text == "history users=2 first=one"
    assert beside.conversation is None
    assert len(types(client, conversation.id)) == 4


def test_responses_outlive_their_conversation(client: openai.OpenAI) -> None:
    conversation = client.conversations.create()
    made = ask(client, "one", conversation=conversation.id)
    client.conversations.delete(conversation.id)
    assert client.responses.retrieve(made.id).output_text == "Echo: one"
    with pytest.raises(openai.NotFoundError):
        ask(client, "two", conversation=conversation.id)
