"""The one grammar of ids, and what an id carries.

An id is `<prefix>_<chain><turn><nonce>`, 50 lowercase hex digits after the prefix (the length OpenAI's own ids have):

- chain, 18 digits: the conversation chain, and with it the table partition that holds everything of it;
- turn, 8 digits: the position of the turn in the chain's append-only log, the first one is 0;
- nonce, 24 digits: random, so that ids can't be guessed.

So any id is a point read, and a follow-up turn knows which rows it needs before it has read one.
Nothing in an id is a secret or a permission: ids are looked up inside the caller's own scope.
"""

import re
import secrets
from dataclasses import dataclass

__all__ = ["ParsedId", "conversation_id", "item_id", "new_chain", "parse_id", "response_id"]

_GRAMMAR = re.compile(r"([a-z]{1,12})_([0-9a-f]{18})([0-9a-f]{8})([0-9a-f]{24})", re.ASCII)


@dataclass(frozen=True, slots=True)
class ParsedId:
    """The parts of an id that matches the grammar."""

    prefix: str
    chain: str
    turn: int
    nonce: str


def new_chain() -> str:
    """A new conversation chain: 18 random hex digits."""
    return secrets.token_hex(9)


def _make(prefix: str, chain: str, turn: int) -> str:
    return f"{prefix}_{chain}{turn:08x}{secrets.token_hex(12)}"


def response_id(chain: str | None = None, turn: int = 0) -> str:
    """A new `resp_` id for the turn at position `turn` of `chain`; without a chain, the first turn of a new one."""
    return _make("resp", chain or new_chain(), turn)


def conversation_id(chain: str | None = None) -> str:
    """A new `conv_` id."""
    return _make("conv", chain or new_chain(), 0)


def item_id(prefix: str, response: str) -> str:
    """A new id for an item (`msg`, `fc`, `rs`, ...) of a response; a response id of foreign make gives a new chain."""
    parsed = parse_id(response)
    return _make(prefix, parsed.chain, parsed.turn) if parsed else _make(prefix, new_chain(), 0)


def parse_id(value: str, prefix: str | None = None) -> ParsedId | None:
    """The parts of `value`, or None when it does not match the grammar or has another prefix."""
    match = _GRAMMAR.fullmatch(value)
    if match is None or (prefix is not None and match[1] != prefix):
        return None
    return ParsedId(match[1], match[2], int(match[3], 16), match[4])
