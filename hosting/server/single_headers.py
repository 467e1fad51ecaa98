"""Headers that a request may have only once.

A front end that looks at the first of two `authorization` headers while we look at the last lets one caller pass and serves
another. So nobody chooses: a request that says twice who is calling, or what it repeats, is refused.
"""

from hosting.identity import names_a_caller
from hosting.responses import ApiError
from hosting.responses.errors import shortened
from hosting.server.http import Request

__all__ = ["check_single_headers"]

_ONCE = frozenset(
    {
        "content-length",  # HTTP servers refuse two that differ; this also goes for what a front end has joined
        "idempotency-key",
        "last-event-id",
        "x-agent-foundry-call-id",
        "x-agent-invocation-id",
        "x-agent-session-id",
    }
)


def check_single_headers(request: Request) -> None:
    """Raises InvalidRequest, with the header as `param`, when one came twice that identity or this server takes one value of.

    Equal values are no excuse: a client sends one. Other headers are lists or the app's own, and come with their values joined.
    """
    for name in sorted(request.repeated):
        if name in _ONCE or names_a_caller(name):
            raise ApiError.invalid_value(
                shortened(name), f"The header '{shortened(name)}' came more than once. Send it once."
            )
