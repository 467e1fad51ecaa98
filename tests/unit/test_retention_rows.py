"""Which rows go and which stay, in virtual time."""

from typing import Any

import pytest

from hosting.ids import parse_id
from hosting.state.idempotency import IdempotencyKeys
from hosting.state.retention_forks import keep_for_fork
from hosting.storage import Delete, Insert, keys
from hosting.tasks._outcome import Outcome
from hosting.tasks._record import Slot
from hosting.tasks._rows import INDEX_PARTITIONS, Key, encode_record
from tests.unit.retention_world import BIG, DAY, TENANT, World, partition_of, record_of, turn_record

OTHER = keys.scope("other", None)


@pytest.fixture
def world() -> World:
    return World()


# Chains


async def test_a_chain_goes_with_everything_in_it_30_days_after_its_last_turn(world: World) -> None:
    first = await world.say("one " + "x" * BIG, session={"s": 1})
    await world.say("two", first, session={"s": "y" * BIG})
    assert world.values()
    await world.days(31)
    report = await world.retain()
    assert world.rows() == []
    assert world.values() == []
    assert report.removed["rows"] == 6


async def test_a_chain_stays_for_30_days(world: World) -> None:
    response = await world.say("one")
    before = world.rows()
    await world.days(29.9)
    await world.retain()
    assert world.rows() == before
    assert await world.exists(response)


async def test_a_chain_that_was_continued_keeps_all_its_turns(world: World) -> None:
    first = await world.say("one")
    await world.days(29)
    second = await world.say("two", first)
    await world.days(29)
    await world.retain()
    assert await world.heard(second) == ["one", "two"]
    assert await world.exists(first)


async def test_a_failed_turn_keeps_its_chain_too(world: World) -> None:
    first = await world.say("one")
    await world.days(29)
    await world.say("broken", first, status="failed", continues=False)
    await world.days(29)
    await world.retain()
    assert await world.exists(first)


async def test_tenants_and_ages_are_told_apart(world: World) -> None:
    old = {scope: [await world.say("old", scope=scope) for _ in range(7)] for scope in (TENANT, OTHER)}
    await world.days(20)
    young = {scope: [await world.say("young", scope=scope) for _ in range(5)] for scope in (TENANT, OTHER)}
    await world.days(15)
    report = await world.retain()
    assert report.removed["rows"] == 2 * 7 * 2
    for scope in (TENANT, OTHER):
        assert [await world.exists(response, scope) for response in old[scope]] == [False] * 7
        assert [await world.exists(response, scope) for response in young[scope]] == [True] * 5
    await world.days(16)
    await world.retain()
    assert world.rows() == []


async def test_a_chain_of_more_rows_than_a_page_or_a_transaction_goes_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    previous = None
    for n in range(120):
        previous = await world.say(f"turn {n}", previous)
    monkeypatch.setattr("hosting.storage._memory._PAGE", 50)
    await world.days(31)
    report = await world.retain()
    assert world.rows() == []
    assert report.removed["rows"] == 240


async def test_sessions_that_were_not_used_for_30_days_go(world: World) -> None:
    from agent_framework import AgentSession

    from hosting.state import TableSessionStore

    sessions = TableSessionStore(world.store, TENANT)
    await sessions.set("idle", AgentSession(session_id="idle"))
    await sessions.set("used", AgentSession(session_id="used"))
    await world.days(20)
    await sessions.set("used", AgentSession(session_id="used"))
    await world.days(20)
    await world.retain()
    assert await sessions.get("idle") is None
    assert await sessions.get("used") is not None


async def test_a_lifetime_of_0_keeps_chains_for_ever() -> None:
    world = World(HOSTING_RETENTION_DAYS="0", HOSTING_CONVERSATION_DAYS="0")
    response = await world.say("one")
    await IdempotencyKeys(world.store, TENANT).claim("k", "f", response, world.clock.now())
    await world.days(4000)
    await world.retain()
    assert await world.exists(response)
    assert not [row for row in world.rows() if row.startswith("idempotency")]


async def test_conversations_can_have_a_lifetime_of_their_own() -> None:
    world = World(HOSTING_CONVERSATION_DAYS="0")
    plain, conversation = await world.say("one"), await world.say("two")
    await world.put(partition_of(conversation), "conversation.conv_x")
    await world.days(100)
    await world.retain()
    assert not await world.exists(plain)
    assert await world.exists(conversation)


async def test_what_is_left_of_a_deleted_conversation_has_the_lifetime_of_responses() -> None:
    world = World(HOSTING_CONVERSATION_DAYS="0")
    response = await world.say("one")
    await world.put(partition_of(response), "conversation.conv_x", {"deleted": True})
    await world.days(31)
    await world.retain()
    assert world.rows() == []


async def test_a_conversation_lives_as_long_as_its_newest_row(world: World) -> None:
    conversation = await world.say("two")
    await world.put(partition_of(conversation), "conversation.conv_x")
    await world.days(20)
    await world.put(partition_of(conversation), "conversation-item.conv_x.0")
    await world.days(20)
    await world.retain()
    assert await world.exists(conversation)
    await world.days(11)
    await world.retain()
    assert world.rows() == []


async def test_partitions_that_are_no_chains_are_left_alone(world: World) -> None:
    await world.put(INDEX_PARTITIONS[3], "f" * 32 + ".1", {"scope": TENANT})
    await world.put("something-else", "row")
    await world.days(100)
    await world.retain()
    assert len(world.rows()) == 2


async def test_a_broken_row_goes_with_its_chain(world: World) -> None:
    from hosting.storage import RawOperation

    response = await world.say("one")
    await world.tables.transact(partition_of(response), [RawOperation("put", "response.x", {"fields": "{broken"})])
    await world.days(31)
    await world.retain()
    assert world.rows() == []


# What runs


@pytest.mark.parametrize("status", ["queued", "in_progress"])
async def test_a_response_that_runs_stays_with_its_chain_whatever_its_age(world: World, status: str) -> None:
    first = await world.say("one")
    await world.running(status, previous=first)
    before = world.rows()
    await world.days(400)
    await world.retain()
    assert world.rows() == before


async def test_a_response_that_runs_stays_also_without_a_record_of_its_task(world: World) -> None:
    await world.running("in_progress", task=None)
    await world.days(400)
    await world.retain()
    assert len(world.rows()) == 1


@pytest.mark.parametrize("task", ["completed", "deleted"])
async def test_a_response_whose_task_has_ended_without_it_goes(world: World, task: str) -> None:
    await world.running("in_progress", task=task)
    await world.days(31)
    await world.retain()
    assert world.rows() == []


@pytest.mark.parametrize("lease", [{}, {"lease_owner": "somebody", "lease_expires": 10.0**10}], ids=["idle", "leased"])
async def test_a_task_in_progress_stays_with_its_input_whatever_its_age(world: World, lease: dict[str, Any]) -> None:
    key = Key(TENANT, "job")
    await world.store.commit(
        key.partition,
        [
            Insert(key.record_row, encode_record(record_of("in_progress", **lease))),
            Insert(key.input_row(1), {}, {"input": "x" * BIG}),
        ],
    )
    await world.days(400)
    await world.retain()
    assert len(world.rows()) == 2
    assert len(world.values()) == 1


@pytest.mark.parametrize("status", ["completed", "suspended", "deleted"])
async def test_a_task_that_rests_goes_30_days_after_its_last_change(world: World, status: str) -> None:
    key = Key(TENANT, "job")
    await world.put(key.partition, key.record_row, encode_record(record_of(status)))
    await world.put(key.partition, key.metadata_row(1, "x"))
    await world.days(29)
    await world.retain()
    assert len(world.rows()) == 2
    await world.days(2)
    await world.retain()
    assert world.rows() == []


# What expires by itself


async def outcome(world: World, task_id: str, *, days: float = 7) -> Key:
    key = Key(TENANT, task_id)
    row = Outcome("completed", output="x" * BIG).row(key, Slot(1, "i", "n", "fresh"), 1, world.clock.now(), days * DAY)
    await world.store.commit(key.partition, [row])
    return key


async def test_an_outcome_goes_when_it_says_and_its_record_stays(world: World) -> None:
    key = await outcome(world, "job")
    await world.put(key.partition, key.record_row, encode_record(record_of("suspended")))
    await world.days(6.9)
    await world.retain()
    assert len(world.rows()) == 2
    await world.days(0.2)
    await world.retain()
    assert world.rows() == [key.record_row]
    assert world.values() == []


async def test_an_outcome_that_was_stored_with_a_longer_lifetime_keeps_it(world: World) -> None:
    await outcome(world, "job", days=20)
    await world.days(19)
    await world.retain()
    assert len(world.rows()) == 1
    await world.days(2)
    await world.retain()
    assert world.rows() == []


@pytest.mark.parametrize("fields", [{}, {"expires": "soon"}], ids=str)
async def test_an_outcome_that_does_not_say_when_goes_and_keeps_no_other(world: World, fields: dict[str, Any]) -> None:
    key = await outcome(world, "job")
    await world.put(key.partition, key.outcome_row("other", 2), fields)
    await world.days(8)
    await world.retain()
    assert world.rows() == []


async def test_an_outcome_in_a_task_that_runs_goes_all_the_same(world: World) -> None:
    key = await outcome(world, "job")
    await world.put(key.partition, key.record_row, encode_record(record_of("in_progress")))
    await world.days(60)
    await world.retain()
    assert world.rows() == [key.record_row]


async def test_an_idempotency_key_goes_a_day_after_its_claim(world: World) -> None:
    claims = IdempotencyKeys(world.store, TENANT)
    await claims.claim("old", "f", "resp_1", world.clock.now())
    await world.days(0.5)
    await claims.claim("young", "f", "resp_2", world.clock.now())
    await world.days(0.6)
    await world.retain()
    assert world.rows() == ["idempotency.young"]


# What is touched meanwhile


async def test_a_chain_that_is_continued_while_it_is_looked_at_stays_whole(world: World) -> None:
    first = await world.say("one", session={"s": 1})
    turns = world.turns()
    turn = await turns.begin(first, history=True)
    await world.days(31)
    commit = world.store.commit

    async def late(partition: str, operations: Any, *, token: str | None = None) -> dict[str, str]:
        if isinstance(operations[0], Delete):
            # Somebody stores the session of the first turn again, at the last moment.
            await world.put(partition, keys.session_row(first), {}, {"session": {"s": 2}})
        return await commit(partition, operations, token=token)

    world.store.commit = late  # type: ignore[method-assign]
    await world.retain()
    world.store.commit = commit  # type: ignore[method-assign]
    await turns.commit(turn, turn_record(turn, "two"))
    assert await world.heard(turn.response_id) == ["one", "two"]


async def test_an_expired_response_is_as_one_that_never_was(world: World) -> None:
    from hosting.state import PreviousResponseNotFound

    first = await world.say("one")
    await world.days(31)
    await world.retain()
    assert not await world.exists(first)
    with pytest.raises(PreviousResponseNotFound):
        await world.say("two", first)


# Forks


async def fork(world: World, first: str) -> str:
    """A turn after `first`, which has been continued before: in a chain of its own."""
    response = await world.say("fork", first)
    parent, child = parse_id(first), parse_id(response)
    assert parent is not None
    assert child is not None
    assert parent.chain != child.chain
    await keep_for_fork(world.store, TENANT, parent.chain, child.chain)
    return response


async def test_a_chain_stays_while_one_that_has_grown_out_of_it_does(world: World) -> None:
    first = await world.say("one")
    await world.say("two", first)
    forked = await fork(world, first)
    await world.days(20)
    newest = await world.say("three", forked)
    await world.days(20)
    await world.retain()
    assert await world.heard(newest) == ["one", "fork", "three"]


async def test_a_chain_goes_after_the_one_that_has_grown_out_of_it(world: World) -> None:
    first = await world.say("one")
    await world.say("two", first)
    await fork(world, first)
    await world.days(31)
    await world.retain()
    await world.retain()
    assert world.rows() == []


async def test_a_fork_that_never_came_keeps_nothing(world: World) -> None:
    first = await world.say("one")
    parsed = parse_id(first)
    assert parsed is not None
    await keep_for_fork(world.store, TENANT, parsed.chain, "0" * 18)
    await keep_for_fork(world.store, TENANT, parsed.chain, "0" * 18)
    await world.days(31)
    await world.retain()
    assert world.rows() == []


async def test_a_fork_that_is_about_to_begin_keeps_its_parent(world: World) -> None:
    first = await world.say("one")
    parsed = parse_id(first)
    assert parsed is not None
    await world.days(29.99)
    await keep_for_fork(world.store, TENANT, parsed.chain, "0" * 18)
    await world.days(1)
    await world.retain()
    assert await world.exists(first)


async def test_the_child_of_a_parent_that_is_gone_goes_on_with_what_is_left(world: World) -> None:
    """Nobody has said that it needs the parent, as with rows of an older version of the app."""
    first = await world.say("one")
    await world.say("two", first)
    forked = await world.say("fork", first)
    for row in world.rows(partition_of(first)):
        if row.startswith("fork."):
            await world.store.commit(partition_of(first), [Delete(row)])
    await world.days(20)
    newest = await world.say("three", forked)
    await world.days(11)
    await world.retain()
    assert not await world.exists(first)
    assert await world.heard(newest) == ["fork", "three"]
    assert await world.say("four", newest)
    assert await world.exists(forked)


# What it costs


async def test_young_chains_cost_nothing_but_their_share_of_the_scan(world: World) -> None:
    await world.retain()  # the first pass of all also notes its lifetimes
    for n in range(20):
        await world.say(f"chain {n}")
    before = world.meter.copy()
    await world.retain()
    used = world.meter - before
    # A page of rows, of streams, of values; the cursor is read once and written after each.
    assert (used.table_reads, used.table_writes, used.blob_reads) == (2, 3, 2)


async def test_a_chain_that_goes_costs_a_read_and_a_write(world: World) -> None:
    await world.retain()
    for n in range(20):
        await world.say(f"chain {n}")
    await world.days(31)
    before = world.meter.copy()
    await world.retain()
    used = world.meter - before
    assert (used.table_reads, used.table_writes) == (2 + 20, 3 + 20)
