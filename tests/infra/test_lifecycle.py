"""Lifecycle rules delete without asking the app: they reach its own blobs alone, and none that is in use."""

import inspect

import pytest

from hosting.server.background import _LONGEST as LONGEST_RUN  # pyright: ignore[reportPrivateUsage]
from hosting.settings import Settings
from hosting.state.retention_blobs import PREFIX as VALUES
from hosting.streaming.expiry import expire_streams

from .bicep import literal, load, members, text
from .test_infra import INFRA, MAIN, OPTIONS

STORAGE = load(INFRA / "modules" / "storage.bicep")
LIFECYCLE = load(INFRA / "modules" / "lifecycle.bicep")
STREAMS = inspect.signature(expire_streams).parameters["prefix"].default


@pytest.mark.parametrize(
    ("rules", "prefix", "under", "blobs"),
    [("streamRules", "streamPrefix", STREAMS, "appendBlob"), ("valueRules", "valuePrefix", VALUES, "blockBlob")],
)
def test_a_lifecycle_rule_reaches_one_kind_of_the_apps_blobs_and_no_others(
    rules: str, prefix: str, under: str, blobs: str
) -> None:
    """A rule without a prefix would delete the host's leases and the deployment package."""
    assert text(LIFECYCLE.variables[prefix]) == f"'${{container}}/{under}'"
    (rule,) = LIFECYCLE.variables[rules].named_children
    filters = members(members(members(rule)["definition"])["filters"])
    assert [text(item) for item in filters["prefixMatch"].named_children] == [prefix]
    assert [literal(item) for item in filters["blobTypes"].named_children] == [blobs]


def test_the_rules_are_about_the_apps_container() -> None:
    given = MAIN.modules["lifecycle"].arguments
    assert text(given["accountName"]) == "storage.outputs.name"
    assert text(given["container"]) == text(OPTIONS["HOSTING_CONTAINER"]) == "stateContainer"
    assert literal(MAIN.variables["stateContainer"]) != literal(MAIN.variables["packageContainer"])


def test_no_rule_deletes_spilled_values_unless_it_is_asked_for() -> None:
    """It can't know what a living conversation still refers to; the retention timer does."""
    assert MAIN.params["payloadIdleDays"].default == "0"
    rules = text(LIFECYCLE.variables["rules"])
    assert rules == "concat(streamDays > 0 ? streamRules : [], payloadIdleDays > 0 ? valueRules : [])"


def test_the_rule_that_deletes_by_last_access_has_the_tracking_it_needs() -> None:
    """Without tracking, the platform counts from the day the rule was made, and deletes what is in use."""
    policy = members(members(members(STORAGE.resources["blobs"].body)["properties"])["lastAccessTimeTrackingPolicy"])
    assert "daysAfterLastAccessTimeGreaterThan: payloadIdleDays" in text(LIFECYCLE.variables["valueRules"])
    assert text(policy["enable"]) == "trackAccess"
    assert text(MAIN.modules["storage"].arguments["trackAccess"]) == "payloadIdleDays > 0"


def test_the_rule_of_streams_waits_until_none_can_be_in_use() -> None:
    """A run takes days, and its first events are read until some hours after its end."""
    days = LONGEST_RUN.days + Settings.model_fields["stream_hours"].default / 24
    assert int(MAIN.params["streamDays"].default or 0) > days + 1
