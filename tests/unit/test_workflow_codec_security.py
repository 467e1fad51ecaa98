"""A checkpoint that somebody has manipulated: an error, whatever is in it, and nothing of it runs."""

import base64
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from agent_framework import Message, WorkflowCheckpoint
from agent_framework.exceptions import WorkflowCheckpointException
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from hosting.state.checkpoint_codec import decode_checkpoint, encode_checkpoint
from hosting.state.checkpoint_types import CheckpointTypes


class Base:
    def method(self) -> str:
        return "mine"


@dataclass
class Victim(Base):
    number: int = 0


class Model(BaseModel):
    name: str = ""


TYPES = CheckpointTypes([Victim, Model])


def load(value: Any) -> Any:
    document = encode_checkpoint(WorkflowCheckpoint("flow", "graph"), TYPES)
    return decode_checkpoint({**document, "state": {"value": value}}, TYPES).state["value"]


def made(kind: Any, state: Any) -> dict[str, Any]:
    return {"$": "object", "type": kind, "state": state}


VICTIM = f"{__name__}:Victim"
MODEL = f"{__name__}:Model"

_FORBIDDEN = [
    *("os:system", "posix:system", "builtins:eval", "builtins:exec", "builtins:getattr", "builtins:type"),
    *("functools:partial", "subprocess:Popen", "types:FunctionType", "types:CodeType", "copyreg:_reconstructor"),
    *("operator:attrgetter", "importlib:import_module", "pathlib:Path", "threading:Thread", "tempfile:TemporaryFile"),
    # Things that a module of the framework has imported, or that are no data.
    *("agent_framework._workflows._functional:CodeType", "agent_framework._tools:partial"),
    *("agent_framework._workflows._checkpoint:Path", "agent_framework:FunctionTool", "agent_framework:Agent"),
    *("agent_framework._tools:FunctionTool", "agent_framework:WorkflowBuilder", "agent_framework:MCPStdioTool"),
    *("agent_framework_orchestrations:os", "agent_framework_orchestrations.x:y", "", ":", "Victim", "victim"),
    *(f"{__name__}:Base", f"{__name__}:Victim.__init__", f"{__name__}:os.system", None, 5, ["os:system"], {}),
]


@pytest.mark.parametrize("name", _FORBIDDEN, ids=repr)
@pytest.mark.parametrize(
    "form",
    [
        lambda name: {"$": "type", "name": name},
        lambda name: made(name, {}),
        lambda name: made(name, ["echo"]),
        lambda name: {"$": "enum", "type": name, "name": "x"},
        lambda name: {"$": "flags", "type": name, "value": 1},
        lambda name: {"$": "namedtuple", "type": name, "items": ["echo"]},
        lambda name: {"$": "generic", "origin": name, "args": []},
        lambda name: {"$": "union", "args": [{"$": "type", "name": name}, {"$": "any"}]},
        lambda name: {"$": "defaultdict", "factory": {"$": "type", "name": name}, "items": []},
        lambda name: [{"deep": {"$": "tuple", "items": [{"$": "dict", "items": [["k", made(name, {})]]}]}}],
        lambda name: made(VICTIM, {"number": made(name, {})}),
    ],
    ids=["type", "object", "state", "enum", "flags", "namedtuple", "generic", "union", "factory", "nested", "inside"],
)
def test_only_types_of_the_list_are_named(name: Any, form: Callable[[Any], Any]) -> None:
    with pytest.raises(WorkflowCheckpointException):
        load(form(name))


def test_no_module_is_imported_for_a_name() -> None:
    assert "antigravity" not in sys.modules
    for name in ("antigravity:x", "agent_framework.antigravity:x", "agent_framework_orchestrations.antigravity:X"):
        with pytest.raises(WorkflowCheckpointException):
            load(made(name, {}))
    assert "antigravity" not in sys.modules


class _Marks:
    """What a pickle with a payload looks like."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (os.system, (f"touch {self.path}",))


def test_a_pickle_is_never_loaded(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    payload = {"__pickled__": base64.b64encode(pickle.dumps(_Marks(mark))).decode(), "__type__": "builtins:int"}
    assert load([payload, {"inner": payload}]) == [payload, {"inner": payload}]  # it is data as any other
    with pytest.raises(WorkflowCheckpointException):
        load({"$": "pickle", "value": payload["__pickled__"]})
    assert not mark.exists()


_ESCAPE = """
import base64, os, pickle, sys
from agent_framework._workflows._checkpoint_encoding import decode_checkpoint_value

code = compile("import os; os.environ['ESCAPED'] = 'yes'", "x", "exec")
dump = lambda value: pickle.dumps(value, protocol=4)[2:-1].replace(b"\\x94", b"")
data = lambda raw: b"B" + len(raw).to_bytes(4, "little") + raw
name = lambda module, qualname: f"c{module}\\n{qualname}\\n".encode()
made = (
    *map(lambda v: pickle.dumps(v, protocol=2)[2:-1], (
        code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_nlocals, code.co_stacksize, code.co_flags
    )),
    data(code.co_code),
    *map(lambda v: pickle.dumps(v, protocol=2)[2:-1], (code.co_consts, code.co_names, (), "x", "n", "q", 1)),
    data(code.co_linetable),
    data(code.co_exceptiontable),
)
function = name("builtins", "type") + b"(" + name("copyreg", "_reconstructor") + b"tR"
code_object = name("agent_framework._workflows._functional", "CodeType") + b"(" + b"".join(made) + b"tR"
payload = b"\\x80\\x04" + function + b"(" + code_object + b"}tR)R."
stored = {"__pickled__": base64.b64encode(payload).decode(), "__type__": "builtins:NoneType"}
decode_checkpoint_value(stored, allowed_types=frozenset())
print(os.environ.get("ESCAPED"))
"""


def test_why_the_frameworks_own_restricted_decoding_is_not_used() -> None:
    """It allows names only, and calls what they name: types make a function out of code. When this fails, look again."""
    done = subprocess.run([sys.executable, "-c", _ESCAPE], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "yes", done.stderr


# Objects of allowed types


@pytest.mark.parametrize("name", ["__class__", "__dict__", "__init__", "__reduce__", "__del__", "method"])
def test_an_attribute_never_takes_the_place_of_something_special_or_of_a_method(name: str) -> None:
    with pytest.raises(WorkflowCheckpointException):
        load(made(VICTIM, {"number": 1, name: {"$": "type", "name": "int"}}))


@pytest.mark.parametrize("name", ["to_dict", "__class__", "from_dict"])
def test_nor_in_an_object_of_the_framework(name: str) -> None:
    with pytest.raises(WorkflowCheckpointException):
        load(made("agent_framework:Message", {"role": "user", "contents": [], name: {"$": "type", "name": "str"}}))


@pytest.mark.parametrize("name", ["model_dump", "__class__", "__pydantic_fields__"])
def test_nor_in_a_model(name: str) -> None:
    state = {"values": {"name": "n", name: 1}, "pydantic_extra": None, "pydantic_fields_set": None}
    with pytest.raises(WorkflowCheckpointException):
        load(made(MODEL, {**state, "pydantic_private": None}))


@pytest.mark.parametrize(
    "kind", ["int", "str", "list", "dict", "tuple", "datetime", "NoneType", "agent_framework:MessageType"]
)
def test_plain_types_are_not_made_out_of_attributes(kind: str) -> None:
    with pytest.raises(WorkflowCheckpointException):
        load(made(kind, {"value": 1}))


@pytest.mark.parametrize(
    "args",
    [
        ["__import__('os').system('true')"],
        [{"$": "literal", "args": []}, "int"],
        [5],
        [None],
        [{"$": "bytes", "value": "eA=="}],
    ],
    ids=repr,
)
@pytest.mark.parametrize("form", [{"$": "union"}, {"$": "generic", "origin": "list"}], ids=["union", "generic"])
def test_a_text_in_the_place_of_a_type_is_refused_because_it_would_be_evaluated(form: Any, args: Any) -> None:
    with pytest.raises(WorkflowCheckpointException):
        load({**form, "args": args})


@pytest.mark.parametrize(
    "damaged",
    [
        *({"$": "unknown"}, {"$": None}, {"$": ["tuple"]}, {"$": "tuple"}, {"$": "tuple", "items": 5}),
        *({"$": "bytes", "value": "%"}, {"$": "datetime", "value": "now"}, {"$": "decimal", "value": "x"}),
        *({"$": "set", "items": [[]]}, {"$": "dict", "items": [[1]]}, {"$": "dict", "items": {"a": 1}}),
        *({"$": "timedelta", "value": []}, {"$": "deque", "items": []}, {"$": "enum"}, {"$": "object"}),
        *(made(VICTIM, []), made(VICTIM, None), made(MODEL, {}), made(MODEL, {"values": 5})),
        {"$": "enum", "type": "agent_framework:MessageType", "name": "mro"},
    ],
    ids=repr,
)
def test_a_damaged_form_is_an_error_of_one_kind(damaged: Any) -> None:
    with pytest.raises(WorkflowCheckpointException):
        load(damaged)


def test_nesting_without_an_end_is_an_error() -> None:
    deep: Any = {}
    for _ in range(2000):
        deep = {"$": "tuple", "items": [deep]}
    with pytest.raises(WorkflowCheckpointException):
        load(deep)


@pytest.mark.parametrize("document", [None, [], "x", {}, {"workflow_name": "w"}, {"unknown": 1}], ids=repr)
def test_what_is_no_checkpoint_is_an_error(document: Any) -> None:
    with pytest.raises(WorkflowCheckpointException):
        decode_checkpoint(document, TYPES)


_tags = st.sampled_from(
    ["object", "type", "generic", "union", "literal", "enum", "tuple", "dict", "set", "float", "..."]
)
_names = st.sampled_from(
    [VICTIM, MODEL, "agent_framework:Message", "agent_framework:WorkflowEvent", "int", "os:system"]
)
_anything = st.recursive(
    st.none() | st.integers() | st.text(max_size=5) | _names,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.fixed_dictionaries(
            {"$": _tags},
            optional=dict.fromkeys(("items", "args", "state", "value", "origin"), inner)
            | {"type": _names, "name": _names},
        )
    ),
    max_leaves=12,
)


@settings(max_examples=300)
@given(_anything)
def test_whatever_is_stored_is_loaded_or_is_that_error(value: Any) -> None:
    try:
        loaded = load(value)
    except WorkflowCheckpointException:
        return
    assert not callable(loaded) or isinstance(loaded, type) or loaded.__module__ in ("typing", "builtins", "types")


def test_a_restored_message_is_what_it_seems() -> None:
    loaded = load(made("agent_framework:Message", {"role": "user", "contents": [], "author_name": None}))
    assert type(loaded) is Message
