"""Where the storage account is and how to prove who we are, from the settings that the Functions host documents.

Either `AzureWebJobsStorage` is a connection string, or `AzureWebJobsStorage__accountName` (or the two service URIs, for
sovereign clouds and private endpoints) names the account and an identity is used. No network and no SDK here.

Errors name the setting and say what is wrong with it, and never repeat it: a key may have been pasted into the wrong one.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from ._errors import ConfigurationError

__all__ = ["AccountKey", "Endpoints", "Identity", "SasToken", "read_settings"]

# Azurite's well-known development account, from Microsoft's documentation; it protects nothing.
_DEV_ACCOUNT = "devstoreaccount1"
_DEV_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_DEFAULT = "AzureWebJobsStorage"
_ACCOUNT = re.compile(r"[a-z0-9]{3,24}", re.ASCII)


@dataclass(frozen=True, slots=True, repr=False)
class AccountKey:
    """Shared key of an account. Has no repr, so that a log line can't show the key."""

    account: str
    key: str


@dataclass(frozen=True, slots=True, repr=False)
class SasToken:
    """A shared access signature, without the leading question mark."""

    token: str


class Identity(NamedTuple):
    """Microsoft Entra ID: the app's managed identity, or whatever `DefaultAzureCredential` finds on a laptop."""

    managed: bool
    client_id: str | None = None
    resource_id: str | None = None


class Endpoints(NamedTuple):
    """The two services of one storage account, without trailing slash."""

    table_url: str
    blob_url: str
    credential: AccountKey | SasToken | Identity


def read_settings(env: Mapping[str, str], name: str) -> Endpoints:
    """The endpoints that the settings `name` and `name__...` describe.

    Raises ConfigurationError, which names the setting to add, correct or remove, and repeats no value.
    """
    # The Functions host reads settings without regard to case, and an empty one counts as absent.
    given = {key.lower(): value.strip() for key, value in env.items() if value.strip()}
    connection = given.get(name.lower())
    parts = {key: given[full] for key in _PARTS if (full := f"{name}__{key}".lower()) in given}
    where = [f"{name}__{key}" for key in ("accountName", "tableServiceUri", "blobServiceUri") if key in parts]
    if connection and where:
        raise _wrong(f"{name} and {where[0]} are both set: keep the connection string or the identity")
    if connection:
        return _from_connection_string(connection, name)
    if where:
        return _from_identity(parts, name)
    if name != _DEFAULT and not parts:  # what stands there may be anything, a connection string too
        raise _wrong("no storage account is configured: HOSTING_STORAGE_CONNECTION names a setting that is not there")
    raise _wrong(
        f"no storage account is configured: set {name} to a connection string (UseDevelopmentStorage=true for Azurite), "
        f"or {name}__accountName to use an identity"
    )


_PARTS = (
    "accountName",
    "tableServiceUri",
    "blobServiceUri",
    "credential",
    "clientId",
    "managedIdentityResourceId",
)


def _from_identity(parts: Mapping[str, str], name: str) -> Endpoints:
    account = parts.get("accountName")
    if account and not _ACCOUNT.fullmatch(account):
        raise _wrong(
            f"{name}__accountName is not the name of a storage account (3 to 24 lower-case letters and digits): "
            f"{_look(account, name)}"
        )
    urls: dict[str, str] = {}
    for service in ("table", "blob"):
        key = f"{service}ServiceUri"
        if not (uri := parts.get(key)):
            if not account:
                raise _wrong(f"set {name}__{key} as well, or {name}__accountName instead")
            uri = f"https://{account}.{service}.core.windows.net"
        if not _is_address(uri, "https"):
            raise _wrong(f"{name}__{key}: an identity needs an https:// address without a query; {_look(uri, name)}")
        urls[service] = uri.rstrip("/")
    return Endpoints(urls["table"], urls["blob"], _identity(parts, name))


def _identity(parts: Mapping[str, str], name: str) -> Identity:
    kind = parts.get("credential")
    client, resource = parts.get("clientId"), parts.get("managedIdentityResourceId")
    if kind is not None and kind.lower() != "managedidentity":
        raise _wrong(f"{name}__credential: set it to managedidentity or remove it; {_look(kind, name)}")
    if client and resource:
        raise _wrong(f"{name}__clientId and {name}__managedIdentityResourceId are both set: keep one")
    if kind is None and (client or resource):
        extra = "clientId" if client else "managedIdentityResourceId"
        raise _wrong(f"{name}__{extra} is set: set {name}__credential to managedidentity as well")
    return Identity(kind is not None, client, resource)


def _from_connection_string(text: str, name: str) -> Endpoints:
    parts: dict[str, str] = {}
    for part in text.split(";"):
        key, separator, value = part.strip().partition("=")
        if separator:
            parts[key.strip().lower()] = value.strip()
        elif key:
            raise _wrong(f"{name} is no connection string, Key=Value;Key=Value...: {_instead(text, name)}")
    if parts.get("usedevelopmentstorage", "").lower() == "true":
        return _azurite(parts.get("developmentstorageproxyuri", "http://127.0.0.1"), name)
    account, key, sas = parts.get("accountname"), parts.get("accountkey"), parts.get("sharedaccesssignature")
    urls: dict[str, str] = {}
    for service in ("table", "blob"):
        label = f"{service.capitalize()}Endpoint"
        url = parts.get(f"{service}endpoint")
        if not url:
            if not account:
                raise _wrong(f"{name} is a connection string without AccountName and {label}: add one")
            label = "AccountName, DefaultEndpointsProtocol or EndpointSuffix"
            scheme = parts.get("defaultendpointsprotocol", "https")
            url = f"{scheme}://{account}.{service}.{parts.get('endpointsuffix', 'core.windows.net')}"
        if not _is_address(url, "https", "http"):
            raise _wrong(f"{name} is a connection string whose {label} makes no https:// address without a query")
        urls[service] = url.rstrip("/")
    if account and key:
        if not _is_key(key):
            raise _wrong(f"{name} is a connection string whose AccountKey is not whole: it has {len(key)} characters")
        return Endpoints(urls["table"], urls["blob"], AccountKey(account, key))
    if sas:
        return Endpoints(urls["table"], urls["blob"], SasToken(sas.removeprefix("?")))
    raise _wrong(f"{name} is a connection string without AccountKey and SharedAccessSignature: add one")


def _azurite(proxy: str, name: str) -> Endpoints:
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if not _is_address(proxy, "http", "https"):
        raise _wrong(f"{name} is a connection string whose DevelopmentStorageProxyUri is no http:// address")
    host = urlsplit(proxy).hostname or ""
    base = f"http://{f'[{host}]' if ':' in host else host}:"
    return Endpoints(f"{base}10002/{_DEV_ACCOUNT}", f"{base}10000/{_DEV_ACCOUNT}", AccountKey(_DEV_ACCOUNT, _DEV_KEY))


def _is_address(url: str, *schemes: str) -> bool:
    """Whether it is a service's address, and no more than that: a query would be a signature, and addresses get logged."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  # raises when it is no number
    except ValueError:  # its message may quote the address
        return False
    named = parts.hostname is not None and re.fullmatch(r"[A-Za-z0-9._:-]+", parts.hostname) is not None
    return named and parts.scheme in schemes and not (parts.query or parts.fragment or "@" in parts.netloc)


def _is_key(text: str) -> bool:
    try:
        return bool(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return False


def _look(value: str, name: str) -> str:
    """What can be said of a wrong value without repeating any of it."""
    if "=" in value and ";" in value:
        return f"it looks like a connection string: put that into {name}"
    if "=" in value:
        return f'it has {len(value)} characters, "=" among them: no key or signature belongs there'
    return f"it has {len(value)} characters"


def _instead(text: str, name: str) -> str:
    if _ACCOUNT.fullmatch(text):
        return f"if it is the name of an account, put it into {name}__accountName"
    return f"a part of its {len(text)} characters has no equals sign"


def _wrong(message: str) -> ConfigurationError:
    return ConfigurationError(f'{message}. See docs/deploy.md, "App settings".')
