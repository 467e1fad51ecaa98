"""HTTP between a client and a worker that serves HTTP itself (apps with the FastAPI extension).

The worker pairs a request with its invocation by the header x-ms-invocation-id. Bodies stream in both directions and
are never changed. A client that goes away is felt by the worker at once, because its connection is closed.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable

from aiohttp import (
    ClientConnectorError,
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    TCPConnector,
    hdrs,
    web,
)
from multidict import CIMultiDict
from yarl import URL

from devhost.errors import WorkerDied
from devhost.worker_process import InvocationResult, WorkerProcess

__all__ = ["MAX_BODY_BYTES", "WORKER_HEADER", "Refused", "forward", "no_answer", "open_session", "read_body"]

# The Functions front end refuses larger request bodies: 210 MB.
MAX_BODY_BYTES = 210 * 1024 * 1024
INVOCATION_ID = "x-ms-invocation-id"
# In a request: which worker is to serve it. In a response: which one did. Only devhost knows it.
WORKER_HEADER = "x-devhost-worker"

# RFC 9110 section 7.6.1: these belong to one connection.
_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
# How long a response may take to begin once its function has failed. It is the worker that answers, with 500.
_FAILED_SECONDS = 5.0


class Refused(Exception):
    """The worker does not listen any more; nothing was sent."""


class _RawResponse(web.StreamResponse):
    """A response with the headers it was given: aiohttp would add a content type where there is none."""

    async def _prepare_headers(self) -> None:
        untyped = hdrs.CONTENT_TYPE not in self.headers
        await super()._prepare_headers()
        if untyped:
            self.headers.popall(hdrs.CONTENT_TYPE, None)


def open_session() -> ClientSession:
    """The client side of the proxy."""
    session = ClientSession(
        # A connection for each request: uvicorn closes one without notice when its app fails, or after 5 s, and a request
        # that is sent over it at that moment is lost. (force_close would do the same, and show in the headers.)
        connector=TCPConnector(limit=0, keepalive_timeout=-1),
        timeout=ClientTimeout(total=None),
        auto_decompress=False,
    )
    # aiohttp would send a GET a second time when a worker dies over it; only the client may decide that.
    session._retry_connection = False
    return session


def _end_to_end(headers: Iterable[tuple[str, str]], *leave_out: str) -> CIMultiDict[str]:
    pairs = list(headers)
    dropped = _HOP_BY_HOP | set(leave_out)
    for name, value in pairs:
        if name.lower() == "connection":
            dropped = dropped | {token.strip().lower() for token in value.split(",")}
    return CIMultiDict((name, value) for name, value in pairs if name.lower() not in dropped)


async def read_body(request: web.BaseRequest) -> AsyncIterator[bytes]:
    """The body of a request in chunks. Raises HTTPRequestEntityTooLarge over the limit of the front end."""
    if request.headers.get(hdrs.EXPECT, "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    total = 0
    async for chunk in request.content.iter_any():
        total += len(chunk)
        if total > MAX_BODY_BYTES:
            raise web.HTTPRequestEntityTooLarge(max_size=MAX_BODY_BYTES, actual_size=total)
        yield chunk


async def forward(
    request: web.BaseRequest,
    session: ClientSession,
    worker: WorkerProcess,
    invocation_id: str,
    invocation: asyncio.Future[InvocationResult],
) -> web.StreamResponse:
    """Send the request to the worker and its answer to the client.

    502 when the worker dies before it has answered; when it dies later the connection is cut, so that the client can
    tell. Raises Refused. Cancelled when the client goes away.
    """
    headers = _end_to_end(request.headers.items(), INVOCATION_ID, WORKER_HEADER, "expect")
    headers[INVOCATION_ID] = invocation_id
    call = asyncio.create_task(
        session.request(
            request.method,
            URL(f"{worker.http_uri}{request.rel_url}", encoded=True),
            headers=headers,
            data=read_body(request) if request.body_exists else None,
            allow_redirects=False,
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        )
    )
    upstream: ClientResponse | None = None
    try:
        upstream = await _begin(call, invocation)
    except ClientConnectorError:
        raise Refused from None
    except (ClientError, ConnectionError, WorkerDied) as error:
        if isinstance(error.__cause__, web.HTTPRequestEntityTooLarge):
            raise error.__cause__ from None
        return await no_answer(worker, error)
    finally:
        if upstream is None:
            # The request may not have reached the worker, where its function would wait for it for ever.
            worker.abandon(invocation_id)
    if upstream is None:
        return web.Response(status=500)
    try:
        return await _answer(request, upstream, worker)
    finally:
        # Closes the connection, unless the body was read to its end.
        upstream.close()


async def _begin(
    call: asyncio.Task[ClientResponse], invocation: asyncio.Future[InvocationResult]
) -> ClientResponse | None:
    """The response once its head is there; None when the function failed in a way that leaves the request open."""
    try:
        await asyncio.wait({call, invocation}, return_when=asyncio.FIRST_COMPLETED)
        if not call.done() and not invocation.result().ok:
            await asyncio.wait({call}, timeout=_FAILED_SECONDS)
            if not call.done():
                call.cancel()
                return None
        return await call
    except BaseException:
        if not call.cancel() and not call.cancelled() and not call.exception():
            call.result().close()
        raise


async def no_answer(worker: WorkerProcess, error: Exception) -> web.StreamResponse:
    """502, with what is known about why."""
    # The connection breaks a moment before the end of the process is noticed.
    try:
        await asyncio.wait_for(worker.exited.wait(), 3)
        text = f"devhost: worker {worker.number} ended with code {worker.exit_code} while it served this request\n"
    except TimeoutError:
        text = f"devhost: worker {worker.number} broke off this request: {error or type(error).__name__}\n"
    return web.Response(status=502, text=text)


async def _answer(request: web.BaseRequest, upstream: ClientResponse, worker: WorkerProcess) -> web.StreamResponse:
    headers = _end_to_end(upstream.headers.items())
    headers[WORKER_HEADER] = str(worker.number)
    response = _RawResponse(status=upstream.status, reason=upstream.reason, headers=headers)
    await response.prepare(request)
    try:
        async for chunk in upstream.content.iter_any():
            await response.write(chunk)
    except (ClientError, WorkerDied):
        # Not write_eof: a body that was cut must not look complete.
        if request.transport:
            request.transport.close()
        raise asyncio.CancelledError from None
    with contextlib.suppress(ConnectionError):  # the client went at the very end
        await response.write_eof()
    return response
