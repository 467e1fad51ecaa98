"""API keys: what one looks like, how it is kept, how it is checked. `python -m hosting.keys --help` mints one.

A key is `sk-<key id>-<secret>`; the secret is 256 random bits, so a plain salted hash can't be guessed back and a slow
password hash would only cost every request milliseconds. HOSTING_API_KEYS holds one entry a key, never the key:

    <tenant>:<key id>:<salt>:<hash>[:<user>]

`salt` is 32 hex digits, `hash` is SHA-256 of salt (as bytes) followed by the whole key, 64 hex digits. Entries are
separated by commas or white space. Tenant and user are 1 to 64 letters, digits, dots, dashes, underscores or at signs.
"""

import argparse
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

from hosting.settings import ConfigurationError

__all__ = ["ApiKey", "check_key", "mint_key", "parse_keys"]

_NAME = r"[A-Za-z0-9._@-]{1,64}"
_ENTRY = re.compile(rf"({_NAME}):([0-9a-f]{{12}}):([0-9a-f]{{32}}):([0-9a-f]{{64}})(?::({_NAME}))?", re.ASCII)
_KEY = re.compile(r"sk-([0-9a-f]{12})-[A-Za-z0-9_-]{43}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """What is kept of a key."""

    tenant: str
    key_id: str
    salt: str
    digest: str
    user: str | None = None

    @property
    def entry(self) -> str:
        """The form that HOSTING_API_KEYS takes."""
        parts = [self.tenant, self.key_id, self.salt, self.digest, *([self.user] if self.user else [])]
        return ":".join(parts)


# Compared against when the key id is unknown, so that an unknown id takes as long as a wrong secret.
_NOBODY = ApiKey("nobody", "0" * 12, "0" * 32, "0" * 64)


def _digest(salt: str, key: str) -> str:
    return hashlib.sha256(bytes.fromhex(salt) + key.encode("utf-8", "surrogatepass")).hexdigest()


def mint_key(tenant: str, user: str | None = None) -> tuple[str, ApiKey]:
    """A new key and what to keep of it. Raises ValueError for a tenant or user that the format can't hold."""
    for name, value in (("tenant", tenant), ("user", user)):
        if value is not None and not re.fullmatch(_NAME, value, re.ASCII):
            raise ValueError(
                f"{name} takes 1 to 64 letters, digits, dots, dashes, underscores or at signs, not {value!r}"
            )
    key_id, salt = secrets.token_hex(6), secrets.token_hex(16)
    key = f"sk-{key_id}-{secrets.token_urlsafe(32)}"
    return key, ApiKey(tenant, key_id, salt, _digest(salt, key), user)


def parse_keys(setting: str) -> dict[str, ApiKey]:
    """The entries of HOSTING_API_KEYS by key id. Raises ConfigurationError that says which entry is wrong, not its text."""
    keys: dict[str, ApiKey] = {}
    for number, entry in enumerate(re.split(r"[,\s]+", setting.strip(" \t\r\n,")), 1):
        if not entry:
            continue
        match = _ENTRY.fullmatch(entry)
        if match is None:
            itself = " but the key itself, which belongs to the client alone" if _KEY.fullmatch(entry) else ""
            raise ConfigurationError(
                f"HOSTING_API_KEYS: entry {number} is not <tenant>:<key id>:<salt>:<hash>[:<user>]{itself}; "
                '`python -m hosting.keys new TENANT` prints one. See docs/deploy.md, "Who may call".'
            )
        key = ApiKey(match[1], match[2], match[3], match[4], match[5])
        if key.key_id in keys:
            raise ConfigurationError(
                f'HOSTING_API_KEYS: entry {number} repeats the key id {key.key_id}. See docs/deploy.md, "Who may call".'
            )
        keys[key.key_id] = key
    return keys


def check_key(keys: dict[str, ApiKey], presented: str) -> ApiKey | None:
    """The entry that `presented` is the key of, or None. The secret is compared in constant time."""
    match = _KEY.fullmatch(presented)
    candidate = keys.get(match[1], _NOBODY) if match else _NOBODY
    same = hmac.compare_digest(_digest(candidate.salt, presented), candidate.digest)
    return candidate if same and candidate is not _NOBODY else None


def main(arguments: list[str] | None = None) -> int:
    """The command line: exit code 0, or 2 for wrong words."""
    parser = argparse.ArgumentParser(prog="python -m hosting.keys", description="API keys of this app.")
    commands = parser.add_subparsers(dest="command", required=True)
    new = commands.add_parser("new", help="mint a key for a tenant; the key is shown once and kept nowhere")
    new.add_argument("tenant", metavar="TENANT")
    new.add_argument("--user", help="bind the key to one user of the tenant (matters with HOSTING_ISOLATION=user)")
    options = parser.parse_args(arguments)
    try:
        key, kept = mint_key(options.tenant, options.user)
    except ValueError as error:
        parser.error(str(error))
    print(f"Key (give it to the client, it is not shown again):\n  {key}\n")
    print(f"Entry (append it to the app setting HOSTING_API_KEYS, separated by a comma):\n  {kept.entry}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
