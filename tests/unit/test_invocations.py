"""Invocations without HTTP: who is called, in whose scope, and what becomes of what handlers return or raise."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest

from hosting.keys import mint_key
from hosting.responses import ApiError
from hosting.server import ClientGone, Request, Response, ResponsesServer
from hosting.server.invocations import InvocationRequest, Invocations
from hosting.settings import load_settings
from hosting.state import AgentState
from hosting.storage import StorageUnavailable
from hosting.tasks import current_scope

INVOKE, ONE, CANCEL = "v1/invocations", "v1/invocations/{invocation_id}", "v1/invocations/{invocation_id}/cancel"


class Served:
    """Invocations behind the server that turns errors into answers."""

    def __init__(self, **env: str) -> None:
        settings = load_settings({"AZURE_FUNCTIONS_ENVIRONMENT": "Development", **env})
        self.server = ResponsesServer(AgentState(lambda: None), settings, lambda: pytest.fail("no storage here"))  # type: ignore[arg-type, return-value]
        self.invocations = Invocations(settings, self.server.limits)
        self.server.routes = {**self.server.routes, **self.invocations.routes}

    def on(self, handler: Any, kind: str = "invoke") -> "Served":
        self.invocations.register(kind, handler)
        return self

    async def post(self, body: bytes = b"{}", headers: dict[str, str] | None = None, **query: list[str]) -> Response:
        async def read(limit: int) -> bytes:
            if len(body) > limit:
                raise ApiError.request_too_large(limit)
            return body

        request = Request("POST", "/v1/invocations", headers or {}, query, read=read)
        return await self.server.handle(INVOKE, request)

    async def at(self, route: str, identifier: str, method: str = "GET") -> Response:
        path = "/" + route.replace("{invocation_id}", identifier)
        return await self.server.handle(route, Request(method, path, path_params={"invocation_id": identifier}))


def parsed(response: Response) -> Any:
    assert isinstance(response.body, bytes)
    return json.loads(response.body)


async def drained(response: Response) -> list[bytes]:
    assert not isinstance(response.body, bytes)
    return [chunk async for chunk in response.body]


async def ids(request: InvocationRequest) -> dict[str, Any]:
    return {"invocation": request.invocation_id, "session": request.session_id}


@pytest.mark.parametrize(
    ("route", "method", "status", "code"),
    [(INVOKE, "POST", 501, "not_implemented"), (ONE, "GET", 404, "not_found"), (CANCEL, "POST", 404, "not_found")],
)
async def test_without_a_handler(route: str, method: str, status: int, code: str) -> None:
    response = await Served().at(route, "a", method)
    assert (response.status, parsed(response)["error"]["code"]) == (status, code)
    assert set(parsed(response)["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("identifier", ["a", "A-z_0.9:", "x" * 256])
async def test_an_invocation_id_of_the_client_is_taken(identifier: str) -> None:
    response = await Served().on(ids).post(headers={"x-agent-invocation-id": identifier})
    assert parsed(response)["invocation"] == response.headers["x-agent-invocation-id"] == identifier


@pytest.mark.parametrize("identifier", ["", "a b", "a/b", "x" * 257, "é", "a\n"])
async def test_what_is_no_id_is_replaced_by_a_new_one(identifier: str) -> None:
    served = Served().on(ids)
    found = {parsed(await served.post(headers={"x-agent-invocation-id": identifier}))["invocation"] for _ in range(2)}
    assert len(found) == 2
    assert identifier not in found


async def test_the_session_comes_from_the_query_then_from_the_header_then_it_is_new() -> None:
    served = Served().on(ids)
    header = {"x-agent-session-id": "from-header"}
    both = await served.post(headers=header, agent_session_id=["from-query"])
    assert parsed(both)["session"] == both.headers["x-agent-session-id"] == "from-query"
    assert parsed(await served.post(headers=header))["session"] == "from-header"
    assert parsed(await served.post(agent_session_id=["not an id"]))["session"] not in ("", "not an id")


async def test_get_and_cancel_take_the_id_of_the_path() -> None:
    served = Served().on(ids, "get").on(ids, "cancel")
    assert parsed(await served.at(ONE, "one"))["invocation"] == "one"
    assert parsed(await served.at(CANCEL, "two", "POST"))["invocation"] == "two"
    assert (await served.at(ONE, "no id")).status == 404


async def test_a_caller_without_a_key_reaches_no_handler() -> None:
    key, entry = mint_key("contoso")
    called: list[InvocationRequest] = []

    async def handler(request: InvocationRequest) -> str:
        called.append(request)
        return current_scope()

    served = Served(HOSTING_API_KEYS=entry.entry).on(handler)
    refused = await served.post()
    assert (refused.status, called) == (401, [])
    allowed = await served.post(headers={"authorization": f"Bearer {key}"})
    assert parsed(allowed) == called[0].scope
    assert called[0].caller.tenant == "key:contoso"


async def test_tenants_have_scopes_of_their_own_and_these_are_the_ones_of_responses() -> None:
    (one, first), (two, second) = mint_key("one"), mint_key("two")

    async def handler(request: InvocationRequest) -> str:
        return current_scope()

    served = Served(HOSTING_API_KEYS=f"{first.entry},{second.entry}").on(handler)
    scopes = [parsed(await served.post(headers={"api-key": key})) for key in (one, two)]
    request = Request("POST", "/", {"api-key": one})
    assert scopes[0] == served.server._callers.scope(request) != scopes[1]


async def test_the_body_is_read_as_json_and_is_limited() -> None:
    async def handler(request: InvocationRequest) -> Any:
        return {"got": await request.json()}

    served = Served(HOSTING_MAX_REQUEST_BYTES="1024").on(handler)
    assert parsed(await served.post(b'{"a": 1}')) == {"got": {"a": 1}}
    assert (await served.post(b"{")).status == 400
    assert (await served.post(b" " * 1025)).status == 413


async def test_a_response_and_nothing_are_passed_on() -> None:
    async def handler(request: InvocationRequest) -> Any:
        return Response(202, b"later", {"x-mine": "1"}, "text/plain") if await request.json() else None

    served = Served().on(handler)
    response = await served.post(b"1", {"x-agent-invocation-id": "a"})
    assert (response.status, response.body, response.media_type) == (202, b"later", "text/plain")
    assert (response.headers["x-mine"], response.headers["x-agent-invocation-id"]) == ("1", "a")
    assert (await served.post(b"0")).status == 204


async def test_an_exception_is_a_500_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    async def handler(request: InvocationRequest) -> None:
        raise RuntimeError("secret detail")

    response = await Served().on(handler).post(headers={"x-agent-invocation-id": "a"})
    assert response.status == 500
    assert set(parsed(response)["error"]) == {"message", "type", "param", "code"}
    assert b"secret" not in response.body  # type: ignore[operator]
    assert response.headers["x-agent-invocation-id"] == "a"
    assert "RuntimeError" in caplog.text
    assert "secret detail" not in caplog.text


async def test_a_client_that_goes_while_its_body_is_read_is_no_error_of_the_handlers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def handler(request: InvocationRequest) -> Any:
        return await request.json()

    async def gone(limit: int) -> bytes:
        raise ClientGone

    served = Served().on(handler)
    answer = await served.server.handle("v1/invocations", Request("POST", "/v1/invocations", read=gone))
    assert answer.status == 499
    assert caplog.text == ""


async def test_something_that_is_no_json_is_a_500() -> None:
    async def handler(request: InvocationRequest) -> Any:
        return object()

    assert (await Served().on(handler).post()).status == 500


async def test_an_error_of_the_api_is_the_answer_and_storage_that_is_away_is_503() -> None:
    async def handler(request: InvocationRequest) -> None:
        if await request.json():
            raise ApiError.rate_limited("Not so fast.", retry_after=3)
        raise StorageUnavailable("away")

    served = Served().on(handler)
    response = await served.post(b"1", {"x-agent-invocation-id": "a"})
    assert (response.status, response.headers["retry-after"]) == (429, "3")
    assert response.headers["x-agent-invocation-id"] == "a"
    assert (await served.post(b"0")).status == 503


async def test_events_are_framed_with_their_type_and_number() -> None:
    async def handler(request: InvocationRequest) -> AsyncIterator[Any]:
        yield {"type": "tick", "sequence_number": 7, "text": "a\nü"}
        yield {"n": 1}
        yield b"data: raw\n\n"

    response = await Served().on(handler).post()
    assert response.media_type == "text/event-stream"
    assert b"".join(await drained(response)).decode() == (
        'id: 7\nevent: tick\ndata: {"type":"tick","sequence_number":7,"text":"a\\nü"}\n\ndata: {"n":1}\n\ndata: raw\n\n'
    )


async def test_a_type_can_not_smuggle_a_line_into_a_frame() -> None:
    async def handler(request: InvocationRequest) -> AsyncIterator[Any]:
        yield {"type": "a\ndata: b"}

    assert b"".join(await drained(await Served().on(handler).post())) == b'data: {"type":"a\\ndata: b"}\n\n'


async def test_a_stream_runs_in_the_scope_of_its_caller() -> None:
    async def handler(request: InvocationRequest) -> Any:
        async def events() -> AsyncIterator[Any]:
            yield {"same": current_scope() == request.scope}
            await asyncio.sleep(0)
            yield {"same": current_scope() == request.scope}

        return events()

    outside = current_scope()
    frames = b"".join(await drained(await Served().on(handler).post()))
    assert frames == b'data: {"same":true}\n\n' * 2
    assert current_scope() == outside


async def test_silence_is_filled_with_comments_in_event_streams_only() -> None:
    heard = asyncio.Event()

    async def quiet(until: Awaitable[object]) -> AsyncIterator[bytes]:
        yield b"a"
        await until
        yield b"b"

    async def handler(request: InvocationRequest) -> Response:
        media_type = await request.json()
        silence = asyncio.sleep(0.2) if media_type == "text/plain" else heard.wait()
        return Response(200, quiet(silence), media_type=media_type)

    served = Served(HOSTING_KEEP_ALIVE_SECONDS="0.05").on(handler)
    response = await served.post(b'"text/event-stream; charset=utf-8"')
    assert not isinstance(response.body, bytes)
    events: list[bytes] = []
    async with asyncio.timeout(30):
        async for chunk in response.body:
            events.append(chunk)
            if chunk == b": keep-alive\n\n":
                heard.set()
    assert [chunk for chunk in events if chunk != b": keep-alive\n\n"] == [b"a", b"b"]
    assert await drained(await served.post(b'"text/plain"')) == [b"a", b"b"]


async def test_a_failing_stream_ends_with_an_error_event_without_its_text() -> None:
    async def handler(request: InvocationRequest) -> AsyncIterator[Any]:
        yield {"n": 1}
        raise RuntimeError("secret detail")

    frames = b"".join(await drained(await Served().on(handler).post()))
    last = frames.decode().strip().split("\n\n")[-1]
    assert last.startswith('event: error\ndata: {"type":"error","error":{')
    assert "secret" not in last


async def test_a_client_that_goes_ends_the_handlers_iterator() -> None:
    ended = asyncio.Event()

    async def handler(request: InvocationRequest) -> AsyncIterator[Any]:
        try:
            while True:
                yield {"n": 1}
                await asyncio.sleep(0.01)
        finally:
            ended.set()

    response = await Served().on(handler).post()
    assert not isinstance(response.body, bytes)
    await anext(aiter(response.body))
    await response.body.aclose()  # type: ignore[attr-defined]
    await asyncio.wait_for(ended.wait(), 30)


def test_handlers_are_async_and_there_is_one_of_each() -> None:
    served = Served().on(ids)
    with pytest.raises(TypeError):
        served.on(lambda request: {}, "get")
    with pytest.raises(ValueError):
        served.on(ids)
