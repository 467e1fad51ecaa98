"""Log probabilities of tokens, as agent-framework's OpenAI clients hand them over and as the wire has them."""

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any, cast

from hosting.responses.well_formed import well_formed

__all__ = ["has_logprobs", "logprobs_property", "logprobs_to_wire"]

type Json = dict[str, Any]


def has_logprobs(properties: Mapping[str, Any]) -> bool:
    """Whether additional_properties hold any; cheap, for every piece of a stream."""
    return bool(_found(properties))


def logprobs_to_wire(properties: object) -> list[Json]:
    """Those in the additional_properties of a text or a message: `[{"token", "bytes", "logprob", "top_logprobs"}]`.

    A Responses client keeps a list at each text, a chat-completions client an object with `content` at the message.
    What has no token or no finite number is left out.
    """
    if not isinstance(properties, Mapping):
        return []
    found: object = _found(cast("Mapping[str, Any]", properties))
    if not isinstance(found, list):
        found = _field(found, "content")
    return _entries(cast("object", found), top=True)


def logprobs_property(logprobs: Iterable[Json]) -> Json:
    """additional_properties for what a client sends back, written as the framework reads them."""
    listed = list(logprobs)
    return {"openai": {"logprobs": listed}, "logprobs": listed} if listed else {}


def _found(properties: Mapping[str, Any]) -> Any:
    owned = properties.get("openai")
    found = cast("Json", owned).get("logprobs") if isinstance(owned, dict) else None
    return found or properties.get("logprobs")


def _entries(value: object, *, top: bool = False) -> list[Json]:
    if not isinstance(value, (list, tuple)):
        return []
    made: list[Json] = []
    for entry in cast("Iterable[object]", value):
        token, number = _field(entry, "token"), _field(entry, "logprob")
        if not isinstance(token, str) or isinstance(number, bool) or not isinstance(number, (int, float)):
            continue
        if not isfinite(number):
            continue
        token = well_formed(token)
        wire: Json = {"token": token, "bytes": _bytes(_field(entry, "bytes"), token), "logprob": float(number)}
        made.append(wire | {"top_logprobs": _entries(_field(entry, "top_logprobs"))} if top else wire)
    return made


def _bytes(value: object, token: str) -> list[int]:
    if isinstance(value, list) and all(type(byte) is int for byte in cast("list[object]", value)):
        return cast("list[int]", value)
    return list(token.encode())


def _field(entry: object, name: str) -> Any:
    """Of a dict or of an object of an SDK."""
    return cast("Json", entry).get(name) if isinstance(entry, dict) else getattr(entry, name, None)
