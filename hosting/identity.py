"""Who is calling. A caller comes from exactly one of these, tried in this order:

1. Easy Auth headers, only when the platform says that Easy Auth is on; else they are anybody's to forge, so they are
   ignored and the attempt is logged;
2. an API key (`Authorization: Bearer ...`, or `api-key: ...` as Azure OpenAI clients send it);
3. development mode: on a laptop, with no key configured.

Nothing matches: NotAuthenticated, which the HTTP side answers with 401.
"""

import base64
import binascii
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from hosting.keys import check_key, parse_keys
from hosting.settings import Settings

__all__ = ["Caller", "Identity", "NotAuthenticated", "names_a_caller"]

_log = logging.getLogger(__name__)

_PRINCIPAL = "x-ms-client-principal"
_BEARER, _PLAIN_KEY, _SITE = "authorization", "api-key", "sec-fetch-site"
_ENTRA = "aad"
"""What Easy Auth calls Entra."""
_TENANT_CLAIMS = ("tid", "http://schemas.microsoft.com/identity/claims/tenantid")
_USER_CLAIMS = (
    "oid",
    "http://schemas.microsoft.com/identity/claims/objectidentifier",
    "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/nameidentifier",
    "sub",
)


def names_a_caller(header: str) -> bool:
    """Whether it depends on this header (in lower case) who is calling. Two of them would be two callers: whoever reads a
    request refuses it, because `Identity` sees one value of each."""
    return header in (_BEARER, _PLAIN_KEY, _SITE) or header.startswith(_PRINCIPAL)


class NotAuthenticated(Exception):
    """Nothing in the request says who is calling. `hint` is safe to show; `presented` tells whether a key was there."""

    def __init__(self, hint: str, *, presented: bool) -> None:
        super().__init__(hint)
        self.hint = hint
        self.presented = presented


@dataclass(frozen=True, slots=True)
class Caller:
    """A tenant, and the user in it where the request says so."""

    tenant: str
    user: str | None = None


class Identity:
    """Tells callers apart by the settings of this process. Raises ConfigurationError for malformed HOSTING_API_KEYS."""

    def __init__(self, settings: Settings) -> None:
        self._easy_auth = settings.easy_auth
        self._keys = parse_keys(settings.api_keys)
        self._open = settings.development and not self._keys and not settings.easy_auth
        self._warned = False

    def caller(self, headers: Mapping[str, str]) -> Caller:
        """The caller of a request with these headers (names in lower case). Raises NotAuthenticated."""
        if _PRINCIPAL in headers or f"{_PRINCIPAL}-id" in headers:
            if self._easy_auth:
                return _easy_auth_caller(headers)
            if not self._warned:  # once a process: the line is a hint for the operator, not an audit trail
                self._warned = True
                _log.warning("Easy Auth headers came in, but Easy Auth is off: they are ignored")
        key = _presented_key(headers)
        if key is not None and self._keys:
            known = check_key(self._keys, key)
            if known is not None:
                # Keys and Easy Auth name tenants independently: the prefix keeps a key's "contoso" from a claim's.
                return Caller(f"key:{known.tenant}", known.user)
        if self._open:
            if headers.get(_SITE) in ("cross-site", "same-site"):
                # Any page that a developer looks at could send requests to the laptop's own address.
                raise NotAuthenticated("Requests of web pages need a key.", presented=False)
            return Caller("development")
        if key is None:
            raise NotAuthenticated("You didn't provide an API key.", presented=False)
        raise NotAuthenticated("Incorrect API key provided.", presented=True)


def _presented_key(headers: Mapping[str, str]) -> str | None:
    scheme, _, value = headers.get(_BEARER, "").partition(" ")
    if scheme.lower() == "bearer" and value.strip():
        return value.strip()
    return headers.get(_PLAIN_KEY) or None


def _easy_auth_caller(headers: Mapping[str, str]) -> Caller:
    """The platform sets both headers together; a request with a part of them did not come through it."""
    try:
        decoded: Any = json.loads(base64.b64decode(headers[_PRINCIPAL], validate=True))
        given = cast("dict[str, Any]", decoded)["claims"]
        claims = {str(claim["typ"]): str(claim["val"]) for claim in cast("list[dict[str, Any]]", given)}
        provider = str(cast("dict[str, Any]", decoded).get("auth_typ") or "").lower()
    except (KeyError, TypeError, ValueError, binascii.Error, RecursionError):
        raise NotAuthenticated("The identity headers are incomplete.", presented=True) from None
    tenant = next((claims[name] for name in _TENANT_CLAIMS if claims.get(name)), None)
    user = next((claims[name] for name in _USER_CLAIMS if claims.get(name)), None)
    if user is None or not provider:
        raise NotAuthenticated("The identity headers name no user.", presented=True)
    if provider == _ENTRA:
        return Caller(f"tid:{tenant}" if tenant else f"idp:{provider}", user)
    # Only Entra's word counts for Entra's tenants: another provider's token may say what it likes in a claim of that name.
    return Caller(f"idp:{provider}/{tenant}" if tenant else f"idp:{provider}", user)
