"""Every interval and limit of the task engine, with what it trades. Settings of the app can override each."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any, cast

from hosting.errors import ConfigurationError

__all__ = ["INPUT_BYTES", "QUEUE_LENGTH", "TaskOptions"]

INPUT_BYTES = 10 * 1024 * 1024
"""Longest input, in bytes of compact ASCII JSON (the published package's limit)."""
QUEUE_LENGTH = 9
"""Inputs that may wait behind an active steerable turn (the published package's limit)."""
ERROR_CHARACTERS = 16_000
"""Longest message and longest traceback that an outcome keeps; together they stay below the published 64 KiB."""
METADATA_BYTES = 1024 * 1024
"""Longest metadata namespace, in bytes of JSON."""

_SHORTEST = 0.01
"""Seconds: what is done over and over in such a pause must leave time for anything else."""
_PAUSES = frozenset({"lease", "control", "poll_first", "poll_last", "unknown_task", "help_after"})


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """Read from settings named `TASKS_<FIELD>_SECONDS`, e.g. `TASKS_LEASE_SECONDS=30`."""

    lease: timedelta = timedelta(seconds=60)
    """How long a process may be silent before its work is taken over. Shorter: faster recovery after a kill, more writes
    (one per third of it and running attempt), and a storage outage of that length makes work run again elsewhere."""

    skew: timedelta = timedelta(seconds=2)
    """How far the clocks of two instances may be apart. A lease is taken over only this long after it has ended, so that
    its holder, by its own clock, has stopped first. Fencing does not depend on it, only the absence of overlap does."""

    control: timedelta = timedelta(seconds=2)
    """How often a running attempt looks whether it was cancelled or steered by another process: one point read. In the
    same process it hears at once. A read costs about a 25-millionth of a dollar; a second of waiting costs a user."""

    lost_grace: timedelta = timedelta(seconds=5)
    """How long a handler may go on after it was told that its lease is lost. Then it is cancelled: nothing it returns
    counts any more, and its successor may be running."""

    poll_first: timedelta = timedelta(milliseconds=25)
    """First pause of a caller that waits for the result of a run in another process."""

    poll_last: timedelta = timedelta(seconds=1)
    """Longest such pause; pauses grow by half each time. Longer: fewer reads for long runs, later news of their end."""

    help_after: timedelta = timedelta(seconds=2)
    """How long a handler that waits for another task leaves that to others; then it is run where the handler runs. Shorter:
    less waiting when all places are taken by those that wait; longer: work is spread better over the instances."""

    commit_patience: timedelta = timedelta(minutes=5)
    """How long a finished attempt keeps trying to store its outcome while storage is away. The lease is renewed meanwhile;
    after that it is given up and the input runs again."""

    accept_patience: timedelta = timedelta(seconds=20)
    """How long `start` keeps trying while storage is away, before it raises StorageUnavailable."""

    idle: timedelta = timedelta(seconds=15)
    """How long accepted work may sit without a live lease before the recovery scan starts another driver for it. Shorter:
    faster recovery; longer: fewer drivers that start in vain when activities queue up."""

    stale: timedelta = timedelta(minutes=10)
    """Age from which an index row without its input counts as left over by a crash, and the scan removes it. Must be longer
    than any `start` takes between its two writes; one that took half of it writes the row once more."""

    unknown_task: timedelta = timedelta(seconds=30)
    """Pause before work is looked at again whose task no instance declares, or whose record it can't read (an older version of
    the app, say)."""

    shutdown_grace: timedelta = timedelta(seconds=25)
    """How long a graceful stop waits for handlers (the published package's value). Azure gives an instance that is scaled
    in up to an hour for HTTP requests to drain but kills it when the host has stopped, so work should leave soon."""

    retention: timedelta = timedelta(days=7)
    """How long outcomes are kept for `result()` and `get_run`."""

    scan_concurrency: int = 16
    """Records that the recovery scan looks at in parallel."""

    @classmethod
    def from_environment(cls, env: Mapping[str, str] | None = None) -> "TaskOptions":
        """The defaults, overridden by `TASKS_*_SECONDS`. Raises ConfigurationError that names a setting that is no number, or
        too small for a pause."""
        values: Mapping[str, str] = os.environ if env is None else env
        given: dict[str, timedelta] = {}
        for name, field in cls.settings().items():
            if not values.get(name):
                continue
            try:
                seconds = float(values[name])
            except ValueError:
                seconds = -1.0
            least = _SHORTEST if field in _PAUSES else 0.0
            if not least <= seconds < 1e9:
                raise ConfigurationError(
                    f'{name} takes a number of seconds, {least:g} or more. See docs/tasks.md, "Time".'
                )
            given[field] = timedelta(seconds=seconds)
        return replace(cls(), **cast("dict[str, Any]", given))

    @classmethod
    def settings(cls) -> dict[str, str]:
        """Names of the settings, and of the fields that they override."""
        return {
            f"TASKS_{item.name.upper()}_SECONDS": item.name for item in fields(cls) if item.name != "scan_concurrency"
        }

    @property
    def heartbeat(self) -> timedelta:
        """Pause between renewals of a lease: two of them may fail before it ends."""
        return self.lease / 3
