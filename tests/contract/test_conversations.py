"""Conversations and their items over both twins of storage."""

import asyncio
from typing import Any

import pytest

from hosting.ids import item_id, parse_id, response_id
from hosting.responses import normalize_input
from hosting.state.conversation_row import ConversationLocked, ConversationNotFound, DuplicateItem, ItemNotFound
from hosting.storage import keys
from tests.contract.conversation_worlds import (
    World,
    answer_to,
    call,
    text_of,
    unknown_conversation,
    user,
    users,
    world,
)

__all__ = ["world"]


async def open_calls(world: World, identifier: str) -> tuple[str, ...]:
    return (await world.turns.read(identifier, history=False)).conversation.open_calls


# The conversation itself


async def test_a_conversation_is_found_as_it_was_made(world: World) -> None:
    made = await world.conversations.create({"topic": "boats"})
    assert await world.conversations.get(made.id) == made
    assert made.to_object() == {
        "id": made.id,
        "object": "conversation",
        "created_at": 1_000,
        "metadata": {"topic": "boats"},
    }
    assert parse_id(made.id, "conv") is not None


async def test_it_can_begin_with_items(world: World) -> None:
    identifier = await world.begin("one", "two")
    assert await world.texts(identifier) == ["one", "two"]
    assert await world.remembered(identifier) == ["one", "two"]


@pytest.mark.parametrize("identifier", ["conv_unknown", "", "conv_" + "0" * 50, "resp_" + "0" * 50])
async def test_what_was_never_made_is_not_found(world: World, identifier: str) -> None:
    assert await world.conversations.get(identifier) is None
    assert not await world.conversations.delete(identifier)
    for attempt in (
        world.conversations.update(identifier, {}),
        world.conversations.append(identifier, users("x")),
        world.conversations.items(identifier),
        world.conversations.item(identifier, "msg_1"),
        world.conversations.delete_item(identifier, "msg_1"),
        world.turns.read(identifier, history=True),
    ):
        with pytest.raises(ConversationNotFound):
            await attempt


async def test_a_conversation_of_another_scope_is_not_found(world: World) -> None:
    identifier = await world.begin("secret")
    other = World(world.store)
    assert await other.conversations.get(identifier) is None
    assert not await other.conversations.delete(identifier)
    with pytest.raises(ConversationNotFound):
        await other.conversations.items(identifier)
    assert await world.texts(identifier) == ["secret"]


async def test_an_id_with_the_chain_of_another_conversation_is_not_found(world: World) -> None:
    identifier = await world.begin("one")
    guessed = identifier[:-1] + ("0" if identifier[-1] != "0" else "1")
    assert await world.conversations.get(guessed) is None


async def test_metadata_is_replaced_as_a_whole(world: World) -> None:
    identifier = await world.begin("one", metadata={"a": "1", "b": "2"})
    assert (await world.conversations.update(identifier, {"c": "3"})).metadata == {"c": "3"}
    found = await world.conversations.get(identifier)
    assert found is not None
    assert (found.metadata, found.next) == ({"c": "3"}, 1)


# Adding items


async def test_items_are_listed_in_the_order_in_which_they_were_added(world: World) -> None:
    identifier = await world.begin("0")
    world.clock.now = 0  # order is by position, whatever the clock says
    await world.add(identifier, "1", "2")
    await world.add(identifier, "3")
    assert await world.texts(identifier) == ["0", "1", "2", "3"]
    assert await world.texts(identifier, descending=True) == ["3", "2", "1", "0"]


async def test_append_gives_each_item_an_id_and_keeps_those_that_are_there(world: World) -> None:
    identifier = await world.begin()
    given = [*user("mine", id="msg_mine"), *users("yours")]
    mine, yours = await world.conversations.append(identifier, given)
    assert mine["id"] == "msg_mine"
    parsed = parse_id(yours["id"], "msg")
    assert parsed is not None
    assert (parsed.chain, parsed.turn) == (keys.chain_of(identifier), 0)


async def test_a_reasoning_item_without_id_and_text_is_fine(world: World) -> None:
    identifier = await world.begin()
    items = normalize_input([{"type": "reasoning", "summary": []}])
    (stored,) = await world.conversations.append(identifier, items)
    assert stored == {"id": stored["id"], "type": "reasoning", "summary": []}
    assert stored["id"].startswith("rs_")


@pytest.mark.parametrize("identifier", ["msg_of_a_client", "ünïcode / # ? id", "x" * 512])
async def test_an_id_of_foreign_make_can_be_there_once(world: World, identifier: str) -> None:
    conversation = await world.begin("before")
    await world.conversations.append(conversation, user("one", id=identifier))
    with pytest.raises(DuplicateItem) as caught:
        await world.conversations.append(conversation, [*users("lost"), *user("two", id=identifier)])
    assert caught.value.item_id == identifier
    assert await world.texts(conversation) == ["before", "one"]


async def test_an_id_that_the_conversation_has_given_can_be_there_once(world: World) -> None:
    identifier = await world.begin()
    (stored,) = await world.add(identifier, "one")
    await world.add(identifier, "two")
    with pytest.raises(DuplicateItem):
        await world.conversations.append(identifier, [stored])


async def test_an_item_of_a_turn_can_be_there_once(world: World) -> None:
    identifier = await world.begin()
    await world.say(identifier, "hi", "hello")
    items, _ = await world.conversations.items(identifier)
    with pytest.raises(DuplicateItem):
        await world.conversations.append(identifier, [items[0]])


async def test_an_id_of_another_conversation_is_an_id_like_any_other(world: World) -> None:
    one, other = await world.begin("a"), await world.begin("b")
    items, _ = await world.conversations.items(one)
    await world.conversations.append(other, items)
    assert await world.texts(other) == ["b", "a"]
    assert await world.conversations.item(other, items[0]["id"]) == items[0]


async def test_an_id_that_names_a_later_turn_is_found_where_the_item_is(world: World) -> None:
    identifier = await world.begin("0")
    crafted = item_id("msg", response_id(keys.chain_of(identifier), 3))
    await world.conversations.append(identifier, user("1", id=crafted))
    await world.add(identifier, "2")
    await world.add(identifier, "3")
    assert text_of(await world.conversations.item(identifier, crafted)) == "1"
    assert await world.texts(identifier, after=crafted) == ["2", "3"]
    with pytest.raises(DuplicateItem):
        await world.conversations.append(identifier, user("4", id=crafted))


async def test_many_ids_of_a_client_are_looked_up_at_once(world: World) -> None:
    identifier = await world.begin()
    await world.conversations.append(identifier, user("known", id="client_59"))
    given = tuple(f"client_{number}" for number in range(60))
    past = await world.turns.read(identifier, history=False, given=given)
    assert past.present == {"client_59"}


async def test_appends_at_once_all_arrive_or_are_refused_and_never_mix(world: World) -> None:
    identifier = await world.begin()
    batches = [[f"{batch}.{number}" for number in range(3)] for batch in range(6)]
    results = await asyncio.gather(*(world.add(identifier, *batch) for batch in batches), return_exceptions=True)
    refused = [result for result in results if isinstance(result, BaseException)]
    assert all(isinstance(result, ConversationLocked) for result in refused)
    arrived = [batch for batch, result in zip(batches, results, strict=True) if isinstance(result, list)]
    assert arrived
    texts = await world.texts(identifier)
    found = [texts[at : at + 3] for at in range(0, len(texts), 3)]
    assert sorted(found) == sorted(arrived)


async def test_items_of_five_megabytes_survive(world: World) -> None:
    identifier, big = await world.begin(), "é" * 1_300_000
    await world.add(identifier, big, big)
    assert await world.texts(identifier) == [big, big]


# Reading items


async def test_pages_go_on_behind_an_item_in_both_directions(world: World) -> None:
    identifier = await world.begin("0", "1")
    for start in range(2, 12, 2):
        await world.add(identifier, str(start), str(start + 1))
    for descending in (False, True):
        seen: list[str] = []
        after: str | None = None
        for _ in range(4):
            items, more = await world.conversations.items(identifier, after=after, descending=descending, limit=3)
            assert len(items) == 3
            seen += [text_of(item) for item in items]
            after = items[-1]["id"]
            assert more == (len(seen) < 12)
        assert seen == sorted(map(str, range(12)), key=int, reverse=descending)
        assert await world.conversations.items(identifier, after=after, descending=descending) == ([], False)


async def test_pages_go_on_behind_an_id_of_foreign_make(world: World) -> None:
    identifier = await world.begin("0")
    await world.conversations.append(identifier, [*user("1", id="mine"), *users("2")])
    await world.add(identifier, "3")
    assert await world.texts(identifier, after="mine") == ["2", "3"]
    assert await world.texts(identifier, after="mine", descending=True) == ["0"]


@pytest.mark.parametrize("after", ["msg_unknown", item_id("msg", response_id())], ids=["foreign", "ours"])
async def test_a_list_does_not_begin_behind_an_item_that_it_does_not_have(world: World, after: str) -> None:
    identifier = await world.begin("0")
    with pytest.raises(ItemNotFound):
        await world.conversations.items(identifier, after=after)


async def test_an_empty_conversation_has_an_empty_list(world: World) -> None:
    assert await world.conversations.items(await world.begin()) == ([], False)


async def test_a_client_can_delete_what_it_lists_page_by_page(world: World) -> None:
    identifier = await world.begin("0", "1", "2")
    await world.add(identifier, "3", "4", "5")
    after: str | None = None
    deleted: list[str] = []
    for _ in range(10):
        items, more = await world.conversations.items(identifier, after=after, limit=2)
        for item in items:
            await world.conversations.delete_item(identifier, item["id"])
            deleted.append(text_of(item))
            after = item["id"]
        if not more:
            break
    assert deleted == ["5", "4", "3", "2", "1", "0"]
    assert await world.texts(identifier) == []


@pytest.mark.parametrize("item", ["msg_unknown", "", item_id("msg", response_id())], ids=["foreign", "empty", "ours"])
async def test_an_unknown_item_is_not_found(world: World, item: str) -> None:
    identifier = await world.begin("0")
    with pytest.raises(ItemNotFound):
        await world.conversations.item(identifier, item)
    with pytest.raises(ItemNotFound):
        await world.conversations.delete_item(identifier, item)


async def test_turns_with_more_foreign_ids_than_rows_fit_are_searched_in_the_log(world: World) -> None:
    identifier = await world.begin("0")
    extra = [call(f"c{number}", id=f"client_{number}") for number in range(70)]
    await world.say(identifier, "hi", "hello", *extra)
    assert (await world.conversations.item(identifier, "client_69"))["call_id"] == "c69"
    assert (await world.conversations.item(identifier, "client_0"))["call_id"] == "c0"
    await world.say(identifier, "more", "yes")
    for number in (0, 69):
        with pytest.raises(DuplicateItem):
            await world.conversations.append(identifier, user("x", id=f"client_{number}"))
    await world.conversations.delete_item(identifier, "client_69")
    with pytest.raises(ItemNotFound):
        await world.conversations.item(identifier, "client_69")


# Deleting items


async def test_a_deleted_item_is_gone_from_the_list_and_from_what_agents_remember(world: World) -> None:
    identifier = await world.begin("0", "1", "2")
    items, _ = await world.conversations.items(identifier, descending=False)
    conversation = await world.conversations.delete_item(identifier, items[1]["id"])
    assert conversation.id == identifier
    assert await world.texts(identifier) == ["0", "2"]
    assert await world.remembered(identifier) == ["0", "2"]
    with pytest.raises(ItemNotFound):
        await world.conversations.delete_item(identifier, items[1]["id"])


async def test_an_item_of_a_turn_can_be_deleted_and_the_response_stays(world: World) -> None:
    identifier = await world.begin("0")
    turn = await world.say(identifier, "hi", "hello")
    items, _ = await world.conversations.items(identifier)
    await world.conversations.delete_item(identifier, items[0]["id"])
    assert await world.texts(identifier) == ["0", "hi"]
    assert await world.remembered(identifier) == ["0", "hi"]
    stored = await world.responses.response(turn.response_id)
    assert stored is not None
    assert stored.response["output"] == []


async def test_a_deleted_id_can_be_used_again(world: World) -> None:
    identifier = await world.begin()
    await world.conversations.append(identifier, user("one", id="mine"))
    await world.conversations.delete_item(identifier, "mine")
    await world.conversations.append(identifier, user("two", id="mine"))
    assert await world.texts(identifier) == ["two"]


async def test_other_documents_of_a_turn_survive_the_deletion_of_an_item(world: World) -> None:
    identifier = await world.begin("0", "1")
    partition = keys.partition_key(world.scope, keys.chain_of(identifier))
    row = keys.turn_row("main", 0)
    before = await world.store.get(partition, row)
    items, _ = await world.conversations.items(identifier)
    await world.conversations.delete_item(identifier, items[0]["id"])
    after = await world.store.get(partition, row)
    assert before is not None
    assert after is not None
    assert after.fields == before.fields
    assert after.documents.keys() == before.documents.keys()


# Calls that wait for their outputs


async def test_open_calls_are_those_of_all_items_that_nothing_answers(world: World) -> None:
    identifier = await world.begin()
    await world.conversations.append(identifier, [call("a"), call("b")])
    assert await open_calls(world, identifier) == ("a", "b")
    await world.conversations.append(identifier, [answer_to("a"), call("c", status="incomplete")])
    assert await open_calls(world, identifier) == ("b",)
    await world.conversations.append(identifier, [answer_to("b")])
    assert await open_calls(world, identifier) == ()


async def test_a_call_that_is_deleted_waits_for_nothing(world: World) -> None:
    identifier = await world.begin()
    stored = await world.conversations.append(identifier, [call("a"), call("b")])
    await world.conversations.delete_item(identifier, stored[0]["id"])
    assert await open_calls(world, identifier) == ("b",)


async def test_a_call_whose_output_is_deleted_is_open_again(world: World) -> None:
    identifier = await world.begin()
    await world.conversations.append(identifier, [call("a"), call("b")])
    (first,) = await world.conversations.append(identifier, [answer_to("a")])
    (second,) = await world.conversations.append(identifier, [answer_to("a")])
    await world.conversations.delete_item(identifier, first["id"])
    assert await open_calls(world, identifier) == ("b",)  # there is another answer
    await world.conversations.delete_item(identifier, second["id"])
    assert set(await open_calls(world, identifier)) == {"a", "b"}


async def test_deleting_what_is_no_call_leaves_the_open_calls(world: World) -> None:
    identifier = await world.begin("0")
    cut_off: dict[str, Any] = call("a", status="incomplete")
    stored = await world.conversations.append(identifier, [call("a"), *users("x")])
    cut = await world.conversations.append(identifier, [cut_off])
    for item in (stored[1], cut[0]):
        await world.conversations.delete_item(identifier, item["id"])
    assert await open_calls(world, identifier) == ("a",)


# Deleting the conversation


async def test_a_deleted_conversation_leaves_its_responses_and_nothing_else(world: World) -> None:
    identifier = await world.begin("0")
    turn = await world.say(identifier, "hi", "hello")
    await world.conversations.append(identifier, user("1", id="mine"))
    await world.set_session(identifier, {"n": 1})
    assert await world.conversations.delete(identifier)
    assert await world.conversations.get(identifier) is None
    assert not await world.conversations.delete(identifier)
    stored = await world.responses.response(turn.response_id)
    assert stored is not None
    assert text_of(stored.response["output"][0]) == "hello"
    assert await world.partition(identifier) == [keys.response_row(turn.response_id), keys.turn_row("main", 1)]


async def test_a_deleted_response_keeps_its_place_when_the_conversation_is_deleted(world: World) -> None:
    identifier = await world.begin("0")
    turn = await world.say(identifier, "hi", "hello")
    await world.responses.delete(turn.response_id)
    assert await world.conversations.delete(identifier)
    assert await world.partition(identifier) == [keys.turn_row("main", 1)]


async def test_a_conversation_of_more_rows_than_a_transaction_takes_is_deleted_whole(world: World) -> None:
    identifier = await world.begin()
    for start in range(0, 120, 20):
        items = [user(str(number), id=f"mine_{number}")[0] for number in range(start, start + 20)]
        await world.conversations.append(identifier, items)
    assert len(await world.partition(identifier)) > 120
    assert await world.conversations.delete(identifier)
    assert await world.partition(identifier) == []


async def test_appending_to_a_conversation_while_it_is_deleted_leaves_nothing_of_it(world: World) -> None:
    identifier = await world.begin("0")
    results = await asyncio.gather(
        world.conversations.delete(identifier), world.add(identifier, "late"), return_exceptions=True
    )
    assert results[0] is True
    assert isinstance(results[1], list | ConversationNotFound)
    assert await world.partition(identifier) == []


async def test_a_list_of_an_unknown_conversation_is_not_empty_but_not_there(world: World) -> None:
    with pytest.raises(ConversationNotFound):
        await world.conversations.items(unknown_conversation())
