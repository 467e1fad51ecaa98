"""Bad requests, over plain HTTP: the status, and the OpenAI envelope with all four keys, whatever is wrong."""

import gzip
import json
from typing import Any

import httpx2 as httpx
import openai
import pytest

from devhost.testing import DevHost


@pytest.fixture
def http(host: DevHost) -> Any:
    with httpx.Client(base_url=host.base_url, timeout=60) as opened:
        yield opened


def fault(response: httpx.Response, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"].startswith("application/json")
    assert response.headers["x-request-id"]
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    return dict(body["error"])


@pytest.mark.parametrize("body", [b"{", b"", b"\xff\xfe", b'{"input": "a"', b"NaN", b"[" * 50_000, b'{"input": NaN}'])
def test_json_that_cannot_be_parsed(http: httpx.Client, body: bytes) -> None:
    error = fault(http.post("/v1/responses", content=body), 400)
    assert "could not parse the JSON body" in error["message"]
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize("body", [[], "text", 1, None, True])
def test_a_body_that_is_no_object(http: httpx.Client, body: Any) -> None:
    assert fault(http.post("/v1/responses", json=body), 400)["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "input"),
        ({"input": 5}, "input"),
        ({"input": [1]}, "input[0]"),
        ({"input": "a", "stream": "false"}, "stream"),
        ({"input": "a", "model": 7}, "model"),
        ({"input": "a", "metadata": {"k": 1}}, "metadata.k"),
        ({"input": "a", "metadata": {str(n): "v" for n in range(17)}}, "metadata"),
        ({"input": "a", "previous_response_id": 3}, "previous_response_id"),
        ({"input": "a", "previous_response_id": "nonsense"}, "previous_response_id"),
        ({"input": "a", "temperature": 3}, "temperature"),
        ({"input": "a", "tools": [{"type": "function"}]}, "tools[0].name"),
        ({"input": "a", "stream_options": {"include_obfuscation": False}}, "stream_options"),
        ({"input": "a", "background": True, "store": False}, "background"),
        ({"input": "a", "conversation": 5}, "conversation"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_field_that_is_wrong_is_named(http: httpx.Client, fields: dict[str, Any], param: str, stream: bool) -> None:
    if "stream" in fields or "stream_options" in fields:
        body = fields
    else:
        body = {**fields, "stream": stream}
    assert fault(http.post("/v1/responses", json=body), 400)["param"] == param


def test_unknown_fields_and_nulls_are_ignored(http: httpx.Client) -> None:
    body = {"input": "a", "client_metadata": {"x": 1}, "user": None, "tools": [], "metadata": {}, "reasoning": {}}
    response = http.post("/v1/responses", json=body)
    assert response.status_code == 200
    assert response.json()["model"] == "agent"


def test_a_body_key_never_reaches_the_tools(http: httpx.Client) -> None:
    body = {"input": "a", "additional_function_arguments": {"user_id": "admin"}}
    assert http.post("/v1/responses", json=body).status_code == 200


def test_an_unknown_predecessor_is_a_400_that_says_so(client: openai.OpenAI) -> None:
    unknown = "resp_" + "0" * 50
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="agent", input="hi", previous_response_id=unknown)
    assert (refused.value.code, refused.value.param) == ("previous_response_not_found", "previous_response_id")
    assert unknown in refused.value.message


@pytest.mark.parametrize("stream", [False, True])
def test_an_unknown_predecessor_is_decided_before_the_stream_begins(http: httpx.Client, stream: bool) -> None:
    body = {"input": "a", "previous_response_id": "resp_" + "0" * 50, "stream": stream}
    assert fault(http.post("/v1/responses", json=body), 400)["code"] == "previous_response_not_found"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/responses/{id}"),
        ("DELETE", "/v1/responses/{id}"),
        ("GET", "/v1/responses/{id}/input_items"),
        ("POST", "/v1/responses/{id}/cancel"),
    ],
)
@pytest.mark.parametrize("identifier", ["resp_" + "0" * 50, "resp_unknown", "resp_%2e%2e", "resp_' or 1 eq 1"])
def test_an_unknown_response_is_a_404(http: httpx.Client, method: str, path: str, identifier: str) -> None:
    error = fault(http.request(method, path.format(id=identifier)), 404)
    assert "not found" in error["message"]


@pytest.mark.parametrize("identifier", ["msg_1", "x", "%00", "é", "a" * 5000])
def test_an_id_that_could_never_be_one_is_a_400(http: httpx.Client, identifier: str) -> None:
    fault(http.get(f"/v1/responses/{identifier}"), 400)


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v1/nothing", "/v1/responses/a/b/c", "/favicon.ico", "/api/v1/responses"]
)
def test_an_unknown_path_gets_the_envelope(http: httpx.Client, path: str) -> None:
    assert fault(http.get(path), 404)["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/responses", "POST"),
        ("PUT", "/v1/responses/resp_1", "GET, DELETE"),
        ("PATCH", "/readiness", "GET"),
        ("DELETE", "/v1/models", "GET"),
    ],
)
def test_a_wrong_verb_gets_the_envelope(http: httpx.Client, method: str, path: str, allowed: str) -> None:
    response = http.request(method, path)
    fault(response, 405)
    assert response.headers["allow"] == allowed


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x", "limit=-1", "order=up", "after=msg_unknown"])
def test_bad_paging_is_refused(http: httpx.Client, query: str) -> None:
    made = http.post("/v1/responses", json={"input": "a"}).json()
    error = fault(http.get(f"/v1/responses/{made['id']}/input_items?{query}"), 400)
    assert error["param"] == query.split("=")[0]


def test_a_foreground_response_can_be_neither_cancelled_nor_streamed(http: httpx.Client) -> None:
    made = http.post("/v1/responses", json={"input": "a"}).json()
    assert "synchronous" in fault(http.post(f"/v1/responses/{made['id']}/cancel"), 400)["message"]
    assert "background=true" in fault(http.get(f"/v1/responses/{made['id']}?stream=true"), 400)["message"]


def test_a_body_over_the_limit_is_a_413(http: httpx.Client) -> None:
    error = fault(http.post("/v1/responses", content=b" " * (32 * 1024 * 1024 + 1)), 413)
    assert error["type"] == "invalid_request_error"


def test_readiness(http: httpx.Client) -> None:
    assert http.get("/readiness").json() == {"status": "healthy"}


def test_the_agent_is_listed_as_a_model(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["agent"]


def test_the_wire_form_of_a_stream(http: httpx.Client) -> None:
    with http.stream("POST", "/v1/responses", json={"input": "a\u2028b", "stream": True}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-cache"
        assert "content-length" not in response.headers
        frames = b"".join(response.iter_raw()).decode().split("\n\n")
    assert frames[-2:] == ["data: [DONE]", ""]
    for frame in frames[:-2]:
        name, data = frame.split("\n")
        assert json.loads(data.removeprefix("data: "))["type"] == name.removeprefix("event: ")


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate", "zstd"])
def test_a_compressed_body_is_refused_and_never_unpacked(http: httpx.Client, encoding: str) -> None:
    body = gzip.compress(b'{"input": "a"}')
    fault(http.post("/v1/responses", content=body, headers={"content-encoding": encoding}), 415)
