"""Runs per minute: the bucket, one process alone, and processes that share a row. Time is virtual."""

import asyncio
from typing import Any

import pytest

from hosting.responses import ApiError
from hosting.server.rate_limit import RateLimit, reset_time
from hosting.state.usage_counters import TokenBucket
from hosting.storage import MemoryBlobs, MemoryTables, Meter, StorageUnavailable, Store, memory_store

MINUTE = 60.0


class Clock:
    def __init__(self) -> None:
        self.time = 1_800_000_000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that gives up on the table counts alone: not because this machine is busy."""
    monkeypatch.setattr("hosting.server.rate_limit._PATIENCE", 60.0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def burst(limit: RateLimit, times: int, tenant: str = "contoso") -> int:
    """How many of so many requests are admitted."""
    admitted = 0
    for _ in range(times):
        try:
            await limit.admit(tenant)
        except ApiError:
            continue
        admitted += 1
    return admitted


async def refusal(limit: RateLimit, tenant: str = "contoso") -> ApiError:
    with pytest.raises(ApiError) as caught:
        await limit.admit(tenant)
    return caught.value


# ---- the bucket


def test_a_bucket_that_was_never_asked_is_full() -> None:
    assert TokenBucket(7).free(0.0, 1_800_000_000.0) == 7


@pytest.mark.parametrize("size", [1, 3, 7, 60, 999, 1_000_000])
def test_taking_all_one_by_one_leaves_none_and_never_gives_more(size: int) -> None:
    bucket, now, full_at = TokenBucket(size), 1_800_000_000.0, 0.0
    taken = 0
    step = max(1, size // 1000)
    while bucket.free(full_at, now) >= step:
        full_at = bucket.take(full_at, now, step)
        taken += step
    assert size - step < taken <= size


@pytest.mark.parametrize("size", [1, 3, 7, 60, 999])
def test_after_the_time_to_wait_there_is_a_permit_and_before_it_there_is_none(size: int) -> None:
    bucket, now = TokenBucket(size), 1_800_000_000.0
    full_at = bucket.take(0.0, now, size)
    wait = bucket.wait(full_at, now)
    assert bucket.free(full_at, now + wait * 0.99) == 0
    assert bucket.free(full_at, now + wait) == 1


def test_a_time_that_only_a_wrong_clock_can_have_written_locks_nobody_out() -> None:
    now = 1_800_000_000.0
    assert TokenBucket(5).free(now + 3600, now) == 5


# ---- one process alone


async def test_without_a_limit_nothing_is_counted() -> None:
    limit = RateLimit(0)
    assert await limit.admit("contoso") == {}
    assert limit.tenants == 0


async def test_a_minutes_worth_is_admitted_at_once_and_then_one_after_the_other(clock: Clock) -> None:
    limit = RateLimit(6, clock=clock)
    assert await burst(limit, 20) == 6
    clock.time += 10
    assert await burst(limit, 20) == 1
    clock.time += 30
    assert await burst(limit, 20) == 3


async def test_tenants_have_a_bucket_each(clock: Clock) -> None:
    limit = RateLimit(2, clock=clock)
    assert await burst(limit, 5, "contoso") == 2
    assert await burst(limit, 5, "fabrikam") == 2


async def test_an_answer_says_what_is_left(clock: Clock) -> None:
    limit = RateLimit(4, clock=clock)
    await limit.admit("contoso")
    assert await limit.admit("contoso") == {
        "x-ratelimit-limit-requests": "4",
        "x-ratelimit-remaining-requests": "2",
        "x-ratelimit-reset-requests": "30s",
    }


async def test_a_refusal_says_when_the_next_run_is_admitted(clock: Clock) -> None:
    limit = RateLimit(40, clock=clock)
    await burst(limit, 40)
    error = await refusal(limit)
    assert (error.status, error.code, error.type) == (429, "rate_limit_exceeded", "rate_limit_error")
    assert error.headers == {
        "retry-after": "2",
        "retry-after-ms": "1500",
        "x-ratelimit-limit-requests": "40",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "1m0s",
    }
    clock.time += 1.5
    assert await burst(limit, 5) == 1


@pytest.mark.parametrize("per_minute", [1, 2, 60, 10_000])
async def test_the_time_to_wait_is_one_that_sdks_wait(clock: Clock, per_minute: int) -> None:
    limit = RateLimit(per_minute, clock=clock)
    await burst(limit, per_minute)
    headers = (await refusal(limit)).headers
    assert 1 <= int(headers["retry-after"]) <= 60
    assert 0 < float(headers.get("retry-after-ms", "1000")) <= 60_000


async def test_idle_tenants_are_forgotten(clock: Clock) -> None:
    limit = RateLimit(10, clock=clock)
    for number in range(1000):
        await limit.admit(f"tenant {number}")
    clock.time += 2 * MINUTE
    await limit.admit("contoso")
    assert limit.tenants == 1


async def test_a_clock_that_is_set_back_locks_nobody_out(clock: Clock) -> None:
    limit = RateLimit(3, clock=clock)
    await burst(limit, 3)
    clock.time -= 3600
    assert await burst(limit, 3) == 3


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.0001, "1ms"), (0.25, "250ms"), (1, "1s"), (1.5, "1.5s"), (59.999, "59.999s"), (360, "6m0s")],
)
def test_a_duration_reads_as_openai_writes_it(seconds: float, text: str) -> None:
    assert reset_time(seconds) == text


# ---- processes that share


def processes(count: int, per_minute: int, clock: Clock) -> tuple[list[RateLimit], Meter]:
    store = memory_store()
    return [RateLimit(per_minute, lambda: store, clock) for _ in range(count)], store.meter


async def test_processes_that_share_admit_together_what_one_would(clock: Clock) -> None:
    (first, second, third), _ = processes(3, 100, clock)
    admitted = 0
    for _ in range(60):
        admitted += sum([await burst(limit, 1) for limit in (first, second, third)])
    assert admitted == 100


async def test_a_crowd_in_one_process_is_admitted_exactly(clock: Clock) -> None:
    (limit,), _ = processes(1, 50, clock)
    results = await asyncio.gather(*(limit.admit("contoso") for _ in range(80)), return_exceptions=True)
    assert sum(isinstance(result, dict) for result in results) == 50


async def test_crowds_in_two_processes_never_get_more_than_the_limit(clock: Clock) -> None:
    (first, second), _ = processes(2, 60, clock)
    results = await asyncio.gather(
        *(limit.admit("contoso") for limit in (first, second) for _ in range(60)), return_exceptions=True
    )
    assert 50 <= sum(isinstance(result, dict) for result in results) <= 60


async def test_a_busy_process_asks_the_table_seldom(clock: Clock) -> None:
    (limit,), meter = processes(1, 100_000, clock)
    for _ in range(1000):
        await limit.admit("contoso")
        clock.time += 0.05
    assert meter.table_reads == 1
    assert meter.table_writes <= 1000 / 64 + 8


async def test_a_process_with_little_to_do_sits_on_nothing(clock: Clock) -> None:
    (quiet, busy), _ = processes(2, 100, clock)
    await quiet.admit("contoso")
    assert await burst(busy, 200) == 99


async def test_who_has_none_left_is_refused_without_asking_the_table(clock: Clock) -> None:
    (limit,), meter = processes(1, 20, clock)
    await burst(limit, 20)
    before = meter.copy()
    assert await burst(limit, 500) == 0
    assert (meter - before).operations == 0


async def test_permits_that_were_not_used_flow_back(clock: Clock) -> None:
    (first, second), _ = processes(2, 60, clock)
    await burst(first, 30)
    clock.time += MINUTE + 1
    assert await burst(second, 100) == 60


async def test_permits_that_are_held_are_given_up_after_a_while(clock: Clock) -> None:
    (limit,), meter = processes(1, 80, clock)
    for _ in range(4):  # takes 1, 2 and 4 and uses the first of the 4
        await limit.admit("contoso")
    before = meter.copy()
    await limit.admit("contoso")
    assert (meter - before).operations == 0
    clock.time += 11
    await limit.admit("contoso")
    assert (meter - before).operations == 1


async def test_no_more_is_said_to_remain_than_the_limit(clock: Clock) -> None:
    (limit,), _ = processes(1, 80, clock)
    for _ in range(4):
        await limit.admit("contoso")
    clock.time += 9
    assert (await limit.admit("contoso"))["x-ratelimit-remaining-requests"] == "80"


async def test_a_refusal_of_a_shared_bucket_has_the_same_headers(clock: Clock) -> None:
    (first, second), _ = processes(2, 30, clock)
    await burst(first, 30)
    error = await refusal(second)
    assert error.headers == {
        "retry-after": "2",
        "x-ratelimit-limit-requests": "30",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "1m0s",
    }


async def test_the_remaining_runs_include_those_that_the_process_holds(clock: Clock) -> None:
    (limit,), _ = processes(1, 100, clock)
    remaining = [int((await limit.admit("contoso"))["x-ratelimit-remaining-requests"]) for _ in range(10)]
    assert remaining == list(range(99, 89, -1))


async def test_tenants_do_not_share_with_each_other(clock: Clock) -> None:
    (limit,), _ = processes(1, 5, clock)
    assert await burst(limit, 9, "contoso") == 5
    assert await burst(limit, 9, "fabrikam") == 5


async def test_idle_tenants_are_forgotten_by_processes_that_share(clock: Clock) -> None:
    (limit,), _ = processes(1, 10, clock)
    for number in range(100):
        await limit.admit(f"tenant {number}")
    clock.time += 2 * MINUTE
    await limit.admit("contoso")
    assert limit.tenants == 1


class Tables(MemoryTables):
    """Storage that fails, or does not answer, when it is told to."""

    fault: Exception | None = None
    answers = True

    async def get(self, *args: Any, **options: Any) -> Any:
        await self._trouble()
        return await super().get(*args, **options)

    async def transact(self, *args: Any, **options: Any) -> Any:
        await self._trouble()
        return await super().transact(*args, **options)

    async def _trouble(self) -> None:
        if not self.answers:
            await asyncio.Event().wait()
        if self.fault is not None:
            raise self.fault


async def test_without_the_table_a_process_counts_alone(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    tables = Tables()
    store = Store(tables, MemoryBlobs())
    limit = RateLimit(4, lambda: store, clock)
    tables.fault = StorageUnavailable("switched off")
    assert await burst(limit, 9) == 4
    assert len([record for record in caplog.records if "counts runs alone" in record.message]) == 1


async def test_the_table_is_asked_again_when_it_is_back(clock: Clock) -> None:
    tables = Tables()
    store = Store(tables, MemoryBlobs())
    limit, other = RateLimit(4, lambda: store, clock), RateLimit(4, lambda: store, clock)
    tables.fault = StorageUnavailable("switched off")
    await burst(limit, 9)
    tables.fault = None
    clock.time += MINUTE
    assert await burst(limit, 3) + await burst(other, 9) == 4


async def test_a_table_that_does_not_answer_is_not_waited_for(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hosting.server.rate_limit._PATIENCE", 0.01)
    tables = Tables()
    tables.answers = False
    store = Store(tables, MemoryBlobs())
    limit = RateLimit(1, lambda: store, clock)
    assert await burst(limit, 3) == 1


class Counted(Tables):
    asked = 0

    async def _trouble(self) -> None:
        self.asked += 1
        await super()._trouble()


async def test_all_that_come_while_the_table_does_not_answer_wait_once_and_together(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hosting.server.rate_limit._PATIENCE", 0.2)
    tables = Counted()
    tables.answers = False
    store = Store(tables, MemoryBlobs())
    limit = RateLimit(100, lambda: store, clock)
    await asyncio.gather(*(limit.admit("contoso") for _ in range(20)))
    assert tables.asked == 1


async def test_a_table_that_has_failed_is_left_alone_for_some_seconds(clock: Clock) -> None:
    tables = Counted()
    store = Store(tables, MemoryBlobs())
    limit = RateLimit(100, lambda: store, clock)
    tables.fault = StorageUnavailable("switched off")
    results = await asyncio.gather(*(limit.admit("contoso") for _ in range(20)))
    assert len(results) == 20
    clock.time += 4
    await limit.admit("contoso")
    assert tables.asked == 1
    clock.time += 2
    await limit.admit("contoso")
    assert tables.asked == 2


async def test_while_one_asks_whether_the_table_is_back_the_others_do_not_wait(clock: Clock) -> None:
    tables = Tables()
    store = Store(tables, MemoryBlobs())
    limit = RateLimit(100, lambda: store, clock)
    tables.fault = StorageUnavailable("switched off")
    await limit.admit("contoso")
    clock.time += 6
    tables.answers = False
    asking = asyncio.create_task(limit.admit("contoso"))
    await asyncio.sleep(0)
    async with asyncio.timeout(1):
        assert await burst(limit, 9) == 9
    assert not asking.done()
    asking.cancel()


async def test_a_table_that_fails_for_one_tenant_is_asked_for_another(clock: Clock) -> None:
    tables = Counted()
    store = Store(tables, MemoryBlobs())
    limit = RateLimit(100, lambda: store, clock)
    tables.fault = StorageUnavailable("switched off")
    await limit.admit("contoso")
    tables.fault = None
    await limit.admit("fabrikam")
    assert tables.asked == 3  # the last two are a read and a write


async def test_a_client_that_goes_while_the_table_is_asked_leaves_the_others_alone(clock: Clock) -> None:
    tables = Tables()
    store = Store(tables, MemoryBlobs())
    limit = RateLimit(10, lambda: store, clock)
    tables.answers = False
    gone = asyncio.create_task(limit.admit("contoso"))
    await asyncio.sleep(0.01)
    tables.answers = True
    waiting = asyncio.create_task(limit.admit("contoso"))
    await asyncio.sleep(0)
    gone.cancel()
    assert (await waiting)["x-ratelimit-limit-requests"] == "10"
    assert gone.cancelled()
