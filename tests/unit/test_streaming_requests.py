"""How the lean requests to Blob Storage say who they are, and what they ask for. Azurite checks the shared key's signature
in the contract suite; tokens and SAS only reach a real account."""

from types import SimpleNamespace
from typing import Any, Self

import pytest
from azure.core.credentials import AccessToken, AzureSasCredential

from hosting.storage._blob_requests import BlobRequests


class Transport:
    """Keeps what is sent."""

    def __init__(self, status: int = 201, headers: dict[str, str] | None = None) -> None:
        self.sent: list[Any] = []
        self.answer = SimpleNamespace(status_code=status, headers=headers or {}, content=b"")

    async def send(self, request: Any, **_: Any) -> Any:
        self.sent.append(request)
        return self.answer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


class Tokens:
    """A credential as azure-identity's are."""

    def __init__(self) -> None:
        self.scopes: list[str] = []

    async def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        self.scopes += scopes
        return AccessToken("secret-token", 9_999_999_999)

    async def close(self) -> None:
        pass


async def test_an_identity_sends_a_token_for_storage() -> None:
    transport, tokens = Transport(), Tokens()
    requests = BlobRequests(transport, tokens, "https://a.blob.core.windows.net", "agents")
    await requests.send(
        "PUT", "streams/s/1.jsonl", "?comp=appendblock", {"x-ms-blob-condition-appendpos": "7"}, b"data"
    )
    await requests.send("GET", "streams/s/1.jsonl")
    first, second = transport.sent
    assert first.url == "https://a.blob.core.windows.net/agents/streams/s/1.jsonl?comp=appendblock"
    assert first.headers["Authorization"] == second.headers["Authorization"] == "Bearer secret-token"
    assert first.headers["x-ms-blob-condition-appendpos"] == "7"
    assert first.headers["Content-Length"] == "4"
    assert first.headers["x-ms-version"] == "2023-11-03"
    assert tokens.scopes == ["https://storage.azure.com/.default"]  # once: it is kept


async def test_a_shared_access_signature_is_part_of_the_address() -> None:
    transport = Transport()
    requests = BlobRequests(transport, AzureSasCredential("sv=1&sig=abc"), "https://a.example", "agents")
    await requests.send("GET", "s/1")
    await requests.send("PUT", "s/1", "?comp=appendblock", body=b"x")
    assert [request.url for request in transport.sent] == [
        "https://a.example/agents/s/1?sv=1&sig=abc",
        "https://a.example/agents/s/1?comp=appendblock&sv=1&sig=abc",
    ]


@pytest.mark.parametrize(("status", "code"), [(412, "AppendPositionConditionNotMet"), (503, "ServerBusy"), (404, "")])
async def test_an_answer_is_given_as_it_is(status: int, code: str) -> None:
    transport = Transport(status, {"x-ms-error-code": code} if code else {})
    answer = await BlobRequests(transport, AzureSasCredential("s"), "https://a.example", "c").send("GET", "s/1")
    assert (answer.status, answer.code) == (status, code)
