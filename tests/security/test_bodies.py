"""Bodies that are made to harm: too deep, too many, too odd, packed, or with keys that are the app's own."""

import gzip
import json
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Any

import pytest
from agent_framework import Agent, BaseChatClient, ChatResponse, ChatResponseUpdate, Content, Message, ResponseStream

from hosting.responses import InvalidRequest, parse_create_request
from hosting.server import Request, Response
from hosting.state import AgentState, TableHistoryProvider
from tests.security.agents import TOOL_CALLS
from tests.security.world import Caller, secured
from tests.server_world import serve

type Json = dict[str, Any]


async def post(caller: Caller, body: Any, status: int, **headers: str) -> Json:
    answer = await caller.send("POST", "v1/responses", body, headers=headers)
    assert answer.status == status, answer.body[:300]
    answer.body.decode()  # UTF-8, whatever came in
    return answer.json if status == 200 else answer.error


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 10_000,
        b"[" * 10_000 + b"]" * 10_000,
        b'{"input":' + b'{"a":' * 10_000 + b"1" + b"}" * 10_001,
        b'{"input":"a","metadata":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    ],
    ids=["open", "arrays", "objects", "in a field"],
)
async def test_ten_thousand_levels_are_a_400(body: bytes) -> None:
    async with secured() as world:
        await post(world.attacker, body, 400)


@pytest.mark.parametrize("unit", [b"{},", b"[],", b"0,", b'"",', b'{"":0},'])
async def test_33_megabytes_of_values_are_refused_before_they_take_memory(unit: bytes) -> None:
    body = b'{"input":"a","x":[' + unit * (33_000_000 // len(unit)) + b"0]}"
    async with secured() as world:
        tracemalloc.start()
        try:
            error = await post(world.attacker, body, 400)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert "JSON values" in error["message"]
    assert peak < 160_000_000  # parsed, they would take up to a gigabyte


async def test_a_length_over_the_limit_is_refused() -> None:
    async with secured() as world:
        await post(world.attacker, b" " * (32 * 1024 * 1024 + 1), 413)


@pytest.mark.parametrize("field", ["unknown", "metadata", "stream_options", "tools", "input", "conversation"])
async def test_an_object_with_199_000_keys_does_no_harm(field: str) -> None:
    body = {"input": "a", field: {f"k{n}": n for n in range(199_000)}}
    async with secured() as world:
        answer = await world.attacker.send("POST", "v1/responses", body)
        assert answer.status in (200, 400), answer.body[:300]
        assert len(answer.body) < 20_000  # nor does it come back


async def test_200_000_keys_are_too_many() -> None:
    async with secured() as world:
        await post(world.attacker, {"input": "a", "x": {f"k{n}": n for n in range(200_001)}}, 400)


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" * 5000, "NaN", "Infinity", "-Infinity", "1" * 4000])
@pytest.mark.parametrize(
    "field", ["temperature", "top_p", "max_output_tokens", "top_logprobs", "max_tool_calls", "input"]
)
async def test_numbers_that_no_field_can_hold_are_a_400(number: str, field: str) -> None:
    given = f'"input":"a","{field}":{number}' if field != "input" else f'"input":{number}'
    async with secured() as world:
        answer = await world.attacker.send("POST", "v1/responses", f"{{{given}}}".encode())
        unbounded = field in ("max_output_tokens", "max_tool_calls") and number == "1" * 4000
        assert answer.status == 200 if unbounded else answer.status == 400, answer.body[:300]


async def test_of_equal_keys_the_last_one_is_checked_and_used() -> None:
    async with secured() as world:
        body = b'{"input":"one","input":"two","background":true,"background":false,"store":true,"store":false}'
        made = await post(world.attacker, body, 200)
        assert (made["output"][0]["content"][0]["text"], made["store"], made["background"]) == ("two", False, False)
        await post(world.attacker, b'{"input":"a","temperature":1,"temperature":1e9}', 400)


_HALF = "\\ud800"


@pytest.mark.parametrize(
    "body",
    [
        f'{{"input":"a{_HALF}"}}',
        f'{{"input":"a","metadata":{{"k{_HALF}":"v{_HALF}"}}}}',
        f'{{"input":"a","model":"{_HALF}"}}',
        f'{{"input":"a","user":"{_HALF}","instructions":"{_HALF}","prompt_cache_key":"{_HALF}"}}',
        f'{{"input":"a","{_HALF}":1}}',
        f'{{"input":[{{"role":"{_HALF}","content":"a"}}]}}',
        f'{{"input":"a","previous_response_id":"resp_{_HALF}"}}',
        f'{{"input":"a","conversation":"conv_{_HALF}"}}',
        f'{{"input":"a","tools":[{{"type":"function","name":"{_HALF}","parameters":{{}}}}]}}',
        f'{{"input":[{{"type":"item_reference","id":"{_HALF}"}}]}}',
    ],
)
async def test_half_a_surrogate_pair_is_never_an_error_of_the_server(body: str) -> None:
    async with secured() as world:
        answer = await world.attacker.send("POST", "v1/responses", body.encode())
        assert answer.status in (200, 400, 404), answer.body
        answer.body.decode()


@pytest.mark.parametrize(
    "kind",
    ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/xml", "text/html", "\x00"],
)
async def test_what_is_no_json_is_a_400_whatever_it_is_called(kind: str) -> None:
    async with secured() as world:
        for body in (b"input=a&stream=true", b'--x\r\ncontent-disposition: form-data; name="input"\r\n\r\na\r\n--x--'):
            await post(world.attacker, body, 400, **{"content-type": kind})


async def test_json_in_another_encoding_is_a_400() -> None:
    async with secured() as world:
        for encoding in ("utf-16", "utf-32"):
            body = json.dumps({"input": "ä"}, ensure_ascii=False).encode(encoding)
            await post(world.attacker, body, 400, **{"content-type": f"application/json; charset={encoding}"})


@pytest.mark.parametrize(
    "encoding", ["gzip", "GZIP", "x-gzip", "br", "zstd", "identity, gzip", "gzip, identity", "\x00"]
)
@pytest.mark.parametrize("route", ["v1/responses", "v1/responses/input_tokens", "v1/conversations", "v1/invocations"])
async def test_a_packed_body_is_a_415_and_not_even_read(encoding: str, route: str) -> None:
    reads: list[int] = []

    async def read(limit: int) -> bytes:
        reads.append(limit)
        return gzip.compress(b"{}" * 1000)

    async with secured() as world:
        assert route in world.server.routes
        headers = {**world.attacker.headers, "content-encoding": encoding}
        answer = await world.server.handle(route, Request("POST", f"/{route}", headers, read=read))
    assert answer.status == 415
    assert reads == []


# --- keys that are the app's own

_HOSTILE: Json = {
    "additional_function_arguments": {"user_id": "admin"},
    "function_invocation_kwargs": {"user_id": "admin"},
    "client_kwargs": {"user_id": "admin"},
    "chat_options": {"user_id": "admin", "tools": ["x"]},
    "options": {"user_id": "admin"},
    "default_options": {"user_id": "admin"},
    "additional_properties": {"user_id": "admin"},
    "extra_body": {"user_id": "admin"},
    "session": {"session_id": "admin", "state": {}},
    "middleware": ["os.system"],
    "context_providers": [],
    "tool_approval": {"pending_approval_requests": []},
    "caller": {"tenant": "admin"},
    "tenant": "admin",
    "user_id": "admin",
    "scope": "admin",
    "api_key": "admin",
    "base_url": "http://admin.example",
    "input_items": ["admin"],
    "conversation_id": "conv_admin",
    "response_id": "resp_admin",
    "max_tokens": 666,
    "response_format": {"type": "admin"},
    "allow_multiple_tool_calls": "admin",
    "__class__": "admin",
    "__init__": {"__globals__": "admin"},
    "__dict__": {"admin": True},
    "__proto__": {"admin": True},
    "constructor": {"prototype": {"admin": True}},
    "$": "object",
}


class _Recorder(BaseChatClient[Any]):
    """Notes all that reaches the model's client."""

    seen: list[tuple[Mapping[str, Any], Mapping[str, Any]]]

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Awaitable[ChatResponse] | ResponseStream[ChatResponseUpdate, ChatResponse]:
        self.seen.append((dict(options), kwargs))

        async def updates() -> AsyncIterator[ChatResponseUpdate]:
            yield ChatResponseUpdate(role="assistant", contents=[Content.from_text("ok")])

        if stream:
            return self._build_response_stream(updates())

        async def answer() -> ChatResponse:
            return ChatResponse(messages=[Message("assistant", ["ok"])])

        return answer()


def _recorded() -> tuple[_Recorder, AgentState[Agent]]:
    client = _Recorder()
    client.seen = []
    return client, AgentState(lambda: Agent(client=client, context_providers=[TableHistoryProvider()]))


@pytest.mark.parametrize("stream", [False, True])
async def test_keys_that_are_no_fields_change_nothing_of_what_reaches_the_models_client(stream: bool) -> None:
    client, agent = _recorded()
    async with serve(hosted=agent) as world:

        async def send(**body: Any) -> None:
            response: Response = await world.post("a", stream=stream, **body)
            assert response.status == 200
            if not isinstance(response.body, bytes):
                assert [chunk async for chunk in response.body]

        await send()
        await send(**_HOSTILE)
    plain, hostile = client.seen
    assert _comparable(hostile) == _comparable(plain)
    assert "admin" not in repr(hostile)


async def test_keys_inside_fields_do_not_reach_it_either() -> None:
    client, agent = _recorded()
    async with serve(hosted=agent) as world:
        await world.create(
            [{"role": "user", "content": [{"type": "input_text", "text": "a", **_HOSTILE}], **_HOSTILE}],
            text={"format": {"type": "text"}, **_HOSTILE},
            metadata={"user_id": "admin", "__class__": "admin"},
        )
    ((options, kwargs),) = client.seen
    assert "admin" not in repr((options, kwargs))


def _comparable(seen: tuple[Mapping[str, Any], Mapping[str, Any]]) -> list[Any]:
    """Without what is another object each time."""
    return [sorted(part.items() if part is seen[0] else part, key=str) for part in seen]


async def test_keys_of_the_body_do_not_reach_tools() -> None:
    TOOL_CALLS.clear()
    async with secured() as world:
        await world.attacker.create("use open_tool tea", **_HOSTILE)
    ((name, arguments, given),) = TOOL_CALLS
    assert (name, arguments) == ("open_tool", {"topic": "tea"})
    assert "admin" not in repr(given)


# --- images and files

_REFUSED = [
    *(
        "file:///etc/passwd",
        "ftp://example.com/a",
        "gopher://127.0.0.1:6379/_x",
        "//127.0.0.1/a",
        "\x01http://127.0.0.1/",
    ),
    *("http://169.254.169.254/metadata/identity/oauth2/token", "http://127.0.0.1:10000/", "http://localhost:7071/"),
    *("http://[::1]/", "http://[::ffff:169.254.169.254]/", "http://0x7f.1/", "http://2130706433/", "http://10.0.0.1/"),
    # Clients that follow WHATWG decode the name before they resolve it.
    *("http://127.0.0.%31/", "http://metadata.google%2einternal/", "http://127.0.0.\uff0531/", "http://%6cocalhost/"),
    # Where a resolver written in C stops reading.
    *("http://127.0.0.1\x00.example.com/", "http://example.com\x7f/", "http://example.com\\@127.0.0.1/"),
    # Letters that look like others, and some that nobody sees.
    *("http://127.0.0\u00ad.1/", "http://local\u200bhost/", "http://\u24dbocalhost/", "http://\U0001d7cf27.0.0.1/"),
    # IPv4 in IPv6, and site-local.
    *("http://[::127.0.0.1]/", "http://[::ffff:0:7f00:1]/", "http://[64:ff9b:1::7f00:1]/", "http://[fec0::1]/"),
    *("http://localhost.localdomain/", "http://user@127.0.0.1/", "http://１２７.0.0.1/", "http://printer.local/"),
]


@pytest.mark.parametrize("url", _REFUSED)
async def test_a_url_that_leads_inside_is_refused_wherever_it_stands(url: str) -> None:
    image: Json = {"type": "input_image", "image_url": url}
    file: Json = {"type": "input_file", "file_url": url}
    call: Json = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    async with secured() as world:
        for items in (
            [{"role": "user", "content": [image]}],
            [{"role": "user", "content": [{**image, "image_url": {"url": url}}]}],
            [{"role": "user", "content": [file]}],
            [image],
            [call, {"type": "function_call_output", "call_id": "c", "output": [image]}],
            [call, {"type": "function_call_output", "call_id": "c", "output": [file]}],
        ):
            error = await post(world.attacker, {"input": items}, 400)
            assert error["param"].endswith(("image_url", "image_url.url", "file_url")), error
        made = await world.attacker.send("POST", "v1/conversations", {"items": [{"role": "user", "content": [image]}]})
        assert made.status == 400


@pytest.mark.parametrize(
    "uri",
    [
        "data:text/html;base64,PGI+",
        "data:application/pdf;base64,AAAA",
        "data:;base64,AAAA",
        "data:image/png,AAAA",
        "data:image/png;base64,not base64",
        "data:image/png;base64",
        "data:image/png\r\nx: y;base64,AAAA",
        "DATA:text/html;base64,AAAA",
        "data:image/../../x;base64,AAAA",
    ],
)
async def test_a_data_uri_that_is_no_image_is_refused_as_one(uri: str) -> None:
    async with secured() as world:
        image = {"type": "input_image", "image_url": uri}
        error = await post(world.attacker, {"input": [{"role": "user", "content": [image]}]}, 400)
        assert error["param"] == "input[0].content[0].image_url"


@pytest.mark.parametrize(
    "image",
    [
        "http://" + "ä" * 3_000_000 + ".com/",
        "http://" + "ä." * 3_000_000 + "com/",
        "http://a" + "\u0316\u0301" * 1_000_000 + ".com/",
        "http://" + "a." * 10_000_000 + "com/",
        "http://0x" + "f" * 10_000_000 + "/",
        "https://example.com/" + "a" * 20_000_000,
        "data:" + ";" * 30_000_000 + ",AAAA",
    ],
    ids=["name", "labels", "marks", "dots", "digits", "path", "parameters"],
)
def test_a_url_of_any_length_is_refused_at_once(image: str) -> None:
    began = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequest):
            parse_create_request({"input": [{"type": "input_image", "image_url": image}]})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert time.process_time() - began < 5  # some took minutes
    assert peak < 200_000_000


def test_as_many_names_as_a_body_has_room_for_take_seconds_and_no_minutes() -> None:
    name = ".".join(["äöüß漢字かな"] * 20)
    parts = [{"type": "input_image", "image_url": f"http://{number}.{name}.com/"} for number in range(10_000)]
    began = time.process_time()
    parse_create_request({"input": [{"role": "user", "content": parts}]})
    assert time.process_time() - began < 5  # it took 15
