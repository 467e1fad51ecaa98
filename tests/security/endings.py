"""Every way in which a request or a run can end, over the HTTP translation of the app: bodies come in pieces, clients go.

Each of ENDINGS is given a server and comes back when the end has come, or is about to. What it returns is kept: a server may
not rely on being forgotten when it was told.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from azurefunctions.extensions.http import fastapi

from hosting.functions.http import _from_http
from hosting.responses import ApiError
from hosting.server import Response
from hosting.server.invocations import InvocationRequest, Invocations
from hosting.server.working_memory import Share, WorkingMemory
from tests.security.world import Secured
from tests.server_world import until

__all__ = ["ENDINGS", "TENANT", "Client", "Ending", "full", "give_back", "invocation", "nothing_held"]

type Ending = Callable[[Secured], Awaitable[object]]

CREATE, INVOKE, CONVERSATION = "v1/responses", "v1/invocations", "v1/conversations/{conversation_id}"
_PIECE = 1000

TENANT = "key:fabrikam"
"""The attacker's, as its memory is counted."""


class Client:
    """A connection: one request, whose body is sent in pieces. It can go, or stop sending, `after` so many of them."""

    def __init__(
        self,
        world: Secured,
        route: str = CREATE,
        body: Any = None,
        *,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        path: Mapping[str, str] | None = None,
        after: int | None = None,
        stops: bool = False,
    ) -> None:
        self._server, self._route = world.server, route
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        self._pieces = [raw[at : at + _PIECE] for at in range(0, len(raw), _PIECE)][:after]
        self._cut, self._stops, self.gone = after is not None, stops, asyncio.Event()
        self._said_all = False
        self._sent = {**world.attacker.headers, **(headers or {})}
        self._method, self._path = method, dict(path or {})

    async def _receive(self) -> dict[str, Any]:
        if self._pieces:
            piece = self._pieces.pop(0)
            return {"type": "http.request", "body": piece, "more_body": True}
        if not self._cut and not self._said_all:
            self._said_all = True
            return {"type": "http.request", "body": b"", "more_body": False}
        if self._stops or not self._cut:
            await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self) -> Response:
        """The answer; a stream is not read."""
        url = "/" + self._route.format(**self._path)
        scope: dict[str, Any] = {
            "type": "http",
            "method": self._method,
            "path": url,
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in self._sent.items()],
            "path_params": self._path,
            "server": ("server", 80),
            "scheme": "http",
        }
        request = _from_http(fastapi.Request(scope, self._receive))
        return await self._server.handle(self._route, request)

    async def answered(self) -> tuple[int, bytes]:
        """Status and body; a stream is read to its end."""
        response = await self.send()
        if isinstance(response.body, bytes):
            return response.status, response.body
        return response.status, b"".join([chunk async for chunk in response.body])


def full(memory: WorkingMemory, tenant: str, size: int) -> Share:
    """A share with so many bytes; enter it."""
    share = memory.share(tenant).__enter__()
    share.admit()
    share.take(size)
    return share


def give_back(share: Share) -> None:
    share.__exit__(None, None, None)


async def nothing_held(world: Secured) -> None:
    """Wait until no tenant has a share any more, and see that nobody owes any."""
    memory = world.server.limits.memory
    await until(lambda: memory.in_use == 0 and not memory._tenants)  # pyright: ignore[reportPrivateUsage]


def _text(what: str = "hi", size: int = 5000) -> str:
    return f"{what} " + "x" * size


def _answer(status: int, **client: Any) -> Ending:
    async def ending(world: Secured) -> None:
        got, body = await Client(world, **client).answered()
        assert got == status, (got, body)

    return ending


async def _gone_before_the_answer(world: Secured) -> None:
    client = Client(world, body={"input": _text("wait")})
    asked = asyncio.create_task(client.send())
    await until(lambda: world.server.limits.seats["runs"] == 1)
    client.gone.set()
    assert (await asked).status == 499


async def _request_is_cancelled(world: Secured) -> None:
    asked = asyncio.create_task(Client(world, body={"input": _text("wait")}).send())
    await until(lambda: world.server.limits.seats["runs"] == 1)
    asked.cancel()
    await asyncio.wait({asked})


async def _stream_is_closed_half_way(world: Secured) -> Response:
    response = await Client(world, body={"input": _text("wait"), "stream": True}).send()
    await anext(response.body)  # pyright: ignore[reportArgumentType]
    assert world.server.limits.memory.in_use > 5000
    await response.body.aclose()  # pyright: ignore[reportAttributeAccessIssue]
    return response


async def _stream_is_never_read(world: Secured) -> None:
    await Client(world, body={"input": _text("wait"), "stream": True}).send()


async def _followed(world: Secured) -> None:
    response = await Client(world, body={"input": _text("wait"), "stream": True, "background": True}).send()
    await anext(response.body)  # pyright: ignore[reportArgumentType]
    await response.body.aclose()  # pyright: ignore[reportAttributeAccessIssue]
    await world.world.kill()


async def _background(world: Secured, what: str = "hi") -> str:
    status, body = await Client(world, body={"input": _text(what), "background": True}).answered()
    assert status == 200
    return json.loads(body)["id"]


def _background_run(what: str, status: str) -> Ending:
    async def ending(world: Secured) -> None:
        assert (await world.ended(world.attacker, await _background(world, what)))["status"] == status

    return ending


async def _running(world: Secured) -> str:
    identifier = await _background(world, "wait")
    await until(lambda: world.server.limits.memory.in_use > 5000)
    return identifier


async def _background_is_cancelled(world: Secured) -> None:
    path = {"response_id": await _running(world)}
    assert (await world.attacker.send("POST", CREATE + "/{response_id}/cancel", path=path)).status == 200


async def _process_stops(world: Secured) -> None:
    await _running(world)
    await _stream_is_closed_half_way(world)
    await world.world.stop()


async def _lease_is_lost(world: Secured) -> None:
    identifier = await _running(world)
    held = world.world.engine.engine._attempts  # pyright: ignore[reportPrivateUsage]
    for attempt in held.values():
        attempt.keeper.lose()
    await world.world.advance(6)
    path = {"response_id": identifier}
    await world.attacker.send("POST", CREATE + "/{response_id}/cancel", path=path)


async def _turn_of_a_conversation(world: Secured) -> None:
    made = (await world.attacker.send("POST", "v1/conversations", {})).json["id"]
    for number in range(3):
        body = {"input": _text(str(number)), "conversation": made}
        assert (await Client(world, body=body).answered())[0] == 200
    path = {"conversation_id": made}
    items = Client(world, CONVERSATION + "/items", {"items": [{"role": "user", "content": _text()}]}, path=path)
    assert (await items.answered())[0] == 200
    for route, method in (("/items", "GET"), ("", "GET"), ("", "DELETE")):
        assert (await world.attacker.send(method, CONVERSATION + route, path=path)).status == 200


async def _effective_input(world: Secured) -> None:
    made = await world.attacker.create(_text())
    for route in ("/input_tokens", "/compact"):
        body = {"model": "agent", "input": _text(), "previous_response_id": made["id"]}
        assert (await Client(world, CREATE + route, body).answered())[0] == 200


async def _frames(request: InvocationRequest) -> AsyncIterator[Any]:
    yield {"number": 1}
    await asyncio.Event().wait()


def invocation(handler: Any, reads: int | None, status: int = 200) -> Ending:
    """An invocation whose stream is closed after so many frames; None never begins."""

    async def ending(world: Secured) -> Response | None:
        invocations = Invocations(world.settings, world.server.limits)
        invocations.register("invoke", handler)
        world.server.routes = {**world.server.routes, **invocations.routes}
        response = await Client(world, INVOKE, {"note": _text()}).send()
        assert response.status == status
        if reads is None or isinstance(response.body, bytes):
            return None
        for _ in range(reads):
            await anext(response.body)
        await response.body.aclose()  # pyright: ignore[reportAttributeAccessIssue]
        return response

    return ending


async def _raises(request: InvocationRequest) -> Any:
    await request.json()
    raise ValueError


async def _refuses(request: InvocationRequest) -> Any:
    await request.json()
    raise ApiError("No.", status=409)


async def _returns_a_stream(request: InvocationRequest) -> Any:
    await request.json()
    return _frames(request)


_LARGE = {"input": "x" * 60_000}

ENDINGS: Mapping[str, Ending] = {
    "answered": _answer(200, body={"input": _text()}),
    "streamed": _answer(200, body={"input": _text(), "stream": True}),
    "not stored": _answer(200, body={"input": _text(), "store": False}),
    "agent fails": _answer(200, body={"input": _text("fail")}),
    "agent fails in a stream": _answer(200, body={"input": _text("fail"), "stream": True}),
    "no JSON": _answer(400, body=b"{" + b"x" * 5000),
    "wrong parameter": _answer(400, body={"input": _text(), "temperature": "hot"}),
    "unknown response": _answer(400, body={"input": _text(), "previous_response_id": "resp_none"}),
    "unknown route": _answer(404, route="v1/nothing", body=_LARGE),
    "wrong method": _answer(405, method="PUT", body=_LARGE),
    "wrong key": _answer(401, body=_LARGE, headers={"api-key": "wrong"}),
    "compressed": _answer(415, body=_LARGE, headers={"content-encoding": "gzip"}),
    "too long": _answer(413, body=_LARGE),
    "too long, as announced": _answer(413, body=_LARGE, headers={"content-length": "70000"}),
    "hangs up in the body": _answer(499, body=_LARGE, after=5),
    "stops in the body": _answer(408, body=_LARGE, after=5, stops=True),
    "gone before the answer": _gone_before_the_answer,
    "request is cancelled": _request_is_cancelled,
    "stream is closed half-way": _stream_is_closed_half_way,
    "stream is never read": _stream_is_never_read,
    "follower goes, process dies": _followed,
    "background": _background_run("hi", "completed"),
    "background streamed": _answer(200, body={"input": _text(), "background": True, "stream": True}),
    "background fails": _background_run("fail", "failed"),
    "background cancelled": _background_is_cancelled,
    "process stops": _process_stops,
    "lease lost": _lease_is_lost,
    "conversation": _turn_of_a_conversation,
    "effective input": _effective_input,
    "invocation": _answer(200, route=INVOKE, body={"note": _text()}),
    "invocation streamed": _answer(200, route=INVOKE, body={"events": [_text()] * 3}),
    "invocation raises": invocation(_raises, 0, 500),
    "invocation refuses": invocation(_refuses, 0, 409),
    "invocation's stream is closed": invocation(_returns_a_stream, 0),
    "invocation's stream is closed half-way": invocation(_returns_a_stream, 1),
    "invocation's stream is never begun": invocation(_returns_a_stream, None),
    "invocation's generator is never begun": invocation(_frames, None),
}
