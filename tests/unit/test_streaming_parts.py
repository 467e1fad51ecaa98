"""The small parts of the streams: places, the window of recent events, the pace, slots, codecs, options."""

import gc
import subprocess
import sys
from datetime import timedelta
from itertools import pairwise

import pytest

from hosting.storage import BlobInfo
from hosting.streaming import StreamLagged, StreamRegistry, StreamTuning
from hosting.streaming._codec import CustomCodec, JsonCodec
from hosting.streaming._lines import Damage, Event
from hosting.streaming._memory import MemoryLog
from hosting.streaming._pace import Pace
from hosting.streaming._recent import Recent
from hosting.streaming._segments import Place, find, first_of, segment_name
from hosting.streaming._slots import Slots


def listing(*firsts: int) -> list[BlobInfo]:
    return [BlobInfo(segment_name("p/", first), 1, 0.0) for first in firsts]


def test_names_sort_as_numbers_do_and_can_be_read_back() -> None:
    numbers = [0, 9, 10, 99, 10**9, 10**16 - 1]
    names = [segment_name("p/", number) for number in numbers]
    assert names == sorted(names)
    assert [first_of(name) for name in names] == numbers


@pytest.mark.parametrize(
    ("after", "first"), [(-1, 0), (0, 0), (8, 0), (9, 10), (10, 10), (28, 10), (29, 30), (99, 30), (10**9, 30)]
)
def test_find_gives_the_segment_with_the_next_event(after: int, first: int) -> None:
    assert find(listing(0, 10, 30), after) == Place(segment_name("p/", first), 0, first - 1)


def test_find_gives_the_first_there_is_when_the_one_wanted_is_gone() -> None:
    assert find(listing(10, 30), 3).last == 9


def place(offset: int, last: int, segment: str = "s/0") -> Place:
    return Place(segment, offset, last)


def items(*numbers: int) -> list[Event | Damage]:
    return [Event(number, b"x" * 10) for number in numbers]


def test_recent_covers_nothing_until_it_is_started() -> None:
    recent = Recent(1000)
    assert not recent.covers(5)
    recent.restart(place(0, 4), ended=False)
    assert recent.covers(4)
    assert recent.covers(9)
    assert not recent.covers(3)


def test_recent_gives_what_is_greater() -> None:
    recent = Recent(1000)
    recent.extend(-1, items(0, 1, 5), place(30, 5), ended=False)
    assert recent.after(-1) == items(0, 1, 5)
    assert recent.after(1) == items(5)
    assert recent.after(3) == items(5)
    assert recent.after(5) == []


def test_recent_skips_what_it_has() -> None:
    recent = Recent(1000)
    recent.extend(-1, items(0, 1), place(20, 1), ended=False)
    recent.extend(-1, items(0, 1, 2), place(30, 2), ended=True)
    recent.extend(0, items(1), place(20, 1), ended=False)
    assert recent.after(-1) == items(0, 1, 2)
    assert recent.tail == place(30, 2)
    assert recent.ended


def test_recent_starts_anew_behind_a_gap() -> None:
    recent = Recent(1000)
    recent.extend(-1, items(0, 1), place(20, 1), ended=False)
    recent.extend(7, items(8), place(90, 8), ended=False)
    assert not recent.covers(1)
    assert recent.covers(7)
    assert recent.after(7) == items(8)


def test_recent_is_bounded_and_says_what_it_has_dropped() -> None:
    recent = Recent(1000)
    for number in range(100):
        recent.extend(number - 1, items(number), place(number * 10 + 10, number), ended=False)
    kept = recent.after(-1)
    assert len(kept) * 74 <= 1000
    assert recent.floor == kept[0].seq - 1
    assert not recent.covers(recent.floor - 1)


def test_recent_can_drop_a_single_event_that_is_too_large() -> None:
    recent = Recent(100)
    recent.extend(-1, [Event(0, b"x" * 1000)], place(1000, 0), ended=False)
    assert not recent.covers(-1)
    assert recent.covers(0)


def test_pace_grows_while_there_is_nothing_and_waits_out_the_interval_after_news() -> None:
    pace = Pace(StreamTuning())
    waits: list[float] = []
    for _ in range(15):
        waits.append(pace.wait)
        pace.looked(news=False)
    assert waits[0] == 0.03
    assert all(later > sooner for sooner, later in pairwise(waits[:9]))
    assert waits[-1] == 1.0
    pace.looked(news=True)
    assert pace.wait == pytest.approx(0.15)
    pace.looked(news=False)
    assert pace.wait == 0.03
    pace.looked(news=False)
    assert pace.wait == pytest.approx(0.045)


class _Thing:
    pass


def test_slots_give_the_same_object_while_anybody_has_it_and_forget_it_after() -> None:
    slots = Slots[_Thing](2)
    held = _Thing()
    slots.put("held", held)
    for number in range(10):
        slots.put(str(number), _Thing())
    gc.collect()
    assert len(slots) == 3
    assert slots.get("held") is held
    assert slots.get("0") is None
    assert slots.get("9") is not None


def test_slots_keep_all_when_they_must() -> None:
    slots = Slots[_Thing](None)
    for number in range(1000):
        slots.put(str(number), _Thing())
    gc.collect()
    assert len(slots) == 1000


async def test_a_live_subscriber_too_far_behind_is_told_so() -> None:
    log = MemoryLog(replay=False, cursor_fn=None, ttl_seconds=None, clock=lambda: 0.0, live_limit=10)
    reader, quick = log.attach(), log.attach()
    for number in range(11):
        log.add(number)
        assert log.read(quick, None) == [number]
    with pytest.raises(StreamLagged):
        log.read(reader, None)
    log.detach(reader)
    log.add(11)
    assert log.read(quick, None) == [11]


async def test_a_live_stream_keeps_only_what_is_unread() -> None:
    log = MemoryLog(replay=False, cursor_fn=None, ttl_seconds=None, clock=lambda: 0.0)
    for number in range(5000):
        log.add(number)
    assert len(log._entries) <= 2100
    reader = log.attach()
    log.add("seen")
    assert log.read(reader, None) == ["seen"]


async def test_a_replay_subscriber_that_events_expire_under_is_told_so() -> None:
    now = [0.0]
    log = MemoryLog(replay=True, cursor_fn=None, ttl_seconds=10, clock=lambda: now[0])
    log.add("a")
    reader = log.attach()
    now[0] = 20.0
    log.add("b")
    with pytest.raises(StreamLagged):
        log.read(reader, None)
    assert log.read(log.attach(), None) == ["b"]


async def test_a_registry_forgets_streams_that_expired_or_nobody_has() -> None:
    now = [0.0]
    replay, live = StreamRegistry(clock=lambda: now[0]), StreamRegistry()
    replay.use_in_memory_replay(ttl_seconds=10)
    for number in range(1500):
        await (await replay.get_or_create(str(number))).close()
        await (await live.get_or_create(str(number))).close()
    now[0] = 20.0
    assert len(replay._backings[0]) == 0
    gc.collect()
    assert len(live._backings[0]) <= 1024


@pytest.mark.parametrize("value", [{"a": [1, None, True]}, "é漢😀", "\ud800", 1.5, [], {"k": "line\n\u2028"}])
def test_json_codec_round_trips_on_one_line(value: object) -> None:
    data = JsonCodec().encode(value)
    assert b"\n" not in data
    assert JsonCodec().decode(data) == value


@pytest.mark.parametrize("data", [b"text", "text", b"\xff\x00\n", b'{"base64":"x"}', b"", "ü"])
def test_custom_codec_gives_the_deserializer_what_the_serializer_made(data: bytes | str) -> None:
    codec = CustomCodec(lambda payload: payload, lambda made: made)
    line = codec.encode(data)
    assert b"\n" not in line
    assert codec.decode(line) == (data.encode() if isinstance(data, str) else data)


@pytest.mark.parametrize(
    "wrong",
    [
        {"flush_interval": timedelta(seconds=-1)},
        {"poll_active": timedelta(0)},
        {"poll_idle": timedelta(0)},
        {"segment_bytes": 0},
        {"segment_appends": 50_000},
        {"segment_appends": 0},
        {"buffer_bytes": 0},
    ],
)
def test_tuning_that_can_not_work_is_refused(wrong: dict[str, timedelta]) -> None:
    with pytest.raises(ValueError):
        StreamTuning(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("ttl", [0, -1])
def test_a_time_to_live_of_nothing_is_refused(ttl: float) -> None:
    with pytest.raises(ValueError):
        StreamRegistry().use_in_memory_replay(ttl_seconds=ttl)


def test_serializer_and_deserializer_go_together() -> None:
    with pytest.raises(ValueError):
        StreamRegistry().use_file_backed_replay(serializer=lambda payload: b"")


def test_importing_streams_loads_nothing_heavy() -> None:
    code = "import sys, hosting.streaming; print(sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "hosting" in loaded
    for heavy in ("azure", "aiohttp", "pydantic", "agent_framework"):
        assert f"'{heavy}'" not in loaded
