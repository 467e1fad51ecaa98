"""A request that is sent again must not run the agent again."""

from collections.abc import Iterator

import httpx2 as httpx
import openai
import pytest

from devhost.testing import DevHost


@pytest.fixture
def http(host: DevHost) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=host.base_url, timeout=60) as opened:
        yield opened


def test_the_same_key_and_body_give_the_same_response(client: openai.OpenAI) -> None:
    made = [
        client.responses.create(model="agent", input="once", extra_headers={"Idempotency-Key": "key-1"})
        for _ in range(3)
    ]
    assert made[0].to_dict() == made[1].to_dict() == made[2].to_dict()


def test_another_body_is_a_conflict_that_is_not_retried(http: httpx.Client) -> None:
    headers = {"idempotency-key": "key-2"}
    assert http.post("/v1/responses", json={"input": "a"}, headers=headers).status_code == 200
    refused = http.post("/v1/responses", json={"input": "b"}, headers=headers)
    assert refused.status_code == 409
    assert refused.json()["error"]["code"] == "idempotency_key_reused"
    assert refused.headers["x-should-retry"] == "false"


def test_a_repeated_stream_ends_with_the_first_response(client: openai.OpenAI) -> None:
    def ask() -> openai.types.responses.Response:
        headers = {"Idempotency-Key": "key-3"}
        with client.responses.stream(model="agent", input="one two", extra_headers=headers) as stream:
            return stream.get_final_response()

    first, second = ask(), ask()
    assert first.id == second.id
    assert first.output_text == second.output_text == "Echo: one two"


def test_a_repeated_background_request_joins_the_first_run(client: openai.OpenAI) -> None:
    headers = {"Idempotency-Key": "key-4"}
    fields = {"model": "agent", "input": "[[slow 5 100]]", "background": True, "extra_headers": headers}
    first = client.responses.create(**fields)  # type: ignore[call-overload]
    assert client.responses.create(**fields).id == first.id  # type: ignore[call-overload]


def test_a_repeat_while_the_first_one_runs_is_a_conflict(http: httpx.Client) -> None:
    headers = {"idempotency-key": "key-5"}
    body = {"input": "[[slow 20 100]]", "stream": True}
    with http.stream("POST", "/v1/responses", json=body, headers=headers) as first:
        chunks = first.iter_raw()
        next(chunks)
        again = http.post("/v1/responses", json=body, headers=headers)
    assert again.status_code == 409
    assert again.json()["error"]["code"] == "idempotency_key_in_use"


def test_requests_without_a_key_are_all_run(client: openai.OpenAI) -> None:
    made = {client.responses.create(model="agent", input="again").id for _ in range(2)}
    assert len(made) == 2


def test_an_overlong_key_is_refused(http: httpx.Client) -> None:
    refused = http.post("/v1/responses", json={"input": "a"}, headers={"idempotency-key": "k" * 256})
    assert refused.status_code == 400
