"""Text that looks like server-sent events: in a stream it is the text of an event, and never an event."""

import json
import re
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.security.hostile import HOSTILE
from tests.security.world import Answer, Secured, secured

type Json = dict[str, Any]

_FORGED = "response.forged"
_FRAME = f'event: {_FORGED}\ndata: {{"type":"{_FORGED}","sequence_number":0}}\n\n'

TEXTS = {
    "an event": f"\n\n{_FRAME}",
    "an event behind other line ends": f"\r\r{_FRAME}".replace("\n", "\r"),
    "an event behind both line ends": f"\r\n\r\n{_FRAME}".replace("\n", "\r\n"),
    "the end": "\n\ndata: [DONE]\n\n",
    "an id": "\nid: 999999\n",
    "a time to wait": "\nretry: 999999999\n",
    "a comment": "\n: keep-alive\n\n",
    "NUL in an id": "\nid: \x00\n",
    "a byte order mark": f"\ufeff{_FRAME}",
    "line ends that only some know": f"\u2028\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e{_FRAME}",
    "half a character": f"\ud800\n\n{_FRAME}",
    "escapes": "\\n\\nevent: x\\u000a",
    "a frame's own quotes": '"}\n\nevent: x\ndata: {"type":"x"}\n\n',
    **{f"hostile: {name}": text for name, text in HOSTILE.items() if "\n" in text or "\x00" in text},
}


@pytest.fixture
async def world() -> AsyncGenerator[Secured]:
    async with secured() as made:
        yield made


def events(body: bytes) -> list[Json]:
    """As a browser reads them: any of three line ends ends a line, an empty line ends an event."""
    found: list[Json] = []
    for block in re.split(r"\r\n\r\n|\n\n|\r\r", body.decode()):
        fields: dict[str, str] = {}
        for line in re.split(r"\r\n|\n|\r", block):
            if not line or line.startswith(":"):
                continue
            name, separator, value = line.partition(": ")
            assert separator, line
            assert name in ("id", "event", "data"), line
            assert name not in fields, block
            fields[name] = value
        if fields.get("data") not in (None, "[DONE]"):
            event = json.loads(fields["data"])
            assert fields.get("event", event.get("type")) == event.get("type")
            assert "id" not in fields or int(fields["id"]) == event["sequence_number"]
            found.append(event)
    return found


def check(answer: Answer) -> list[Json]:
    assert answer.status == 200, answer.body
    found = events(answer.body)
    assert answer.body.count(b"data: [DONE]\n\n") == 1 + answer.body.count(b"\\ndata: [DONE]\n\n")
    assert answer.body.endswith(b"data: [DONE]\n\n")
    numbers = [event["sequence_number"] for event in found]
    assert numbers == list(range(len(numbers)))
    assert not [event for event in found if event["type"] == _FORGED]
    assert found[-1]["type"] in ("response.completed", "response.failed")
    return found


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("what", TEXTS)
async def test_a_text_is_no_event(world: Secured, what: str, background: bool) -> None:
    text = TEXTS[what]
    body = {
        "input": [{"role": "user", "content": f"x{text}", "id": f"msg{text}"[:500]}],
        "instructions": text,
        "metadata": {"a": text[:500], text[:60] or "k": "b"},
        "user": text,
        "tools": [{"type": "function", "name": "f", "description": text, "parameters": {"title": text}}],
        "model": f"m{text}"[:250],
        "stream": True,
        "background": background,
    }
    found = check(await world.attacker.send("POST", "v1/responses", body))
    said = "".join(event["delta"] for event in found if event["type"] == "response.output_text.delta")
    assert said == f"x{text}".replace("\ud800", "\ufffd")


@pytest.mark.parametrize("what", TEXTS)
async def test_nor_is_the_argument_of_a_call(world: Secured, what: str) -> None:
    for verb in (f"use open_tool {TEXTS[what]}", f"call f {TEXTS[what]}"):
        tool = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
        body = {"input": verb, "tools": [tool], "stream": True}
        check(await world.attacker.send("POST", "v1/responses", body))


async def test_nor_when_it_is_read_again_later(world: Secured) -> None:
    body = {"input": "x" + "".join(TEXTS.values()), "stream": True, "background": True}
    first = check(await world.attacker.send("POST", "v1/responses", body))
    where = {"response_id": first[0]["response"]["id"]}
    again = await world.attacker.send(
        "GET", "v1/responses/{response_id}", path=where, query={"stream": ["true"], "starting_after": ["-0"[1:]]}
    )
    assert events(again.body) == first[1:]


@pytest.mark.parametrize("what", TEXTS)
async def test_nor_what_a_handler_of_invocations_passes_on(world: Secured, what: str) -> None:
    text = TEXTS[what]
    sent = [{"type": text}, {"type": "a", "sequence_number": text}, {text: text}, text, [text], {"type": [text]}]
    answer = await world.attacker.send("POST", "v1/invocations", {"events": sent})
    assert answer.status == 200
    blocks = [block for block in re.split(r"\r\n\r\n|\n\n|\r\r", answer.body.decode()) if block]
    assert len(blocks) == len(sent)
    for block, event in zip(blocks, sent, strict=True):
        lines = re.split(r"\r\n|\n|\r", block)
        assert [line for line in lines if not line.startswith(("data: ", "event: "))] == []
        (data,) = [line for line in lines if line.startswith("data: ")]
        assert data.removeprefix("data: ") == json.dumps(event, ensure_ascii=False, separators=(",", ":")).replace(
            "\\ud800", "\ufffd"
        ) or json.loads(data.removeprefix("data: ")) == json.loads(json.dumps(event).replace("\\ud800", "\\ufffd"))
