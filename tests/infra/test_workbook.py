"""The page of charts asks for what the app exports. Whether Azure draws it, only a deployment shows (docs/unproven.md)."""

import re

import pytest

from tests.unit.test_telemetry_docs import instrument_kinds

from .alerts import rules_of, unknown_names
from .bicep import ROOT, literal, load, members, text, walk
from .test_infra import MAIN

WORKBOOK = load(ROOT / "infra" / "modules" / "workbook.bicep")
CHARTS = {chart["name"]: chart for chart in rules_of(WORKBOOK, "charts")}
QUERIES = {name: chart["query"].strip("'\n") for name, chart in CHARTS.items()}
SERIES = [name for name, chart in CHARTS.items() if chart["kind"] == "series"]
MEASURED = [name for name, query in QUERIES.items() if query.startswith("customMetrics")]
PAGE = (ROOT / "docs" / "operations.md").read_text()


def test_each_chart_has_all_that_a_chart_needs() -> None:
    assert len(CHARTS) == len(rules_of(WORKBOOK, "charts"))
    for chart in CHARTS.values():
        assert set(chart) == {"name", "title", "kind", "query"}
        assert chart["kind"] in ("series", "table")


@pytest.mark.parametrize("name", QUERIES)
def test_a_chart_asks_for_names_that_exist(name: str) -> None:
    assert unknown_names(QUERIES[name]) == set()


@pytest.mark.parametrize("name", MEASURED)
def test_a_chart_reads_the_columns_that_the_exporter_fills(name: str) -> None:
    """A gauge is one value a row; histograms have a count and a largest value; a counter is what it grew by."""
    query = QUERIES[name]
    columns = set(re.findall(r"\bvalue\w*\b", query))
    names = re.findall(r'name (?:==|in) \(?("[^)\n]+?")(?:\)|\n| and)', query)
    kinds = {instrument_kinds()[found] for found in re.findall(r'"([\w.]+)"', names[0])}
    filled = {"gauge": {"valueSum"}, "counter": {"valueSum"}, "histogram": {"valueSum", "valueCount", "valueMax"}}
    assert len(kinds) == 1
    assert set() < columns <= filled[kinds.pop()]


@pytest.mark.parametrize("name", SERIES)
def test_lines_have_a_time_and_at_most_one_text(name: str) -> None:
    """Two texts, or none that is a time, are no lines but an error."""
    last = QUERIES[name].splitlines()[-1]
    groups = last.partition(" by bin(timestamp, {Time:grain})")
    assert groups[1]
    assert re.fullmatch(r"(, (\w+ = tostring\(.+\)|name))?", groups[2])


@pytest.mark.parametrize("name", QUERIES)
def test_a_chart_keeps_to_the_range_of_time_of_the_page(name: str) -> None:
    assert "ago(" not in QUERIES[name]
    assert set(re.findall(r"\{(\w+)[:}]", QUERIES[name])) <= {parameter()}


def parameter() -> str:
    """The name of the page's one parameter, a range of time (type 4)."""
    (names,) = [
        {key: text(value) for key, value in members(node).items()}
        for node in walk(WORKBOOK.variables["time"])
        if "typeSettings" in members(node)
    ]
    assert names["type"] == "4"
    return names["name"].strip("'")


def test_each_chart_of_the_list_gets_on_the_page() -> None:
    source = WORKBOOK.path.read_text()
    assert "for chart in charts: {" in text(WORKBOOK.variables["chartItems"])
    (content,) = [
        members(node) for node in walk(WORKBOOK.variables["chartItems"]) if "timeContextFromParameter" in members(node)
    ]
    assert literal(content["timeContextFromParameter"]) == parameter()
    assert [text(content[key]) for key in ("title", "query")] == ["chart.title", "chart.query"]
    assert "items: concat([introduction, time], chartItems)" in source
    assert "fallbackResourceIds: [\n        insights.id\n      ]" in source


def test_it_is_made_when_there_is_something_to_show() -> None:
    assert "module workbook './modules/workbook.bicep' = if (openTelemetry) {" in MAIN.path.read_text()
    assert text(MAIN.outputs["AZURE_WORKBOOK_URL"]) == "openTelemetry ? workbook!.outputs.url : ''"


def test_a_second_deployment_changes_the_page_and_makes_no_other() -> None:
    assert text(members(WORKBOOK.resources["workbook"].body)["name"]) == "guid(insights.id, 'workbook')"


def test_the_page_says_how_to_read_each_chart() -> None:
    section = PAGE.partition("\n### A dashboard\n")[2].partition("\n## ")[0]
    table = section.partition("| chart |")[2].partition("\n\n")[0]
    assert re.findall(r"(?m)^\| `([\w-]+)` \|", table) == list(CHARTS)
