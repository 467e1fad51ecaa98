"""The turn store over both twins of storage."""

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from devhost.azurite import Azurite
from hosting.ids import item_id, parse_id, response_id
from hosting.state import PreviousResponseNotFound, Turn, TurnRecord, Turns
from hosting.storage import Store, connect, keys, memory_store


@pytest.fixture(params=["memory", "azurite"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    if request.param == "memory":
        opened = memory_store()
    else:
        azurite: Azurite = request.getfixturevalue("azurite")
        opened = connect({"AzureWebJobsStorage": azurite.connection_string}, table="turns", container="turns")
    try:
        yield opened
    finally:
        await opened.close()


@pytest.fixture
def turns(store: Store) -> Turns:
    return Turns(store, keys.scope(uuid.uuid4().hex, None))


def record(turn: Turn, text: str, **fields: Any) -> TurnRecord:
    response = {"id": turn.response_id, "status": fields.pop("status", "completed"), "output": [message(turn, text)]}
    return TurnRecord(response, [message(turn, f"say {text}")], [{"text": text}], **fields)


def message(turn: Turn, text: str) -> dict[str, Any]:
    return {"id": item_id("msg", turn.response_id), "type": "message", "text": text}


async def say(turns: Turns, previous: str | None, text: str, **fields: Any) -> str:
    turn = await turns.begin(previous, history=True)
    await turns.commit(turn, record(turn, text, **fields))
    return turn.response_id


async def heard(turns: Turns, previous: str) -> list[str]:
    turn = await turns.begin(previous, history=True)
    return [message["text"] for message in turn.history or []]  # type: ignore[index]


async def test_a_turn_is_retrieved_as_it_was_committed(turns: Turns) -> None:
    turn = await turns.begin(None, history=True)
    committed = record(turn, "hello")
    await turns.commit(turn, committed)
    stored = await turns.response(turn.response_id)
    assert stored is not None
    assert stored.response == committed.response


async def test_a_follow_up_inherits_the_chain_and_takes_the_next_position(turns: Turns) -> None:
    first = await say(turns, None, "one")
    second = parse_id(await say(turns, first, "two"))
    origin = parse_id(first)
    assert second is not None
    assert origin is not None
    assert (second.chain, second.turn) == (origin.chain, 1)


async def test_history_is_all_earlier_turns_in_order(turns: Turns) -> None:
    tip = None
    for number in range(12):
        tip = await say(turns, tip, str(number))
    assert tip is not None
    assert await heard(turns, tip) == [str(number) for number in range(12)]


async def test_a_fork_sees_its_own_past_only(turns: Turns) -> None:
    one = await say(turns, None, "one")
    two = await say(turns, one, "two")
    await say(turns, two, "three")
    fork = await say(turns, one, "other two")
    fork = await say(turns, fork, "other three")
    assert await heard(turns, fork) == ["one", "other two", "other three"]
    assert await heard(turns, two) == ["one", "two"]


async def test_a_fork_of_a_fork_keeps_every_stretch(turns: Turns) -> None:
    one = await say(turns, None, "1")
    await say(turns, one, "2")
    fork = await say(turns, one, "2b")
    await say(turns, fork, "3b")
    again = await say(turns, fork, "3c")
    assert await heard(turns, again) == ["1", "2b", "3c"]


async def test_two_turns_that_race_for_a_position_both_survive(turns: Turns) -> None:
    one = await say(turns, None, "1")
    first, second = await turns.begin(one, history=True), await turns.begin(one, history=True)
    await turns.commit(first, record(first, "2a"))
    await turns.commit(second, record(second, "2b"))
    assert await heard(turns, first.response_id) == ["1", "2a"]
    assert await heard(turns, second.response_id) == ["1", "2b"]
    third = await say(turns, second.response_id, "3b")
    assert await heard(turns, third) == ["1", "2b", "3b"]
    fork = await say(turns, second.response_id, "3c")
    assert await heard(turns, fork) == ["1", "2b", "3c"]


async def test_committing_a_turn_twice_changes_nothing(turns: Turns) -> None:
    turn = await turns.begin(None, history=True)
    await turns.commit(turn, record(turn, "once"))
    await turns.commit(turn, record(turn, "once"))
    assert await heard(turns, turn.response_id) == ["once"]


async def test_a_failed_turn_is_kept_but_the_conversation_goes_on_without_it(turns: Turns) -> None:
    one = await say(turns, None, "1")
    failed = await say(turns, one, "broken", continues=False, status="failed")
    assert (await turns.response(failed)).response["status"] == "failed"  # type: ignore[union-attr]
    assert await heard(turns, failed) == ["1"]
    two = await say(turns, failed, "2")
    assert await heard(turns, two) == ["1", "2"]
    assert await heard(turns, await say(turns, one, "2b")) == ["1", "2b"]


async def test_a_conversation_can_go_on_after_a_failed_first_turn(turns: Turns) -> None:
    failed = await say(turns, None, "broken", continues=False, status="failed")
    assert await heard(turns, await say(turns, failed, "1")) == ["1"]


@pytest.mark.parametrize("identifier", ["resp_unknown", "", "conv_" + "0" * 50])
async def test_what_was_never_stored_is_not_found(turns: Turns, identifier: str) -> None:
    assert await turns.response(identifier) is None
    assert not await turns.delete(identifier)
    with pytest.raises(PreviousResponseNotFound):
        await turns.begin(identifier, history=True)


async def test_an_id_of_another_scope_is_not_found(turns: Turns, store: Store) -> None:
    mine = await say(turns, None, "secret")
    others = Turns(store, keys.scope("somebody else", None))
    assert await others.response(mine) is None
    assert not await others.delete(mine)
    with pytest.raises(PreviousResponseNotFound):
        await others.begin(mine, history=True)
    assert await turns.response(mine) is not None


async def test_an_unknown_id_of_a_known_chain_is_not_found(turns: Turns) -> None:
    one = parse_id(await say(turns, None, "1"))
    assert one is not None
    with pytest.raises(PreviousResponseNotFound):
        await turns.begin(response_id(one.chain, one.turn), history=True)


async def test_delete_removes_the_response_and_its_items_and_keeps_the_rest(turns: Turns) -> None:
    one = await say(turns, None, "1")
    two = await say(turns, one, "2")
    three = await say(turns, two, "3")
    assert await turns.delete(two)
    assert await turns.response(two) is None
    assert not await turns.delete(two)
    assert await heard(turns, three) == ["1", "3"]
    with pytest.raises(PreviousResponseNotFound):
        await turns.begin(two, history=True)


async def test_a_deleted_position_is_not_taken_again(turns: Turns) -> None:
    one = await say(turns, None, "1")
    two = await say(turns, one, "2")
    await turns.delete(two)
    other = await say(turns, one, "2b")
    assert await heard(turns, other) == ["1", "2b"]


async def test_five_megabytes_in_and_out_survive(turns: Turns) -> None:
    big = "é" * 2_500_000
    turn = await turns.begin(None, history=True)
    await turns.commit(turn, record(turn, big))
    stored = await turns.response(turn.response_id)
    assert stored is not None
    assert stored.response["output"][0]["text"] == big
    assert await heard(turns, turn.response_id) == [big]


async def test_the_session_of_a_turn_is_what_the_next_one_gets(turns: Turns) -> None:
    one = await say(turns, None, "1", session={"state": {"n": 1}})
    two = await turns.begin(one, history=False)
    assert two.session == {"state": {"n": 1}}
    await turns.commit(two, record(two, "2"))
    assert (await turns.begin(two.response_id, history=False)).session is None


async def test_open_calls_reach_the_next_turn(turns: Turns) -> None:
    one = await say(turns, None, "1", open_calls=["call_1", "call_2"])
    assert (await turns.begin(one, history=False)).open_calls == ("call_1", "call_2")


async def test_history_can_be_read_later(turns: Turns) -> None:
    one = await say(turns, None, "1")
    fork = await say(turns, await say(turns, one, "2"), "3")
    turn = await turns.begin(fork, history=False)
    assert turn.history is None
    assert [message["text"] for message in await turns.history(turn)] == ["1", "2", "3"]  # type: ignore[index]


async def test_a_turn_costs_three_reads_and_one_write_whatever_its_position(turns: Turns, store: Store) -> None:
    tip = await say(turns, None, "0")
    costs: list[tuple[int, int]] = []
    for number in range(1, 40):
        reads, writes = store.meter.table_reads, store.meter.table_writes
        tip = await say(turns, tip, str(number))
        costs.append((store.meter.table_reads - reads, store.meter.table_writes - writes))
    assert set(costs) == {(3, 1)}
