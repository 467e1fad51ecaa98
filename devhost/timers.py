"""Timer triggers: when they are due, and one run at a time."""

import asyncio
import json
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from croniter import croniter

from devhost.background import Background
from devhost.config import AppConfig
from devhost.console import Console
from devhost.errors import DevHostError, WorkerDied
from devhost.functions import Function
from devhost.workers import Workers

__all__ = ["Schedule", "Timers", "parse_schedule", "timer_request"]

# When a timer is next due after a moment.
type Schedule = Callable[[datetime], datetime]


def parse_schedule(text: str) -> Schedule:
    """A schedule from an NCRONTAB expression (six fields, seconds first; five mean second 0) or a time span.

    Times are UTC, as in Azure. A day has to fit both day fields, as in NCRONTAB, not either of them, as in cron.
    `hh:mm:ss` is the time between runs; from 24 on the first number counts days: `24:00:00` is `dd:hh:mm`.
    Raises DevHostError when it is neither.
    """
    if match := re.fullmatch(r"(\d+):(\d{1,2}):(\d{1,2})", text.strip()):
        first, second, third = (int(part) for part in match.groups())
        if first < 24:
            span = timedelta(hours=first, minutes=second, seconds=third)
        else:
            span = timedelta(days=first, hours=second, minutes=third)
        if span < timedelta(seconds=1):
            raise DevHostError(f"the schedule {text!r} is shorter than a second")
        return lambda after: after + span
    fields = text.split()
    expression = " ".join(["0", *fields] if len(fields) == 5 else fields)
    if len(fields) not in {5, 6} or not croniter.is_valid(expression, second_at_beginning=True):
        raise DevHostError(f"the schedule {text!r} is neither NCRONTAB ('0 */5 * * * *') nor a time span ('00:05:00')")

    def following(after: datetime) -> datetime:
        return croniter(expression, after, second_at_beginning=True, day_or=False).get_next(datetime)

    return following


def timer_request(last: datetime | None, following: datetime, past_due: bool = False) -> dict[str, Any]:
    """The trigger's value, as the host sends it."""
    minimum = datetime.min.replace(tzinfo=UTC)
    return {
        "json": json.dumps(
            {
                "Schedule": {"AdjustForDST": True},
                "ScheduleStatus": {
                    "Last": (last or minimum).isoformat(),
                    "Next": following.isoformat(),
                    "LastUpdated": (last or minimum).isoformat(),
                },
                "IsPastDue": past_due,
            }
        )
    }


class Timers:
    """The timers of an app. devhost is the one that counts, so a timer runs on one worker only, whatever their number."""

    def __init__(
        self,
        config: AppConfig,
        functions: Iterable[Function],
        workers: Workers,
        inputs: Callable[[Function], dict[str, dict[str, Any] | None]],
        console: Console,
    ) -> None:
        """Raises DevHostError for a schedule that can't be read."""
        self._plans = [
            (function, parse_schedule(config.resolve(str(function.trigger.get("schedule", "")))))
            for function in functions
            if function.kind == "timer"
        ]
        self._workers = workers
        self._inputs = inputs
        self._console = console
        self._background = Background(console)

    def start(self) -> None:
        """Start the timers of all functions."""
        for function, schedule in self._plans:
            self._background.spawn(self._keep(function, schedule))

    def stop(self) -> None:
        """Start no more runs."""
        self._background.cancel()

    async def _keep(self, function: Function, schedule: Schedule) -> None:
        last: datetime | None = None
        if function.trigger.get("runOnStartup"):
            last = datetime.now(UTC)
            await self.run(function, timer_request(None, schedule(last)))
        while True:
            due = schedule(datetime.now(UTC))
            await _sleep_until(due)
            # The next one is counted from the end of this run, so runs never overlap and missed ones are not made up.
            await self.run(function, timer_request(last, schedule(due)))
            last = due

    async def run(self, function: Function, value: dict[str, Any]) -> None:
        """Run a timer function once, on whatever worker is ready. A failure is reported, not raised."""
        worker = await self._workers.acquire("timer")
        try:
            result = await worker.invoke(function, {function.trigger["name"]: value, **self._inputs(function)})
        except WorkerDied as error:
            self._console.error(f"timer {function.name} did not finish: {error}")
            return
        if not result.ok:
            self._console.error(f"timer {function.name} failed: {result.error}\n{result.stack.rstrip()}")


async def _sleep_until(due: datetime) -> None:
    # In pieces: the wall clock counts, which may jump while the machine sleeps.
    left = (due - datetime.now(UTC)).total_seconds()
    while left > 0:
        await asyncio.sleep(min(left, 60.0))
        left = (due - datetime.now(UTC)).total_seconds()
