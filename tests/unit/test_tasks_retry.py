"""RetryPolicy: rules, defaults and presets of the published package."""

from datetime import timedelta
from typing import Any

import pytest

from hosting.tasks import RetryPolicy

plain = RetryPolicy(jitter=False)


def test_delays_grow_by_the_coefficient_up_to_the_cap():
    assert [plain.compute_delay(n) for n in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]


def test_jitter_stays_within_a_quarter_and_never_exceeds_the_cap():
    delays = [RetryPolicy().compute_delay(2) for _ in range(300)]
    assert all(3 <= delay <= 5 for delay in delays)
    assert len(set(delays)) > 100
    assert max(RetryPolicy().compute_delay(9) for _ in range(300)) <= 60


def test_a_huge_coefficient_ends_at_the_cap():
    assert RetryPolicy(backoff_coefficient=1e300, jitter=False).compute_delay(9) == 60


def test_max_attempts_counts_the_first_try():
    assert [plain.should_retry(n, ValueError()) for n in range(4)] == [True, True, False, False]


def test_retry_on_limits_what_is_retried():
    policy = RetryPolicy(retry_on=(OSError, KeyError))
    assert policy.should_retry(0, ConnectionError())
    assert not policy.should_retry(0, ValueError())


def test_delays_are_timedeltas_or_seconds():
    assert RetryPolicy(initial_delay=2, max_delay=timedelta(seconds=3)).initial_delay == timedelta(seconds=2)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"initial_delay": -1}, ValueError),
        ({"backoff_coefficient": 0.5}, ValueError),
        ({"backoff_coefficient": float("nan")}, ValueError),
        ({"initial_delay": 5, "max_delay": 4}, ValueError),
        ({"max_delay": timedelta(hours=1, seconds=1)}, ValueError),
        ({"max_attempts": 0}, ValueError),
        ({"max_attempts": 11}, ValueError),
        ({"retry_on": BaseException}, TypeError),
        ({"retry_on": (ValueError, "x")}, TypeError),
        ({"retry_on": ()}, TypeError),
        ({"initial_delay": "1s"}, TypeError),
        ({"initial_delay": True}, TypeError),
    ],
)
def test_wrong_arguments_are_refused(given: dict[str, Any], error: type[Exception]):
    with pytest.raises(error):
        RetryPolicy(**given)


def test_presets():
    exponential = RetryPolicy.exponential_backoff()
    assert (exponential.max_attempts, exponential.jitter, exponential.backoff_coefficient) == (3, True, 2.0)
    assert exponential == RetryPolicy()
    fixed = RetryPolicy.fixed_delay()
    assert ([fixed.compute_delay(n) for n in range(3)], fixed.max_attempts) == ([5, 5, 5], 3)
    linear = RetryPolicy.linear_backoff()
    assert ([linear.compute_delay(n) for n in range(4)], linear.max_attempts) == ([1, 2, 3, 4], 5)
    assert not RetryPolicy.no_retry().should_retry(0, ValueError())


def test_policies_are_values():
    assert RetryPolicy(max_attempts=4) == RetryPolicy(max_attempts=4)
    assert RetryPolicy(max_attempts=4) != RetryPolicy(max_attempts=5)
    assert hash(RetryPolicy()) == hash(RetryPolicy())
    assert "max_attempts=3" in repr(RetryPolicy())
