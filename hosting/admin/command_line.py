"""The words that the command line takes, and its exit codes: 0 done, 1 not done or not all of it, 2 wrong words or settings."""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Mapping

from hosting.admin.account import Account, open_account, read_settings
from hosting.admin.commands import (
    cancel_responses,
    erase_scope,
    list_running,
    list_scope,
    list_suspended,
    resume_scope,
    suspend_scope,
)
from hosting.admin.scopes import checked_scope, scope_of
from hosting.errors import ConfigurationError
from hosting.settings import load_settings
from hosting.storage import StorageDenied, StorageError

__all__ = ["main"]

_ABOUT = """\
See what runs; see, cancel and erase what a tenant or user has stored, and keep them out; with rights on the storage
account and without a key of theirs. It needs no telemetry.

It reads the settings of the app from the environment: AzureWebJobsStorage (a connection string), or
AzureWebJobsStorage__accountName and `az login`; and HOSTING_ISOLATION, _TABLE, _CONTAINER if the app has them. Beside
`make run` AzureWebJobsStorage is what that prints after "storage:".

`running`, `list`, `suspended` and `erase` without --yes need the roles Storage Table Data Reader and Storage Blob Data Reader;
`cancel`, `suspend`, `resume` and `erase --yes` need Storage Table Data Contributor and Storage Blob Data Contributor.
"""
_EXAMPLES = """\
examples:
  python -m hosting.admin running                             # of all tenants, the oldest first
  python -m hosting.admin scope --tenant key:contoso
  python -m hosting.admin list --tenant tid:72f988bf-0000-0000-0000-2d7cd011db47 --running
  python -m hosting.admin cancel --scope 0123456789abcdef0123456789abcdef resp_...
  python -m hosting.admin suspend --tenant key:contoso        # 403 on every route, within 30 s and without a restart
  python -m hosting.admin erase --tenant key:contoso          # counts
  python -m hosting.admin erase --tenant key:contoso --yes    # removes; can't be undone

docs/runbooks.md says when to use which. A command ends with 0 when it is done, with 1 when something could not be done, with 2
for wrong words or settings.
"""
_LIST_EXAMPLES = """\
examples:
  python -m hosting.admin list --tenant key:contoso --running
  python -m hosting.admin list --tenant key:contoso --json | jq -s 'sort_by(.created_at) | .[-10:]'
  python -m hosting.admin list --tenant key:contoso --running --json | jq -r .id |
    xargs python -m hosting.admin cancel --tenant key:contoso
"""

_RUNNING_ABOUT = """\
One line for each input that was accepted and has not ended, the oldest first, from the index that the recovery scan reads.
Foreground turns are not in it: they have no row before they end.

state: running (a process has the lease), lapsed (that process is gone, and none has taken over yet: the recovery scan is due
within a minute), waiting (for a process), backing off (until its next attempt), queued (behind another turn of its task), ended
(its row in the index is left over), unreadable. LEASE is in seconds, below 0 since it has lapsed.

It costs a read for each 1,000 rows of the index, 16 at least, and one for each task that is shown.
"""
_RUNNING_EXAMPLES = """\
examples:
  python -m hosting.admin running --json | jq -r .scope | sort | uniq -c      # how many of each tenant (of those shown)
  python -m hosting.admin running --json | jq 'select(.state == "lapsed" or .crashes > 2)'
  python -m hosting.admin cancel --scope SCOPE RESPONSE
"""

_SUSPEND_EXAMPLES = """\
A tenant stands for all its users, also with HOSTING_ISOLATION=user; --user, or the digest of one, for that user alone. Each
process goes by a list that is at most HOSTING_SUSPENDED_SECONDS (30) old; a new one lets in what comes before it has read it.
If the list can't be read, the last one stands. Functions of the app with routes of their own do not ask it.

examples:
  python -m hosting.admin suspend --tenant key:contoso
  python -m hosting.admin list --tenant key:contoso --running --json | jq -r .id |
    xargs python -m hosting.admin cancel --tenant key:contoso
  python -m hosting.admin resume --tenant key:contoso
"""

_OTHER_PORTS = """\
With `make run` Azurite listens on other ports than its usual ones: copy the connection string that it prints after "storage:",
and set AzureWebJobsStorage to it, without --settings"""

type Command = Callable[[Account, str, argparse.Namespace], Coroutine[None, None, int]]

_COMMANDS: Mapping[str, Command] = {
    "list": lambda account, scope, given: list_scope(
        account, scope, running=given.running, conversations=given.conversations, as_json=given.json
    ),
    "cancel": lambda account, scope, given: cancel_responses(account, scope, given.response),
    "erase": lambda account, scope, given: erase_scope(account, scope, yes=given.yes),
    "suspend": lambda account, scope, given: suspend_scope(account, scope),
    "resume": lambda account, scope, given: resume_scope(account, scope),
}

_OF_ALL: Mapping[str, Callable[[Account, argparse.Namespace], Coroutine[None, None, int]]] = {
    "running": lambda account, given: list_running(account, most=given.limit, as_json=given.json),
    "suspended": lambda account, given: list_suspended(account, as_json=given.json),
}
"""About no one scope."""


def main(arguments: list[str] | None = None) -> int:
    """The command line; its exit code. Wrong words end the process with 2."""
    parser = _parser()
    given = parser.parse_args(arguments)
    env: Mapping[str, str] = {}
    try:
        env = read_settings(given.settings)
        scope = "" if given.command in _OF_ALL else _scope(parser, given, env)
        if given.command == "scope":
            print(scope)
            return 0
        return asyncio.run(_run(env, scope, given))
    except ConfigurationError as error:
        return _failed(str(error), 2)
    except StorageDenied as error:
        return _failed(
            f"storage refuses you: {error}. Check `az login`, the roles (--help) and the account's network rules", 1
        )
    except StorageError as error:
        local = "UseDevelopmentStorage=true" in env.values()
        hint = _OTHER_PORTS if local else "What is done stays done: run it again"
        return _failed(f"storage could not do it: {error}. {hint}", 1)
    except KeyboardInterrupt:
        return _failed("stopped. What is done stays done: run it again to go on", 130)
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


async def _run(env: Mapping[str, str], scope: str, given: argparse.Namespace) -> int:
    async with open_account(env) as account:
        if given.command in _OF_ALL:
            return await _OF_ALL[given.command](account, given)
        return await _COMMANDS[given.command](account, scope, given)


def _scope(parser: argparse.ArgumentParser, given: argparse.Namespace, env: Mapping[str, str]) -> str:
    settings = load_settings(env)
    try:
        if given.tenant is None:
            if given.user is not None:
                raise ValueError("--user goes with --tenant: a scope is a user's already")
            return checked_scope(given.scope)
        scope = scope_of(given.tenant, given.user, settings)
    except ValueError as error:
        parser.error(str(error))
    # A suspended tenant is all its users; everything else is about one scope.
    if settings.isolation == "user" and given.user is None and given.command not in ("suspend", "resume"):
        note = (
            "HOSTING_ISOLATION=user: this is the tenant's callers without a user; those with one are found with --user"
        )
        print(f"note: {note}", file=sys.stderr)
    return scope


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


def _failed(message: str, code: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hosting.admin",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, summary: str, epilog: str | None = None, about: str = "") -> argparse.ArgumentParser:
        command = commands.add_parser(
            name,
            help=summary,
            description=f"{summary[:1].upper()}{summary[1:]}.\n\n{about}".rstrip(),
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_argument(
            "--settings",
            metavar="FILE",
            help="settings from a file like local.settings.json, in place of the environment",
        )
        return command

    def add_scoped(name: str, summary: str, epilog: str | None = None) -> argparse.ArgumentParser:
        command = add(name, summary, epilog)
        whose = command.add_mutually_exclusive_group(required=True)
        whose.add_argument(
            "--tenant", help="key:NAME of HOSTING_API_KEYS, tid:DIRECTORY_ID of Easy Auth with Entra, or development"
        )
        whose.add_argument(
            "--scope", metavar="DIGEST", help="the digest itself: hosting.tenant of a span, tenant of a log line"
        )
        command.add_argument("--user", metavar="OID", help="a user of the tenant, with HOSTING_ISOLATION=user")
        return command

    running = add("running", "list what is at work or waits to be, of all tenants", _RUNNING_EXAMPLES, _RUNNING_ABOUT)
    running.add_argument("--limit", metavar="N", type=_count, default=1000, help="show the N oldest (1000)")
    running.add_argument("--json", action="store_true", help="one JSON object a line; ages and leases in seconds")
    add_scoped("scope", "print the digest that stands for a tenant or user in rows, blobs and telemetry")
    listing = add_scoped("list", "list responses, or conversations, in the order of their ids", _LIST_EXAMPLES)
    what = listing.add_mutually_exclusive_group()
    what.add_argument("--running", action="store_true", help="only responses that are queued or in progress")
    what.add_argument("--conversations", action="store_true", help="conversations in place of responses")
    listing.add_argument("--json", action="store_true", help="one JSON object a line; times in seconds since the epoch")
    cancel = add_scoped("cancel", "cancel background responses, as their own client would")
    cancel.add_argument("response", metavar="RESPONSE_ID", nargs="+")
    add_scoped("suspend", "answer all requests of a tenant (or user) with 403; what runs goes on", _SUSPEND_EXAMPLES)
    add_scoped("resume", "let a suspended tenant or user in again")
    suspended = add("suspended", "list who is suspended, and since when")
    suspended.add_argument(
        "--json", action="store_true", help="one JSON object a line; times in seconds since the epoch"
    )
    erase = add_scoped("erase", "count all that a tenant or user has stored, and with --yes remove it for good")
    erase.add_argument("--yes", action="store_true", help="remove it. Nothing brings it back")
    return parser
