"""Storage that somebody else can write, and content that looks like what we write: nothing that is read back runs.

The codec itself is attacked in tests/unit/test_workflow_codec_security.py. Here its documents are changed where they lie, and
the server is asked to go on from them.
"""

import base64
import json
import os
import pickle
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from hosting.telemetry import allow_content, content_allowed
from tests.security.world import Secured, secured
from tests.unit.workflow_desk import hosted as hosted_desk

type Json = dict[str, Any]


class _Bomb:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return (os.mkdir, (str(self.mark),))


def payloads(mark: Path) -> dict[str, Any]:
    """Forms that make some reader run something."""
    pickled = base64.b64encode(pickle.dumps(_Bomb(mark))).decode()
    call = {"$": "object", "type": "os:mkdir", "state": [str(mark)]}
    return {
        "a pickle as agent-framework stores one": {"__pickled__": pickled, "__type__": "builtins:int"},
        "the same with its older marks": {"__af_pickled_value__": True, "value": pickled, "__pickle__": pickled},
        "a pickle under our mark": {"$": "pickle", "value": pickled},
        "an object of a function": call,
        "an object inside objects": {"$": "tuple", "items": [{"$": "dict", "items": [["k", call]]}]},
        "a type that is not loaded": {"$": "type", "name": "antigravity:x"},
        "a text that would be evaluated": {"$": "union", "args": [f"__import__('os').mkdir({str(mark)!r})"]},
        "jsonpickle": {"py/reduce": [{"py/function": "os.mkdir"}, {"py/tuple": [str(mark)]}]},
        "YAML in JSON": "!!python/object/apply:os.mkdir [x]",
        "a module and a class": {"module": "os", "class": "mkdir", "args": [str(mark)], "__class__": "os.mkdir"},
        "agent-framework's mark of a type": {"type": "tests.security.test_checkpoints._Bomb", "mark": str(mark)},
    }


_NAMES = list(payloads(Path("x")))


@pytest.fixture(autouse=True)
def as_in_production() -> Any:
    before = content_allowed()
    allow_content(False)
    yield
    allow_content(before)


@pytest.fixture
async def desk() -> AsyncGenerator[Secured]:
    async with secured(hosted=hosted_desk()) as world:
        yield world


@pytest.fixture
async def agent() -> AsyncGenerator[Secured]:
    async with secured() as world:
        yield world


def documents(world: Secured, kind: str, name: str) -> list[tuple[str, str, Json]]:
    """Partition, row and value of each document `name` in rows of a kind."""
    found: list[tuple[str, str, Json]] = []
    for (partition, row), columns in world.tables.rows().items():
        chunks = [columns[f"d_{name}_{n}"] for n in range(10) if f"d_{name}_{n}" in columns]
        if row.startswith(f"{kind}.") and chunks:
            found.append((partition, row, json.loads("".join(chunks))))
    return found


def overwrite(world: Secured, partition: str, row: str, name: str, value: Any) -> None:
    """As somebody does who has the right to write to the table, and leaves the rest of the row as it is."""
    held = world.tables._partitions[partition]  # pyright: ignore[reportPrivateUsage]
    entity = held.rows[row]
    kept = {column: text for column, text in entity.properties.items() if not column.startswith(f"d_{name}_")}
    held.rows[row] = entity._replace(properties={**kept, f"d_{name}_0": json.dumps(value)})


def spots(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where in a document something else can be put: every member of it, some levels deep."""
    found: list[tuple[Any, ...]] = [path]
    if len(path) < 4 and isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            found += spots(inner, (*path, key))
    return found


def with_at(value: Any, path: tuple[Any, ...], given: Any) -> Any:
    """A copy with something else at a path."""
    if not path:
        return given
    copy = list(value) if isinstance(value, list) else dict(value)
    copy[path[0]] = with_at(value[path[0]], path[1:], given)
    return copy


async def test_a_changed_checkpoint_runs_nothing_wherever_it_is_changed(desk: Secured, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    first = await desk.victim.create("hello")
    ((partition, row, document),) = documents(desk, "checkpoint", "checkpoint")
    tried = 0
    for path in spots(document):
        for what, payload in payloads(mark).items():
            overwrite(desk, partition, row, "checkpoint", with_at(document, path, payload))
            body = {"input": "again", "previous_response_id": first["id"], "store": False}
            answer = await desk.victim.send("POST", "v1/responses", body)
            tried += 1
            assert answer.status in (200, 400), (path, what, answer.body)
            assert answer.status == 400 or answer.json["status"] in ("completed", "failed"), (path, what)
            assert not mark.exists(), (path, what)
            assert str(mark) not in answer.text, (path, what)
    assert tried > 100
    assert "antigravity" not in sys.modules
    overwrite(desk, partition, row, "checkpoint", document)
    again = await desk.victim.create("again", previous_response_id=first["id"])
    assert again["status"] == "completed"  # it was the changes that were refused


async def test_a_changed_session_runs_nothing_wherever_it_is_changed(agent: Secured, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    first = await agent.victim.create("use guarded tea")  # an approval that is waited for is kept in the session
    ((partition, row, document),) = documents(agent, "session", "session")
    for path in spots(document):
        for what, payload in payloads(mark).items():
            overwrite(agent, partition, row, "session", with_at(document, path, payload))
            body = {"input": "again", "previous_response_id": first["id"], "store": False}
            answer = await agent.victim.send("POST", "v1/responses", body)
            assert answer.status in (200, 400, 500), (path, what, answer.body)
            assert not mark.exists(), (path, what)
            assert str(mark) not in answer.text, (path, what)


async def test_changed_messages_of_the_past_run_nothing(agent: Secured, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    first = await agent.victim.create("hello")
    ((partition, row, document),) = documents(agent, "turn", "messages")
    for path in spots(document):
        for what, payload in payloads(mark).items():
            overwrite(agent, partition, row, "messages", with_at(document, path, payload))
            body = {"input": "again", "previous_response_id": first["id"], "store": False}
            answer = await agent.victim.send("POST", "v1/responses", body)
            assert answer.status in (200, 400, 500), (path, what, answer.body)
            assert not mark.exists(), (path, what)
            assert str(mark) not in answer.text, (path, what)


@pytest.mark.parametrize("what", _NAMES)
async def test_the_same_said_by_a_client_is_content_and_nothing_else(desk: Secured, tmp_path: Path, what: str) -> None:
    mark = tmp_path / "mark"
    payload = json.dumps(payloads(mark)[what])
    said = await desk.victim.create(f"say {payload}")
    assert payload in said["output"][0]["content"][0]["text"]
    asked = await desk.victim.create("name", previous_response_id=said["id"])
    call = next(item for item in asked["output"] if item["type"] == "function_call")
    answer = {"type": "function_call_output", "call_id": call["call_id"], "output": payload}
    done = await desk.victim.create([answer], previous_response_id=asked["id"])
    assert done["status"] == "completed"
    assert f"hello {payload}" in done["output"][0]["content"][0]["text"]
    assert not mark.exists()


@pytest.mark.parametrize("what", _NAMES)
async def test_nor_is_it_an_answer_of_another_type_than_was_asked_for(desk: Secured, tmp_path: Path, what: str) -> None:
    mark = tmp_path / "mark"
    asked = await desk.victim.create("ask")  # a yes or a no
    call = next(item for item in asked["output"] if item["type"] == "function_call")
    output = json.dumps(payloads(mark)[what])
    answer = {"type": "function_call_output", "call_id": call["call_id"], "output": output}
    body = {"input": [answer], "previous_response_id": asked["id"]}
    assert (await desk.victim.send("POST", "v1/responses", body)).status == 400
    assert not mark.exists()


@pytest.mark.parametrize(
    "at", [(), ("body",), ("body", "tools"), ("body", "metadata"), ("model",), ("facts",)], ids=str
)
async def test_the_changed_input_of_a_background_run_runs_nothing(
    agent: Secured, tmp_path: Path, at: tuple[str, ...]
) -> None:
    """Whoever changes it has the run fail, or do what its words say."""
    mark = tmp_path / "mark"
    agent.world.engine.engine.driver = _Nobody()  # accepted, and run by another process later
    made = [await agent.victim.create("hello", background=True) for _ in _NAMES]
    stored = documents(agent, "task-input", "input")
    assert len(stored) == len(made)
    for (partition, row, document), payload in zip(stored, payloads(mark).values(), strict=True):
        overwrite(agent, partition, row, "input", with_at(document, at, payload))
    await agent.world.kill()
    await agent.world.restart()
    for _ in range(20):
        await agent.world.advance(60)
    for response in made:
        where = {"response_id": response["id"]}
        answer = await agent.victim.send("GET", "v1/responses/{response_id}", path=where)
        assert answer.status == 200
        assert answer.json["status"] in ("completed", "failed", "queued", "in_progress")
        assert str(mark) not in str(answer.json["error"])
    assert not mark.exists()


class _Nobody:
    async def ensure(self, key: Any, activation: int, generation: int) -> None:
        pass
