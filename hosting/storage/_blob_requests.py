"""Single requests to Blob Storage through azure-core's pipeline: the hot path of streams.

A writer appends and a follower polls several times a second and stream. The SDK's client spends some 3 ms of CPU on each
call here, this spends 1 (bench/streams.py); what is rare (create, list, delete) still goes through the SDK. Nothing is
retried: the caller knows whether a repeated append was applied.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from email.utils import formatdate
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qsl, quote, urlsplit

from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.pipeline import AsyncPipeline, PipelineRequest
from azure.core.pipeline.policies import (
    AsyncBearerTokenCredentialPolicy,
    AzureSasCredentialPolicy,
    SansIOHTTPPolicy,
)
from azure.core.rest import HttpRequest

__all__ = ["Answer", "BlobRequests"]

_VERSION = "2023-11-03"
_TOKEN_SCOPE = "https://storage.azure.com/.default"  # one for all clouds
_CONNECT_SECONDS, _READ_SECONDS = 5, 15


class Answer(NamedTuple):
    """Of a request: `code` is the service's error code, "" when there is none; header names are case-insensitive."""

    status: int
    code: str
    headers: Mapping[str, str]
    body: bytes


class BlobRequests:
    """Requests to the blobs of one container."""

    def __init__(self, transport: Any, credential: Any, blob_url: str, container: str) -> None:
        self._base = f"{blob_url}/{quote(container)}/"
        self._pipeline: Any = AsyncPipeline(transport, [_authentication(credential)])

    async def send(
        self, method: str, name: str, query: str = "", headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Answer:
        """The answer, whatever its status. Raises what the transport raises when there is none."""
        sent = {"x-ms-version": _VERSION, **(headers or {})}
        if method == "PUT":
            # Both set here: what the transport would add by itself would not be signed.
            sent |= {"Content-Type": "application/x-ndjson", "Content-Length": str(len(body))}
        request = HttpRequest(method, f"{self._base}{quote(name)}{query}", headers=sent, content=body or None)
        response = (
            await self._pipeline.run(request, connection_timeout=_CONNECT_SECONDS, read_timeout=_READ_SECONDS)
        ).http_response
        data: bytes = response.content
        return Answer(response.status_code, response.headers.get("x-ms-error-code", ""), response.headers, data)


def _authentication(credential: Any) -> Any:
    if isinstance(credential, AzureNamedKeyCredential):
        return _SharedKey(credential)
    if isinstance(credential, AzureSasCredential):
        return cast("Any", AzureSasCredentialPolicy(credential))
    return cast("Any", AsyncBearerTokenCredentialPolicy(credential, _TOKEN_SCOPE))


class _SharedKey(SansIOHTTPPolicy[Any, Any]):
    """The signature that "Authorize with Shared Key" of the Azure Storage reference defines. For Azurite and for
    connection strings; identities use tokens."""

    def __init__(self, credential: AzureNamedKeyCredential) -> None:
        self._credential = credential

    def on_request(self, request: PipelineRequest[Any]) -> None:
        account, key = self._credential.named_key
        headers, url = request.http_request.headers, urlsplit(str(request.http_request.url))
        headers["x-ms-date"] = formatdate(usegmt=True)
        length = headers.get("Content-Length", "")
        named = ["", "", "" if length == "0" else length, "", headers.get("Content-Type", ""), "", "", "", "", "", ""]
        extra = sorted((name.lower(), value) for name, value in headers.items() if name.lower().startswith("x-ms-"))
        text = "\n".join(
            [
                request.http_request.method,
                *named,  # Range, If-None-Match and so on are not sent: the x-ms- forms are
                *(f"{name}:{value}" for name, value in extra),
                f"/{account}{url.path}",
                *(f"{name}:{value}" for name, value in sorted(parse_qsl(url.query))),
            ]
        )
        digest = hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()
        headers["Authorization"] = f"SharedKey {account}:{base64.b64encode(digest).decode()}"
