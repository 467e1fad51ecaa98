"""Who sent a request, and what of it a handler may know."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from hosting.identity import Caller, Identity
from hosting.server.http import Request
from hosting.settings import Settings
from hosting.storage import keys

__all__ = ["Callers", "RequestFacts"]

_CALL_ID = "x-agent-foundry-call-id"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFacts:
    """Of the HTTP request of a turn: the same when the turn is run again in another process."""

    client_headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """The `x-client-*` headers, names in lower case."""
    query_parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    user: str | None = None
    tenant: str | None = None
    call_id: str | None = None

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "RequestFacts":
        """From JSON, which another version of this code may have written: what this one does not know is left out."""
        return cls(**{name: document[name] for name in cls.__slots__ if name in document})


class Callers:
    """Authenticates requests, by the settings of the app."""

    def __init__(self, settings: Settings) -> None:
        self._identity = Identity(settings)
        self._per_user = settings.isolation == "user"

    def caller(self, request: Request) -> Caller:
        """Raises NotAuthenticated."""
        return self._identity.caller(request.headers)

    def scope(self, request: Request) -> str:
        """Whose ids the request is about. Raises NotAuthenticated."""
        return self.scope_of(self.caller(request))

    def scope_of(self, caller: Caller) -> str:
        """What ids of this caller's are looked up in."""
        return keys.scope(caller.tenant, caller.user if self._per_user else None)

    def facts(self, request: Request, caller: Caller) -> RequestFacts:
        """What a handler may know of a request."""
        return RequestFacts(
            client_headers={name: value for name, value in request.headers.items() if name.startswith("x-client-")},
            query_parameters={name: values[-1] for name, values in request.query.items() if values},
            user=caller.user,
            tenant=caller.tenant,
            call_id=request.headers.get(_CALL_ID),
        )
