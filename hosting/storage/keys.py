"""Partition and row keys: whose a row is, where it lies, and what it is.

Keys are made of `[a-z0-9_.~-]`: what Table Storage, blob names and URLs all take as it is. A row key is a kind, then
parts, separated by dots; a part never has a dot (`encode_key`), so a key can be read in one way only.
"""

import hashlib
import json
import re

from hosting.ids import parse_id

__all__ = [
    "chain_metadata_range",
    "chain_metadata_row",
    "chain_of",
    "checkpoint_bucket",
    "conversation_row",
    "encode_key",
    "fork_row",
    "forked_chain",
    "item_range",
    "item_row",
    "parse_partition",
    "partition_key",
    "partition_range",
    "response_row",
    "scope",
    "session_row",
    "turn_position",
    "turn_range",
    "turn_row",
]

_PLAIN = re.compile(rb"[a-z0-9_-]")
_SCOPE = re.compile(r"[0-9a-f]{32}", re.ASCII)
_CHAIN = re.compile(r"[0-9a-f]{18}", re.ASCII)
_LONGEST = 160
_POSITIONS = 2**32


def scope(tenant: str, user: str | None) -> str:
    """The part of a partition key that keeps callers apart: 32 hex digits, for a tenant or for one of its users.

    A digest, so that it has one width and no alphabet of its own; the domain in front keeps it apart from any other
    use of the same hash, and JSON keeps ("a", "b") apart from ("ab", None) and None from "".
    """
    return _digest("scope", [tenant, user])[:32]


def partition_key(scope: str, chain: str) -> str:
    """The partition of one conversation chain (18 hex digits) in one scope. Raises ValueError for anything else."""
    if not _SCOPE.fullmatch(scope):
        raise ValueError(f"{scope!r} is no scope")
    if not _CHAIN.fullmatch(chain):
        raise ValueError(f"{chain!r} is no chain")
    return f"{scope}-{chain}"


def partition_range(scope: str) -> tuple[str, str]:
    """The bounds of the partitions of all chains of one scope, and of no other: `first <= partition < last`. Raises ValueError
    for what is no scope."""
    if not _SCOPE.fullmatch(scope):
        raise ValueError(f"{scope!r} is no scope")
    return f"{scope}-", f"{scope}."


def parse_partition(partition: str) -> tuple[str, str] | None:
    """Scope and chain of a partition of `partition_key`; None for any other, such as that of an index."""
    scope, separator, chain = partition.partition("-")
    return (scope, chain) if separator and _SCOPE.fullmatch(scope) and _CHAIN.fullmatch(chain) else None


def chain_of(key: str) -> str:
    """The chain where what `key` names lives: the one in an id of our grammar, else a digest of the text.

    So session ids that a caller makes up have a partition too, always the same one.
    """
    parsed = parse_id(key)
    return parsed.chain if parsed else _digest("chain", key)[:18]


def response_row(response_id: str) -> str:
    """The row of a response."""
    return f"response.{encode_key(response_id)}"


def session_row(session_id: str) -> str:
    """The row of a session snapshot; any text is a session id."""
    return f"session.{encode_key(session_id)}"


def chain_metadata_row(namespace: str) -> str:
    """The row of a namespace of a chain's metadata."""
    return f"metadata.{encode_key(namespace)}"


def chain_metadata_range() -> tuple[str, str]:
    """The bounds for `Store.query` of all namespaces of a chain."""
    return "metadata.", "metadata/"


def fork_row(chain: str) -> str:
    """The row that says that another chain of the same scope has grown out of this one, and needs it."""
    if not _CHAIN.fullmatch(chain):
        raise ValueError(f"{chain!r} is no chain")
    return f"fork.{chain}"


def forked_chain(row: str) -> str | None:
    """The chain in a row key of `fork_row`; None for any other row."""
    kind, _, chain = row.partition(".")
    return chain if kind == "fork" and _CHAIN.fullmatch(chain) else None


def conversation_row(conversation_id: str) -> str:
    """The row of a conversation."""
    return f"conversation.{encode_key(conversation_id)}"


def item_row(item_id: str) -> str:
    """The row that says where in its conversation an item is whose id does not say it."""
    return f"item.{encode_key(item_id)}"


def item_range() -> tuple[str, str]:
    """The bounds for `Store.query` of all such rows of a chain."""
    return "item.", "item/"


def checkpoint_bucket(session_id: str) -> str:
    """What the rows of a session's checkpoints begin with, before a dot."""
    return f"checkpoint.{hashlib.sha256(session_id.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def turn_row(log: str, position: int) -> str:
    """The row of the turn at a position (0 to 2**32 - 1) of an append-only log; rows sort as positions do."""
    if not 0 <= position < _POSITIONS:
        raise ValueError(f"position {position} is not in a log")
    return f"turn.{encode_key(log)}.{position:08x}"


def turn_range(log: str, first: int = 0, last: int | None = None) -> tuple[str, str]:
    """The bounds for `Store.query` of the turns `first <= position < last` of a log; None means to its end."""
    prefix = f"turn.{encode_key(log)}."
    end = f"{prefix}~" if last is None or last >= _POSITIONS else turn_row(log, last)
    return turn_row(log, first), end


def turn_position(row: str) -> int:
    """The position in a row key that `turn_row` made."""
    return int(row.rpartition(".")[2], 16)


def encode_key(text: str) -> str:
    """Any text as a part of a key: different texts have different encodings, also where case is all that differs.

    `[a-z0-9_-]` stand for themselves, every other byte of the UTF-8 form is `~` and two hex digits, "" is `~`. What
    would be longer than 160 characters is `~~` and a SHA-256. At most 160 characters of `[a-z0-9_~-]`.
    """
    if not text:
        return "~"
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= _LONGEST:
        encoded = "".join(chr(byte) if _PLAIN.match(bytes((byte,))) else f"~{byte:02x}" for byte in data)
        if len(encoded) <= _LONGEST:
            return encoded
    return f"~~{_digest('key', text)}"


def _digest(domain: str, value: object) -> str:
    return hashlib.sha256(f"hosting.storage.{domain}:{json.dumps(value)}".encode()).hexdigest()
