"""What the alerts in infra/ say, and which names of the app a query (KQL) asks for."""

import re
from collections.abc import Mapping

from hosting.telemetry import fields
from tests.unit.test_telemetry_docs import instrument_kinds

from .bicep import ROOT, BicepFile, literal, load, members, text

__all__ = [
    "ALERTS",
    "AVAILABILITY",
    "HEALTH",
    "PLATFORM",
    "availability_rule",
    "health_rules",
    "platform_rules",
    "queries_of",
    "query_rules",
    "rules_of",
    "unknown_names",
]

ALERTS = load(ROOT / "infra" / "modules" / "alerts.bicep")
PLATFORM = load(ROOT / "infra" / "modules" / "platform-alerts.bicep")
HEALTH = load(ROOT / "infra" / "modules" / "health-alerts.bicep")
AVAILABILITY = load(ROOT / "infra" / "modules" / "availability.bicep")

_CODE = "".join(path.read_text() for path in (ROOT / "hosting").rglob("*.py"))
# Of agent-framework's and of ours, made of a prefix and a name in the code.
_COMPOSED = {"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"}
_LOG_FIELDS = {
    "recoveries",
    *fields(response_id="", conversation="", tenant="", task="", task_name="", agent=""),
}


def rules_of(file: BicepFile, variable: str) -> list[dict[str, str]]:
    """The objects of a list, as text."""
    rules = [members(rule) for rule in file.variables[variable].named_children]
    return [{key: literal(value) or text(value) for key, value in rule.items()} for rule in rules if rule]


def query_rules() -> list[dict[str, str]]:
    """Rules over telemetry, with `name`, `source`, `severity`, `says`, `query`, `operator`, `threshold`, `window`."""
    return rules_of(ALERTS, "rules")


def platform_rules() -> list[dict[str, str]]:
    """Rules over metrics of the platform."""
    lists = ("storageRules", "hostStorageRules", "schedulerRules", "modelRules")
    return [rule for variable in lists for rule in rules_of(PLATFORM, variable)]


def availability_rule() -> dict[str, str]:
    """The one on calls from outside, as the others are."""
    properties = members(members(AVAILABILITY.resources["alert"].body)["properties"])
    return {
        "name": "availability",
        "source": "test",
        "severity": text(properties["severity"]),
        "operator": "GreaterThanOrEqual",
        "threshold": text(members(properties["criteria"])["failedLocationCount"]),
        "window": literal(properties["windowSize"]) or "",
    }


def health_rules() -> dict[str, set[str]]:
    """Rules on what Azure says itself: the words of an event that each one takes."""
    words = {"service-health": "serviceEvents", "resource-health": "states"}
    return {
        rule["name"]: {literal(item) or "" for item in HEALTH.variables[words[rule["name"]]].named_children}
        for rule in rules_of(HEALTH, "rules")
    }


def queries_of(rule: Mapping[str, str]) -> list[str]:
    """The query of a rule; of one that chooses between two, both."""
    if "|" in rule["query"]:
        return [rule["query"].strip("'\n")]
    return [(literal(ALERTS.variables[name]) or "").strip("'\n") for name in re.findall(r"\w+", rule["query"])[1:]]


def unknown_names(query: str) -> set[str]:
    """Measurements, attributes and texts of log lines that a query asks for and that no code writes."""
    bare = re.sub(r'customDimensions\["[^"]+"\]', "customDimensions", query)
    measured = re.findall(r'"((?:hosting|gen_ai)\.[a-z_.]+[a-z])"', bare)
    asked = set(re.findall(r'customDimensions\["([^"]+)"\]', query))
    texts = re.findall(r'message (?:has|contains) "([^"]+)"', query)
    functions = re.findall(r'name !?has "([a-z_]+)"', query)
    errors = re.findall(r'"(Storage\w+)"', query)
    prefixes = re.findall(r'name startswith "([^"]+)"', query)
    return {
        *(name for name in measured if name not in instrument_kinds()),
        *(name for name in asked if f'"{name}"' not in _CODE and name not in _COMPOSED | _LOG_FIELDS),
        *(said for said in texts if said not in _CODE),
        *(name for name in functions if f'"{name}"' not in _CODE),
        *(name for name in errors if f"class {name}(" not in _CODE),
        *(start for start in prefixes if not any(name.startswith(start) for name in instrument_kinds())),
    }
