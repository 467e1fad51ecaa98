"""When a failed handler is tried again. Pure: who waits, and where the count is kept, is the engine's business."""

import random
from datetime import timedelta
from typing import Any, cast

__all__ = ["RetryPolicy"]

_MAX_DELAY = timedelta(hours=1)
_MAX_ATTEMPTS = 10


class RetryPolicy:
    """Retries of handler failures (not of crashes: recovery enters the same attempt again and uses up nothing).

    The delay before attempt n+1 (n from 0) is `min(initial_delay * backoff_coefficient ** n, max_delay)`; with `jitter`,
    times a random factor between 0.75 and 1.25, and never above `max_delay`. `max_attempts` counts the first try too.
    `retry_on` limits retries to these exceptions; None means any Exception.
    """

    __slots__ = (
        "_linear",
        "backoff_coefficient",
        "initial_delay",
        "jitter",
        "max_attempts",
        "max_delay",
        "retry_on",
    )

    def __init__(
        self,
        *,
        initial_delay: timedelta | float = timedelta(seconds=1),
        backoff_coefficient: float = 2.0,
        max_delay: timedelta | float = timedelta(seconds=60),
        max_attempts: int = 3,
        retry_on: type[Exception] | tuple[type[Exception], ...] | None = None,
        jitter: bool = True,
        _linear: bool = False,
    ) -> None:
        """Delays are timedeltas, or seconds. Raises ValueError and TypeError as the published package does:
        0 <= initial_delay <= max_delay <= 1 h, backoff_coefficient >= 1, 1 <= max_attempts <= 10."""
        self.initial_delay = _delay(initial_delay, "initial_delay")
        self.max_delay = _delay(max_delay, "max_delay")
        self.backoff_coefficient = backoff_coefficient
        self.max_attempts = max_attempts
        self.retry_on = retry_on
        self.jitter = jitter
        self._linear = _linear
        if self.initial_delay < timedelta(0):
            raise ValueError("initial_delay must not be negative")
        if not backoff_coefficient >= 1.0:
            raise ValueError("backoff_coefficient must be at least 1.0")
        if self.max_delay < self.initial_delay:
            raise ValueError("max_delay must not be less than initial_delay")
        if self.max_delay > _MAX_DELAY:
            raise ValueError("max_delay must not be more than one hour")
        if not 1 <= max_attempts <= _MAX_ATTEMPTS:
            raise ValueError(f"max_attempts must be between 1 and {_MAX_ATTEMPTS}")
        if retry_on is not None and not _are_exceptions(retry_on):
            raise TypeError("retry_on must be an Exception subclass or a tuple of them")

    def compute_delay(self, attempt: int) -> float:
        """Seconds to wait after attempt number `attempt` (0-based) has failed."""
        initial, ceiling = self.initial_delay.total_seconds(), self.max_delay.total_seconds()
        try:
            grown = initial * (attempt + 1) if self._linear else initial * self.backoff_coefficient**attempt
        except OverflowError:  # a large coefficient: the cap is what counts
            grown = ceiling if initial else 0.0
        delay = min(grown, ceiling)
        if self.jitter:
            delay = min(delay * random.uniform(0.75, 1.25), ceiling)
        return delay

    def allows_another(self, attempt: int) -> bool:
        """Whether a further try is left after attempt number `attempt` (0-based)."""
        return attempt + 1 < self.max_attempts

    def retries_on(self, error: BaseException) -> bool:
        """Whether this kind of failure is retried at all."""
        return isinstance(error, Exception if self.retry_on is None else self.retry_on)

    def should_retry(self, attempt: int, error: Exception) -> bool:
        """Whether attempt number `attempt` (0-based), which failed with `error`, is followed by another one."""
        return self.allows_another(attempt) and self.retries_on(error)

    @classmethod
    def exponential_backoff(
        cls,
        *,
        max_attempts: int = 3,
        initial_delay: timedelta = timedelta(seconds=1),
        max_delay: timedelta = timedelta(seconds=60),
        backoff_coefficient: float = 2.0,
        jitter: bool = True,
    ) -> "RetryPolicy":
        """Delays that double, or grow by another coefficient."""
        return cls(
            initial_delay=initial_delay,
            backoff_coefficient=backoff_coefficient,
            max_delay=max_delay,
            max_attempts=max_attempts,
            jitter=jitter,
        )

    @classmethod
    def fixed_delay(cls, *, delay: timedelta = timedelta(seconds=5), max_attempts: int = 3) -> "RetryPolicy":
        """The same delay every time, without jitter."""
        return cls(
            initial_delay=delay, backoff_coefficient=1.0, max_delay=delay, max_attempts=max_attempts, jitter=False
        )

    @classmethod
    def linear_backoff(
        cls,
        *,
        initial_delay: timedelta = timedelta(seconds=1),
        max_delay: timedelta = timedelta(seconds=60),
        max_attempts: int = 5,
    ) -> "RetryPolicy":
        """initial_delay, then twice, three times as long, without jitter."""
        return cls(
            initial_delay=initial_delay,
            backoff_coefficient=1.0,
            max_delay=max_delay,
            max_attempts=max_attempts,
            jitter=False,
            _linear=True,
        )

    @classmethod
    def no_retry(cls) -> "RetryPolicy":
        """A single attempt."""
        return cls(
            initial_delay=timedelta(0), backoff_coefficient=1.0, max_delay=timedelta(0), max_attempts=1, jitter=False
        )

    def _values(self) -> tuple[object, ...]:
        return tuple(cast("object", getattr(self, name)) for name in self.__slots__)

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if isinstance(other, RetryPolicy) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        shown = ("initial_delay", "backoff_coefficient", "max_delay", "max_attempts", "retry_on", "jitter")
        return f"RetryPolicy({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


def _delay(value: timedelta | float, name: str) -> timedelta:
    given: Any = value  # callers without a type checker
    if isinstance(given, bool) or not isinstance(given, timedelta | int | float):
        raise TypeError(f"{name} must be a timedelta or a number of seconds")
    return given if isinstance(given, timedelta) else timedelta(seconds=given)


def _are_exceptions(value: Any) -> bool:
    kinds: tuple[Any, ...] = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else (value,)
    return bool(kinds) and all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds)
