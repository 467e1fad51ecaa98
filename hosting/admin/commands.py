"""What each command does and prints: results on standard output, all else on standard error. They return the exit code and
raise StorageError."""

import json
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

from hosting.admin.account import Account
from hosting.admin.cancelling import cancel
from hosting.admin.erasing import Contents, Erasure
from hosting.admin.listing import ConversationLine, ResponseLine, list_conversations, list_responses
from hosting.admin.running import RunningLine, oldest_running
from hosting.responses import ApiError
from hosting.state.suspended import load_suspended, resume, suspend

__all__ = [
    "cancel_responses",
    "erase_scope",
    "list_running",
    "list_scope",
    "list_suspended",
    "resume_scope",
    "suspend_scope",
]

_RESPONSE = "{:<55}  {:<11}  {:<20}  {:>10}  {:<56}  {}"
_CONVERSATION = "{:<55}  {:<20}  {:>6}"
_RUNNING = "{:<32}  {:<56}  {:<20}  {:>17}  {:<11}  {:>7}  {:>7}  {}"


async def list_scope(account: Account, scope: str, *, running: bool, conversations: bool, as_json: bool) -> int:
    """Responses or conversations, as they are read: a table, or a JSON object a line."""
    lines = (
        list_conversations(account.engine, scope)
        if conversations
        else list_responses(account.engine, scope, running=running)
    )
    count = 0
    async for line in lines:
        if as_json:
            print(json.dumps(asdict(line)))
        else:
            if not count:
                print(_heading(line))
            print(_row(line))
        count += 1
    _say(f"{count:,} {'conversations' if conversations else 'responses'} of {scope} in {account.name}")
    return 0


async def list_running(account: Account, *, most: int, as_json: bool) -> int:
    """What is at work or waits, of all scopes, the oldest first: a table, or a JSON object a line."""
    found = await oldest_running(account.engine, most)
    if found.lines and not as_json:
        print(_RUNNING.format("SCOPE", "RESPONSE OR TASK", "NAME", "AGE", "STATE", "LEASE", "CRASHES", "TASK"))
    for line in found.lines:
        print(json.dumps(asdict(line)) if as_json else _running_row(line))
    left = found.total - len(found.lines)
    _say(
        f"{found.total:,} unfinished in {account.name}" + (f"; {left:,} younger ones left out: --limit" if left else "")
    )
    return 0


async def suspend_scope(account: Account, scope: str) -> int:
    """Keep a tenant or user out; what runs goes on."""
    new = await suspend(account.store, scope, time.time())
    print(f"{scope} {'is suspended' if new else 'was suspended already'}")
    _say(
        f"in {account.name}. Processes go by it within HOSTING_SUSPENDED_SECONDS (30); a new one lets its first requests in. "
        "What runs, and streams that are open, go on: `list --running`, `cancel`"
    )
    return 0


async def resume_scope(account: Account, scope: str) -> int:
    """Let them in again."""
    gone = await resume(account.store, scope)
    print(f"{scope} {'is let in again' if gone else 'was not suspended'}")
    if gone:
        _say(f"in {account.name}. Processes go by it within HOSTING_SUSPENDED_SECONDS (30)")
    else:
        _say(
            f"in {account.name}. If that surprises you: `suspended` shows who is, and the digest of another name is another"
        )
    return 0


async def list_suspended(account: Account, *, as_json: bool) -> int:
    """Who is kept out, the longest first: a table, or a JSON object a line."""
    found = sorted((await load_suspended(account.store)).items(), key=lambda item: item[1])
    for scope, since in found:
        print(json.dumps({"scope": scope, "since": int(since)}) if as_json else f"{scope}  since {_time(int(since))}")
    _say(f"{len(found):,} suspended in {account.name}")
    return 0


async def cancel_responses(account: Account, scope: str, responses: list[str]) -> int:
    """One after the other; an id that can't be cancelled keeps no other from it."""
    code = 0
    for identifier in dict.fromkeys(responses):
        try:
            response = await cancel(account, scope, identifier)
        except ApiError as error:
            _say(f"{identifier}: {error.message}")
            code = 1
        else:
            print(f"{identifier}: {response['status']}")
    return code


async def erase_scope(account: Account, scope: str, *, yes: bool) -> int:
    """Count, or remove and say how to make sure that nothing comes after it."""
    _say(f"scope {scope} in {account.name}")
    erasure = Erasure(account.engine, account.blobs, scope, _say)
    contents = await erasure.run() if yes else await erasure.count()
    print(_table(contents))
    if not contents.total:
        print("Nothing is stored for this scope. (If that surprises you, check tenant, user and HOSTING_ISOLATION.)")
    elif not yes:
        print("Nothing was removed. With --yes all of it goes, and nothing brings it back.")
    else:
        options = account.engine.options
        seconds = (options.lease + options.skew).total_seconds()
        print(
            f"Removed. What was running may have written since: run it again in {seconds:.0f} s, and when the last foreground "
            "turn and token of this caller has ended, until it finds nothing."
        )
    return 0


def _heading(line: ResponseLine | ConversationLine) -> str:
    if isinstance(line, ConversationLine):
        return _CONVERSATION.format("CONVERSATION", "CREATED", "TURNS")
    return _RESPONSE.format("RESPONSE", "STATUS", "CREATED", "CRASHES", "TASK", "CONVERSATION")


def _row(line: ResponseLine | ConversationLine) -> str:
    if isinstance(line, ConversationLine):
        return _CONVERSATION.format(line.id, _time(line.created_at), _text(line.turns))
    task = "of its own" if line.task == line.id else _text(line.task)
    return _RESPONSE.format(
        line.id,
        _text(line.status),
        _time(line.created_at),
        _text(line.crashes),
        task,
        _text(line.conversation),
    )


def _running_row(line: RunningLine) -> str:
    return _RUNNING.format(
        line.scope,
        line.response or line.task,
        _text(line.name),
        str(timedelta(seconds=line.age)),
        line.state,
        _text(line.lease),
        _text(line.crashes),
        "of its own" if line.task == (line.response or line.task) else line.task,
    ).rstrip()


def _time(seconds: int | None) -> str:
    return "-" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _text(value: str | int | None) -> str:
    return "-" if value is None else str(value)


def _table(contents: Contents) -> str:
    named = {
        kind: count for kind, count in contents.rows.items() if kind in ("response", "conversation", "turn", "session")
    }
    rows = [
        ("unfinished tasks", contents.tasks),
        *((f"rows: {kind}s", count) for kind, count in sorted(named.items())),
        ("rows: others", contents.rows.total() - sum(named.values())),
        ("stream blobs", contents.stream_blobs),
        ("value blobs", contents.value_blobs),
    ]
    return "\n".join(f"{name:<20}{count:>12,}" for name, count in rows)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
