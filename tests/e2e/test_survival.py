"""What happens when workers die and clients hang up."""

import time
from collections.abc import Callable, Iterator

import httpx2 as httpx
import openai
import pytest

from devhost.azurite import Azurite
from devhost.testing import DevHost, start_devhost
from hosting.keys import mint_key
from tests.conftest import ROOT


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def pair(azurite: Azurite) -> Iterator[DevHost]:
    """Two workers on one storage account, for tests that kill them."""
    env = {"HOSTING_KEEP_ALIVE_SECONDS": "0.2"}
    with start_devhost(ROOT, workers=2, env=env, storage=azurite.connection_string) as running:
        yield running


def worker(running: DevHost, number: int) -> openai.OpenAI:
    return openai.OpenAI(
        base_url=f"{running.base_url}/v1",
        api_key="any",
        max_retries=0,
        timeout=60,
        default_headers={"x-devhost-worker": str(number)},
    )


def test_a_conversation_moves_between_workers(pair: DevHost) -> None:
    previous = None
    for number in range(6):
        with worker(pair, 1 + number % 2) as client:
            previous = client.responses.create(model="agent", input=f"turn {number}", previous_response_id=previous).id
    with worker(pair, 1) as client:
        response = client.responses.create(model="agent", input="[[history]]", previous_response_id=previous)
    assert response.output_text == "history users=7 first=turn 0"


def test_the_worker_is_killed_between_turns_and_the_conversation_goes_on(pair: DevHost) -> None:
    with worker(pair, 1) as client:
        first = client.responses.create(model="agent", input="before")
    pair.kill_worker_now(1)
    with worker(pair, 1) as client:
        second = client.responses.create(model="agent", input="[[history]]", previous_response_id=first.id)
    assert second.output_text == "history users=2 first=before"


def test_the_worker_is_killed_during_a_turn_and_the_conversation_stands_where_it_was(pair: DevHost) -> None:
    with worker(pair, 1) as client:
        first = client.responses.create(model="agent", input="before")
        killed = False
        with pytest.raises((openai.APIConnectionError, httpx.TransportError)):
            for event in client.responses.create(
                model="agent", input="[[slow 600 50]]", previous_response_id=first.id, stream=True
            ):
                if event.type == "response.output_text.delta" and not killed:
                    killed = True
                    pair.kill_worker_now(1)
        assert killed
    with worker(pair, 2) as client:
        second = client.responses.create(model="agent", input="[[history]]", previous_response_id=first.id)
    assert second.output_text == "history users=2 first=before"


def test_a_client_that_hangs_up_stops_the_run(pair: DevHost) -> None:
    with worker(pair, 2) as client:
        stream = client.responses.create(model="agent", input="[[slow 600 50]]", stream=True)
        created = next(iter(stream))
        assert created.type == "response.created"
        for event in stream:
            if event.type == "response.output_text.delta":
                break
        stream.close()

        def cancelled() -> bool:
            try:
                return client.responses.retrieve(created.response.id).status == "cancelled"
            except openai.NotFoundError:
                return False

        until(cancelled)
        stopped = client.responses.retrieve(created.response.id)
    assert stopped.output_text.startswith("tick0")
    assert len(stopped.output_text.split()) < 600


def test_a_client_that_hangs_up_while_it_waits_for_json_stops_the_run(pair: DevHost) -> None:
    with httpx.Client(base_url=pair.base_url, headers={"x-devhost-worker": "1"}) as client:
        client.post("/v1/responses", json={"input": "the first request of a process loads the agent"}, timeout=60)
        with pytest.raises(httpx.ReadTimeout):
            client.post("/v1/responses", json={"input": "[[slow 300 100]]"}, timeout=3.0)
    until(lambda: "client went away" in pair.logs)


def test_a_silent_agent_is_kept_alive_by_comments(pair: DevHost) -> None:
    with httpx.Client(base_url=pair.base_url, timeout=60) as client:
        with client.stream("POST", "/v1/responses", json={"input": "[[slow 2 1500]]", "stream": True}) as response:
            text = b"".join(response.iter_raw()).decode()
    assert text.count(": keep-alive\n\n") >= 3
    assert text.endswith("data: [DONE]\n\n")


@pytest.fixture(scope="module")
def locked(azurite: Azurite) -> Iterator[tuple[DevHost, str, str]]:
    """The app with a key for each of two tenants."""
    (mine, first), (other, second) = mint_key("contoso"), mint_key("fabrikam")
    env = {"HOSTING_API_KEYS": f"{first.entry},{second.entry}"}
    with start_devhost(ROOT, env=env, storage=azurite.connection_string) as running:
        yield running, mine, other


@pytest.mark.parametrize("key", ["wrong", "sk-000000000000-" + "A" * 43])
def test_a_bad_key_is_a_401(locked: tuple[DevHost, str, str], key: str) -> None:
    with openai.OpenAI(base_url=f"{locked[0].base_url}/v1", api_key=key, max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError) as refused:
            client.responses.create(model="agent", input="hi")
    assert refused.value.code == "invalid_api_key"
    assert key not in refused.value.message


def test_no_key_is_a_401_for_every_route_but_readiness(locked: tuple[DevHost, str, str]) -> None:
    with httpx.Client(base_url=locked[0].base_url) as client:
        answers = [
            client.post("/v1/responses", json={"input": "hi"}),
            client.get("/v1/responses/resp_1"),
            client.delete("/v1/responses/resp_1"),
            client.get("/v1/responses/resp_1/input_items"),
            client.post("/v1/responses/resp_1/cancel"),
            client.get("/v1/models"),
        ]
        assert client.get("/readiness").status_code == 200
    assert [answer.status_code for answer in answers] == [401] * len(answers)
    assert all(answer.json()["error"]["type"] == "invalid_request_error" for answer in answers)


def test_tenants_never_see_each_other(locked: tuple[DevHost, str, str]) -> None:
    running, mine, other = locked
    with openai.OpenAI(base_url=f"{running.base_url}/v1", api_key=mine, max_retries=0) as owner:
        secret = owner.responses.create(model="agent", input="secret")
        with openai.OpenAI(base_url=f"{running.base_url}/v1", api_key=other, max_retries=0) as stranger:
            with pytest.raises(openai.NotFoundError):
                stranger.responses.retrieve(secret.id)
            with pytest.raises(openai.NotFoundError):
                stranger.responses.delete(secret.id)
            with pytest.raises(openai.NotFoundError):
                stranger.responses.input_items.list(secret.id)
            with pytest.raises(openai.BadRequestError):
                stranger.responses.create(model="agent", input="[[history]]", previous_response_id=secret.id)
        assert owner.responses.retrieve(secret.id).output_text == "Echo: secret"
