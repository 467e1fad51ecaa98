"""Alerts ask for what the app writes, as the exporter writes it, and each one says what to do. Whether they fire, only Azure
shows (docs/unproven.md)."""

import re
from typing import Any

import pytest

from tests.unit.test_telemetry_docs import instrument_kinds

from .alerts import (
    ALERTS,
    HEALTH,
    PLATFORM,
    availability_rule,
    health_rules,
    platform_rules,
    queries_of,
    query_rules,
    rules_of,
    unknown_names,
)
from .bicep import ROOT, literal, load, members, text
from .test_infra import MAIN

PAGE = (ROOT / "docs" / "operations.md").read_text()
RUNBOOKS = (ROOT / "docs" / "runbooks.md").read_text()
ANSWERS = RUNBOOKS.partition("\n## When an alert fires\n")[2].partition("\n## ")[0]
RULES = [*query_rules(), *platform_rules(), availability_rule()]
BY_NAME = {rule["name"]: rule for rule in RULES}
NAMES = [*BY_NAME, *health_rules()]
QUERIES = [(rule["name"], query) for rule in query_rules() for query in queries_of(rule)]


@pytest.mark.parametrize("query", [query for _, query in QUERIES], ids=[name for name, _ in QUERIES])
def test_an_alert_asks_for_names_that_exist(query: str) -> None:
    assert unknown_names(query) == set()


@pytest.mark.parametrize(
    "query",
    [
        'customMetrics | where name == "hosting.task.longest_waiting"',
        'customMetrics | where name in ("hosting.task.backlog", "hosting.task.mistyped")',
        'dependencies | where isnotempty(customDimensions["hosting.turn.state"])',
        'traces | where message has "taken up once more"',
        'requests | where name has "task_recover"',
        'customMetrics | where customDimensions["error.type"] == "StorageGone"',
    ],
)
def test_a_name_that_does_not_exist_is_found(query: str) -> None:
    assert len(unknown_names(query)) == 1


@pytest.mark.parametrize("query", [query for _, query in QUERIES], ids=[name for name, _ in QUERIES])
def test_an_alert_always_has_one_row_with_one_number(query: str) -> None:
    """A rule over a column that is missing never fires."""
    last = query.splitlines()[-1]
    assert re.match(r"\| (summarize|project) value = ", last)
    assert not any(" by " in line for line in query.splitlines() if line.startswith("| summarize"))


@pytest.mark.parametrize("query", [q for _, q in QUERIES if q.startswith("customMetrics")])
def test_an_alert_reads_the_columns_that_the_exporter_fills(query: str) -> None:
    """A gauge is one value a row; histograms have a count; a counter is what it grew by."""
    columns = set(re.findall(r"\bvalue\w*\b(?! =)", query))
    names = re.findall(r'"(hosting\.[a-z_.]+)"', query.partition("summarize")[0].partition("customDimensions")[0])
    kinds = {instrument_kinds()[name] for name in names}
    expected = {"gauge": {"valueSum"}, "counter": {"valueSum"}, "histogram": {"valueCount"}}
    assert len(kinds) == 1
    assert columns <= expected[kinds.pop()]


def test_a_rule_over_the_apps_own_telemetry_is_off_without_it() -> None:
    """Off, not left out: Azure would keep one that an earlier deployment made."""
    (resource,) = [r for r in ALERTS.resources.values() if r.type == "Microsoft.Insights/scheduledQueryRules"]
    assert text(members(members(resource.body)["properties"])["enabled"]) == "openTelemetry || rule.source != 'app'"
    apps = ("customMetrics", "dependencies", "traces")
    without = [q for rule in query_rules() if rule["source"] != "app" for q in queries_of(rule)]
    assert [query for query in without if query.startswith(apps)] == [literal_of("scans")]
    assert BY_NAME["no-scan"]["query"] == "openTelemetry ? scans : timers"


def literal_of(variable: str) -> str:
    return (literal(ALERTS.variables[variable]) or "").strip("'\n")


def test_alerts_of_the_platform_need_no_telemetry_and_look_at_what_is_deployed() -> None:
    assert {rule["resource"] for rule in platform_rules()} == {"storageId", "hostStorageId", "schedulerId", "openAiId"}
    given = {name: text(node) for name, node in load(ROOT / "infra" / "main.bicep").modules["alerts"].arguments.items()}
    assert given["storageId"] == "storage.outputs.id"
    assert given["hostStorageId"] == "separateHostAccount ? hostStorage!.outputs.id : ''"
    assert given["schedulerId"] == "useScheduler ? scheduler!.outputs.id : ''"
    assert given["openAiId"] == "makeModel ? openai!.outputs.id : ''"
    lists = {"hostStorageRules": "hostStorageId", "schedulerRules": "schedulerId", "modelRules": "openAiId"}
    optional = [f"empty({resource}) ? [] : {rules}" for rules, resource in lists.items()]
    source = " ".join((ROOT / "infra/modules/platform-alerts.bicep").read_text().split())
    assert f"concat( storageRules, {', '.join(optional)} )" in source
    for rules, resource in lists.items():
        assert {rule["resource"] for rule in rules_of(PLATFORM, rules)} == {resource}


def test_an_alert_says_which_environment_it_is_of() -> None:
    """By its name: the rules on telemetry have one that is displayed in its place."""
    for module, name in (("alerts", "alert"), ("availability", "test")):
        assert text(MAIN.modules[module].arguments["name"]) == f"'{name}-${{environmentName}}'"
    for file in (ALERTS, PLATFORM, HEALTH):
        assert "    name: '${name}-${rule.name}'" in file.path.read_text()
    assert "displayName: '${rule.name} (${environmentName})'" in ALERTS.path.read_text()


def test_alerts_are_sent_to_whoever_is_named_in_one_form() -> None:
    receivers = members(members(ALERTS.resources["receivers"].body)["properties"])
    assert text(receivers["emailReceivers"]) == "empty(email) ? [] : mails"
    assert text(receivers["webhookReceivers"]) == "empty(webhook) ? [] : hooks"
    for name in ("mails", "hooks"):
        (receiver,) = [members(node) for node in ALERTS.variables[name].named_children if node.type == "object"]
        assert text(receiver["useCommonAlertSchema"]) == "true"


def test_alerts_on_the_scheduler_ask_for_metrics_that_it_has() -> None:
    """Microsoft's page of its metrics (microsoft-durabletask-schedulers-metrics), January 2026."""
    kinds = ("Activity", "Orchestrator", "Entity")
    known = {f"{kind}{state}Items" for kind in kinds for state in ("Active", "Pending")}
    known |= {"ConnectedWorkers", "DataUsedInBytes"}
    asked = [rule for rule in platform_rules() if rule["resource"] == "schedulerId"]
    assert {rule["metric"] for rule in asked} == {"OrchestratorPendingItems", "ActivityPendingItems"}
    assert {rule["metric"] for rule in asked} <= known
    also = re.findall(
        r"`([A-Z]\w+(?:Items|Workers|Bytes))`", PAGE.partition("The scheduler measures more")[2].partition("\n\n")[0]
    )
    assert len(also) >= 3
    assert set(also) <= known - {rule["metric"] for rule in asked}


# ---- what docs/operations.md says


def rows() -> dict[str, list[str]]:
    """The table of alerts, by their names."""
    lines = PAGE.partition("### Alerts")[2].partition("\n| alert |")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return {row[0].strip("` "): row[1:] for row in cells}


def in_words(rule: dict[str, str]) -> list[str]:
    signs = {"GreaterThan": ">", "GreaterThanOrEqual": ">=", "LessThan": "<"}
    windows = {"PT15M": "15 min", "PT30M": "30 min", "P1D": "24 h", "P2D": "48 h"}
    sign = f"{signs[rule['operator']]} {rule['threshold']}"
    return [sign, windows[rule["window"]], rule["severity"], rule.get("source", "platform")]


def test_the_table_of_alerts_is_the_one_that_is_deployed() -> None:
    said: dict[str, Any] = {
        name: [row[0].split("`")[1], *row[1:4]] for name, row in rows().items() if name not in health_rules()
    }
    assert said == {rule["name"]: in_words(rule) for rule in RULES}


def test_the_table_names_the_events_that_azures_own_word_is_asked_for() -> None:
    said = {name: set(re.findall(r"`(\w+)`", rows()[name][0])) for name in health_rules()}
    assert said == health_rules()
    assert all(rows()[name][1:4] == ["each event", "4", "Azure"] for name in said)


def test_alerts_come_in_the_order_of_their_severity() -> None:
    severities = [row[2] for row in rows().values()]
    assert severities == sorted(severities)


@pytest.mark.parametrize("name", NAMES)
def test_an_alert_says_where_it_is_written_what_to_do(name: str) -> None:
    says = ANSWERS.partition(f"\n### {name}\n")[2].partition("\n### ")[0]
    assert len(says) > 60


def test_an_alert_leads_to_what_is_to_be_done() -> None:
    for file in ("alerts", "platform-alerts", "health-alerts", "availability"):
        source = (ROOT / "infra" / "modules" / f"{file}.bicep").read_text()
        end = "#availability'" if file == "availability" else "#${rule.name}'"
        assert f"What to do: ${{runbooks}}{end}" in source
    for module in ("alerts", "availability"):
        assert text(MAIN.modules[module].arguments["runbooks"]) == "runbooksUrl"
    assert (ROOT / (MAIN.params["runbooksUrl"].default or "")).read_text() == RUNBOOKS


def test_there_is_no_runbook_of_an_alert_that_is_gone() -> None:
    assert set(re.findall(r"^### (.+)$", ANSWERS, re.M)) == set(NAMES)
