import contextlib
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosting.responses import InvalidRequest, parse_json_body
from hosting.responses.json_body import MAX_DEPTH


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"{'a': 1}",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": -Infinity}',
        b'{"a": 1e999}',
        b"\xff\xfe",
        b'{"a": "\xff"}',
        b"[" * 100_000,
        b"[" * 5_000 + b"]" * 5_000,
        b"1" * 100_000,
        b'{"a": "line\nbreak"}',
    ],
    ids=lambda raw: raw[:12].decode("latin-1"),
)
def test_what_is_not_json_is_a_400_without_a_param(raw: bytes) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_json_body(raw)
    assert caught.value.param is None


def test_nesting_up_to_the_limit_is_fine_and_one_more_is_not() -> None:
    assert parse_json_body(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    with pytest.raises(InvalidRequest, match="nested"):
        parse_json_body(b"[" * (MAX_DEPTH + 2) + b"]" * (MAX_DEPTH + 2))


def test_a_byte_order_mark_is_allowed() -> None:
    assert parse_json_body(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}


def test_half_a_surrogate_pair_becomes_a_replacement_character() -> None:
    assert parse_json_body(b'{"a": "x\\ud83d", "\\ude00": "\\ud83d\\ude00"}') == {
        "a": "x\ufffd",
        "\ufffd": "\U0001f600",
    }


def test_the_last_of_two_equal_keys_counts() -> None:
    assert parse_json_body(b'{"a": 1, "a": 2}') == {"a": 2}


def test_a_large_body_takes_no_time_to_speak_of() -> None:
    raw = json.dumps({"input": "x" * 5_000_000, "items": [{"a": [1, 2]}] * 20_000}).encode()
    started = time.process_time()
    parse_json_body(raw)
    assert time.process_time() - started < 2


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda c: st.lists(c) | st.dictionaries(st.text(), c)
    )
)
def test_json_comes_through_unchanged(value: object) -> None:
    assert parse_json_body(json.dumps(value).encode()) == json.loads(
        json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    )


@given(st.binary())
def test_bytes_of_any_kind_give_a_value_or_an_invalid_request(raw: bytes) -> None:
    with contextlib.suppress(InvalidRequest):  # anything else is raised and fails the test
        parse_json_body(raw)
