"""A body counts as what it becomes: a text with an emoji takes four bytes a character."""

import contextlib
import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from hosting.read_budget import charging
from hosting.responses import InvalidRequest
from hosting.server.parsed_body import parse_body

LONG = 100_000
EMOJI = "\U0001f600"


def counts(raw: bytes) -> list[int]:
    """What counts for a body, at each moment of its parsing."""
    changes: list[int] = []
    with charging(changes.append), contextlib.suppress(InvalidRequest):
        parse_body(raw)
    return list(itertools.accumulate(changes))


@pytest.mark.parametrize(
    ("text", "per_character"),
    [
        ("x" * LONG, 0),
        ("é" * LONG, 0),  # one byte a character in memory, two on the wire
        ("漢" * LONG, 0),  # two, and three on the wire
        ("x" * LONG + "漢", 1),
        ("x" * LONG + EMOJI, 3),
        (EMOJI * LONG, 0),  # four both times
    ],
    ids=["ascii", "latin", "han", "ascii with one han", "ascii with one emoji", "emoji"],
)
@pytest.mark.parametrize(
    "inside", [lambda text: text, lambda text: {"input": [{"content": text}]}], ids=["bare", "deep"]
)
def test_what_a_text_takes_beyond_its_bytes_is_counted(
    text: str, per_character: int, inside: Callable[[str], Any]
) -> None:
    raw = json.dumps(inside(text), ensure_ascii=False).encode()
    assert counts(raw)[-1] == pytest.approx(per_character * LONG, abs=200)
    assert parse_body(raw) == inside(text)


def test_an_emoji_that_came_as_an_escape_is_counted_too() -> None:
    assert counts(json.dumps("x" * LONG + EMOJI).encode())[-1] == pytest.approx(3 * LONG, abs=200)


def test_short_texts_count_nothing_more() -> None:
    assert counts(json.dumps(["x" + EMOJI] * 1000, ensure_ascii=False).encode())[-1] == 0


@pytest.mark.parametrize(("text", "times"), [("x", 0), ("é", 1), (EMOJI, 3)])
def test_while_it_is_parsed_the_whole_body_is_one_text(text: str, times: int) -> None:
    raw = json.dumps([text, "x" * LONG], ensure_ascii=False).encode()
    assert counts(raw) == [times * len(raw), 0]


def test_a_body_for_which_there_is_no_room_is_not_parsed() -> None:
    def refuse(size: int) -> None:
        raise MemoryError(size)

    with charging(refuse), pytest.raises(MemoryError):
        parse_body(f"{EMOJI} no JSON".encode())


def test_what_is_no_json_counts_no_longer() -> None:
    assert counts(f"{EMOJI} no JSON".encode())[-1] == 0
