"""Small requests that would cost a process seconds or gigabytes: what they multiply is counted or measured first."""

import base64
import time
import tracemalloc
from typing import Any

import pytest

from tests.security.world import Secured, secured
from tests.unit.workflow_desk import hosted as desk

type Json = dict[str, Any]

_HEAD = b'{"format":"hosting.compaction","version":1,'


def compaction(document: bytes) -> Json:
    return {"type": "compaction", "encrypted_content": base64.b64encode(document).decode()}


def function(number: int) -> Json:
    return {"type": "function", "name": f"f{number}", "parameters": {"properties": {"p": {"type": "string"}}}}


async def test_more_tools_than_the_api_takes_are_refused_at_once() -> None:
    """agent-framework compares each with all before it: forty thousand would hold up everybody for minutes."""
    async with secured() as world:
        began = time.process_time()
        for count in (129, 20_000):
            body = {"input": "hi", "tools": [function(number) for number in range(count)]}
            answer = await world.attacker.send("POST", "v1/responses", body)
            assert (answer.status, answer.error["code"]) == (400, "array_above_max_length")
            assert answer.error["param"] == "tools"
        assert time.process_time() - began < 5
        body["tools"] = body["tools"][:128]
        assert (await world.attacker.send("POST", "v1/responses", body)).status == 200


async def _posted_everywhere(world: Secured, items: list[Json]) -> None:
    for route in ("v1/responses", "v1/responses/input_tokens", "v1/responses/compact", "v1/conversations"):
        given = {"items": items} if "conv" in route else {"input": items, "model": "agent"}
        answer = await world.attacker.send("POST", route, given)
        assert answer.status in (200, 400), (route, answer.body)


async def test_values_packed_into_one_text_are_not_unpacked() -> None:
    packed = compaction(_HEAD + b'"omitted":0,"entries":[' + b"{}," * 5_000_000 + b"0]}")
    async with secured() as world:
        tracemalloc.start()
        try:
            await _posted_everywhere(world, [packed, {"role": "user", "content": "hi"}])
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 250_000_000  # unpacked, they take 400 MB more


@pytest.mark.parametrize("number", [b"9" * 4_300, b"-" + b"9" * 4_300, b"1e400", b"1" * 5_000])
async def test_numbers_that_can_not_be_printed_are_no_error_of_the_server(number: bytes) -> None:
    entry = b'{"after":' + number + b',"text":"x"}'
    record = compaction(_HEAD + b'"omitted":' + number + b',"entries":[' + entry + b"]}")
    async with secured() as world:
        await _posted_everywhere(world, [record, record, {"role": "user", "content": "hi"}])


async def test_nor_is_an_answer_to_a_workflow_that_is_made_of_them() -> None:
    async with secured(hosted=desk()) as world:
        asked = await world.attacker.create("ask")
        call = next(item for item in asked["output"] if item["type"] == "function_call")
        packed = "[" + "{}," * 5_000_000 + "0]"
        answer = {"type": "function_call_output", "call_id": call["call_id"], "output": packed}
        body = {"input": [answer], "previous_response_id": asked["id"]}
        tracemalloc.start()
        try:
            refused = await world.attacker.send("POST", "v1/responses", body)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (refused.status, refused.error["code"]) == (400, "invalid_value")
    assert peak < 250_000_000
