"""Whose word counts for which field of a Response: the server's, the handler's, or the request's."""

from collections.abc import Mapping
from typing import Any, cast

from hosting.responses import CreateRequest, new_envelope
from hosting.responses.builders import whole_usage
from hosting.responses.envelope import failure
from hosting.responses.renderer import AGENT_FAILED
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
        """Take over what the handler has set: the fields that are not the server's, and not just a default."""
        for name, value in response.items():
            if name in _SERVERS or name in _EVENTS or (name in _DEFAULTS and value == _DEFAULTS[name]):
                continue
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
