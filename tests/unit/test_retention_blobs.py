"""Streams that have expired, and values that rows have left behind."""

import asyncio

import pytest

from hosting.storage import StorageError, keys
from hosting.streaming import StreamTuning
from tests.unit.retention_world import BIG, TENANT, World, new_response_id, partition_of

OTHER = keys.scope("other", None)


@pytest.fixture
def world() -> World:
    return World()


# Streams


async def test_a_closed_stream_goes_a_day_after_its_end(world: World) -> None:
    response = await world.say("one")
    await world.stream(response)
    await world.days(0.9)
    await world.retain()
    assert world.streams() == {response}
    await world.days(0.2)
    report = await world.retain()
    assert world.streams() == set()
    assert report.removed["streams"] == 1
    assert await world.exists(response)


async def test_an_open_stream_goes_when_its_response_has_ended(world: World) -> None:
    """Its writer died between the end of the response and the end of the stream."""
    response = await world.say("one")
    await world.stream(response, close=False)
    await world.days(1.1)
    await world.retain()
    assert world.streams() == set()


async def test_an_open_stream_goes_when_its_response_is_gone(world: World) -> None:
    response = new_response_id()
    await world.stream(response, close=False)
    await world.days(1.1)
    await world.retain()
    assert world.streams() == set()


@pytest.mark.parametrize("status", ["queued", "in_progress"])
async def test_the_stream_of_a_response_that_runs_stays_whatever_its_age(world: World, status: str) -> None:
    response = await world.running(status)
    await world.stream(response, close=False)
    await world.days(400)
    await world.retain()
    assert world.streams() == {response}


async def test_a_response_of_another_tenant_keeps_no_stream(world: World) -> None:
    response = await world.running("in_progress")
    await world.stream(response, close=False, scope=OTHER)
    await world.days(1.1)
    await world.retain()
    assert world.streams() == set()


async def test_a_stream_of_the_apps_own_goes_a_day_after_its_end(world: World) -> None:
    await world.stream("closed")
    await world.stream("open", close=False)
    await world.days(1.1)
    await world.retain()
    assert world.streams() == {"open"}


async def test_an_open_stream_of_the_apps_own_goes_when_it_was_silent_for_as_long_as_a_chain(world: World) -> None:
    await world.stream("open", close=False)
    await world.days(29)
    await world.retain()
    assert world.streams() == {"open"}
    await world.days(2)
    await world.retain()
    assert world.streams() == set()


async def test_a_stream_of_many_segments_goes_whole_also_over_the_end_of_a_page(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hosting.storage._memory_append_blobs._PAGE", 3)
    world.registry.use_blob_replay(
        lambda: world.appends,
        scope=lambda: TENANT,
        cursor_fn=lambda event: event["n"],
        ttl_seconds=None,
        tuning=StreamTuning(segment_bytes=1, window_bytes=0),
    )
    response = await world.say("one")
    stream = await world.registry.take_over(response)
    for n in range(7):
        await stream.emit({"n": n})
        await stream.flush()
    await stream.close()
    assert len(world.appends._blobs) >= 7
    await world.days(1.1)
    await world.say("another")
    await world.stream("zz-young")
    report = await world.retain()
    assert world.streams() == {"zz-young"}
    assert report.removed["streams"] == 1


async def test_a_segment_that_is_still_written_keeps_the_whole_stream_also_over_the_end_of_a_page(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hosting.storage._memory_append_blobs._PAGE", 2)
    world.registry.use_blob_replay(
        lambda: world.appends,
        scope=lambda: TENANT,
        cursor_fn=lambda event: event["n"],
        ttl_seconds=None,
        tuning=StreamTuning(segment_bytes=1, window_bytes=0),
    )
    response = await world.say("one")
    stream = await world.registry.take_over(response)
    for n in range(5):
        await stream.emit({"n": n})
        await stream.flush()
    await world.days(2)
    await stream.emit({"n": 5})
    await stream.flush()
    before = set(world.appends._blobs)
    await world.retain()
    assert before <= set(world.appends._blobs), "the writer may have made its next one meanwhile"


async def test_the_lifetime_of_streams_is_a_setting() -> None:
    world = World(HOSTING_STREAM_HOURS="100")
    await world.stream("closed")
    await world.days(4)
    await world.retain()
    assert world.streams() == {"closed"}
    await world.days(0.2)
    await world.retain()
    assert world.streams() == set()


# Values


async def test_a_value_that_a_row_refers_to_stays_whatever_its_age() -> None:
    world = World(HOSTING_RETENTION_DAYS="0", HOSTING_CONVERSATION_DAYS="0")
    response = await world.say("x" * BIG, session={"s": "y" * BIG})
    values = world.values()
    assert len(values) >= 2
    await world.days(400)
    await world.retain()
    assert world.values() == values
    assert await world.heard(response) == ["x" * BIG]


async def test_a_value_without_a_row_goes_after_a_day(world: World) -> None:
    response = await world.say("one")
    orphan = f"values/{partition_of(response)}/turn.main.00000007/messages-0123456789abcdef-000000000000"
    await world.blobs.put(orphan, b"left by a crash")
    await world.days(0.9)
    await world.retain()
    assert world.values() == [orphan]
    await world.days(0.2)
    report = await world.retain()
    assert world.values() == []
    assert report.removed["values"] == 1


async def test_a_value_that_its_row_has_replaced_goes_and_the_new_one_stays(world: World) -> None:
    response = await world.say("one", session={"s": "old" * BIG})
    [old] = world.values()
    content = await world.blobs.get(old)
    assert content is not None
    await world.put(partition_of(response), keys.session_row(response), {}, {"session": {"s": "new" * BIG}})
    [new] = world.values()
    await world.blobs.put(old, content)  # the removal had failed
    await world.days(2)
    await world.retain()
    assert world.values() == [new]


@pytest.mark.parametrize(
    "name", ["values/x", "values/a/b", "values/" + "0" * 40 + "/turn.main.0/d-1-2", "values/a-b/c.d/e/f"]
)
async def test_a_blob_whose_name_says_no_row_is_left_alone(world: World, name: str) -> None:
    await world.blobs.put(name, b"x")
    await world.days(400)
    await world.retain()
    assert world.values() == [name]


async def test_one_row_that_can_not_be_read_keeps_no_other(world: World) -> None:
    from hosting.storage import RawOperation

    response = await world.say("one")
    partition = partition_of(response)
    await world.tables.transact(partition, [RawOperation("put", "turn.bad.0", {"spilled": "{broken"})])
    broken, orphan = f"values/{partition}/turn.bad.0/d-1-2", f"values/{partition}/turn.none.0/d-1-2"
    await world.blobs.put(broken, b"x")
    await world.blobs.put(orphan, b"x")
    await world.days(2)
    await world.retain()
    assert world.values() == [broken]


async def test_streams_that_fail_are_left_to_the_next_pass(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.stream("closed")
    await world.days(2)
    read = world.appends.read

    async def broken(name: str, offset: int, limit: int) -> None:
        raise StorageError("can't be read")

    monkeypatch.setattr(world.appends, "read", broken)
    await world.retain()
    assert world.streams() == {"closed"}
    monkeypatch.setattr(world.appends, "read", read)
    await world.retain()
    assert world.streams() == set()


async def test_what_is_removed_beside_a_stream_that_fails_is_removed_before_the_pass_ends(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bad", "good", "slow"):
        await world.stream(name)
    await world.days(2)
    delete = world.appends.delete

    async def uneven(name: str) -> bool:
        if "/bad/" in name:
            raise StorageError("can't be deleted")
        if "/slow/" in name:
            await asyncio.sleep(0.01)
        return await delete(name)

    monkeypatch.setattr(world.appends, "delete", uneven)
    await world.retain()
    assert world.streams() == {"bad"}


async def test_what_is_removed_beside_a_value_that_fails_is_removed_before_the_pass_ends(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = partition_of(await world.say("one"))
    for row in ("turn.bad.0", "turn.good.0", "turn.slow.0"):
        for n in range(2):
            await world.blobs.put(f"values/{partition}/{row}/d-{n}-2", b"x")
    await world.days(2)
    delete = world.blobs.delete

    async def uneven(name: str) -> bool:
        if "/turn.bad.0/d-0" in name:
            raise StorageError("can't be deleted")
        await asyncio.sleep(0.05)
        return await delete(name)

    monkeypatch.setattr(world.blobs, "delete", uneven)
    await world.retain()
    assert world.values() == [f"values/{partition}/turn.bad.0/d-0-2"]
