"""Keys: injective, in an alphabet that everything takes, bounded, and in the order of what they stand for."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosting.ids import item_id, new_chain, parse_id, response_id
from hosting.storage import keys

texts = st.text(st.characters(), max_size=60) | st.text("aA0_-.~/\\#? \x00é漢\U0001f600", max_size=300)
ALPHABET = re.compile(r"[a-z0-9_~-]{1,160}")


@given(texts, texts)
def test_encode_key_is_injective(one: str, other: str) -> None:
    assert (keys.encode_key(one) == keys.encode_key(other)) == (one == other)


@given(texts)
def test_encode_key_is_bounded_and_needs_no_escape_anywhere(text: str) -> None:
    assert ALPHABET.fullmatch(keys.encode_key(text))


@given(st.text("abcXYZ", min_size=1, max_size=20))
def test_ids_that_differ_only_in_case_have_keys_that_differ_in_more_than_case(text: str) -> None:
    if text != text.swapcase():
        assert keys.encode_key(text).lower() != keys.encode_key(text.swapcase()).lower()


def test_readable_ids_stay_readable() -> None:
    assert keys.encode_key("user_42-main") == "user_42-main"
    assert keys.encode_key("A.b/c") == "~41~2eb~2fc"
    assert keys.encode_key("") == "~"


def test_long_text_is_hashed_and_no_short_text_looks_like_it() -> None:
    hashed = keys.encode_key("x" * 161)
    assert re.fullmatch(r"~~[0-9a-f]{64}", hashed)
    assert keys.encode_key(hashed) != hashed
    assert keys.encode_key("x" * 160) == "x" * 160
    assert keys.encode_key("é" * 80).startswith("~~")


@given(st.tuples(texts, texts | st.none()), st.tuples(texts, texts | st.none()))
def test_scope_tells_all_pairs_apart(one: tuple[str, str | None], other: tuple[str, str | None]) -> None:
    assert (keys.scope(*one) == keys.scope(*other)) == (one == other)


def test_scope_is_unambiguous_and_of_one_width() -> None:
    pairs = [("a", "b"), ("ab", None), ("ab", ""), ("a", "b\x00"), ("", "ab"), ('a","b', None), ("a", None)]
    scopes = {keys.scope(*pair) for pair in pairs}
    assert len(scopes) == len(pairs)
    assert all(re.fullmatch(r"[0-9a-f]{32}", scope) for scope in scopes)


def test_scope_does_not_change() -> None:
    # Stored data hangs on it.
    assert keys.scope("contoso", "alice") == "148ffd086afb1aff6cec800fe1178922"


def test_partition_key_joins_scope_and_chain() -> None:
    scope, chain = keys.scope("t", None), new_chain()
    assert keys.partition_key(scope, chain) == f"{scope}-{chain}"


@pytest.mark.parametrize(
    ("scope", "chain"), [("", "0" * 18), ("0" * 32, ""), ("0" * 31 + "/", "0" * 18), ("0" * 32, "g" * 18)]
)
def test_partition_key_takes_nothing_else(scope: str, chain: str) -> None:
    with pytest.raises(ValueError):
        keys.partition_key(scope, chain)


def test_chain_of_an_id_is_the_chain_it_carries() -> None:
    response = response_id()
    parsed = parse_id(response)
    assert parsed is not None
    assert keys.chain_of(response) == parsed.chain
    assert keys.chain_of(item_id("msg", response)) == parsed.chain


@given(texts)
def test_chain_of_any_text_is_a_chain_and_always_the_same(text: str) -> None:
    assert re.fullmatch(r"[0-9a-f]{18}", keys.chain_of(text))
    assert keys.chain_of(text) == keys.chain_of(text)


def test_chains_of_different_texts_differ() -> None:
    assert len({keys.chain_of(f"session {n}") for n in range(1_000)}) == 1_000


@given(texts, texts, st.integers(0, 2**32 - 1))
def test_rows_of_different_kinds_never_meet(one: str, other: str, position: int) -> None:
    rows = {keys.response_row(one), keys.session_row(other), keys.turn_row(one, position)}
    assert len(rows) == 3
    assert all(re.fullmatch(r"[a-z0-9_.~-]{1,200}", row) for row in rows)


@given(texts, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_turn_rows_sort_as_positions_do(log: str, one: int, other: int) -> None:
    assert (keys.turn_row(log, one) < keys.turn_row(log, other)) == (one < other)


@given(st.sampled_from(["a", "a-0", "a.0", "b", new_chain()]), st.sampled_from(["a", "a-0", "a.0", "b"]), st.data())
def test_turn_range_has_exactly_the_turns_of_its_log(log: str, other: str, data: st.DataObject) -> None:
    positions = st.integers(0, 2**32 - 1)
    first, position = data.draw(positions), data.draw(positions)
    last = data.draw(positions | st.none() | st.just(2**32))
    low, high = keys.turn_range(log, first, last)
    inside = log == other and first <= position and (last is None or position < last)
    assert (low <= keys.turn_row(other, position) < high) == inside


@pytest.mark.parametrize("position", [-1, 2**32])
def test_positions_outside_of_a_log_are_refused(position: int) -> None:
    with pytest.raises(ValueError):
        keys.turn_row("log", position)
