"""Whose rows a command is about: a scope, which is the digest in partition keys, names of blobs, spans and log lines."""

import re

from hosting.settings import Settings
from hosting.storage import keys

__all__ = ["checked_scope", "scope_of"]

_GUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_TENANT = re.compile(rf"key:[A-Za-z0-9._@-]{{1,64}}|tid:{_GUID}|idp:.+|development|app:self", re.ASCII)


def scope_of(tenant: str, user: str | None, settings: Settings) -> str:
    """The scope of a caller, as the app makes it with these settings.

    Raises ValueError for a tenant that no caller has, which would be the scope of nobody; and for a user where users share
    everything, because what is found then would be their tenant's.
    """
    if not _TENANT.fullmatch(tenant):
        raise ValueError(
            f"{tenant!r} is no tenant: key:NAME for the NAME in HOSTING_API_KEYS, tid:DIRECTORY_ID in lower case for Easy Auth "
            "with Entra, idp:PROVIDER for another provider, development on a laptop, app:self for work that no caller asked for"
        )
    if user is not None and settings.isolation != "user":
        raise ValueError(
            "with HOSTING_ISOLATION=tenant the users of a tenant share everything: leave --user out. "
            "If the app has HOSTING_ISOLATION=user, set it here as well"
        )
    return keys.scope(tenant, user)


def checked_scope(digest: str) -> str:
    """The digest itself. Raises ValueError for what is none."""
    try:
        keys.partition_range(digest)
    except ValueError:
        raise ValueError(
            f"{digest!r} is no scope: 32 hex digits, as in hosting.tenant and as `scope` prints them"
        ) from None
    return digest
