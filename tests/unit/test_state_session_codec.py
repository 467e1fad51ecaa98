"""A session as JSON: what comes back as it was, and what is refused when it is written."""

import json
import uuid
import warnings
from collections import OrderedDict
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import pytest
from agent_framework import Agent, AgentSession, Content, InMemoryHistoryProvider, Message, register_state_type
from pydantic import BaseModel

from demo_agent import create_demo_chat_client
from hosting.state._session_codec import decode_session, encode_session


class Point:
    """A state type that is registered, as an app registers one."""

    def __init__(self, x: int, note: Any = None) -> None:
        self.x, self.note = x, note

    def to_dict(self) -> dict[str, Any]:
        return {"x": self.x, "note": self.note}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Point":
        return cls(data["x"], data["note"])


register_state_type(Point, type_id="hosting.tests.point")


class Lossy:
    """A registered type whose codec forgets what it was."""


register_state_type(Lossy, type_id="hosting.tests.lossy", encoder=lambda _: {}, decoder=lambda _: None)  # type: ignore[arg-type]


class Loose:
    """An object with to_dict() that nobody registered."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def to_dict(self) -> Any:
        return self.data


class Model(BaseModel):
    n: int = 1


class Colour(StrEnum):
    RED = "red"


def session_of(**state: Any) -> AgentSession:
    session = AgentSession(session_id="s1")
    session.state = state
    return session


def round_trip(session: AgentSession) -> AgentSession:
    return decode_session(json.loads(json.dumps(encode_session(session), allow_nan=False)))


def state_after(**state: Any) -> dict[str, Any]:
    return round_trip(session_of(**state)).state


def test_ids_come_back() -> None:
    for service_id in (None, "thread_1", {"conversation": "c", "type": "message"}):
        back = round_trip(AgentSession(session_id="s1", service_session_id=service_id))
        assert (back.session_id, back.service_session_id) == ("s1", service_id)


def test_plain_state_comes_back() -> None:
    state = {"a": [1, 2.5, True, None, "é\ud800"], "b": {"c": {"d": []}}, "": {"": ""}, "big": 2**80}
    assert state_after(**state) == state


async def test_the_history_of_an_agent_comes_back_and_goes_on() -> None:
    agent = Agent(client=create_demo_chat_client(), context_providers=[InMemoryHistoryProvider()])
    session = agent.create_session(session_id="s1")
    await agent.run("first", session=session)
    restored = round_trip(session)
    messages = restored.state["in_memory"]["messages"]
    assert [(type(message), message.role, message.text) for message in messages] == [
        (Message, "user", "first"),
        (Message, "assistant", "Echo: first"),
    ]
    assert (await agent.run("[[history]]", session=restored)).text == "history users=2 first=first"


def test_rich_messages_come_back() -> None:
    contents = [
        Content.from_text("hi", additional_properties={"type": "message"}),
        Content.from_function_call("c", "f", arguments={"type": "message"}),
        Content.from_text_reasoning(text="t", protected_data="p"),
    ]
    message = Message("assistant", contents, message_id="m", additional_properties={"x": {"type": "message"}})
    (back,) = state_after(messages=[message])["messages"]
    assert back.to_dict() == message.to_dict()


@pytest.mark.parametrize(
    "value",
    [
        {"type": "message"},
        {"type": "message", "x": 1},
        {"type": "message", "role": "user", "contents": ["looks like one"]},
        {"type": "message", "role": 7, "contents": 7},
        {"type": {"type": "message"}},
        {"~type": "message", "~~type": 1, "~other": 2, "type": "hosting.tests.point"},
        [{"a": [{"type": "message"}]}],
        {"type": "session", "nested": {"type": "text", "text": "t"}},
    ],
)
def test_dicts_that_look_like_objects_stay_what_they_are(value: Any) -> None:
    assert state_after(value=value) == {"value": value}
    assert state_after(type="message", value=value) == {"type": "message", "value": value}


def test_a_registered_object_comes_back() -> None:
    back = state_after(point=Point(3, note={"type": "message", "~type": 1}))["point"]
    assert (type(back), back.x, back.note) == (Point, 3, {"type": "message", "~type": 1})


def test_an_object_with_to_dict_comes_back_as_a_dict() -> None:
    inner = {"type": "message", "id": "msg_1", "at": [Point(1)]}
    back = state_after(loose=Loose(inner))["loose"]
    assert (back["type"], back["id"], back["at"][0].x) == ("message", "msg_1", 1)


def test_a_content_comes_back_as_a_dict() -> None:
    assert state_after(content=Content.from_text("hi"))["content"]["text"] == "hi"


def test_tuples_and_other_mappings_come_back_as_lists_and_dicts() -> None:
    state = {"t": (1, (2,)), "m": MappingProxyType({"type": "message"}), "o": OrderedDict(type="message", a=Point(1))}
    back = state_after(**state)
    assert (back["t"], back["m"], back["o"]["type"], back["o"]["a"].x) == ([1, [2]], {"type": "message"}, "message", 1)


def test_keys_become_strings() -> None:
    assert state_after(by_number={1: "a", None: "b"}) == {"by_number": {"1": "a", "None": "b"}}


def test_two_keys_that_become_one_are_refused() -> None:
    with pytest.raises(TypeError, match=r"state\.x has two keys that are '1'"):
        encode_session(session_of(x={1: "a", "1": "b"}))


@pytest.mark.parametrize(
    "value",
    [
        datetime(2026, 1, 1, tzinfo=UTC),
        uuid.UUID(int=1),
        {1, 2},
        b"bytes",
        object(),
        float("nan"),
        float("inf"),
        Colour.RED,
        lambda: None,
        Model(),
        Loose([1]),
        Loose({"x": {1}}),
        Point(1, note=object()),
        OrderedDict(x={1}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_can_not_be_restored_is_refused_with_its_path(value: Any) -> None:
    with pytest.raises(TypeError, match=r"session state\.outer\.list\[1\]"):
        encode_session(session_of(outer={"list": [0, value]}))


def test_a_refused_model_says_what_to_do() -> None:
    with pytest.raises(TypeError, match="register_state_type"):
        encode_session(session_of(model=Model()))


def test_warnings_of_an_object_itself_are_no_reason_to_refuse_it() -> None:
    class Old(Loose):
        def to_dict(self) -> Any:
            warnings.warn("old", DeprecationWarning, stacklevel=2)
            return super().to_dict()

    with pytest.warns(DeprecationWarning, match="old"):
        assert state_after(old=Old({"n": 1})) == {"old": {"n": 1}}


def test_a_codec_that_does_not_restore_its_type_is_refused() -> None:
    with pytest.raises(TypeError, match=r"session state\.x is of type Lossy"):
        encode_session(session_of(x=Lossy()))


def test_a_message_with_what_is_no_json_in_it_is_refused() -> None:
    message = Message("assistant", [Content.from_function_call("c", "f", arguments={("a", "b"): 1})])  # type: ignore[dict-item]
    with pytest.raises(TypeError, match=r"session state\.messages\[0\]\.contents\[0\]\.arguments"):
        encode_session(session_of(messages=[message]))


def test_a_service_id_that_is_no_json_is_refused() -> None:
    with pytest.raises(TypeError, match=r"session service_session_id\.x"):
        encode_session(AgentSession(service_session_id={"x": object()}))


def test_a_state_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.extend([loop, loop])
    with pytest.raises(TypeError, match="contains itself"):
        encode_session(session_of(loop=loop))
    point = Point(1)
    point.note = point
    with pytest.raises(TypeError, match=r"session state\.point"):
        encode_session(session_of(point=point))


def test_a_subclass_of_session_is_refused() -> None:
    class Mine(AgentSession):
        pass

    with pytest.raises(TypeError, match="Mine"):
        encode_session(Mine())


def test_encoding_changes_nothing_in_the_session_and_shares_nothing_with_it() -> None:
    inner = {"type": "message", "list": [1]}
    session = session_of(value=inner)
    document = encode_session(session)
    document["state"]["value"]["list"].append(2)
    assert session.state == {"value": {"type": "message", "list": [1]}}
    assert session.state["value"] is inner


def test_decoding_changes_nothing_in_the_document_and_shares_nothing_with_it() -> None:
    document = encode_session(session_of(value={"type": "message", "list": [1]}))
    before = json.dumps(document)
    decode_session(document).state["value"]["list"].append(2)
    assert json.dumps(document) == before


def test_the_framework_reads_what_needs_no_quoting() -> None:
    document = encode_session(session_of(messages=[Message("user", ["hi"])], plain=1))
    restored = AgentSession.from_dict(document)
    assert (restored.state["messages"][0].text, restored.state["plain"]) == ("hi", 1)


@pytest.mark.parametrize(
    "document", [{}, {"session_id": "s"}, {"session_id": "", "state": {}}, {"session_id": "s", "state": 1}]
)
def test_other_documents_are_no_sessions(document: Any) -> None:
    with pytest.raises(ValueError, match="not a stored session"):
        decode_session(document)
