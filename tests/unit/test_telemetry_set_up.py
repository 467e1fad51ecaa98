"""When telemetry is set up, and with what. Providers are global, so each set-up is a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hosting.functions.telemetry import _exporters

ROOT = Path(__file__).parents[2]
AZURE = "azure_monitor_opentelemetry_exporter"

PROGRAM = """
import asyncio, json, logging, os, sys
{before}
from hosting import telemetry
from hosting.functions.telemetry import set_up_telemetry

logging.basicConfig(level=logging.INFO, stream=sys.stderr)
flush = set_up_telemetry(os.environ, development=False)
with telemetry.request_span("GET", "v1/models", {{}}) as span:
    logging.getLogger("app").warning("in a request")
    span.answered(200)
asyncio.run(flush())
print(json.dumps({{"sdk": "opentelemetry.sdk" in sys.modules, "content": telemetry.content_allowed()}}), file=sys.stderr)
"""


def run(settings: dict[str, str], before: str = "") -> tuple[str, str]:
    """Standard output (where the console exporter writes) and standard error of the program under these settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "APPLICATIONINSIGHTS"))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(before=before)],
        cwd=ROOT,
        env=kept | settings,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout, done.stderr


def test_without_settings_the_sdk_is_not_even_imported():
    out, err = run({})
    assert out == ""
    assert json.loads(err.splitlines()[-1]) == {"sdk": False, "content": False}


def test_the_console_gets_spans_measurements_and_logs():
    console = {f"OTEL_{signal}_EXPORTER": "console" for signal in ("TRACES", "METRICS", "LOGS")}
    out, _ = run(console | {"WEBSITE_SITE_NAME": "func-contoso"})
    assert '"name": "GET /v1/models"' in out
    assert '"service.name": "func-contoso"' in out
    assert '"hosting.request.duration"' in out
    assert '"body": "in a request"' in out


def test_the_version_that_a_deployment_names_is_in_all_of_it():
    before = "import hosting.revision; hosting.revision.revision = lambda: 'v2'"
    out, _ = run({"OTEL_TRACES_EXPORTER": "console"}, before)
    assert '"service.version": "v2"' in out


def test_providers_that_the_worker_or_the_app_has_set_are_left_alone():
    before = "from opentelemetry import trace; from opentelemetry.sdk.trace import TracerProvider\n"
    before += "trace.set_tracer_provider(TracerProvider())"
    out, err = run({"OTEL_TRACES_EXPORTER": "console"}, before)
    assert out == ""
    assert "set up already" in err


def test_a_missing_package_is_named_and_the_app_goes_on():
    out, err = run({"OTEL_TRACES_EXPORTER": "no_such_exporter"})
    assert out == ""
    assert "install requirements-telemetry.txt" in err


def test_a_malformed_setting_does_not_keep_the_app_from_starting():
    out, err = run({"OTEL_TRACES_EXPORTER": "console", "OTEL_TRACES_SAMPLER_ARG": "many"})
    assert out == ""
    assert "could not be set up" in err


@pytest.mark.parametrize(
    ("sampler", "argument", "recorded"),
    [
        ("microsoft.fixed_percentage", "0", False),
        ("microsoft.fixed_percentage", "1", True),
        ("microsoft.rate_limited", "0.5", True),  # traces a second, for the host
    ],
)
def test_samplers_for_the_host_are_no_riddle_for_the_app(sampler: str, argument: str, recorded: bool):
    settings = {"OTEL_TRACES_SAMPLER": sampler, "OTEL_TRACES_SAMPLER_ARG": argument}
    out, err = run({"OTEL_TRACES_EXPORTER": "console", **settings})
    assert ('"name": "GET /v1/models"' in out) is recorded
    assert "recognize sampler" not in err


def test_a_request_that_its_caller_has_not_sampled_is_recorded_all_the_same():
    # The Functions host without OpenTelemetry marks no request as sampled.
    program = PROGRAM.replace(
        '"v1/models", {{}}', '"v1/models", {{"traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-00"}}'
    )
    done = subprocess.run(
        [sys.executable, "-c", program.format(before="")],
        cwd=ROOT,
        env=os.environ | {"OTEL_TRACES_EXPORTER": "console"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert f'"trace_id": "0x{"a" * 32}"' in done.stdout


def test_content_is_allowed_by_a_setting_only():
    _, err = run({"ENABLE_SENSITIVE_DATA": "true"})
    assert json.loads(err.splitlines()[-1])["content"] is True


OTLP = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.mark.parametrize(
    ("settings", "azure", "traces", "logs"),
    [
        ({}, False, [], []),
        (OTLP, False, ["otlp_proto_http"], ["otlp_proto_http"]),
        (OTLP | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, False, ["otlp_proto_grpc"], ["otlp_proto_grpc"]),
        (OTLP | {"OTEL_LOGS_EXPORTER": "none"}, False, ["otlp_proto_http"], []),
        ({"OTEL_TRACES_EXPORTER": "console, otlp"}, False, ["console", "otlp_proto_http"], []),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318"}, False, ["otlp_proto_http"], []),
        # The host sends the log lines of the worker itself, unless it was told otherwise.
        ({}, True, [AZURE], []),
        ({"PYTHON_ENABLE_OPENTELEMETRY": "true"}, True, [AZURE], [AZURE]),
        ({"OTEL_TRACES_EXPORTER": "none"}, True, [], []),
        (OTLP, True, ["otlp_proto_http", AZURE], ["otlp_proto_http"]),
    ],
)
def test_which_exporters_the_settings_ask_for(
    settings: dict[str, str], azure: bool, traces: list[str], logs: list[str]
):
    assert _exporters(settings, "traces", azure=azure) == traces
    assert _exporters(settings, "logs", azure=azure) == logs
