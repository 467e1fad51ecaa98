"""What `azd` is told about telemetry: the app's half and the host's half belong together."""

import json
from pathlib import Path

import pytest

from tests.infra.bicep import ROOT
from tests.infra.hooks import run_hook as run
from tests.infra.test_infra import APP, app_settings


def test_host_and_worker_are_switched_to_opentelemetry_together():
    assert app_settings("telemetrySettings") == {"AzureFunctionsJobHost__telemetryMode", "PYTHON_ENABLE_OPENTELEMETRY"}
    assert "openTelemetry" in APP.params


def test_durable_functions_passes_the_trace_on_and_no_inputs_into_it():
    tracing = json.loads((ROOT / "host.json").read_text())["extensions"]["durableTask"]["tracing"]
    assert tracing == {"distributedTracingEnabled": True, "version": "V2", "traceInputsAndOutputs": False}


@pytest.mark.parametrize(
    ("requirements", "code"),
    [
        ("azure-functions==2.3.0\n", 1),
        ("# -r requirements-telemetry.txt\n", 1),
        ("azure-functions==2.3.0\n-r requirements-telemetry.txt\n", 0),
        ("azure-monitor-opentelemetry-exporter\n", 0),
    ],
)
def test_preprovision_wants_what_exports_installed(tmp_path: Path, requirements: str, code: int):
    (tmp_path / "requirements.txt").write_text(requirements)
    done = run("preprovision", tmp_path, OPEN_TELEMETRY="true")
    assert done.returncode == code, done.stderr
    assert bool(done.stderr) == bool(code)


def test_preprovision_wants_nothing_while_it_is_off(tmp_path: Path):
    (tmp_path / "requirements.txt").write_text("azure-functions==2.3.0\n")
    assert run("preprovision", tmp_path, OPEN_TELEMETRY="false").returncode == 0
