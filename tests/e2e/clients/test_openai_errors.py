"""What the `openai` client raises: its class, `.code` and `.param`, which programs branch on."""

from collections.abc import Callable
from typing import Any, NamedTuple

import openai
import pytest

from tests.e2e.clients.conftest import ended


class Stored(NamedTuple):
    """A client, and what it has made."""

    client: openai.OpenAI
    response: str
    background: str
    conversation: str

    def create(self, **fields: Any) -> Any:
        return self.client.responses.create(**({"model": "agent", "input": "x"} | fields))


@pytest.fixture(scope="module")
def stored(host: Any) -> Any:
    with openai.OpenAI(base_url=f"{host.base_url}/v1", api_key="any", max_retries=0, timeout=60) as client:
        foreground = client.responses.create(model="agent", input="one")
        background = client.responses.create(model="agent", input="two", background=True)
        conversation = client.conversations.create()
        yield Stored(client, foreground.id, ended(client, background.id).id, conversation.id)


GONE = "resp_" + "0" * 50
NOWHERE = "conv_" + "0" * 50

type Call = Callable[[Stored], Any]

BAD_REQUESTS: dict[str, tuple[Call, str | None, str | None]] = {
    "previous response": (
        lambda s: s.create(previous_response_id=GONE),
        "previous_response_not_found",
        "previous_response_id",
    ),
    "malformed previous response": (
        lambda s: s.create(previous_response_id="x"),
        "invalid_value",
        "previous_response_id",
    ),
    "previous response and conversation": (
        lambda s: s.create(previous_response_id=s.response, conversation=s.conversation),
        "mutually_exclusive_parameters",
        "previous_response_id",
    ),
    "malformed conversation": (lambda s: s.create(conversation="x"), "invalid_value", "conversation"),
    "item reference": (lambda s: s.create(input=[{"type": "item_reference", "id": "msg_x"}]), None, "input"),
    "output without call": (
        lambda s: s.create(input=[{"type": "function_call_output", "call_id": "call_x", "output": "1"}]),
        None,
        "input",
    ),
    "background without store": (
        lambda s: s.create(background=True, store=False),
        "unsupported_parameter",
        "background",
    ),
    "stream options without stream": (
        lambda s: s.create(stream_options={"include_obfuscation": False}),
        "invalid_value",
        "stream_options",
    ),
    "no input": (lambda s: s.client.responses.create(model="agent"), "missing_required_parameter", "input"),
    "role": (lambda s: s.create(input=[{"role": "robot", "content": "x"}]), "invalid_value", "input[0].role"),
    "type": (lambda s: s.create(max_output_tokens="many"), "invalid_type", "max_output_tokens"),
    "private address": (
        lambda s: s.create(
            input=[{"role": "user", "content": [{"type": "input_image", "image_url": "http://169.254.169.254/x"}]}]
        ),
        "invalid_value",
        "input[0].content[0].image_url",
    ),
    "cancel in the foreground": (lambda s: s.client.responses.cancel(s.response), None, "response_id"),
    "stream of a foreground response": (lambda s: s.client.responses.retrieve(s.response, stream=True), None, "stream"),
    "stream of one made without": (lambda s: s.client.responses.retrieve(s.background, stream=True), None, "stream"),
    "malformed id": (lambda s: s.client.responses.retrieve("x"), "invalid_value", "response_id"),
    "limit": (lambda s: s.client.responses.input_items.list(s.response, limit=101), "invalid_value", "limit"),
    "after": (lambda s: s.client.responses.input_items.list(s.response, after="msg_x"), "invalid_value", "after"),
    "too many items": (
        lambda s: s.client.conversations.create(items=[{"role": "user", "content": "x"}] * 21),
        "array_above_max_length",
        "items",
    ),
}


@pytest.mark.parametrize("case", BAD_REQUESTS)
def test_a_bad_request_says_what_is_wrong(stored: Stored, case: str) -> None:
    call, code, param = BAD_REQUESTS[case]
    with pytest.raises(openai.BadRequestError) as refused:
        call(stored)
    assert (refused.value.code, refused.value.param, refused.value.type) == (code, param, "invalid_request_error")


NOT_FOUND: dict[str, Call] = {
    "retrieve": lambda s: s.client.responses.retrieve(GONE),
    "delete": lambda s: s.client.responses.delete(GONE),
    "cancel": lambda s: s.client.responses.cancel(GONE),
    "input items": lambda s: s.client.responses.input_items.list(GONE),
    "conversation of a turn": lambda s: s.create(conversation=NOWHERE),
    "retrieve conversation": lambda s: s.client.conversations.retrieve(NOWHERE),
    "update conversation": lambda s: s.client.conversations.update(NOWHERE, metadata={}),
    "delete conversation": lambda s: s.client.conversations.delete(NOWHERE),
    "list items": lambda s: s.client.conversations.items.list(NOWHERE),
    "add items": lambda s: s.client.conversations.items.create(NOWHERE, items=[{"role": "user", "content": "x"}]),
    "retrieve item": lambda s: s.client.conversations.items.retrieve("msg_x", conversation_id=s.conversation),
    "delete item": lambda s: s.client.conversations.items.delete("msg_x", conversation_id=s.conversation),
    "model": lambda s: s.client.models.retrieve("x"),
    "another API": lambda s: s.client.embeddings.create(model="agent", input="x"),
}


@pytest.mark.parametrize("case", NOT_FOUND)
def test_what_is_not_there_is_not_found(stored: Stored, case: str) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        NOT_FOUND[case](stored)
    assert missing.value.type == "invalid_request_error"
    assert missing.value.message


def test_a_stream_is_refused_before_it_begins(stored: Stored) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        stored.create(previous_response_id=GONE, stream=True)
    assert refused.value.code == "previous_response_not_found"
