from hypothesis import given
from hypothesis import strategies as st

from hosting.state.lineage import (
    MAIN,
    Lineage,
    Place,
    Segment,
    decode_lineage,
    encode_lineage,
    extend,
    next_place,
    places,
)


def test_a_plain_conversation_is_one_segment() -> None:
    lineage: Lineage = ()
    for turn in range(500):
        lineage = extend(lineage, Place("a", MAIN, turn))
    assert lineage == (Segment("a", MAIN, 0, 499),)


def test_a_fork_starts_a_segment_and_keeps_the_old_one() -> None:
    parent = (Segment("a", MAIN, 0, 2),)
    assert extend(parent, Place("b", MAIN, 3)) == (Segment("a", MAIN, 0, 2), Segment("b", MAIN, 3, 3))


def test_the_next_place_follows_the_tip() -> None:
    assert next_place((Segment("a", MAIN, 0, 2), Segment("b", "x", 3, 4)), Place("q", MAIN, 0)) == Place("b", "x", 5)


def test_nothing_before_means_the_fallback() -> None:
    assert next_place((), Place("q", MAIN, 0)) == Place("q", MAIN, 0)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([MAIN, "x"])), max_size=40))
def test_places_are_what_was_extended_in_order(logs: list[tuple[str, str]]) -> None:
    wanted = [Place(chain, log, turn) for turn, (chain, log) in enumerate(logs)]
    lineage: Lineage = ()
    for place in wanted:
        lineage = extend(lineage, place)
    assert places(lineage) == wanted
    assert decode_lineage(encode_lineage(lineage)) == lineage
