"""The stored form of a checkpoint: what goes in comes out, what can't come out does not go in."""

import json
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from types import ModuleType
from typing import Any, Literal, NamedTuple
from uuid import UUID

import pytest
from agent_framework import (
    AgentExecutorRequest,
    AgentExecutorResponse,
    AgentResponse,
    AgentSession,
    Content,
    Executor,
    Message,
    WorkflowBuilder,
    WorkflowCheckpoint,
    WorkflowContext,
    WorkflowEvent,
    WorkflowExecutor,
    WorkflowMessage,
    handler,
    register_checkpoint_type,
    response_handler,
)
from agent_framework.exceptions import WorkflowCheckpointException
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, PrivateAttr

from hosting.state.checkpoint_codec import decode_checkpoint, encode_checkpoint
from hosting.state.checkpoint_declared import declared_types
from hosting.state.checkpoint_types import CheckpointTypes


class Mood(Enum):
    GOOD = "good"


class Level(IntEnum):
    LOW = 1


class Word(StrEnum):
    YES = "yes"


class Rights(Flag):
    READ = 1
    WRITE = 2


class Pair(NamedTuple):
    left: int
    right: str = "r"


@dataclass
class Order:
    number: int
    notes: list[str] = field(default_factory=list[str])
    _hidden: int = field(default=7, init=False)


@dataclass(frozen=True, slots=True)
class Frozen:
    order: Order
    mood: Mood = Mood.GOOD


class Model(BaseModel):
    name: str
    tags: set[str] = set()
    _secret: int = PrivateAttr(default=1)


class Plain:
    def __init__(self) -> None:
        self.value = 5


class Lockable:
    """Leaves something out of its state, by the hooks of pickle."""

    def __init__(self) -> None:
        self.kept, self.lock = 1, object()

    def __getstate__(self) -> dict[str, Any]:
        return {"kept": self.kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.kept, self.lock = state["kept"], "new"


OURS = [Mood, Level, Word, Rights, Pair, Order, Frozen, Model, Plain, Lockable]


def round_trip(value: Any, types: list[type] | None = None) -> Any:
    allowed = CheckpointTypes(OURS if types is None else types)
    stored = json.dumps(encode_checkpoint(WorkflowCheckpoint("flow", "graph", state={"value": value}), allowed))
    return decode_checkpoint(json.loads(stored), allowed).state["value"]


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 0, -(2**70), 1.5, "", "text", "\ud800", [], {}, [[1], {"a": [None]}]),
        *((1, (2,)), {1, 2}, frozenset({"a"}), b"\x00\xff", bytearray(b"x"), float("inf")),
        *({1: "int", "1": "text"}, {"$": 1}, {"a": {"$": "tuple", "items": []}}, {(1, 2): 3}),
        *({"__pickled__": "gASVAAA=", "__type__": "os:system"}, {"type": "message"}),
        datetime(2026, 1, 2, 3, 4, 5, 6),
        datetime(2026, 1, 2, tzinfo=UTC),
        datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=-3))),
        *(date(2026, 1, 2), time(1, 2, 3), timedelta(days=-1, microseconds=5)),
        *(Decimal("1.10"), UUID(int=5)),
        *(OrderedDict(b=1, a=2), Counter("aab"), deque([1, 2], maxlen=2)),
        *(Mood.GOOD, Level.LOW, Word.YES, Rights.READ, Rights.READ | Rights.WRITE, Rights(0)),
        *(Pair(1), Order(1, ["a"]), Frozen(Order(2)), Model(name="m", tags={"a"})),
        *(int, Order, type(None), Any, list[int], dict[str, Order], Literal["a", 1], tuple[int, ...], list[int | None]),
    ],
    ids=repr,
)
def test_values_come_back_as_they_were(value: Any) -> None:
    back = round_trip(value)
    assert back == value
    assert type(back) is type(value)


def test_optional_and_unions_come_back_equal() -> None:
    assert round_trip(str | None) == str | None
    assert round_trip(int | list[Order]) == int | list[Order]


def test_not_a_number_comes_back() -> None:
    back = round_trip(float("nan"))
    assert back != back


def test_a_defaultdict_keeps_its_factory() -> None:
    back = round_trip(defaultdict(list, {"a": [1]}))
    back["b"].append(2)
    assert back == {"a": [1], "b": [2]}


def test_fields_that_init_does_not_set_come_back() -> None:
    order = Order(1)
    order._hidden = 9
    assert round_trip(order)._hidden == 9


def test_a_model_keeps_what_is_private_and_what_was_set() -> None:
    model = Model(name="m")
    model._secret = 9
    back = round_trip(model)
    assert (back._secret, back.model_fields_set) == (9, {"name"})


def test_an_object_of_a_registered_class_comes_back_without_its_init() -> None:
    assert round_trip(Plain()).value == 5


def test_hooks_of_an_allowed_class_decide_its_state() -> None:
    back = round_trip(Lockable())
    assert (back.kept, back.lock) == (1, "new")


def test_a_text_of_a_class_of_its_own_becomes_a_text() -> None:
    class Name(str):
        __slots__ = ()

    assert type(round_trip(Name("n"))) is str


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(), inner, max_size=4)
    ),
    max_leaves=15,
)


@given(_json)
def test_any_nest_of_plain_values_comes_back(value: Any) -> None:
    assert round_trip(value, []) == value


# The framework's own objects


def test_messages_and_contents_come_back_without_their_raw_representation() -> None:
    call = Content.from_function_call("c1", "tool", arguments={"a": 1}, raw_representation=object())
    message = Message("assistant", ["text", call], author_name="bob", message_id="m1", raw_representation=object())
    back = round_trip([message])[0]
    assert (back.role, back.text, back.author_name, back.message_id) == ("assistant", "text", "bob", "m1")
    assert back.contents[1].to_dict() == call.to_dict()
    assert (back.raw_representation, back.contents[1].raw_representation) == (None, None)


def test_what_agent_executors_exchange_comes_back() -> None:
    answer = AgentExecutorResponse(
        "bob", AgentResponse(messages=[Message("assistant", ["a"])]), [Message("user", ["q"])]
    )
    back = round_trip([AgentExecutorRequest([Message("user", ["hi"])]), answer])
    assert back[0].messages[0].text == "hi"
    assert (back[1].agent_response.text, back[1].full_conversation[0].text) == ("a", "q")


def test_pending_requests_and_messages_on_their_way_come_back() -> None:
    event = WorkflowEvent.request_info("r1", "desk", Order(5), str | None)
    checkpoint = WorkflowCheckpoint(
        "flow",
        "graph",
        messages={"a": [WorkflowMessage(Order(1), "a", "b", original_request_info_event=event)]},
        state={"_executor_state": {"inner": {"sub_workflow_checkpoint": WorkflowCheckpoint("sub", "g")}}},
        pending_request_info_events={"r1": event},
    )
    types = CheckpointTypes([Order])
    back = decode_checkpoint(json.loads(json.dumps(encode_checkpoint(checkpoint, types))), types)
    pending, message = back.pending_request_info_events["r1"], back.messages["a"][0]
    assert (pending.request_id, pending.data, pending.response_type) == ("r1", Order(5), str | None)
    assert (message.data, message.type, message.target_id) == (Order(1), WorkflowMessage(0, "").type, "b")
    assert message.original_request_info_event is not None
    assert back.state["_executor_state"]["inner"]["sub_workflow_checkpoint"].workflow_name == "sub"


def test_a_session_object_comes_back() -> None:
    session = AgentSession(session_id="s")
    session.state["n"] = [1]
    back = round_trip(session)
    assert (back.session_id, back.state) == ("s", {"n": [1]})


# Versions of the app


def test_fields_that_a_dataclass_has_got_since_are_at_their_defaults() -> None:
    allowed = CheckpointTypes([Order])
    document = encode_checkpoint(WorkflowCheckpoint("f", "g", state={"o": Order(3)}), allowed)
    state = document["state"]["o"]["state"]
    del state["notes"]
    assert decode_checkpoint(document, allowed).state["o"].notes == []
    del state["number"]
    with pytest.raises(WorkflowCheckpointException):
        decode_checkpoint(document, allowed)


def test_fields_that_a_model_has_got_since_are_at_their_defaults() -> None:
    allowed = CheckpointTypes([Model])
    document = encode_checkpoint(WorkflowCheckpoint("f", "g", state={"o": Model(name="m")}), allowed)
    values = document["state"]["o"]["state"]["values"]
    del values["tags"]
    assert decode_checkpoint(document, allowed).state["o"].tags == set()
    del values["name"]
    with pytest.raises(WorkflowCheckpointException):
        decode_checkpoint(document, allowed)


def test_fields_that_a_class_has_lost_do_no_harm() -> None:
    allowed = CheckpointTypes(OURS)
    document = encode_checkpoint(WorkflowCheckpoint("f", "g", state={"o": Frozen(Order(1))}), allowed)
    document["state"]["o"]["state"]["old"] = 1
    assert decode_checkpoint(document, allowed).state["o"] == Frozen(Order(1))


# What is refused when it is written


class Reducing:
    def __reduce__(self) -> Any:
        return (print, ("called",))


class Derived(Order):
    pass


def _endless() -> list[Any]:
    endless: list[Any] = []
    endless.append(endless)
    return endless


@pytest.mark.parametrize(
    "value",
    [
        print,
        len,
        lambda: 0,
        object(),
        ValueError("x"),
        1j,
        range(3),
        Reducing(),
        Derived(1),
        json,
        _endless(),
        Reducing,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_could_not_come_back_is_refused_with_its_path(value: Any) -> None:
    types: list[type] = [*OURS, type(value)] if isinstance(value, Reducing) else OURS
    with pytest.raises(WorkflowCheckpointException, match=r"checkpoint\.state"):
        round_trip({"deep": [value]}, types)


def test_a_type_is_allowed_once_it_is_registered_with_the_framework() -> None:
    class Registered:
        pass

    with pytest.raises(WorkflowCheckpointException, match="register_checkpoint_type"):
        round_trip(Registered(), [])
    register_checkpoint_type(Late)
    assert round_trip(Late(3), []) == Late(3)


@dataclass
class Late:
    number: int


def test_data_of_the_orchestrations_package_is_allowed_and_nothing_else_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("agent_framework_orchestrations._fake")
    source = "from dataclasses import dataclass\nfrom pathlib import Path\n"
    source += "@dataclass\nclass Spoken:\n    text: str\nclass Actor:\n    pass\n"
    exec(source, vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert round_trip(module.Spoken("hi"), []).text == "hi"
    with pytest.raises(WorkflowCheckpointException, match="Actor is not allowed"):
        round_trip(module.Actor(), [])
    for name in ("Path", "Actor", "dataclass", "Spoken.text"):
        with pytest.raises(WorkflowCheckpointException):
            CheckpointTypes().named(f"{module.__name__}:{name}")


# What a workflow declares


@dataclass
class Inner:
    mood: Mood


@dataclass
class Asked:
    inner: list[Inner]


class Reply(BaseModel):
    pair: Pair


class Desk(Executor):
    @handler
    async def go(self, order: Order, ctx: WorkflowContext[Frozen, str]) -> None: ...

    @response_handler
    async def told(self, asked: Asked, reply: Reply | None, ctx: WorkflowContext[int, str]) -> None: ...


def test_types_of_handlers_and_of_their_fields_are_declared() -> None:
    flow = WorkflowBuilder(start_executor=Desk(id="desk"), name="inner").build()
    assert declared_types(flow) == {Order, Frozen, Asked, Inner, Reply, Mood, Pair}


def test_those_of_a_workflow_inside_a_workflow_too() -> None:
    inner = WorkflowBuilder(start_executor=Desk(id="desk"), name="inner").build()
    outer = WorkflowBuilder(start_executor=WorkflowExecutor(inner, id="sub"), name="outer").build()
    assert {Asked, Inner, Reply} <= declared_types(outer)
