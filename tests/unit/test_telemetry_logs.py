"""What logs say of exceptions, what they are about, and what is exported of them."""

import ast
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor

from hosting.telemetry import allow_content, describe, fields, log_about, request_span
from hosting.telemetry.logs import LogHandler
from tests.telemetry_recorder import Recorder, recorder

__all__ = ["recorder"]

ROOT = Path(__file__).parents[2]


class Exported:
    """A logger whose records are exported, and what was exported."""

    def __init__(self) -> None:
        self._exporter = InMemoryLogRecordExporter()
        self.provider = LoggerProvider()
        self.provider.add_log_record_processor(SimpleLogRecordProcessor(self._exporter))
        self.handler = LogHandler(self.provider)

    def logger(self, name: str) -> logging.Logger:
        logger = logging.Logger(name)
        logger.addHandler(self.handler)
        return logger

    @property
    def records(self) -> list[Any]:
        return [item.log_record for item in self._exporter.get_finished_logs()]


@pytest.fixture
def exported() -> Iterator[Exported]:
    made = Exported()
    yield made
    made.provider.shutdown()


@pytest.fixture
def content() -> Iterator[None]:
    allow_content(True)
    yield
    allow_content(False)


def failure() -> Exception:
    try:
        try:
            raise ValueError("the user said SECRET")
        except ValueError as error:
            raise RuntimeError("SECRET again") from error
    except RuntimeError as error:
        return error


def test_an_exception_is_described_by_class_cause_and_place_and_not_by_its_message():
    said = describe(failure())
    assert "SECRET" not in said
    assert said.startswith("builtins.RuntimeError at ")
    assert " caused by builtins.ValueError at " in said
    assert "unit/test_telemetry_logs.py:" in said


@pytest.mark.usefixtures("content")
def test_where_content_is_allowed_an_exception_is_described_in_full():
    assert "SECRET again" in describe(failure())
    assert "Traceback" in describe(failure())


def test_causes_that_go_in_a_circle_are_described_once():
    first, second = ValueError(), KeyError()
    first.__cause__, second.__cause__ = second, first
    assert describe(first) == "builtins.ValueError caused by builtins.KeyError"


def test_an_exported_record_is_about_what_surrounds_it_and_what_it_says_itself(exported: Exported):
    with log_about(fields(response_id="resp_1", tenant="0123abcd")):
        exported.logger("hosting").warning("late by %d s", 3, extra=fields(task="t1"))
    (record,) = exported.records
    assert record.body == "late by 3 s"
    assert record.severity_text == "WARN"
    assert dict(record.attributes) == {"response_id": "resp_1", "tenant": "0123abcd", "task": "t1"}


def test_an_exported_record_belongs_to_the_span_around_it(exported: Exported, recorder: Recorder):
    with request_span("GET", "v1/models", {}) as span:
        exported.logger("hosting").info("x")
        span.answered(200)
    assert exported.records[0].span_id == recorder.span("GET /v1/models").context.span_id


def test_the_message_of_a_logged_exception_is_not_exported(exported: Exported):
    exported.logger("app").error("it failed", exc_info=failure())
    (record,) = exported.records
    assert record.attributes["exception.type"] == "RuntimeError"
    assert "ValueError" in record.attributes["exception.stacktrace"]
    assert "SECRET" not in f"{record.body} {dict(record.attributes)}"


@pytest.mark.usefixtures("content")
def test_the_message_of_a_logged_exception_is_exported_where_content_is_allowed(exported: Exported):
    exported.logger("app").error("it failed", exc_info=failure())
    assert exported.records[0].attributes["exception.message"] == "SECRET again"


@pytest.mark.parametrize(
    "name", ["opentelemetry.sdk", "azure.monitor.x", "azure.core.pipeline", "urllib3.connectionpool"]
)
def test_what_an_export_logs_is_not_exported(exported: Exported, name: str):
    exported.logger(name).error("x")
    assert not exported.records


def test_a_record_below_info_is_not_exported(exported: Exported):
    exported.logger("hosting").debug("x")
    assert not exported.records


def test_an_extra_that_is_no_scalar_is_not_exported(exported: Exported):
    exported.logger("app").info("x", extra={"body": {"input": "SECRET"}, "count": 2})
    assert dict(exported.records[0].attributes) == {"count": 2}


@pytest.mark.parametrize("package", ["storage", "tasks", "streaming", "telemetry"])
def test_no_log_call_of_the_lower_floors_hands_over_a_whole_exception(package: str):
    # Its message may quote a user, and the host's log pipeline prints it with the traceback. `describe` says what is safe.
    found: list[str] = []
    for path in (ROOT / "hosting" / package).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            logs = isinstance(node.func.value, ast.Name) and node.func.value.id.lower() == "_log"
            whole = node.func.attr == "exception" or any(keyword.arg == "exc_info" for keyword in node.keywords)
            if logs and whole:
                found.append(f"{path.name}:{node.lineno}")
    assert not found
