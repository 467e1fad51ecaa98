"""The instruments of this app: what is measured, in which unit, by which attributes.

An attribute of a measurement has few values, all of them known to the code: never an id, a tenant, a model's name from a
request, or anything else that a caller chooses.
"""

import time
from collections.abc import Callable, Iterable, Mapping

from opentelemetry.metrics import CallbackOptions, Meter, Observation

__all__ = ["Backlog", "Instruments", "Sources"]

# Seconds. A stored event takes milliseconds, a turn minutes, a task that waits for somebody days.
_QUICK = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SLOW = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 86400)
_COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)

type Counts = Callable[[], Mapping[str, int]]


class Sources:
    """What counts storage operations in this process: read when metrics are exported, so that counting costs nothing."""

    def __init__(self) -> None:
        self._counts: list[Counts] = []

    def add(self, counts: Counts) -> None:
        """`counts` gives totals since the start, by the names of the fields of `hosting.storage.Meter`."""
        self._counts.append(counts)

    def totals(self) -> dict[str, int]:
        """The sums over all that were added."""
        totals: dict[str, int] = {}
        for counts in self._counts:
            for name, value in counts().items():
                totals[name] = totals.get(name, 0) + value
        return totals

    def operations(self, _: CallbackOptions) -> Iterable[Observation]:
        return [
            Observation(value, {"hosting.storage.kind": name})
            for name, value in self.totals().items()
            if not name.startswith("bytes_")
        ]

    def transferred(self, _: CallbackOptions) -> Iterable[Observation]:
        return [
            Observation(value, {"hosting.storage.direction": name.removeprefix("bytes_")})
            for name, value in self.totals().items()
            if name.startswith("bytes_")
        ]


class Backlog:
    """What the last recovery scan of this process found, while it is news: another process may do the next ones.

    The scan looks at work from outside. What only an attempt can tell is not told when nothing starts, or when each attempt
    ends with its process; and the scan normally runs in another process than the work.
    """

    STALE = 150.0
    """Seconds; a scan comes every 60."""

    def __init__(self) -> None:
        self._found: tuple[float, int, float, int] | None = None

    def found(self, inputs: int, oldest_waiting: float, most_crashes: int) -> None:
        """A scan came to its end: how many inputs have not ended, for how many seconds one of them has waited for a process
        to take it up, and how many processes have died at one. The largest of each; 0 for none."""
        self._found = time.monotonic(), inputs, oldest_waiting, most_crashes

    def inputs(self, _: CallbackOptions) -> Iterable[Observation]:
        return [Observation(found[1]) for found in self._news()]

    def oldest_waiting(self, _: CallbackOptions) -> Iterable[Observation]:
        return [Observation(found[2]) for found in self._news()]

    def most_crashes(self, _: CallbackOptions) -> Iterable[Observation]:
        return [Observation(found[3]) for found in self._news()]

    def _news(self) -> list[tuple[float, int, float, int]]:
        found = self._found
        return [] if found is None or time.monotonic() - found[0] > self.STALE else [found]


class Instruments:
    """One attribute per instrument. Instruments of a meter without provider do nothing, until there is one."""

    def __init__(self, meter: Meter, sources: Sources, backlog: Backlog) -> None:
        def seconds(name: str, description: str, limits: tuple[float, ...] = _SLOW):
            return meter.create_histogram(name, "s", description, explicit_bucket_boundaries_advisory=limits)

        self.request_duration = seconds(
            "hosting.request.duration", "From a request to the beginning of its answer.", _QUICK
        )
        self.turn_duration = seconds(
            "hosting.turn.duration", "A run of the agent, with what is read and stored for it."
        )
        self.first_event = seconds(
            "hosting.turn.time_to_first_event", "From the beginning of a turn to the first event of its agent."
        )
        self.turns_active = meter.create_up_down_counter(
            "hosting.turn.active", "{turn}", "Turns that are running in this process."
        )
        self.operation_duration = seconds(
            "gen_ai.client.operation.duration", "A run of an agent that measures nothing itself."
        )
        self.tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Tokens of a run of an agent that measures nothing itself.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self.attempt_duration = seconds("hosting.task.attempt.duration", "From the lease to the stored outcome.")
        self.attempts_active = meter.create_up_down_counter(
            "hosting.task.active", "{attempt}", "Attempts that are running in this process."
        )
        self.queue_time = seconds("hosting.task.queue_time", "From the acceptance of an input to its first attempt.")
        self.recoveries = meter.create_counter(
            "hosting.task.recoveries", "{attempt}", "Attempts after one that ended without saying how."
        )
        self.lease_losses = meter.create_counter(
            "hosting.task.lease_losses", "{attempt}", "Attempts whose work did not count, as their lease was lost."
        )
        self.redriven = meter.create_counter(
            "hosting.task.redriven",
            "{task}",
            "Tasks that nobody worked at, for which the recovery scan started a driver.",
        )
        meter.create_observable_gauge(
            "hosting.task.backlog",
            [backlog.inputs],
            "{input}",
            "Inputs, of all instances, that are accepted and have not ended, as the last recovery scan saw them.",
        )
        meter.create_observable_gauge(
            "hosting.task.oldest_waiting",
            [backlog.oldest_waiting],
            "s",
            "Longest time that a task, of all instances, has waited for a process to take it up.",
        )
        meter.create_observable_gauge(
            "hosting.task.most_crashes",
            [backlog.most_crashes],
            "{crash}",
            "How many processes, at most, have died at a task that has not ended.",
        )
        self.append_delay = seconds(
            "hosting.stream.append.delay", "From the emit of the oldest event of an append to its being stored.", _QUICK
        )
        self.append_events = meter.create_histogram(
            "hosting.stream.append.events",
            "{event}",
            "Events that one append stored.",
            explicit_bucket_boundaries_advisory=_COUNTS,
        )
        self.stream_lag = seconds(
            "hosting.stream.lag",
            "How old, at most, news from another process were when followers here saw them.",
            _QUICK,
        )
        self.storage_duration = seconds("hosting.storage.duration", "A call to storage, with its retries.", _QUICK)
        meter.create_observable_counter(
            "hosting.storage.operations", [sources.operations], "{operation}", "Operations as Azure bills them."
        )
        meter.create_observable_counter(
            "hosting.storage.io", [sources.transferred], "By", "Keys and values read (in) and written (out)."
        )
