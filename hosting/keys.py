"""API keys: what one looks like, how it is kept, how it is checked. `python -m hosting.keys --help` mints them.

A key is `sk-<key id>-<secret>`; the secret is 256 random bits, so a plain salted hash can't be guessed back and a slow
password hash would only cost every request milliseconds. HOSTING_API_KEYS holds one entry a key, never the key:

    <tenant>:<key id>:<salt>:<hash>[:<user>]

`salt` is 32 hex digits, `hash` is SHA-256 of salt (as bytes) followed by the whole key, 64 hex digits. Entries are
separated by commas or white space. Tenant and user are 1 to 64 letters, digits, dots, dashes, underscores or at signs.
"""

import argparse
import hashlib
import hmac
import os
import re
import secrets
import sys
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


_VARIABLE = "HOSTING_API_KEYS"
_KEY_ID = re.compile(r"[0-9a-f]{12}", re.ASCII)
_ABOUT = """\
API keys of this app. HOSTING_API_KEYS is one list for all tenants, and setting it replaces all of it: who is not in the new
list gets 401. So `add` and `remove` take the whole list and print the whole new one, with all other entries as they were.
"""
_EXAMPLES = """\
examples:
  azd env get-value HOSTING_API_KEYS > old
  python -m hosting.keys list < old
  python -m hosting.keys add contoso < old > new && azd env set HOSTING_API_KEYS "$(cat new)"
  python -m hosting.keys remove 0123456789ab < old > new && gh secret set HOSTING_API_KEYS < new

The key that `add` mints is on standard error, once. `new` must be another file than `old`. A list that is malformed or empty
ends it with 2, and nothing is printed on standard output.
"""


def main(arguments: list[str] | None = None) -> int:
    """The command line: exit code 0; 2 for wrong words and for a list that is none; 1 when the output can't be written."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        match options.command:
            case "new":
                _print_new(options.tenant, options.user)
            case "add":
                _print_added(_read_list(options.from_env), options.tenant, options.user, first=options.first)
            case "remove":
                _print_removed(_read_list(options.from_env), options.key_id)
            case _:
                _print_list(_read_list(options.from_env))
        sys.stdout.flush()
    except ValueError as error:  # ConfigurationError is one
        parser.error(str(error))
    except OSError as error:
        # A pipe that nobody reads, a full disk. What Python still has to say at its end goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"error: the output could not be written: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m hosting.keys", description=_ABOUT, epilog=_EXAMPLES, formatter_class=raw
    )
    commands = parser.add_subparsers(dest="command", required=True)
    new = commands.add_parser("new", help="mint a key for a tenant; the key is shown once and kept nowhere")
    add = commands.add_parser(
        "add", help="mint a key, and print the list with its entry at the end; the key is on standard error"
    )
    for command in (new, add):
        command.add_argument("tenant", metavar="TENANT")
        command.add_argument(
            "--user", help="bind the key to one user of the tenant (matters with HOSTING_ISOLATION=user)"
        )
    add.add_argument("--first", action="store_true", help="there is no list yet: without this, an empty one is refused")
    remove = commands.add_parser("remove", help="print the list without the entry of one key")
    remove.add_argument("key_id", metavar="KEY_ID", help="the 12 hex digits behind sk-, as `list` shows them")
    listing = commands.add_parser("list", help="print tenant, user and key id of each entry")
    for command in (add, remove, listing):
        command.add_argument(
            "--from-env",
            action="store_true",
            help=f"take the list from the environment variable {_VARIABLE}, in place of standard input",
        )
    return parser


def _print_new(tenant: str, user: str | None) -> None:
    key, kept = mint_key(tenant, user)
    print(f"Key (give it to the client, it is not shown again):\n  {key}\n")
    print(f"Entry (for HOSTING_API_KEYS; `add` puts it into a list that there is already):\n  {kept.entry}")


def _print_added(known: dict[str, ApiKey], tenant: str, user: str | None, *, first: bool) -> None:
    if first != (not known):
        raise ValueError(
            "--first is for a list that is empty, and this one is not"
            if first
            else "the list is empty: a new one would lock out everybody who has a key. If there is no list yet, say --first"
        )
    key, kept = mint_key(tenant, user)
    _print_setting([*known.values(), kept])
    sys.stdout.flush()  # a key whose entry could not be written is good for nothing: it is not shown
    print(f"Key {kept.key_id} (give it to the client, it is not shown again):\n  {key}", file=sys.stderr)


def _print_removed(known: dict[str, ApiKey], key_id: str) -> None:
    if not _KEY_ID.fullmatch(key_id):  # it may be the key itself, which belongs into no log
        raise ValueError("KEY_ID is the 12 hex digits behind sk-, and not the key")
    if key_id not in known:
        raise ValueError(f"no entry has the key id {key_id}")
    left = [key for key in known.values() if key.key_id != key_id]
    if not left:
        raise ValueError(
            f"{key_id} is the last entry. If nobody is to come in with a key, set {_VARIABLE} to nothing yourself"
        )
    _print_setting(left)
    gone = known[key_id]
    print(f"Without {gone.key_id} of {gone.tenant}: {len(left)} left", file=sys.stderr)


def _print_list(known: dict[str, ApiKey]) -> None:
    if not known:
        raise ValueError("the list is empty")
    rows = [("TENANT", "USER", "KEY ID"), *((key.tenant, key.user or "-", key.key_id) for key in known.values())]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for tenant, user, key_id in rows:
        print(f"{tenant:<{widths[0]}}  {user:<{widths[1]}}  {key_id}")


def _print_setting(keys: list[ApiKey]) -> None:
    setting = ",".join(key.entry for key in keys)
    parse_keys(setting)  # a new key id that is taken: once in many lifetimes, and it would take the old key's place
    print(setting)


def _read_list(from_env: bool) -> dict[str, ApiKey]:
    """The entries that are given, in their order. Raises ValueError."""
    if from_env:
        if _VARIABLE not in os.environ:
            raise ValueError(f"{_VARIABLE} is not in the environment")
        return parse_keys(os.environ[_VARIABLE])
    if sys.stdin.isatty():
        print(f"The list, that is the value of {_VARIABLE}, and then Ctrl-D:", file=sys.stderr)
    try:
        given = sys.stdin.read()
    except UnicodeDecodeError:
        raise ValueError("the list is no text in UTF-8") from None
    return parse_keys(given.removeprefix("\ufeff"))  # as some editors and shells begin a file


if __name__ == "__main__":
    raise SystemExit(main())
