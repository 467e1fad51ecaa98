"""The example with two agents as it is deployed: which of them answers, and what they know of each other's turns."""

from collections.abc import Iterator

import openai
import pytest

from devhost.azurite import Azurite
from devhost.testing import DevHost, start_devhost
from tests.conftest import ROOT
from tests.e2e.clients.conftest import ended


@pytest.fixture(scope="module")
def host(azurite: Azurite) -> Iterator[DevHost]:
    env = {"PYTHONPATH": str(ROOT)}
    app = ROOT / "examples" / "two_agents"
    with start_devhost(app, workers=2, env=env, storage=azurite.connection_string) as running:
        yield running


def test_a_conversation_goes_from_the_one_to_the_other(a: openai.OpenAI, b: openai.OpenAI) -> None:
    conversation = a.conversations.create()

    def say(client: openai.OpenAI, model: str, text: str) -> str:
        return client.responses.create(model=model, input=text, conversation=conversation.id).output_text

    assert say(a, "writer", "rain in autumn") == "Draft 1: rain in autumn."
    assert say(b, "critic", "What do you think?") == "Too short: 5 words."
    assert say(a, "writer", "Again, please.") == "Draft 2: rain in autumn, and more about it."
    assert say(b, "critic", "And now?") == "9 words, that will do."


def test_a_chain_of_responses_does_too_in_the_background(a: openai.OpenAI, b: openai.OpenAI) -> None:
    draft = ended(b, a.responses.create(model="writer", input="snow", background=True).id)
    assert (draft.model, draft.output_text) == ("writer", "Draft 1: snow.")
    stream = b.responses.create(
        model="critic", input="Well?", previous_response_id=draft.id, background=True, stream=True
    )
    last = list(stream)[-1]
    assert last.type == "response.completed"
    assert (last.response.model, last.response.output_text) == ("critic", "Too short: 3 words.")


def test_the_first_one_answers_when_none_is_named(a: openai.OpenAI) -> None:
    made = a.responses.create(input="fog")
    assert (made.model, made.output_text) == ("writer", "Draft 1: fog.")


@pytest.mark.parametrize("mode", [{}, {"stream": True}, {"background": True}])
def test_an_unknown_one_is_refused(a: openai.OpenAI, mode: dict[str, bool]) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        a.responses.create(model="editor", input="fog", **mode)  # type: ignore[call-overload]
    assert (refused.value.code, refused.value.param) == ("model_not_found", "model")


def test_both_are_listed(a: openai.OpenAI) -> None:
    assert [model.id for model in a.models.list()] == ["writer", "critic"]
    assert a.models.retrieve("critic").id == "critic"
    with pytest.raises(openai.NotFoundError):
        a.models.retrieve("editor")
