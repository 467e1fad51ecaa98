"""What a client sends does not come back by the megabyte: not its values, not its keys."""

import json
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from hosting.responses import InvalidRequest
from hosting.responses.workflow_answers import decode_answer
from tests.security.world import secured
from tests.unit.test_workflow_requests import asked, called

BIG = "x" * 300_000

HI = {"role": "user", "content": "hi"}
CALL = {"type": "function_call", "call_id": BIG, "name": BIG, "arguments": "{}"}
IMAGE = {"type": "input_image", "image_url": BIG}

BODIES: dict[str, dict[str, Any]] = {
    **{
        name: {name: BIG}
        for name in (
            *("model", "previous_response_id", "conversation", "truncation", "service_tier", "prompt_cache_key"),
            *("safety_identifier", "tool_choice", "stream", "temperature", "metadata", "tools", "include", "text"),
        )
    },
    "conversation.id": {"conversation": {"id": BIG}},
    "include[0]": {"include": [BIG]},
    "a key of metadata": {"metadata": {BIG: "x"}},
    "a value of metadata": {"metadata": {"x": BIG}},
    "many keys of metadata": {"metadata": {f"{n}{BIG}": n for n in range(17)}},
    "a type of text": {"text": {"format": {"type": BIG}}},
    "a name of text": {"text": {"format": {"type": "json_schema", "name": BIG, "schema": {}}}},
    "verbosity": {"text": {"verbosity": BIG}},
    "a tool": {"tools": [{"type": "function", "name": BIG}]},
    "a custom tool": {"tools": [{"type": "custom", "name": BIG}]},
    "a choice": {"tool_choice": {"type": "function", "name": BIG}},
    "a mode": {"tool_choice": {"type": "allowed_tools", "mode": BIG, "tools": []}},
    "an item's type": {"input": [{"type": BIG}]},
    "an item's role": {"input": [{"role": BIG, "content": "hi"}]},
    "an item's id": {"input": [HI | {"id": BIG}]},
    "an item twice": {"input": [HI | {"id": "i" * 512}] * 2},
    "a reference": {"input": [{"type": "item_reference", "id": "r" * 512}]},
    "a part's type": {"input": [{"role": "user", "content": [{"type": BIG}]}]},
    "a URL": {"input": [{"role": "user", "content": [IMAGE]}]},
    "a scheme": {"input": [{"role": "user", "content": [IMAGE | {"image_url": f"{BIG}://e.com"}]}]},
    "a data URI": {"input": [{"role": "user", "content": [IMAGE | {"image_url": f"data:{BIG};base64,AAAA"}]}]},
    "an open call": {"input": [CALL]},
    "an output without a call": {"input": [{"type": "function_call_output", "call_id": BIG, "output": ""}]},
    "an approval": {"input": [{"type": "mcp_approval_response", "approval_request_id": BIG, "approve": True}]},
    "an approval twice": {
        "input": [{"type": "mcp_approval_response", "approval_request_id": BIG, "approve": True}] * 2
    },
}


async def test_no_field_of_a_request_comes_back_in_an_error() -> None:
    async with secured() as world:
        for what, body in BODIES.items():
            answer = await world.victim.send("POST", "v1/responses", {"input": "hi", **body})
            assert 400 <= answer.status < 500, (what, answer.status)
            assert answer.error["message"]
            assert len(answer.body) < 1_500, (what, len(answer.body))


async def test_no_part_of_a_path_or_a_query_comes_back_in_an_error() -> None:
    async with secured() as world:
        found = await world.victim.create("hi")
        conversation = (await world.victim.send("POST", "v1/conversations", {})).json["id"]
        one, items = {"response_id": found["id"]}, {"conversation_id": conversation}
        asked: list[tuple[str, dict[str, str], dict[str, list[str]]]] = [
            ("v1/responses/{response_id}", {"response_id": BIG}, {}),
            ("v1/responses/{response_id}", {"response_id": f"resp_{BIG}"}, {}),
            ("v1/models/{model}", {"model": BIG}, {}),
            ("v1/conversations/{conversation_id}", {"conversation_id": BIG}, {}),
            ("v1/conversations/{conversation_id}/items/{item_id}", items | {"item_id": BIG}, {}),
            *(
                (route, path, {name: [BIG]})
                for route, path in (
                    ("v1/responses/{response_id}/input_items", one),
                    ("v1/conversations/{conversation_id}/items", items),
                )
                for name in ("limit", "order", "after", "include[]")
            ),
        ]
        for route, path, query in asked:
            answer = await world.victim.send("GET", route, path=path, query=query)
            assert 400 <= answer.status < 500, (route, query.keys())
            assert len(answer.body) < 1_500, (route, query.keys(), len(answer.body))


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({BIG: "no number"}, dict[str, int]),
        ({"kind": BIG}, Annotated[Cat | Dog, Field(discriminator="kind")]),
    ],
    ids=["a key", "a tag"],
)
def test_no_part_of_an_answer_to_a_workflow_comes_back_in_an_error(answer: Any, expected: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode_answer(called("r1", json.dumps(answer)), asked("?", expected))
    assert len(caught.value.message) < 1_500
