"""The HTTP session that the SDK's clients share. Imported with the first call: this is where aiohttp and azure.core load."""

import io
import os
from typing import Any, cast

import aiohttp
from azure.core.pipeline.transport import AioHttpTransport

__all__ = ["new_session", "transport_over"]

# aiohttp allows 100 connections in all, which is little for an instance with many turns in flight. A Function app has
# 128 outbound ports per destination before it must wait for more.
_CONNECTIONS, _PER_HOST = 250, 120
_LARGE = 256 * 1024


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
        # Large bodies as a file: aiohttp sends it in pieces and lets other requests run in between.
        data = cast("Any", super()._get_request_data(request))  # pyright: ignore[reportUnknownMemberType]
        return io.BytesIO(data) if isinstance(data, bytes) and len(data) > _LARGE else data
