"""What an app says when it starts: settings that nothing reads, half a model, schedules that are none, and where to read on."""

import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from hosting.functions.settings_check import check_settings, known_settings, unknown_settings
from hosting.keys import parse_keys
from hosting.models import missing_setting
from hosting.settings import ConfigurationError, load_settings
from hosting.storage import check_connection
from hosting.tasks._options import TaskOptions
from tests.conftest import ROOT

_NAME = re.compile(r"(?<![A-Za-z0-9_])(?:HOSTING|TASKS)_[A-Z0-9_]*[A-Z0-9]\b(?!_)")
_WHERE = ("hosting", "devhost", "bench", "infra", "examples", "scripts", "docs", ".github")
_ELSEWHERE = {"TASKS_TABLE"}
"""Read by the apps of tests/contract and tests/crash, which bench/tasks.py runs too. They do not use `agent_app`."""


def named(*places: str) -> set[str]:
    """Every name with one of our prefixes in these folders and files."""
    files = [file for place in places for file in (ROOT / place, *(ROOT / place).rglob("*")) if file.is_file()]
    found: set[str] = set()
    for file in files:
        if file.suffix not in (".pyc", ".png"):
            found |= set(_NAME.findall(file.read_text()))
    return found


def test_every_name_in_code_infrastructure_and_documents_is_known() -> None:
    root = [path.name for path in ROOT.iterdir() if path.suffix in (".md", ".py", ".yaml", ".json") and path.is_file()]
    assert "azure.yaml" in root
    assert named(*_WHERE, *root, "Makefile") - _ELSEWHERE - known_settings() == set()


def test_every_known_name_is_documented() -> None:
    assert known_settings() - named("docs") == set()


def test_every_name_that_tests_set_is_known() -> None:
    """Else their apps would warn, and a test of a setting could have its name wrong."""
    own = {"TASKS_CRASH_SCALE", "TASKS_CRASH_SEED", "HOSTING_MAX_RUN", "TASKS_LEASE_SECOND", "HOSTING_COLOUR"}
    assert named("tests") - known_settings() - _ELSEWHERE - own == set()


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("HOSTING_MAX_RUN", "HOSTING_MAX_RUNS"),
        ("hosting_max_runs", "HOSTING_MAX_RUNS"),
        ("TASKS_LEASE_SECOND", "TASKS_LEASE_SECONDS"),
        ("HOSTING_COLOUR", None),
    ],
)
def test_an_unknown_name_is_found_with_the_one_that_is_most_like_it(name: str, nearest: str | None) -> None:
    assert unknown_settings({name: "5", "HOSTING_TABLE": "agents", "PATH": "/bin"}) == {name: nearest}


def test_known_names_empty_values_and_other_prefixes_are_no_mistakes() -> None:
    assert unknown_settings(dict.fromkeys(known_settings(), "1")) == {}
    assert unknown_settings({"HOSTING_COLOUR": "", "HOSTINGS": "1", "MY_TASKS_LIST": "1"}) == {}


def test_all_unknown_names_are_one_warning_without_their_values(caplog: pytest.LogCaptureFixture) -> None:
    check_settings({"HOSTING_MAX_RUN": "s3cr3t", "HOSTING_COLOUR": "s3cr3t"})
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "HOSTING_COLOUR, HOSTING_MAX_RUN (did you mean HOSTING_MAX_RUNS?)" in record.getMessage()
    assert "s3cr3t" not in record.getMessage()


def test_half_a_model_is_a_warning_that_names_what_is_missing(caplog: pytest.LogCaptureFixture) -> None:
    check_settings({"AZURE_OPENAI_ENDPOINT": "https://acme.openai.azure.com"})
    assert "AZURE_OPENAI_ENDPOINT is set but AZURE_OPENAI_MODEL is not" in caplog.text


def test_good_settings_are_no_news(caplog: pytest.LogCaptureFixture) -> None:
    model = {"AZURE_OPENAI_ENDPOINT": "https://acme.openai.azure.com", "AZURE_OPENAI_MODEL": "gpt"}
    check_settings({**model, "HOSTING_MAX_RUNS": "5"})
    check_settings({})
    assert caplog.records == []


@pytest.mark.parametrize("name", ["HOSTING_RETENTION_SCHEDULE", "TASKS_RECOVERY_SCHEDULE"])
def test_a_schedule_that_is_none_is_named_and_not_repeated(name: str) -> None:
    for wrong in ("s3cr3t", "s3cr3t * *", "s3cr3t=;", "* * * * * s3cr3t/;"):
        with pytest.raises(ConfigurationError, match=f"^{name} takes NCRONTAB") as error:
            check_settings({name: wrong})
        assert "s3cr3t" not in str(error.value)


@pytest.mark.parametrize("schedule", ["0 17 * * * *", "*/5 * * * *", "0 0 9-17 * JAN,Feb 1-5", "00:05:00", "%WHEN%"])
def test_schedules_that_the_host_takes_are_taken(schedule: str) -> None:
    check_settings({"HOSTING_RETENTION_SCHEDULE": schedule, "TASKS_RECOVERY_SCHEDULE": schedule})


_WRONG: dict[str, Callable[[], object]] = {
    "a number": lambda: load_settings({"HOSTING_MAX_RUNS": "abc"}),
    "keys": lambda: parse_keys("abc"),
    "storage": lambda: check_connection({"AzureWebJobsStorage": "abc"}),
    "a time of tasks": lambda: TaskOptions.from_environment({"TASKS_LEASE_SECONDS": "abc"}),
    "a schedule": lambda: check_settings({"HOSTING_RETENTION_SCHEDULE": "abc"}),
    "a schedule of tasks": lambda: check_settings({"TASKS_RECOVERY_SCHEDULE": "abc"}),
}


@pytest.mark.parametrize("what", _WRONG)
def test_an_error_is_one_line_with_nothing_chained_that_says_where_to_read_on(what: str) -> None:
    with pytest.raises(ConfigurationError) as wrong:
        _WRONG[what]()
    assert (wrong.value.__cause__, wrong.value.__context__) == (None, None)
    assert "\n" not in str(wrong.value)
    assert _is_documented(str(wrong.value))


def test_what_is_said_of_half_a_model_says_where_to_read_on() -> None:
    for env in ({"OPENAI_MODEL": "gpt"}, {"AZURE_OPENAI_ENDPOINT": "acme"}, {"OPENAI_BASE_URL": "acme"}):
        assert _is_documented(missing_setting(env) or "")


def _is_documented(message: str) -> bool:
    pointer = re.search(r'See (\S+), "([^"]+)"\.$', message)
    assert pointer is not None, message
    headings = [line.lstrip("# ") for line in (ROOT / pointer[1]).read_text().splitlines() if line.startswith("#")]
    return pointer[2] in headings


def test_the_app_warns_when_it_is_loaded_and_loads_no_model_for_it() -> None:
    names = ("HOSTING_", "TASKS_", "AZURE_OPENAI_", "OPENAI_")
    code = "import function_app, sys; print([m for m in ('openai', 'agent_framework_openai') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith(names)},
            "AzureWebJobsStorage": "UseDevelopmentStorage=true",
            "HOSTING_MAX_RUN": "5",
            "AZURE_OPENAI_ENDPOINT": "https://acme.openai.azure.com",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == "[]"
    assert "HOSTING_MAX_RUNS" in done.stderr
    assert "AZURE_OPENAI_MODEL is not" in done.stderr
