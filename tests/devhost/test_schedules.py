"""When timers are due, without waiting for any."""

from datetime import UTC, datetime, timedelta

import pytest

from devhost.errors import DevHostError
from devhost.timers import parse_schedule

MONDAY = datetime(2026, 6, 1, 10, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "due"),
    [
        ("*/5 * * * * *", MONDAY + timedelta(seconds=5)),
        ("0 */5 * * * *", MONDAY.replace(minute=5, second=0)),
        ("*/5 * * * *", MONDAY.replace(minute=5, second=0)),
        ("30 0 10 * * *", MONDAY + timedelta(days=1)),
        ("0 0 9-17 * * MON-FRI", MONDAY.replace(hour=11, second=0)),
        ("0 30 9 * Jan Mon", datetime(2027, 1, 4, 9, 30, tzinfo=UTC)),
        # Both day fields have to fit: the next first of a month that is a Monday.
        ("0 0 0 1 * 1", datetime(2027, 2, 1, tzinfo=UTC)),
        ("00:00:10", MONDAY + timedelta(seconds=10)),
        ("01:30:00", MONDAY + timedelta(hours=1, minutes=30)),
        # From 24 on .NET reads days, hours and minutes.
        ("25:02:00", MONDAY + timedelta(days=25, hours=2)),
    ],
)
def test_next_time(schedule: str, due: datetime):
    assert parse_schedule(schedule)(MONDAY) == due


@pytest.mark.parametrize("schedule", ["", "every minute", "* * *", "61 * * * * *", "00:00:00", "0 0 0 * * * *"])
def test_unreadable_schedule_is_refused(schedule: str):
    with pytest.raises(DevHostError, match="schedule"):
        parse_schedule(schedule)
