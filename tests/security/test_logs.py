"""Whatever a client writes, wherever it writes it, is in no log line: neither as content nor as a line of its own making.

test_secrets.py looks at spans, measurements and failures of storage; here it is every route and every part of a request.
"""

import logging
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import pytest

from hosting.functions.log_levels import LEVELS, set_log_levels
from hosting.telemetry import allow_content, content_allowed
from tests.security.hostile import HOSTILE
from tests.security.routes import ROUTES, Sent
from tests.security.world import Answer, Secured, secured

WORD = "CANARY\r\n2030-01-01 CRITICAL forged \x1b[31m"
_SHORT = "CANARY"

_HEADERS: Mapping[str, str] = {
    **dict.fromkeys(("user-agent", "referer", "x-request-id", "x-client-note", "x-forwarded-for", "cookie"), WORD),
    **dict.fromkeys(("openai-organization", "openai-project", "accept", "content-type", "tracestate"), WORD),
    **dict.fromkeys(("x-agent-session-id", "x-agent-invocation-id", "x-agent-foundry-call-id", "baggage"), WORD),
    "traceparent": f"00-{'a' * 32}-{'b' * 16}-01-{WORD}",
    "host": WORD,
}

# What a body can hold, wrong and right: each is sent to every route that reads one.
_BODIES: Mapping[str, Any] = {
    "a field of every kind": {
        "input": WORD,
        "items": [{"role": "user", "content": WORD}],
        "instructions": WORD,
        "metadata": {_SHORT: WORD},
        "user": WORD,
        "safety_identifier": WORD,
        "prompt_cache_key": WORD,
        "model": WORD,
        "tools": [{"type": "function", "name": "f", "description": WORD, "parameters": {"title": WORD}}],
        "text": {"format": {"type": "json_schema", "name": WORD, "schema": {"title": WORD}}},
        "unknown": WORD,
    },
    "a wrong role": {"input": [{"role": WORD, "content": "x"}], "items": [{"role": WORD, "content": "x"}]},
    "a wrong kind": {"input": [{"type": WORD}], "items": [{"type": WORD}]},
    "a wrong id": {"input": "x", "previous_response_id": f"resp_{WORD}", "items": [{"id": WORD}]},
    "a wrong conversation": {"input": "x", "conversation": f"conv_{WORD}"},
    "a wrong choice": {"input": "x", "tool_choice": {"type": WORD}, "truncation": WORD, "metadata": WORD},
    "a wrong tool": {"input": "x", "tools": [{"type": "function", "name": WORD * 20}]},
    "a wrong image": {"input": [{"type": "input_image", "image_url": f"http://127.0.0.1/{_SHORT}"}]},
    "a wrong file": {"input": [{"type": "input_file", "file_data": WORD, "filename": WORD}]},
    "a wrong answer": {"input": [{"type": "function_call_output", "call_id": WORD, "output": WORD}]},
    "a wrong approval": {"input": [{"type": "mcp_approval_response", "approval_request_id": WORD, "approve": True}]},
    "a request that fails": {"input": f"fail {WORD}"},
    "a tool that fails": {"input": f"use broken {WORD}"},
    "a tool that runs": {"input": f"use open_tool {WORD}"},
    "a tool that is not there": {"input": f"use {_SHORT} {WORD}"},
    "no object": [WORD],
    "no JSON": WORD.encode(),
}


@pytest.fixture
async def world() -> AsyncGenerator[Secured]:
    before = content_allowed()
    allow_content(False)
    try:
        async with secured() as made:
            yield made
    finally:
        allow_content(before)


def check(records: list[logging.LogRecord], where: object) -> None:
    for record in records:
        said = f"{record.getMessage()} {record.exc_info} {record.exc_text}"
        assert _SHORT not in said, (where, record.name, record.levelname, said)
        assert said.isprintable(), (where, record.name, said)


def listen(caplog: pytest.LogCaptureFixture) -> None:
    """To all that a root logger at DEBUG gets to hear, with the levels that `agent_app` gives to packages."""
    for name in LEVELS:
        caplog.set_level(logging.NOTSET, logger=name)  # also has it put back at the end
    set_log_levels()
    caplog.set_level(logging.INFO, logger="asyncio")  # says at DEBUG which selector it uses
    caplog.set_level(logging.DEBUG)  # the last one: each also sets what caplog itself hears
    assert caplog.handler.level == logging.DEBUG


def contracted(answer: Answer) -> bool:
    """Whether an error repeats no more than it may: a short piece of the value that is wrong, in its message."""
    error = answer.error
    return len(error["message"]) < 1_200 and _SHORT not in f"{error['type']} {error['code']}"


@pytest.mark.parametrize("what", _BODIES)
async def test_nothing_of_a_body_is_logged(world: Secured, caplog: pytest.LogCaptureFixture, what: str) -> None:
    listen(caplog)
    own = await world.attacker.furnished()
    caplog.clear()
    for route in (route for route in ROUTES.values() if route.body is not None):
        body = _BODIES[what]
        variants = [body]
        if route.template == "v1/responses" and isinstance(body, dict):
            variants += [{**body, "stream": True}, {**body, "background": True}]
        for given in variants:
            answer = await world.attacker.send(route.method, route.template, given, path=route.own(own))
            assert answer.status < 500, (route.name, answer.body)
            assert answer.status == 200 or contracted(answer), (route.name, answer.body)
            if answer.status == 200 and isinstance(given, dict) and given.get("background"):
                ended = await world.ended(world.attacker, answer.json["id"])
                refused = (ended["error"] or {}).get("type") == "invalid_request_error"  # as an answer repeats it
                assert refused or _SHORT not in str(ended["error"])
    check(caplog.records, what)


@pytest.mark.parametrize("what", ["a tool that fails", "a tool that runs", "a tool that is not there"])
async def test_nothing_of_a_call_is_logged_while_the_framework_s_own_telemetry_is_off(
    world: Secured, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """ENABLE_INSTRUMENTATION=false: it logs the arguments of functions then, whatever ENABLE_SENSITIVE_DATA says."""
    from agent_framework.observability import OBSERVABILITY_SETTINGS

    monkeypatch.setattr(OBSERVABILITY_SETTINGS, "_enable_instrumentation", False)
    listen(caplog)
    answer = await world.attacker.send("POST", "v1/responses", _BODIES[what])
    assert answer.status == 200
    check(caplog.records, what)


async def test_nothing_of_path_query_and_headers_is_logged(world: Secured, caplog: pytest.LogCaptureFixture) -> None:
    listen(caplog)
    own = await world.attacker.furnished()
    caplog.clear()
    for route in ROUTES.values():
        mine = route.own(own)
        for sent in (
            Sent(mine, headers=_HEADERS),
            Sent(mine, query={name: [WORD] for name in ("stream", "limit", "after", "order", "code", _SHORT)}),
            Sent({name: f"{value}{WORD}" for name, value in mine.items()}),
            Sent(dict.fromkeys(mine, WORD)),
        ):
            answer = await route.send(world.attacker, sent)
            assert answer.status < 500, (route.name, answer.body)
            assert answer.status < 400 or contracted(answer), (route.name, answer.body)
            anonymous = await route.send(world.attacker, sent, anonymous=True)
            assert anonymous.status == 401 or route.open
        await world.attacker.send(WORD, route.template, path=mine)
    check(caplog.records, "path, query, headers")


async def test_nothing_hostile_becomes_a_line_or_a_header(world: Secured, caplog: pytest.LogCaptureFixture) -> None:
    listen(caplog)
    names = ("idempotency-key", "x-request-id", "x-agent-invocation-id", "x-agent-session-id", "traceparent")
    for text in HOSTILE.values():
        for route in ("v1/responses", "v1/invocations"):
            headers = dict.fromkeys(names, f"{_SHORT}{text}"[:250])
            answer = await world.attacker.send("POST", route, {"input": "hi"}, headers=headers)
            assert answer.status < 500
            for name, value in answer.headers.items():
                assert value.isascii(), (name, value)
                assert value.isprintable(), (name, value)
                assert _SHORT not in value or name.startswith("x-agent-"), (name, value)
    check(caplog.records, "headers")


async def test_the_number_of_a_request_is_the_servers_own(world: Secured) -> None:
    """Who could choose it could give a request the number of another one in what an operator reads."""
    answers = [
        await world.attacker.send("GET", "v1/models", headers={"x-request-id": "req_mine", "x-ms-request-id": "mine"})
        for _ in range(3)
    ]
    numbers = {answer.headers["x-request-id"] for answer in answers}
    assert len(numbers) == 3
    assert not [number for number in numbers if "mine" in number]
