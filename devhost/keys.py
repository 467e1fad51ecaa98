"""Function keys: which requests may call which function, when devhost is told to ask."""

import hmac
from dataclasses import dataclass

from aiohttp import web

from devhost.functions import Function

__all__ = ["Keys"]


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of an app. A function of auth level `function` takes either, one of level `admin` the master key."""

    function: str
    master: str

    def allow(self, request: web.BaseRequest, function: Function) -> bool:
        """Whether the request carries a key for the function, in x-functions-key or in the query parameter code."""
        level = str(function.trigger.get("authLevel", "function")).lower()
        if level == "anonymous":
            return True
        accepted = [self.master] if level == "admin" else [self.function, self.master]
        given = request.headers.get("x-functions-key") or request.query.get("code") or ""
        return any(hmac.compare_digest(given.encode(), key.encode()) for key in accepted)
