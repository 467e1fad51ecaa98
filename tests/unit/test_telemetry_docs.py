"""docs/telemetry.md names everything there is, and nothing else. Its queries: tests/infra/test_operations.py."""

import re
from pathlib import Path

from opentelemetry.metrics import NoOpMeterProvider

from hosting.telemetry import fields
from hosting.telemetry._instruments import Backlog, Instruments, Sources

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "telemetry.md").read_text()
CODE = "".join(path.read_text() for path in (ROOT / "hosting" / "telemetry").glob("*.py"))


def instrument_kinds() -> dict[str, str]:
    """The names of all instruments, and which kind each is: histogram, counter, gauge."""
    kinds: dict[str, str] = {}
    meter = NoOpMeterProvider().get_meter("test")

    class Meter:
        def __getattr__(self, method: str):
            def create(name: str, *arguments: object, **options: object) -> object:
                kinds[name] = method.rpartition("_")[2]
                return getattr(meter, method)(name, *arguments, **options)

            return create

    Instruments(Meter(), Sources(), Backlog())  # type: ignore[arg-type]
    return kinds


def instruments() -> set[str]:
    """The names of all instruments."""
    return set(instrument_kinds())


def test_every_instrument_is_in_the_table_of_measurements():
    table = PAGE.split("## Measurements")[1].split("##")[0]
    assert set(re.findall(r"^\| `([a-z_.]+)`", table, re.M)) == instruments()


def test_every_attribute_of_a_span_is_in_the_table_of_spans():
    used = set(re.findall(r'"((?:hosting|gen_ai|http|error)\.[a-z_.]+)"', CODE)) - instruments()
    used -= {
        "hosting.storage.kind",
        "hosting.storage.direction",
        "gen_ai.token.type",
        "hosting.log_fields",
        "gen_ai.usage.",
    }
    table = PAGE.split("## Spans")[1].split("## Measurements")[0]
    assert {name for name in used if f"`{name}`" not in table} == set()


def test_every_field_of_a_log_record_is_named():
    names = fields(response_id="", conversation="", tenant="", task="", task_name="", agent="")
    assert all(f"`{name}`" in PAGE.split("## Logs")[1].split("##")[0] for name in names)
