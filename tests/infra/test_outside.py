"""What is seen from outside of the app: calls from five places, and Azure's own word. Whether they tell, only Azure shows."""

import re

from .alerts import AVAILABILITY, HEALTH, availability_rule
from .bicep import ROOT, literal, members, text
from .test_infra import MAIN

TEST = members(AVAILABILITY.resources["test"].body)
ALERT = members(AVAILABILITY.resources["alert"].body)
SOURCE = AVAILABILITY.path.read_text()
EASY_AUTH = (ROOT / "infra" / "modules" / "easyauth.bicep").read_text()
PLACES = [literal(item) for item in AVAILABILITY.variables["places"].named_children if item.type == "string"]


def module(name: str) -> str:
    """How main.bicep calls it, up to the brace."""
    (found,) = re.findall(rf"(?m)^module {name} '[^']+' = (.*)\{{$", MAIN.path.read_text())
    return found.strip()


# ---- the availability test


def test_it_is_off_unless_it_is_asked_for() -> None:
    """Each call is billed, and wakes an instance."""
    assert MAIN.params["availabilityTest"].default == "false"
    assert module("availability") == "if (availabilityTest)"


def test_it_belongs_to_application_insights() -> None:
    """Without the tag Azure refuses a test, or shows it nowhere."""
    assert text(TEST["tags"]) == "union(tags, {\n    'hidden-link:${insights.id}': 'Resource'\n  })"
    assert literal(TEST["kind"]) == literal(members(TEST["properties"])["Kind"]) == "standard"


def test_it_asks_a_route_that_answers_without_a_key() -> None:
    (path,) = re.findall(r"RequestUrl: '\$\{appUri\}(/\w+)'", SOURCE)
    assert f"excludedPaths: [\n        '{path}'" in EASY_AUTH
    assert f"curl -i $BASE{path}" in (ROOT / "docs" / "runbooks.md").read_text()
    assert text(MAIN.modules["availability"].arguments["appUri"]) == "app.outputs.uri"


def test_most_places_have_to_fail_and_each_one_has_a_result_in_the_window() -> None:
    """Microsoft's advice: five places at least, and an alert when all but two of them fail."""
    assert len(set(PLACES)) == len(PLACES) >= 5
    assert int(availability_rule()["threshold"]) == len(PLACES) - 2
    minutes = int(availability_rule()["window"].removeprefix("PT").removesuffix("M"))
    assert int(text(members(TEST["properties"])["Frequency"])) < minutes * 60


def test_the_page_counts_the_calls_that_are_billed() -> None:
    page = (ROOT / "docs" / "operations.md").read_text().partition("### The availability test")[2].partition("\n###")[0]
    month = 30 * 24 * 3600 // int(text(members(TEST["properties"])["Frequency"])) * len(PLACES)
    assert f"{month:,} calls a month, some {month * 0.0006:.0f} dollars" in page
    assert f"{month * 2:,} GB-s with 2 GB or {month * 2 * 0.000026:.1f}" in page


def test_somebody_is_told_only_when_there_is_an_address() -> None:
    assert "= if (!empty(receiversId)) {" in SOURCE
    receivers = text(MAIN.modules["availability"].arguments["receiversId"])
    assert receivers == "alerting ? alerts!.outputs.receiversId : ''"
    assert text(MAIN.variables["alerting"]) == "!empty(alertEmail) || !empty(alertWebhook)"
    criteria = members(members(ALERT["properties"])["criteria"])
    assert literal(criteria["odata.type"]) == "Microsoft.Azure.Monitor.WebtestLocationAvailabilityCriteria"
    assert [text(criteria[key]) for key in ("webTestId", "componentId")] == ["test.id", "insights.id"]


# ---- Azure's own word


def test_each_rule_looks_at_one_scope_of_its_kind() -> None:
    """Azure takes one scope a rule, and service events belong to a subscription."""
    rules = [members(rule) for rule in HEALTH.variables["rules"].named_children if rule.type == "object"]
    looks = {literal(rule["name"]): text(rule["scope"]) for rule in rules}
    assert looks == {"service-health": "subscription().id", "resource-health": "resourceGroup().id"}
    categories = [re.findall(r"equals: '(\w+Health)'", text(rule["condition"])) for rule in rules]
    assert categories == [["ServiceHealth"], ["ResourceHealth"]]


def test_events_are_not_narrowed_by_names_that_may_be_wrong() -> None:
    """A filter with a name that is not exactly Azure's lets nothing through, and nobody notices."""
    fields = set(re.findall(r"field: '([\w.]+)'", HEALTH.path.read_text()))
    assert fields == {"category", "status", "properties.incidentType", "properties.currentHealthStatus"}


def test_azures_own_word_is_told_whenever_there_is_an_address() -> None:
    alerts = (ROOT / "infra" / "modules" / "alerts.bicep").read_text()
    assert module("alerts") == "if (alerting)"
    assert "module health './health-alerts.bicep' = {" in alerts
    assert "output receiversId string = receivers.id" in alerts
