"""The lines of a segment, read in pieces of any size, with and without damage."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosting.streaming._lines import (
    MOST,
    Damage,
    Event,
    Owner,
    Portion,
    end_line,
    event_line,
    fits,
    is_end,
    next_line,
    parse,
    writer_line,
)

W = Owner("ab12", 3)


def read(data: bytes, last: int = -1) -> Portion:
    return parse(b"", data, last)


def read_in_pieces(pieces: list[bytes], last: int = -1) -> Portion:
    items: list[Event | Damage] = []
    portion, owner = Portion([], b"", None, False), None
    for piece in pieces:
        portion = parse(portion.held, piece, last)
        items += portion.items
        owner = portion.owner or owner
        last = items[-1].seq if items else last
        if portion.ended:
            break
    return portion._replace(items=items, owner=owner)


def test_events_come_back_with_their_number_text_and_time() -> None:
    data = event_line(0, b'{"a":[1,2]}') + event_line(7, b'"x"', 12.3456)
    assert read(data).items == [Event(0, b'{"a":[1,2]}'), Event(7, b'"x"', 12.346)]


@pytest.mark.parametrize("line", [event_line(5, b'{"a":1}', 1.5), writer_line(W, 4, torn=False), end_line(3)])
def test_each_line_is_json(line: bytes) -> None:
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert isinstance(json.loads(line), dict)


def test_a_writer_line_says_who_writes() -> None:
    assert read(writer_line(W, -1, torn=False)).owner == W
    assert read(writer_line(Owner("cd"), 5, torn=False)).owner == Owner("cd", None)


def test_next_ends_the_segment_and_end_the_stream() -> None:
    assert read(event_line(0, b"1") + next_line(1))[1:4] == (b"", 1, False)
    assert read(event_line(0, b"1") + end_line(0))[1:4] == (b"", None, True)


def test_what_is_not_complete_is_held() -> None:
    whole = event_line(0, b"1")
    assert read(whole + b'{"seq":1,"ev') == Portion([Event(0, b"1")], b'{"seq":1,"ev', None, False)


def test_lines_of_a_later_version_are_skipped() -> None:
    assert read(b'{"note":"hello"}\n' + event_line(0, b"1")).items == [Event(0, b"1")]


_events = st.lists(st.tuples(st.integers(1, 50), st.text(max_size=20)), max_size=12)


@given(_events, st.data())
def test_pieces_of_any_size_read_as_the_whole(steps: list[tuple[int, str]], data: Any) -> None:
    number, text, expected = -1, writer_line(W, -1, torn=False), list[Event]()
    for step, payload in steps:
        number += step
        expected.append(Event(number, json.dumps(payload).encode()))
        text += event_line(*expected[-1][:2])
    text += end_line(number)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert read_in_pieces(pieces) == Portion(expected, b"", None, True, W)


@given(st.integers(1, 60), st.binary(max_size=12).filter(lambda junk: b"\n" not in junk))
def test_a_torn_line_of_any_length_is_no_event_and_no_damage(cut: int, junk: bytes) -> None:
    torn = event_line(1, b'{"n":1,"text":"a letter or two or more"}')[:cut].rstrip(b"\n")
    data = event_line(0, b"1") + torn + writer_line(W, 0, torn=True) + event_line(1, b"2")
    assert read(data).items == [Event(0, b"1"), Event(1, b"2")]
    assert read(event_line(0, b"1") + junk + writer_line(W, 0, torn=True) + event_line(1, b"2")).items == [
        Event(0, b"1"),
        Event(1, b"2"),
    ]


@pytest.mark.parametrize(
    "after",
    [event_line(3, b"3"), writer_line(W, 2, torn=False) + event_line(3, b"3"), next_line(3), end_line(2)],
)
def test_a_line_that_cannot_be_read_is_damage_when_numbers_are_missing(after: bytes) -> None:
    items = read(event_line(0, b"0") + b"garbage\n\x00\xff\n" + after).items
    assert items[:2] == [Event(0, b"0"), Damage(2)]


@pytest.mark.parametrize("after", [event_line(1, b"1"), writer_line(W, 0, torn=False), next_line(1), end_line(0)])
def test_a_line_that_cannot_be_read_is_nothing_when_no_number_is_missing(after: bytes) -> None:
    items = read(event_line(0, b"0") + b"garbage\n" + after).items
    assert not any(isinstance(item, Damage) for item in items)


def test_a_bad_line_at_the_end_is_judged_later() -> None:
    portion = read(event_line(0, b"0") + b"garbage\n")
    assert portion.held == b"garbage\n"
    assert parse(portion.held, event_line(2, b"2"), 0).items == [Damage(1), Event(2, b"2")]
    assert parse(portion.held, event_line(1, b"1"), 0).items == [Event(1, b"1")]


def test_numbers_never_go_back() -> None:
    items = read(event_line(5, b"5") + event_line(5, b"again") + event_line(4, b"4") + event_line(6, b"6")).items
    assert items == [Event(5, b"5"), Event(6, b"6")]


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_an_error_and_in_order(data: bytes) -> None:
    portion = read(event_line(0, b"0") + data + b"\n" + event_line(9, b"9"))
    numbers = [item.seq for item in portion.items]
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("line", [b'{"next":"3"}', b'{"end":null}', b'{"after":true,"writer":"a"}', b"[1]", b"7"])
def test_control_lines_of_another_shape_can_not_be_read(line: bytes) -> None:
    portion = read(line + b"\n")
    assert portion.held == line + b"\n"


def test_is_end_looks_at_the_last_line_only() -> None:
    assert is_end(b'xx"}\n' + end_line(611))
    assert is_end(end_line(-1))
    assert not is_end(event_line(0, b"1"))
    assert not is_end(end_line(3)[:-1])
    assert not is_end(end_line(3) + event_line(4, b"1"))
    assert not is_end(b"")


@pytest.mark.parametrize(
    ("number", "last", "expected"),
    [
        (0, -1, True),
        (5, 4, True),
        (4, 4, False),
        (MOST, 0, True),
        (MOST + 1, 0, False),
        (-1, -5, False),
        (True, 0, False),
    ],
)
def test_fits(number: object, last: int, expected: bool) -> None:
    assert fits(number, last) is expected
