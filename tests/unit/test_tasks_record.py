"""The record as a state machine: single transitions, and hypothesis against a model with crashes between any two writes."""

from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hosting.storage import CorruptValue, Entity
from hosting.tasks._events import (
    Accept,
    CancelInput,
    DeleteTask,
    Finish,
    Heartbeat,
    Release,
    Retry,
    TakeLease,
    Touch,
)
from hosting.tasks._record import Record, idle_since, slots
from hosting.tasks._rows import IndexEntry, Key, decode_index, decode_record, encode_index, encode_record
from hosting.tasks._transitions import Refused, Transition, apply


def accept(now: float = 0.0, **given: object) -> Accept:
    values = {"name": "chat", "title": "t", "kind": "multi_turn", "steerable": True, "input_id": "a", "nonce": "n"}
    return Accept(now, **{**values, **given})  # type: ignore[arg-type]


def one_shot(now: float = 0.0, **given: object) -> Accept:
    return accept(now, **{"kind": "one_shot", "steerable": False, **given})


def after(record: Record | None, *events: object) -> Record:
    for event in events:
        result = apply(record, event)  # type: ignore[arg-type]
        assert isinstance(result, Transition), result
        record = result.record
    assert record is not None
    return record


def refused(record: Record | None, event: object) -> Refused:
    result = apply(record, event)  # type: ignore[arg-type]
    assert isinstance(result, Refused)
    return result


def leased(now: float = 0.0) -> Record:
    return after(None, accept(now), TakeLease(now, "w", 60))


def test_a_new_task_is_in_progress_and_idle():
    record = after(None, accept(5))
    assert (record.status, record.generation, record.lease_owner, record.last_input_id) == ("in_progress", 0, None, "a")
    assert idle_since(record) == 5


def test_a_lease_gives_a_new_generation_and_starts_the_clock_of_the_turn():
    record = after(None, accept(5), TakeLease(7, "w", 60))
    assert (record.generation, record.lease_expires, record.turn_started_at, record.recovery_count) == (1, 67, 7, 0)


def test_a_live_lease_is_not_taken_until_it_has_lapsed_by_more_than_the_clocks_may_differ():
    record = leased()
    assert refused(record, TakeLease(61, "v", 60, skew=2)) == Refused("leased", 62)
    assert after(record, TakeLease(62, "v", 60, skew=2)).lease_owner == "v"


def test_a_takeover_counts_as_recovery_and_keeps_the_clock_of_the_turn():
    record = after(leased(), TakeLease(100, "v", 60))
    assert (record.generation, record.recovery_count, record.turn_started_at) == (2, 1, 0)


@pytest.mark.parametrize(
    "event",
    [
        Heartbeat(1, 1, 60),
        Touch(1, 1, ("x",)),
        Finish(1, 1, "completed"),
        Retry(1, 1, 5),
        Release(1, 1),
    ],
)
def test_an_attempt_of_an_older_generation_can_write_nothing(event: object):
    record = after(leased(), TakeLease(100, "v", 60))
    assert refused(record, event).reason == "fenced"


def test_a_late_heartbeat_does_not_shorten_the_lease():
    record = after(leased(), Heartbeat(30, 1, 60), Heartbeat(20, 1, 60))
    assert record.lease_expires == 90


def test_a_chain_is_suspended_between_turns_and_resumes_with_a_new_activation():
    record = after(leased(), Finish(1, 1, "completed"))
    assert (record.status, record.active, record.last_input_id) == ("suspended", None, "a")
    resumed = after(record, accept(2, input_id="b"))
    assert resumed.active is not None
    assert (resumed.active.entry, resumed.activation, resumed.epoch) == ("resumed", 2, 1)


def test_a_one_shot_is_completed_and_its_id_begins_afresh():
    record = after(None, one_shot(), TakeLease(0, "w", 60), Finish(1, 1, "failed"))
    assert record.status == "completed"
    again = after(record, one_shot(2, if_last_input_id="anything"))
    assert again.active is not None
    assert (again.active.entry, again.active.seq, again.generation, again.epoch) == ("fresh", 2, 1, 2)


def test_a_one_shot_in_flight_refuses_another_input():
    assert refused(after(None, one_shot()), one_shot(1)).reason == "conflict"


def test_another_task_under_the_same_id_is_refused_while_the_first_one_lives():
    record = after(leased(), Finish(1, 1, "completed"))
    assert refused(record, accept(2, name="other")).reason == "conflict"
    assert after(after(record, DeleteTask(3)), accept(4, name="other")).name == "other"


def test_the_precondition_is_about_the_last_input_accepted_also_when_it_only_waits():
    record = after(leased(), accept(1, input_id="b", if_last_input_id="a"))
    assert refused(record, accept(2, input_id="c", if_last_input_id="a")).reason == "precondition"
    assert after(record, accept(2, input_id="c", if_last_input_id="b")).last_input_id == "c"


def test_a_precondition_on_a_task_without_inputs_is_met():
    assert after(None, accept(0, if_last_input_id="never")).status == "in_progress"


def test_nine_inputs_wait_and_the_tenth_is_refused():
    record = after(leased(), *(accept(1, input_id=f"q{n}") for n in range(9)))
    assert len(record.queue) == 9
    assert refused(record, accept(1)).reason == "queue_full"


def test_a_chain_that_is_not_steerable_refuses_while_a_turn_is_active():
    assert refused(leased(), accept(1, steerable=False)).reason == "conflict"


def test_the_end_of_a_turn_promotes_the_next_input_in_the_same_transition():
    record = after(leased(), accept(1, input_id="b"), accept(1, input_id="c"))
    result = apply(record, Finish(2, 1, "completed"))
    assert isinstance(result, Transition)
    new = result.record
    assert [end.slot.input_id for end in result.ended] == ["a"]
    assert new.active is not None
    assert (new.active.input_id, new.active.steered, new.turn_started_at, new.lease_owner) == ("b", True, None, None)
    assert [slot.input_id for slot in new.queue] == ["c"]


def test_a_crash_in_a_promoted_turn_keeps_its_input_and_that_it_was_steered():
    record = after(leased(), accept(1, input_id="b"), Finish(2, 1, "completed"), TakeLease(3, "w", 60))
    recovered = after(record, TakeLease(100, "v", 60))
    assert recovered.active == record.active
    assert (recovered.recovery_count, recovered.active.steered if recovered.active else None) == (1, True)


def test_a_retry_waits_keeps_its_count_and_does_not_count_as_recovery():
    record = after(leased(), Retry(10, 1, 30))
    assert refused(record, TakeLease(39, "w", 60)) == Refused("too_early", 40)
    again = after(record, TakeLease(40, "w", 60))
    assert (again.retry_attempt, again.recovery_count, again.turn_started_at) == (1, 0, 0)


def test_the_retry_count_starts_anew_with_the_next_input():
    record = after(leased(), Retry(1, 1, 0), TakeLease(1, "w", 60), accept(2, input_id="b"), Finish(3, 2, "failed"))
    assert record.retry_attempt == 0


def test_a_released_attempt_can_be_taken_up_at_once_and_counts_as_recovery():
    record = after(leased(), Release(1, 1), TakeLease(1, "v", 60))
    assert (record.generation, record.recovery_count, record.status) == (2, 1, "in_progress")


def test_only_a_lease_that_lapsed_is_a_crash():
    released = after(leased(), Release(1, 1), TakeLease(1, "v", 60))
    assert (released.crashes, released.recovery_count) == (0, 1)
    crashed = after(released, TakeLease(100, "w", 60))
    assert (crashed.crashes, crashed.recovery_count) == (1, 2)


def test_crashes_are_counted_across_retries_and_from_nothing_for_the_next_input():
    crashed = after(leased(), TakeLease(100, "v", 60))
    again = after(crashed, Retry(101, 2, 5), TakeLease(106, "v", 60))
    assert again.crashes == 1
    following = after(again, accept(107, input_id="b"), Finish(108, 3, "completed"), TakeLease(109, "v", 60))
    assert following.crashes == 0


def test_cancelling_the_active_input_marks_it_and_leaves_its_end_to_the_handler():
    record = after(leased(), CancelInput(1, 1))
    assert (record.cancel_requested, record.status) == (True, "in_progress")
    assert after(record, accept(2, input_id="b"), Finish(3, 1, "completed")).cancel_requested is False


def test_a_cancelled_attempt_is_not_retried():
    assert refused(after(leased(), CancelInput(1, 1)), Retry(2, 1, 5)).reason == "told_to_stop"


def test_cancelling_during_a_back_off_ends_the_input_and_goes_on_with_the_next_one():
    record = after(leased(), accept(1, input_id="b"), Retry(1, 1, 30))
    result = apply(record, CancelInput(2, 1))
    assert isinstance(result, Transition)
    assert [(end.slot.seq, end.outcome) for end in result.ended] == [(1, "cancelled")]
    assert result.record.active is not None
    assert (result.record.active.input_id, result.record.not_before) == ("b", 0)


def test_cancelling_a_queued_input_removes_that_one_also_among_equal_ones():
    record = after(leased(), accept(1, input_id="same"), accept(1, input_id="same"), accept(1, input_id="same"))
    result = apply(record, CancelInput(2, 3))
    assert isinstance(result, Transition)
    assert [slot.seq for slot in result.record.queue] == [2, 4]
    assert [end.slot.seq for end in result.ended] == [3]


def test_cancelling_what_has_ended_changes_nothing():
    assert refused(after(leased(), Finish(1, 1, "completed")), CancelInput(2, 1)).reason == "not_active"


def test_deleting_ends_all_inputs_as_cancelled_and_fences_the_running_attempt_out():
    record = after(leased(), accept(1, input_id="b"))
    result = apply(record, DeleteTask(2))
    assert isinstance(result, Transition)
    assert [(end.slot.seq, end.outcome) for end in result.ended] == [(1, "cancelled"), (2, "cancelled")]
    assert refused(result.record, Finish(3, 1, "completed")).reason == "fenced"
    fresh = after(result.record, accept(4))
    assert fresh.active is not None
    assert (fresh.active.entry, fresh.active.seq) == ("fresh", 3)
    assert refused(fresh, Finish(5, 1, "completed")).reason == "fenced"


def test_events_without_a_record_are_refused():
    assert refused(None, TakeLease(0, "w", 60)).reason == "not_active"


def test_a_record_survives_its_row():
    record = after(leased(), accept(1, input_id="b", index_etag='W/"x"'), Touch(1, 1, ("", "a:b")), CancelInput(1, 1))
    assert decode_record(Entity("p", "r", "e", encode_record(record), {})) == record


def test_fields_of_a_newer_version_are_ignored():
    fields = {**encode_record(leased()), "brand_new": 1}
    assert decode_record(Entity("p", "r", "e", fields, {})) == leased()


STORED = encode_record(after(leased(), accept(input_id="b", nonce="m")))


@pytest.mark.parametrize(
    "damage",
    [
        {"name": None},
        {"name": 5},
        {"status": "paused"},
        {"kind": "SECRET"},
        {"lease_expires": "soon"},
        {"generation": True},
        {"generation": 1.5},
        {"cancel_requested": 1},
        {"active": "{"},
        {"active": "null{"},
        {"active": "[]"},
        {"active": '{"seq": 1}'},
        {"queue": "7"},
        {"queue": '["a"]'},
        {"queue": "[" * 100_000},
        {"namespaces": "[1]"},
    ],
    ids=str,
)
def test_a_record_that_can_not_be_read_is_a_corrupt_value(damage: dict[str, object]):
    fields = {name: value for name, value in {**STORED, **damage}.items() if value is not None}
    with pytest.raises(CorruptValue, match=r"row 'task\.x'") as caught:
        decode_record(Entity("p", "task.x", "e", fields, {}))  # type: ignore[arg-type]
    assert "SECRET" not in str(caught.value)


def test_a_record_of_a_newer_version_is_read_without_what_it_has_more():
    active = STORED["active"]
    assert isinstance(active, str)
    newer = {**STORED, "colour": "red", "active": active.replace("{", '{"weight": 3, ', 1)}
    assert encode_record(decode_record(Entity("p", "r", "e", newer, {}))) == STORED


def test_times_without_a_fraction_are_times():
    record = decode_record(Entity("p", "r", "e", {**STORED, "lease_expires": 60}, {}))
    assert record.lease_expires == 60


INDEXED = encode_index(IndexEntry(Key("0" * 32, "t"), "n", 5.0))


def test_an_index_row_comes_back_as_it_was():
    entry = decode_index(Entity("p", "r", "e", INDEXED, {}))
    assert entry == IndexEntry(Key("0" * 32, "t"), "n", 5.0, "r", "e")


@pytest.mark.parametrize(
    "damage",
    [
        {"scope": None},
        {"scope": "of nobody"},
        {"task_id": None},
        {"task_id": 7},
        {"nonce": None},
        {"created_at": None},
        {"created_at": "yesterday"},
    ],
    ids=str,
)
def test_an_index_row_that_can_not_be_read_is_a_corrupt_value(damage: dict[str, object]):
    fields = {name: value for name, value in {**INDEXED, **damage}.items() if value is not None}
    with pytest.raises(CorruptValue, match="row 'x'"):
        decode_index(Entity("p", "x", "e", fields, {}))  # type: ignore[arg-type]


class TaskLife(RuleBasedStateMachine):
    """Several processes, each with what it last read, act on one stored record; any of them may die at any moment.

    The store: record, input rows, outcome rows and index rows. A commit is atomic and conditional on the version read. The
    model: what was promised to callers.
    """

    LEASE, SKEW = 10.0, 1.0

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.record: Record | None = None
        self.version = 0
        self.inputs: set[int] = set()
        self.outcomes: dict[int, str] = {}
        self.index: set[str] = set()
        self.numbers = 0
        # model
        self.accepted: dict[int, str] = {}
        self.holders: dict[int, tuple[int, float]] = {}
        self.starters: list[tuple[str, Record | None, int]] = []
        self.unindexed: list[str] = []
        self.top_generation = 0

    def commit(self, seen: int, transition: Transition) -> bool:
        if seen != self.version:
            return False
        self.record, self.version = transition.record, self.version + 1
        if transition.accepted:
            self.inputs.add(transition.accepted.seq)
        for end in transition.ended:
            assert end.slot.seq not in self.outcomes, "a second outcome"
            self.outcomes[end.slot.seq] = end.outcome
            self.inputs.discard(end.slot.seq)
            self.unindexed.append(end.slot.nonce)
        return True

    @rule(seconds=st.floats(0.1, 20))
    def time_goes_by(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def start_writes_its_index_row_and_reads(self) -> None:
        self.numbers += 1
        nonce = f"n{self.numbers}"
        self.index.add(nonce)
        self.starters.append((nonce, self.record, self.version))

    @precondition(lambda self: self.starters)
    @rule(which=st.integers(0, 99), guard=st.booleans())
    def start_commits(self, which: int, guard: bool) -> None:
        nonce, record, version = self.starters.pop(which % len(self.starters))
        last = record.last_input_id if record and guard else None
        result = apply(record, accept(self.now, input_id=nonce, nonce=nonce, if_last_input_id=last))
        if isinstance(result, Refused):
            self.index.discard(nonce)
        elif self.commit(version, result):
            assert result.accepted is not None
            self.accepted[result.accepted.seq] = nonce
        else:
            self.starters.append((nonce, self.record, self.version))  # reads again

    @precondition(lambda self: self.starters)
    @rule()
    def starter_dies(self) -> None:
        self.starters.pop()

    @rule()
    def attempt_takes_the_lease(self) -> None:
        self.numbers += 1
        result = apply(self.record, TakeLease(self.now, f"w{self.numbers}", self.LEASE, self.SKEW))
        if isinstance(result, Transition):
            live = [end for end in self.holders.values() if end[1] > self.now]
            assert not live, "a lease was taken beside a live one"
            self.commit(self.version, result)
            self.holders[result.record.generation] = (result.record.generation, result.record.lease_expires)

    @precondition(lambda self: self.holders)
    @rule(which=st.integers(0, 99), what=st.sampled_from(["beat", "touch", "ok", "fail", "retry", "release"]))
    def holder_acts(self, which: int, what: str) -> None:
        generation = sorted(self.holders)[which % len(self.holders)]
        event = {
            "beat": Heartbeat(self.now, generation, self.LEASE),
            "touch": Touch(self.now, generation, ("a",)),
            "ok": Finish(self.now, generation, "completed"),
            "fail": Finish(self.now, generation, "failed"),
            "retry": Retry(self.now, generation, 5),
            "release": Release(self.now, generation),
        }[what]
        result = apply(self.record, event)
        assert self.record is not None
        if generation != self.record.generation:
            assert isinstance(result, Refused), "a superseded attempt wrote"
        if isinstance(result, Transition):
            self.commit(self.version, result)
            if what == "beat":
                self.holders[generation] = (generation, result.record.lease_expires)
            elif what != "touch":
                del self.holders[generation]

    @precondition(lambda self: self.holders)
    @rule(which=st.integers(0, 99))
    def holder_dies(self, which: int) -> None:
        del self.holders[sorted(self.holders)[which % len(self.holders)]]

    @precondition(lambda self: self.accepted)
    @rule(which=st.integers(0, 99))
    def cancel(self, which: int) -> None:
        result = apply(self.record, CancelInput(self.now, sorted(self.accepted)[which % len(self.accepted)]))
        if isinstance(result, Transition):
            self.commit(self.version, result)

    @rule(sure=st.integers(0, 9))
    def delete(self, sure: int) -> None:
        result = apply(self.record, DeleteTask(self.now))
        if sure == 0 and isinstance(result, Transition):
            self.commit(self.version, result)
            self.holders = {g: (n, 0.0) for g, (n, _) in self.holders.items()}  # told to stop

    @precondition(lambda self: self.unindexed)
    @rule(dies=st.booleans())
    def index_row_is_removed(self, dies: bool) -> None:
        nonce = self.unindexed.pop()
        if not dies:
            self.index.discard(nonce)

    @rule()
    def scan_removes_left_overs(self) -> None:
        pending = {nonce for nonce, _, _ in self.starters}
        live = {slot.nonce for slot in slots(self.record)} if self.record else set()
        self.index -= {nonce for nonce in self.index if nonce not in live and nonce not in pending}

    @invariant()
    def every_accepted_input_is_open_or_ended_and_never_both(self) -> None:
        opened = {slot.seq for slot in slots(self.record)} if self.record else set()
        for seq in self.accepted:
            assert (seq in opened) != (seq in self.outcomes)
        assert opened | set(self.outcomes) == set(self.accepted)
        assert self.inputs == opened

    @invariant()
    def the_scan_can_find_every_open_input(self) -> None:
        if self.record:
            assert {slot.nonce for slot in slots(self.record)} <= self.index

    @invariant()
    def the_record_makes_sense(self) -> None:
        record = self.record
        if record is None:
            return
        assert (record.active is not None) == (record.status == "in_progress")
        assert len(record.queue) <= 9
        assert [slot.seq for slot in slots(record)] == sorted({slot.seq for slot in slots(record)})
        assert record.generation >= self.top_generation
        self.top_generation = record.generation
        assert decode_record(Entity("p", "r", "e", encode_record(record), {})) == replace(record)

    @invariant()
    def open_work_is_never_stuck(self) -> None:
        """Whatever has died, there is a moment from which on somebody can take the lease."""
        if self.record and self.record.status == "in_progress":
            later = max(self.now, self.record.lease_expires, self.record.not_before) + self.SKEW
            assert isinstance(apply(self.record, TakeLease(later, "x", self.LEASE, self.SKEW)), Transition)


TestTaskLife = TaskLife.TestCase
TestTaskLife.settings = settings(
    max_examples=150, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
)
