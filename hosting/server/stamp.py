"""Whose word counts for which field of a Response: the server's, the handler's, or the request's."""

from collections.abc import Mapping
from typing import Any, cast

from hosting.responses import CreateRequest, new_envelope
from hosting.responses.builders import whole_usage
from hosting.responses.envelope import AGENT_FAILED, failure
from hosting.server.event_checks import HandlerFault, Json

__all__ = ["Stamp"]

# What the server knows better than any handler.
_SERVERS = frozenset(
    {"id", "object", "created_at", "background", "store", "previous_response_id", "conversation", "response_id"}
)
# What follows from the events, not from the snapshots in them.
_EVENTS = frozenset({"status", "output", "error", "incomplete_details", "completed_at", "usage"})
# What a builder that was not given the request fills in. Such a value says nothing.
_DEFAULTS = new_envelope(CreateRequest(), response_id="", model="", created_at=0)
# JSON types of the fields that a handler may set. SDKs parse an answer with anything else not at all.
_TEXT: tuple[type, ...] = (str, type(None))
_NUMBER: tuple[type, ...] = (int, float, type(None))
_OBJECT: tuple[type, ...] = (dict, type(None))
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("model", "prompt_cache_key", "safety_identifier", "service_tier", "truncation", "user"), _TEXT),
    **dict.fromkeys(("frequency_penalty", "presence_penalty", "temperature", "top_p"), _NUMBER),
    **dict.fromkeys(("max_output_tokens", "max_tool_calls", "top_logprobs"), (int, type(None))),
    **dict.fromkeys(("metadata", "prompt", "reasoning", "text"), _OBJECT),
    "instructions": (str, list, type(None)),
    "parallel_tool_calls": (bool,),
    "tool_choice": (str, dict),
    "tools": (list,),
}


class Stamp:
    """The fields of a response apart from its output. `fields` always has all that the API requires."""

    def __init__(self, base: Mapping[str, Any], persisted: Mapping[str, Any] | None = None) -> None:
        """`base` is the server's envelope; `persisted` the stored response that a recovered run follows."""
        self.fields: Json = {name: value for name, value in base.items() if name != "output"}
        if persisted is not None:
            self.fields |= {name: value for name, value in persisted.items() if name not in _SERVERS | _EVENTS}

    def check_id(self, response: Mapping[str, Any]) -> None:
        """Raises HandlerFault when a handler speaks of another response."""
        if response.get("id", self.fields["id"]) != self.fields["id"]:
            raise HandlerFault("the event is of another response: its id is not context.response_id")

    def merge(self, response: Mapping[str, Any]) -> None:
        """Take over what the handler has set: the fields that are not the server's, and not just a default.

        Raises HandlerFault for a field that has a type which it has nowhere.
        """
        for name, value in response.items():
            if name in _SERVERS or name in _EVENTS or (name in _DEFAULTS and value == _DEFAULTS[name]):
                continue
            kinds = _KINDS.get(name)
            if kinds is not None and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
                raise HandlerFault(f"the response's {name} can't be a {type(value).__name__}")
            if name == "metadata":
                self.fields[name] = {**_mapping(self.fields.get(name)), **_mapping(value)}
            else:
                self.fields[name] = value

    def take_usage(self, response: Mapping[str, Any]) -> None:
        """The counts of a terminal event."""
        if usage := _mapping(response.get("usage")):
            self.fields["usage"] = whole_usage(usage)

    @staticmethod
    def error_of(response: Mapping[str, Any]) -> Json:
        """The error of a response that its handler failed: public by intent, so code and message stay as they are."""
        error = _mapping(response.get("error"))
        code = _text(error.get("code")) or "server_error"
        return failure(code, _text(error.get("message")) or AGENT_FAILED) | {"code": code}


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
