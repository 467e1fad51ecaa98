"""A wrong setting of the app itself: one line for whoever set it, and no traceback."""

import os
import subprocess
import sys
from types import SimpleNamespace

from devhost.worker import app_error
from tests.conftest import ROOT


def test_a_wrong_setting_stops_the_app_with_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "devhost", ".", "--port", "0", "--no-azurite"],
        cwd=ROOT,
        env={**os.environ, "AzureWebJobsStorage": "UseDevelopmentStorage=true", "HOSTING_MAX_RUNS": "many"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("devhost: the app does not load: HOSTING_MAX_RUNS: ")
    assert done.stderr.endswith('See docs/deploy.md, "App settings".\n')
    assert done.stderr.count("\n") == 1


def test_any_other_error_is_shown_with_its_place() -> None:
    trace = f'  File "{ROOT}/function_app.py", line 3, in <module>\n    f()\nValueError: ConfigurationError: x\n'
    error = SimpleNamespace(message="ValueError: ConfigurationError: x", stack_trace=trace)
    message, details = app_error(error, str(ROOT))
    assert message == "function_app.py:3: ValueError: ConfigurationError: x"
    assert len(details) == 2
