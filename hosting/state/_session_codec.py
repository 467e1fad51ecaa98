"""A session as JSON and back. Whatever can't come back is refused when it is written, never when it is read.

It is agent-framework's own form, `AgentSession.to_dict()`, with one addition. The framework marks an object in the state by
the key `type` in its JSON, and takes every dict with a known `type` for such an object when it reads, also a dict that the
app itself put there: `{"type": "message", ...}` comes back as a Message, or makes the session unreadable. So the key `type` of
a plain dict is stored as `~type` (and `~type` as `~~type`, and so on), and what the framework sees is its own marks only.
"""

import math
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from agent_framework import AgentSession

__all__ = ["decode_session", "encode_session"]

_QUOTE = "~"
_MARK = "type"
_MAX_DEPTH = 100
"""Deepest nesting of a state. JSON readers give up at some depth, and a state that contains itself has no end."""


def encode_session(session: "AgentSession") -> dict[str, Any]:
    """The session as a JSON object: type, session_id, service_session_id, state.

    Messages and objects of types given to `agent_framework.register_state_type` come back as what they are, any other
    object that has `to_dict()` as a dict, a tuple as a list, and a key of a dict as a string.

    Raises TypeError, with the path of the value, for what JSON can't hold (dates, sets, bytes, NaN, ...), for a pydantic
    model of an unregistered type (only the process that wrote it could read it), for two keys that would become one, and
    for subclasses of AgentSession.
    """
    from agent_framework import AgentSession

    if type(session) is not AgentSession:
        raise TypeError(f"only an AgentSession itself can be stored and restored, not {type(session).__name__}")
    service_id: object = session.service_session_id
    return {
        "type": "session",
        "session_id": session.session_id,
        "service_session_id": service_id if service_id is None else _encode(service_id, "service_session_id", 0),
        "state": _encode_mapping(cast("dict[object, object]", session.state), "state", 0),
    }


def decode_session(document: Mapping[str, Any]) -> "AgentSession":
    """The session that `encode_session` wrote. Raises ValueError for a document that no session was written to.

    An object whose type is not registered in this process comes back as a dict.
    """
    from agent_framework import AgentSession

    session_id, state = document.get("session_id"), document.get("state")
    if not isinstance(session_id, str) or not session_id or not isinstance(state, Mapping):
        raise ValueError("not a stored session: session_id or state is missing")
    session = AgentSession.from_dict(dict(document))
    session.state = _unquote(session.state)
    session.service_session_id = _unquote(session.service_session_id)
    return session


def _encode(value: object, path: str, depth: int) -> Any:
    kind = type(value)
    if value is None or kind is str or kind is int or kind is bool:
        return value
    if kind is float:
        if not math.isfinite(cast("float", value)):
            raise TypeError(f"session {path} is {value}, which JSON has no number for")
        return value
    if depth > _MAX_DEPTH:
        raise TypeError(f"session {path[:200]}... is nested more than {_MAX_DEPTH} levels deep, or contains itself")
    if kind is list or kind is tuple:
        return _encode_items(cast("list[object]", value), path, depth)
    if kind is dict:
        return _encode_mapping(cast("dict[object, object]", value), path, depth)
    return _encode_object(value, path, depth)


def _encode_items(values: list[object] | tuple[object, ...], path: str, depth: int) -> list[Any]:
    return [_encode(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(values)]


def _encode_mapping(values: Mapping[object, object], path: str, depth: int) -> dict[str, Any]:
    encoded: dict[str, Any] = {}
    for key, item in values.items():
        name = str(key)
        stored = _QUOTE + name if name.lstrip(_QUOTE) == _MARK else name
        if stored in encoded:
            raise TypeError(f"session {path} has two keys that are {name!r} as text")
        encoded[stored] = _encode(item, f"{path}.{name}", depth + 1)
    return encoded


def _encode_object(value: object, path: str, depth: int) -> Any:
    """Left to the framework if it would read it back as this type; if not, made a plain list or dict."""
    from agent_framework import AgentSession, Message

    if isinstance(value, Message):
        return _checked(value.to_dict(), path, depth)
    probe = AgentSession(session_id="probe")
    probe.state = {"value": value}
    try:
        with warnings.catch_warnings():
            # The framework warns of a value it can't encode (and leaves it in), and of a model it registers on the fly.
            warnings.filterwarnings("error", "AgentSession state value", RuntimeWarning)
            warnings.filterwarnings("error", "Implicit registration", DeprecationWarning)
            encoded = probe.to_dict()["state"]["value"]
    except Exception as error:  # to_dict() of anything
        raise TypeError(_refusal(value, path)) from error
    if _restores(encoded, type(value)):
        return _checked(encoded, path, depth)
    to_dict: Any = getattr(value, "to_dict", None)
    plain: object = to_dict() if callable(to_dict) else value
    if isinstance(plain, Mapping):
        return _encode_mapping(cast("Mapping[object, object]", plain), path, depth)
    if isinstance(plain, list | tuple):
        return _encode_items(cast("list[object]", plain), path, depth)
    raise TypeError(_refusal(value, path))


def _refusal(value: object, path: str) -> str:
    name = type(value).__name__
    return (
        f"session {path} is of type {name}, which can't be restored; agent_framework.register_state_type() adds types"
    )


def _restores(encoded: Any, kind: type) -> bool:
    from agent_framework import AgentSession

    try:
        restored = AgentSession.from_dict({"session_id": "probe", "state": {"value": encoded}}).state["value"]
    except ValueError:  # a dict that only looks like a registered type
        return False
    return isinstance(restored, kind)


def _checked(encoded: object, path: str, depth: int) -> Any:
    """`encoded`, made by an encoder that is not ours, when JSON can hold it."""
    kind = type(encoded)
    if kind is dict:
        for key, item in cast("dict[object, object]", encoded).items():
            if not isinstance(key, str):
                raise TypeError(f"session {path} has the key {key!r}, JSON keys are strings")
            _checked(item, f"{path}.{key}", depth + 1)
    elif kind is list:
        for index, item in enumerate(cast("list[object]", encoded)):
            _checked(item, f"{path}[{index}]", depth + 1)
    elif encoded is not None and kind not in (str, int, float, bool):
        raise TypeError(f"session {path} is of type {kind.__name__}, which JSON can't hold")
    if kind is float or depth > _MAX_DEPTH:
        return _encode(encoded, path, depth)  # refuses NaN, and what is nested too deep
    return encoded


def _unquote(value: Any) -> Any:
    """Plain dicts and lists get their own keys back; what the framework restored is complete."""
    if type(value) is list:
        return [_unquote(item) for item in cast("list[Any]", value)]
    if type(value) is not dict:
        return value
    return {
        key[1:] if key.startswith(_QUOTE) and key.lstrip(_QUOTE) == _MARK else key: _unquote(item)
        for key, item in cast("dict[str, Any]", value).items()
    }
