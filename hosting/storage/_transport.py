"""The HTTP session that the SDK's clients share. Imported with the first call: this is where aiohttp and azure.core load."""

import os
from typing import Any, cast

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from azure.core.pipeline.transport import AioHttpTransport

__all__ = ["new_session", "transport_over"]

# aiohttp allows 100 connections in all, which is little for an instance with many turns in flight. A Function app has
# 128 outbound ports per destination before it must wait for more.
_CONNECTIONS, _PER_HOST = 250, 120
_LARGE, _PIECE = 256 * 1024, 64 * 1024


def new_session() -> aiohttp.ClientSession:
    """A session that belongs to the running event loop."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=_CONNECTIONS, limit_per_host=_PER_HOST, keepalive_timeout=30, ttl_dns_cache=30
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=_proxied(),
    )


def transport_over(session: aiohttp.ClientSession) -> AioHttpTransport:
    """A transport for one client; closing the client leaves the session open for the others."""
    return _Transport(session=session, session_owner=False, use_env_settings=_proxied())


def _proxied() -> bool:
    # With `trust_env` aiohttp looks for a .netrc file at every request (a third of a request's CPU): only if there is
    # a proxy that it has to know of.
    return any(name.lower() in ("http_proxy", "https_proxy", "all_proxy") for name in os.environ)


class _Transport(AioHttpTransport):
    def _get_request_data(self, request: Any) -> Any:
        data = cast("Any", super()._get_request_data(request))  # pyright: ignore[reportUnknownMemberType]
        if not isinstance(data, bytes) or len(data) <= _LARGE:
            return data
        return _Pieces(data)


class _Pieces(aiohttp.Payload):
    """A large body, sent piece by piece, so that other requests run in between. Bytes would be written in one go, and a
    BytesIO would be copied first. A payload and no iterator, which aiohttp takes for used up once it has begun to send it: it
    repeats a PUT over a connection that has gone stale."""

    _autoclose = True

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._size = len(data)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return cast("bytes", self._value).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        await self.write_with_length(writer, None)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        view = memoryview(cast("bytes", self._value))[:content_length]
        for at in range(0, len(view), _PIECE):
            await writer.write(view[at : at + _PIECE])
