"""Turns of conversations over both twins of storage: who has the conversation, what a turn reads, and what it leaves."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from hosting.ids import parse_id
from hosting.state import conversation_table
from hosting.state.conversation_row import ConversationLocked, ConversationNotFound, owned
from hosting.storage import RowChanged, keys
from tests.contract.conversation_worlds import (
    World,
    answer_to,
    call,
    record_of,
    unknown_conversation,
    user,
    users,
    world,
)

__all__ = ["world"]


async def is_free(world: World, identifier: str) -> bool:
    """Whether items can be added by hand."""
    try:
        await world.add(identifier, "by hand")
    except ConversationLocked:
        return False
    return True


# What a turn reads


async def test_a_turn_continues_after_turns_and_items_alike(world: World) -> None:
    identifier = await world.begin("0")
    await world.say(identifier, "hi", "hello")
    await world.add(identifier, "1")
    past = await world.turns.read(identifier, history=True)
    turn = past.turn()
    parsed = parse_id(turn.response_id, "resp")
    assert parsed is not None
    assert (parsed.chain, parsed.turn) == (keys.chain_of(identifier), 3)
    assert (turn.place.log, turn.place.turn, turn.after_unfinished) == ("main", 3, False)
    assert await world.remembered(identifier) == ["0", "hi", "hello", "1"]


async def test_a_first_turn_has_nothing_before_it(world: World) -> None:
    turn = (await world.turns.read(await world.begin(), history=True)).turn()
    assert (turn.place.turn, turn.before, turn.history, turn.session) == (0, (), [], None)


async def test_history_can_be_read_later(world: World) -> None:
    identifier = await world.begin("0")
    await world.say(identifier, "hi", "hello")
    turn = (await world.turns.read(identifier, history=False)).turn()
    assert turn.history is None
    assert len(await world.responses.history(turn)) == 3


async def test_the_session_of_a_conversation_is_the_one_stored_under_its_id(world: World) -> None:
    identifier = await world.begin("0")
    await world.set_session(identifier, {"n": 1})
    assert (await world.turns.read(identifier, history=False)).turn().session == {"n": 1}


async def test_a_turn_knows_the_open_calls_of_all_that_came_before(world: World) -> None:
    identifier = await world.begin("0")
    await world.say(identifier, "hi", "hello", call("a"), call("b"))
    await world.conversations.append(identifier, [answer_to("a")])
    assert (await world.turns.read(identifier, history=False)).turn().open_calls == ("b",)


async def test_a_turn_learns_which_of_its_items_are_there_already(world: World) -> None:
    identifier = await world.begin("0")
    await world.conversations.append(identifier, user("1", id="mine"))
    items, _ = await world.conversations.items(identifier, descending=False)
    given = [items[0]["id"], "mine", "new", items[0]["id"][:-1] + "g"]
    past = await world.turns.read(identifier, history=False, given=given)
    assert past.present == {items[0]["id"], "mine"}


async def test_five_hundred_turns_and_more_are_read_whole(world: World) -> None:
    identifier = await world.begin("0")
    conversation = await world.conversations.get(identifier)
    assert conversation is not None
    await world.many_turns(conversation, 520)
    history = await world.remembered(identifier)
    assert history == ["0", *(str(number) for number in range(1, 520))]


async def test_a_turn_that_is_written_between_two_reads_is_not_missed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    identifier = await world.begin("0")
    table = world.turns._table
    get = table.get
    once = [True]

    async def late(asked: str):  # type: ignore[no-untyped-def]
        if once:  # the log has been read by now
            once.clear()
            await asyncio.sleep(0.2)
            await world.say(identifier, "hi", "hello")
        return await get(asked)

    monkeypatch.setattr(table, "get", late)
    assert await world.remembered(identifier) == ["0", "hi", "hello"]


async def test_a_background_turn_that_ends_between_two_reads_is_not_missed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    identifier = await world.begin("0")
    turn = await world.queue(identifier)
    get, once = world.store.get, [True]

    async def late(partition: str, row: str, **options: Any) -> Any:
        if row == keys.response_row(turn.response_id) and once:  # the end of the log has been read by now
            once.clear()
            await asyncio.sleep(0.2)
            await world.end(turn, "hi", "hello")
        return await get(partition, row, **options)

    monkeypatch.setattr(world.store, "get", late)
    assert await world.remembered(identifier) == ["0", "hi", "hello"]


# A foreground turn


async def test_a_conversation_that_is_held_is_locked_until_it_is_let_go(world: World) -> None:
    identifier = await world.begin("0")
    past = await world.turns.read(identifier, history=False)
    held = await world.turns.hold(past.conversation, past.turn().response_id, world.clock.now + 60)
    assert not await is_free(world, identifier)
    items, _ = await world.conversations.items(identifier)
    with pytest.raises(ConversationLocked):
        await world.conversations.delete_item(identifier, items[0]["id"])
    await world.turns.release(held, held.holder or "")
    assert await is_free(world, identifier)


async def test_of_many_turns_at_once_exactly_one_gets_the_conversation(world: World) -> None:
    identifier = await world.begin("0")

    async def take() -> str:
        past = await world.turns.read(identifier, history=False)
        await asyncio.sleep(0)
        held = await world.turns.hold(past.conversation, past.turn().response_id, world.clock.now + 60)
        return held.holder or ""

    results = await asyncio.gather(*(take() for _ in range(6)), return_exceptions=True)
    winners = [result for result in results if isinstance(result, str)]
    assert len(winners) == 1
    assert all(isinstance(result, ConversationLocked) for result in results if not isinstance(result, str))
    found = await world.conversations.get(identifier)
    assert found is not None
    assert found.holder == winners[0]


async def test_a_turn_that_read_an_older_past_does_not_get_the_conversation(world: World) -> None:
    identifier = await world.begin("0")
    past = await world.turns.read(identifier, history=True)
    await world.say(identifier, "hi", "hello")
    with pytest.raises(ConversationLocked):
        await world.turns.hold(past.conversation, past.turn().response_id, world.clock.now + 60)


async def test_a_change_of_metadata_keeps_no_turn_from_the_conversation(world: World) -> None:
    identifier = await world.begin("0")
    past = await world.turns.read(identifier, history=True)
    turn = past.turn()
    await world.conversations.update(identifier, {"a": "1"})
    held = await world.turns.hold(past.conversation, turn.response_id, world.clock.now + 60)
    await world.conversations.update(identifier, {"a": "2"})
    left = await world.finish(held, turn, "hi", "hello")
    assert (left.metadata, left.holder, left.next) == ({"a": "2"}, None, 2)
    assert await world.texts(identifier) == ["0", "hi", "hello"]


async def test_the_end_of_a_turn_lets_the_conversation_go(world: World) -> None:
    identifier = await world.begin("0")
    await world.say(identifier, "hi", "hello")
    assert await is_free(world, identifier)
    assert await world.texts(identifier) == ["0", "hi", "hello", "by hand"]


async def test_a_failed_turn_is_stored_and_the_conversation_stands_where_it_was(world: World) -> None:
    identifier = await world.begin("0")
    past = await world.turns.read(identifier, history=True)
    turn = past.turn()
    held = await world.turns.hold(past.conversation, turn.response_id, world.clock.now + 60)
    rows = world.rows(turn, record_of(turn, "hi", "oops", call("a"), status="failed"), turn.response_id[-24:])
    left = await world.turns.commit(held, turn.response_id, rows, None)
    assert (left.next, left.holder, left.open_calls) == (1, None, ())
    stored = await world.responses.response(turn.response_id)
    assert stored is not None
    assert stored.response["status"] == "failed"
    await world.say(identifier, "again", "hello")
    assert await world.texts(identifier) == ["0", "again", "hello"]


async def test_a_turn_whose_process_died_holds_the_conversation_no_longer_than_it_said(world: World) -> None:
    identifier = await world.begin("0")
    past = await world.turns.read(identifier, history=False)
    await world.turns.hold(past.conversation, past.turn().response_id, world.clock.now + 60)
    world.clock.now += 59
    assert not await is_free(world, identifier)
    world.clock.now += 1
    assert await is_free(world, identifier)


async def test_a_turn_that_is_extended_holds_it_longer(world: World) -> None:
    identifier = await world.begin("0")
    past = await world.turns.read(identifier, history=False)
    turn = past.turn()
    held = await world.turns.hold(past.conversation, turn.response_id, world.clock.now + 60)
    await world.conversations.update(identifier, {"a": "1"})
    held = await world.turns.extend(held, turn.response_id, world.clock.now + 120)
    assert held.metadata == {"a": "1"}
    world.clock.now += 119
    assert not await is_free(world, identifier)


async def test_a_turn_that_was_overtaken_writes_nothing(world: World) -> None:
    identifier = await world.begin("0")
    past = await world.turns.read(identifier, history=False)
    turn = past.turn()
    held = await world.turns.hold(past.conversation, turn.response_id, world.clock.now + 60)
    world.clock.now += 60
    await world.add(identifier, "1")
    with pytest.raises(ConversationLocked):
        await world.finish(held, turn, "hi", "too late")
    with pytest.raises(ConversationLocked):
        await world.turns.extend(held, turn.response_id, world.clock.now + 60)
    await world.turns.release(held, turn.response_id)
    assert await world.texts(identifier) == ["0", "1"]
    assert await world.responses.response(turn.response_id) is None


async def test_a_turn_whose_time_is_over_can_still_end_when_nobody_came(world: World) -> None:
    identifier = await world.begin("0")
    past = await world.turns.read(identifier, history=False)
    turn = past.turn()
    held = await world.turns.hold(past.conversation, turn.response_id, world.clock.now + 60)
    world.clock.now += 600
    await world.finish(held, turn, "hi", "hello")
    assert await world.texts(identifier) == ["0", "hi", "hello"]


async def test_a_turn_that_is_committed_twice_is_there_once(world: World) -> None:
    identifier = await world.begin("0")
    past = await world.turns.read(identifier, history=False)
    turn = past.turn()
    held = await world.turns.hold(past.conversation, turn.response_id, world.clock.now + 60)
    await world.finish(held, turn, "hi", "hello")
    await world.finish(held, turn, "hi", "hello")
    await world.add(identifier, "1")
    await world.finish(held, turn, "hi", "hello")
    assert await world.texts(identifier) == ["0", "hi", "hello", "1"]


async def test_a_turn_is_committed_again_after_one_of_its_items_was_deleted(world: World) -> None:
    identifier = await world.begin("0")
    past = await world.turns.read(identifier, history=False)
    turn = past.turn()
    held = await world.turns.hold(past.conversation, turn.response_id, world.clock.now + 60)
    await world.finish(held, turn, "hi", "hello")
    items, _ = await world.conversations.items(identifier)
    await world.conversations.delete_item(identifier, items[0]["id"])
    await world.finish(held, turn, "hi", "hello")
    assert await world.texts(identifier) == ["0", "hi"]


async def test_a_turn_is_committed_again_with_the_conversation_as_it_is_by_then(world: World) -> None:
    identifier = await world.begin("0")
    turn = await world.say(identifier, "hi", "hello")
    latest = await world.conversations.get(identifier)
    assert latest is not None
    await world.finish(latest, turn, "hi", "hello")
    assert await world.texts(identifier) == ["0", "hi", "hello"]


async def test_an_item_of_a_turn_with_an_id_of_foreign_make_is_found(world: World) -> None:
    identifier = await world.begin("0")
    await world.say(identifier, "hi", "hello", call("a", id="mine"))
    assert (await world.conversations.item(identifier, "mine"))["call_id"] == "a"


async def test_a_conversation_that_is_deleted_while_a_turn_runs_is_not_there_at_its_end(world: World) -> None:
    identifier = await world.begin("0")
    past = await world.turns.read(identifier, history=False)
    turn = past.turn()
    held = await world.turns.hold(past.conversation, turn.response_id, world.clock.now + 60)
    assert await world.conversations.delete(identifier)
    with pytest.raises(ConversationNotFound):
        await world.finish(held, turn, "hi", "hello")
    with pytest.raises(ConversationNotFound):
        await world.turns.extend(held, turn.response_id, world.clock.now + 120)
    await world.turns.release(held, turn.response_id)
    assert await world.partition(identifier) == []


async def test_a_turn_of_an_unknown_conversation_does_not_begin(world: World) -> None:
    with pytest.raises(ConversationNotFound):
        await world.turns.read(unknown_conversation(), history=True)


# Background turns


async def test_a_background_turn_has_the_conversation_until_its_response_has_ended(world: World) -> None:
    identifier = await world.begin("0")
    turn = await world.queue(identifier)
    world.clock.now += 1_000_000  # there is no time that ends it
    assert not await is_free(world, identifier)
    past = await world.turns.read(identifier, history=True)
    assert past.conversation.owners == (turn.response_id,)
    with pytest.raises(ConversationLocked):
        await world.turns.hold(past.conversation, past.turn().response_id, world.clock.now + 60)
    await world.end(turn, "hi", "hello", call("a"))
    past = await world.turns.read(identifier, history=True)
    assert past.conversation.owners == ()
    assert past.turn().open_calls == ("a",)
    assert await world.remembered(identifier) == ["0", "hi", "hello"]
    assert await is_free(world, identifier)
    assert await world.texts(identifier) == ["0", "hi", "hello", "function_call", "by hand"]


async def test_a_change_of_metadata_is_no_matter_to_a_background_turn(world: World) -> None:
    identifier = await world.begin("0")
    turn = await world.queue(identifier)
    await world.conversations.update(identifier, {"a": "1"})
    await world.end(turn, "hi", "hello")
    past = await world.turns.read(identifier, history=False)
    assert (past.conversation.metadata, past.conversation.next) == ({"a": "1"}, 2)


@pytest.mark.parametrize("status", ["failed", "cancelled"])
async def test_a_background_turn_that_came_to_nothing_leaves_its_place_free(world: World, status: str) -> None:
    identifier = await world.begin("0")
    turn = await world.queue(identifier)
    await world.end(turn, "hi", "oops", status=status)
    following = await world.say(identifier, "again", "hello")
    assert following.place == turn.place
    assert await world.texts(identifier) == ["0", "again", "hello"]
    assert await world.remembered(identifier) == ["0", "again", "hello"]


async def test_a_background_response_that_is_deleted_has_the_conversation_no_longer(world: World) -> None:
    identifier = await world.begin("0")
    turn = await world.queue(identifier)
    await world.end(turn, "hi", "hello")
    await world.responses.delete(turn.response_id)
    await world.say(identifier, "again", "hello")
    assert await world.texts(identifier) == ["0", "again", "hello"]


async def test_of_two_background_turns_at_once_one_is_refused(world: World) -> None:
    identifier = await world.begin("0")
    past = await world.turns.read(identifier, history=False)
    await world.accept(past)
    with pytest.raises(RowChanged):
        await world.accept(past)


async def test_a_background_turn_is_not_accepted_while_a_foreground_turn_runs(world: World) -> None:
    identifier = await world.begin("0")
    past = await world.turns.read(identifier, history=False)
    held = await world.turns.hold(past.conversation, past.turn().response_id, world.clock.now + 60)
    with pytest.raises(ConversationLocked):
        owned(held, past.turn().response_id, now=world.clock.now)


async def test_a_background_turn_takes_the_conversation_from_a_turn_whose_time_is_over(world: World) -> None:
    identifier = await world.begin("0")
    past = await world.turns.read(identifier, history=False)
    first = past.turn()
    held = await world.turns.hold(past.conversation, first.response_id, world.clock.now + 60)
    world.clock.now += 60
    turn = await world.queue(identifier)
    with pytest.raises(ConversationLocked):
        await world.finish(held, first, "hi", "too late")
    await world.end(turn, "hi", "hello")
    assert await world.texts(identifier) == ["0", "hi", "hello"]


async def test_steered_turns_wait_in_line_each_behind_the_one_before_it(world: World) -> None:
    identifier = await world.begin("0")
    turns = [await world.queue(identifier) for _ in range(3)]
    assert [turn.place.turn for turn in turns] == [1, 2, 3]
    assert [turn.after_unfinished for turn in turns] == [False, True, True]
    for number, turn in enumerate(turns):
        past = await world.turns.read(identifier, history=True)
        assert past.conversation.owners == tuple(other.response_id for other in turns[number:])
        resumed = past.turn(turn.response_id)
        assert (resumed.response_id, resumed.place, resumed.after_unfinished) == (turn.response_id, turn.place, False)
        assert len(resumed.history or []) == 1 + 2 * number
        await world.end(turn, f"q{number}", f"a{number}")
    assert await world.texts(identifier) == ["0", "q0", "a0", "q1", "a1", "q2", "a2"]
    assert await is_free(world, identifier)


async def test_a_queued_turn_that_is_cancelled_leaves_a_gap_that_nobody_sees(world: World) -> None:
    identifier = await world.begin("0")
    first, second, third = [await world.queue(identifier) for _ in range(3)]
    await world.end(second, "q1", "never", status="cancelled")
    await world.end(first, "q0", "a0")
    await world.end(third, "q2", "a2")
    await world.add(identifier, "1")
    assert await world.texts(identifier) == ["0", "q0", "a0", "q2", "a2", "1"]
    assert await world.texts(identifier, descending=True) == ["1", "a2", "q2", "a0", "q0", "0"]
    assert await world.remembered(identifier) == ["0", "q0", "a0", "q2", "a2", "1"]


async def test_no_more_turns_wait_than_a_conversation_takes(world: World) -> None:
    identifier = await world.begin("0")
    for _ in range(12):
        await world.queue(identifier)
    with pytest.raises(ConversationLocked):
        await world.queue(identifier)


async def test_an_item_of_a_background_turn_is_found_before_anything_else_is_written(world: World) -> None:
    identifier = await world.begin("0")
    turn = await world.queue(identifier)
    await world.end(turn, "hi", "hello", call("a", id="mine"))
    items, _ = await world.conversations.items(identifier)
    assert await world.conversations.item(identifier, items[-1]["id"]) == items[-1]
    assert await world.conversations.item(identifier, "mine") == items[0]
    assert await world.texts(identifier, after="mine", descending=True) == ["hello", "hi", "0"]


async def test_a_turn_that_somebody_else_wrote_into_the_log_is_gone_around(world: World) -> None:
    identifier = await world.begin("0")
    past = await world.turns.read(identifier, history=False)
    stranger = past.turn()
    await world.responses.commit(stranger, record_of(stranger, "from", "elsewhere"))
    await world.add(identifier, "1")
    assert await world.texts(identifier) == ["0", "from", "elsewhere", "1"]


async def test_items_that_wait_behind_a_turn_are_not_lost_to_an_older_version(world: World) -> None:
    identifier = await world.begin("0")
    past = await world.turns.read(identifier, history=False)
    await world.conversations.append(identifier, users("1"))
    stale = replace(past.conversation, metadata={})
    with pytest.raises(RowChanged):
        await world.accept(replace(past, conversation=stale))
    assert await world.texts(identifier) == ["0", "1"]


async def test_large_turns_behind_the_row_are_read_one_by_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation_table, "_TAIL_BYTES", 10)
    identifier = await world.begin("0")
    for number in range(2):
        turn = await world.queue(identifier)
        await world.end(turn, f"hi {number}", "hello", call(f"a{number}"))
    past = await world.turns.read(identifier, history=True)
    assert past.conversation.next == 3
    assert past.conversation.open_calls == ("a0", "a1")
    assert await world.remembered(identifier) == ["0", "hi 0", "hello", "hi 1", "hello"]
