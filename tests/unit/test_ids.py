import pytest

from hosting import ids


def test_a_response_id_carries_its_chain_and_turn() -> None:
    chain = ids.new_chain()
    parsed = ids.parse_id(ids.response_id(chain, 41))
    assert parsed is not None
    assert (parsed.prefix, parsed.chain, parsed.turn) == ("resp", chain, 41)


def test_an_id_has_fifty_digits_like_openais() -> None:
    assert len(ids.response_id().removeprefix("resp_")) == 50


def test_an_item_id_inherits_chain_and_turn_of_its_response() -> None:
    response = ids.response_id(turn=7)
    parsed, owner = ids.parse_id(ids.item_id("msg", response)), ids.parse_id(response)
    assert parsed is not None
    assert owner is not None
    assert (parsed.chain, parsed.turn) == (owner.chain, 7)


def test_an_item_of_a_foreign_response_id_still_gets_an_id() -> None:
    assert ids.parse_id(ids.item_id("msg", "my-own-id"), "msg") is not None


def test_ids_are_not_repeated() -> None:
    chain = ids.new_chain()
    assert len({ids.response_id(chain, 0) for _ in range(1000)}) == 1000


@pytest.mark.parametrize(
    "value",
    ["", "resp_", "resp_" + "0" * 49, "resp_" + "0" * 51, "resp_" + "g" * 50, "RESP_" + "0" * 50]
    + ["resp_" + "0" * 50 + "\n", "resp_" + "٠" * 50, "resp/../" + "0" * 50, "resp_" + "A" * 50],
)
def test_what_does_not_match_the_grammar_is_no_id(value: str) -> None:
    assert ids.parse_id(value) is None


def test_an_id_of_another_kind_is_refused() -> None:
    assert ids.parse_id(ids.conversation_id(), "resp") is None
