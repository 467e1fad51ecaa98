"""The hooks of azd: both twins say the same, and do what they say."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from hosting.keys import mint_key, parse_keys
from hosting.settings import ConfigurationError

from .bicep import ROOT
from .hooks import HOOKS, SHELLS, run_hook
from .test_azd import AZURE_YAML, INPUTS
from .test_infra import MAIN, app_settings

Run = Callable[..., subprocess.CompletedProcess[str]]

HOOK_RUNS = [(name, system, entry) for name, by in AZURE_YAML["hooks"].items() for system, entry in by.items()]


@pytest.mark.parametrize(("name", "system", "entry"), HOOK_RUNS, ids=[f"{n}-{s}" for n, s, _ in HOOK_RUNS])
def test_a_hook_is_a_script_that_can_run(name: str, system: str, entry: dict[str, str]) -> None:
    path = ROOT / entry["run"]
    assert path == HOOKS / f"{name}.{'sh' if system == 'posix' else 'ps1'}"
    assert entry["shell"] == ("sh" if system == "posix" else "pwsh")
    assert b"\r" not in path.read_bytes()
    assert system == "windows" or os.access(path, os.X_OK)


def test_each_hook_is_there_for_both_systems() -> None:
    assert {path.name for path in HOOKS.iterdir()} == {Path(entry["run"]).name for _, _, entry in HOOK_RUNS}
    assert all(set(systems) == {"posix", "windows"} for systems in AZURE_YAML["hooks"].values())


@pytest.mark.parametrize("name", AZURE_YAML["hooks"])
def test_a_hook_reads_only_what_azd_gives_it_and_the_same_in_both_shells(name: str) -> None:
    posix = set(re.findall(r"\$\{?([A-Z][A-Z0-9_]+)", (HOOKS / f"{name}.sh").read_text()))
    windows = set(re.findall(r"\$env:([A-Z][A-Z0-9_]+)", (HOOKS / f"{name}.ps1").read_text()))
    assert posix == windows
    # azd knows the subscription, too; whoever starts it may say that all is meant; GitHub and others set CI.
    assert posix <= set(INPUTS) | set(MAIN.outputs) | {"AZURE_SUBSCRIPTION_ID", "PROVISION_ANYWAY", "CI"}


@pytest.mark.parametrize("name", AZURE_YAML["hooks"])
def test_a_hook_says_the_same_in_both_shells(name: str) -> None:
    """Failures in preprovision, lines in postdeploy: the pwsh ones cannot be run here."""
    says = "fail|Fail|warn|Warn|unless_meant|UnlessMeant|echo|Write-Output"
    pattern = rf"""(?:{says}) ["']((?:entry|[A-Z]{{4,}}|The|OpenAI|Is it)[^"]*?)["'](?:$|\s|;)"""
    said = [
        [line.replace("env:", "").translate({ord(c): None for c in "{}"}) for line in re.findall(pattern, text, re.M)]
        for text in ((HOOKS / f"{name}.sh").read_text(), (HOOKS / f"{name}.ps1").read_text())
    ]
    said[0] = [line.replace(":?run azd provision first", "") for line in said[0]]
    assert len(said[0]) >= 3
    assert said[0] == said[1]


# Both twins where there is a pwsh: on the runner of CI there is one.
@pytest.fixture(params=[extension for extension, command in SHELLS.items() if shutil.which(command[0])])
def run(request: pytest.FixtureRequest) -> Run:
    return partial(run_hook, extension=request.param)


def test_preprovision_is_content_with_the_defaults(run: Run) -> None:
    done = run("preprovision")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("separator", [",", " ", ", ", "\n"])
def test_preprovision_takes_the_entries_that_are_minted(run: Run, separator: str) -> None:
    entries = [mint_key("contoso")[1].entry, mint_key("a.b_c-d@e", "user-1")[1].entry]
    assert run("preprovision", HOSTING_API_KEYS=separator.join(entries)).returncode == 0


def test_preprovision_refuses_a_key_and_does_not_show_it(run: Run) -> None:
    key, kept = mint_key("contoso")
    done = run("preprovision", HOSTING_API_KEYS=f"{kept.entry},{key}")
    assert done.returncode == 1
    assert "entry 2 of HOSTING_API_KEYS is a key" in done.stderr
    assert key not in done.stdout + done.stderr


@pytest.mark.parametrize("damage", ["{0}x:y:z", "tenant", "{0}0", "/{0}", "*"])
def test_preprovision_refuses_what_would_keep_the_app_from_starting(run: Run, damage: str) -> None:
    done = run("preprovision", HOSTING_API_KEYS=damage.format(mint_key("contoso")[1].entry))
    assert done.returncode == 1
    assert "entry 1 of HOSTING_API_KEYS is not" in done.stderr


@pytest.mark.parametrize("separator", [",", "\n", ", "])
def test_preprovision_refuses_the_same_key_twice(run: Run, separator: str) -> None:
    """The app would not load: parse_keys refuses it."""
    first, second = mint_key("contoso")[1], mint_key("fabrikam")[1]
    twice = replace(second, key_id=first.key_id)
    done = run("preprovision", HOSTING_API_KEYS=separator.join([first.entry, second.entry, twice.entry]))
    assert done.returncode == 1
    assert "the same key id twice" in done.stderr
    with pytest.raises(ConfigurationError, match="repeats the key id"):
        parse_keys(separator.join([first.entry, twice.entry]))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"BUDGET_AMOUNT": "0"}, ""),
        ({"BUDGET_AMOUNT": "200", "BUDGET_START_DATE": "2026-12-01", "ALERT_EMAIL": "ops@example.com"}, ""),
        ({"BUDGET_AMOUNT": "200", "BUDGET_START_DATE": "2026-12-01"}, "ALERT_EMAIL"),
        ({"BUDGET_AMOUNT": "200", "ALERT_EMAIL": "ops@example.com"}, "BUDGET_START_DATE"),
        ({"BUDGET_AMOUNT": "200", "ALERT_EMAIL": "ops@example.com", "BUDGET_START_DATE": "2026-12-24"}, "first day"),
        ({"BUDGET_AMOUNT": "200 EUR", "ALERT_EMAIL": "ops@example.com"}, "whole number"),
    ],
    ids=str,
)
def test_preprovision_wants_all_that_a_budget_needs(run: Run, given: dict[str, str], said: str) -> None:
    done = run("preprovision", **given)
    assert (done.returncode, said in done.stderr) == (1 if said else 0, True), done.stderr
    assert bool(done.stderr) == bool(said)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("HOSTING_MAX_RECOVERIES=10", ""),
        ("HOSTING_MAX_RECOVERIES=10, TOOL_URL=https://tool.example/?a=b,OTEL_TRACES_SAMPLER_ARG=0.1", ""),
        ("AzureWebJobs.retention.Disabled=true", ""),
        ("TOOL_KEY=@Microsoft.KeyVault(SecretUri=https://a-vault.vault.azure.net/secrets/tool-key/),B=1", ""),
        ("TOOL_KEY=@Microsoft.KeyVault(VaultName=a-vault;SecretName=tool-key)", ""),
        ("EMPTY=", ""),
        ("HOSTING_MAX_RECOVERIES", "takes NAME=value"),
        ("HOSTING_MAX_RECOVERIES=10,", "takes NAME=value"),
        ("=10", "takes NAME=value"),
        ("A=1,B", "takes NAME=value"),
        ("A=1, HOSTING_API_KEYS=x", "has HOSTING_API_KEYS, which the template sets itself"),
        ("hosting_api_keys=x", "has hosting_api_keys"),
        ("AzureWebJobsStorage=x", "has AzureWebJobsStorage"),
        ("AZURE_CLIENT_ID=x", "has AZURE_CLIENT_ID"),
        ("WEBSITE_AUTH_ENABLED=true", "has WEBSITE_AUTH_ENABLED"),
    ],
)
def test_preprovision_takes_settings_that_the_template_has_no_parameter_for(run: Run, given: str, said: str) -> None:
    done = run("preprovision", EXTRA_SETTINGS=given)
    assert (done.returncode, said in done.stderr) == (1 if said else 0, True), done.stderr
    assert bool(done.stderr) == bool(said)


def test_preprovision_knows_every_setting_that_the_template_sets(run: Run) -> None:
    assert len(app_settings()) > 15
    for name in app_settings():
        assert run("preprovision", EXTRA_SETTINGS=f"{name}=x").returncode == 1, name


def test_preprovision_refuses_an_endpoint_without_a_deployment(run: Run) -> None:
    done = run("preprovision", AZURE_OPENAI_EXISTING_ENDPOINT="https://model.example")
    assert done.returncode == 1
    assert "AZURE_OPENAI_MODEL" in done.stderr


@pytest.mark.parametrize(
    ("requirements", "code"),
    [
        ("azure-functions==2.3.0\n", 1),
        ("# -r requirements-model.txt\n", 1),
        ("azure-functions==2.3.0\n-r requirements-model.txt\n", 0),
        ("agent-framework-openai==1.17.0\n", 0),
    ],
)
def test_preprovision_wants_the_client_of_the_model_installed(
    run: Run, tmp_path: Path, requirements: str, code: int
) -> None:
    (tmp_path / "requirements.txt").write_text(requirements)
    done = run("preprovision", tmp_path, AZURE_OPENAI_MODEL="gpt-4.1-mini")
    assert done.returncode == code, done.stderr
    assert bool(done.stderr) == bool(code)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"STREAM_DAYS": "0"}, 0),
        ({"STREAM_DAYS": "10"}, 0),
        ({"STREAM_DAYS": "9"}, 1),
        ({"HOSTING_STREAM_HOURS": "768"}, 1),
        ({"HOSTING_STREAM_HOURS": "a day"}, 1),
        ({"PAYLOAD_IDLE_DAYS": "31"}, 0),
        ({"PAYLOAD_IDLE_DAYS": "30"}, 1),
        ({"PAYLOAD_IDLE_DAYS": "90", "HOSTING_RETENTION_DAYS": "0"}, 1),
        ({"PAYLOAD_IDLE_DAYS": "90", "HOSTING_CONVERSATION_DAYS": "365"}, 1),
    ],
    ids=str,
)
def test_preprovision_refuses_lifecycle_rules_that_delete_what_the_app_keeps(
    run: Run, given: dict[str, str], code: int
) -> None:
    done = run("preprovision", ROOT, **given)
    assert done.returncode == code, done.stderr
    assert bool(done.stderr) == bool(code)


# ---- what a machine without production's values would take back

DEPLOYED = {
    "DEPLOYED_HOSTING_API_KEYS": "true",
    "DEPLOYED_EASY_AUTH_CLIENT_ID": "true",
    "DEPLOYED_HOSTING_ISOLATION": "user",
    "DEPLOYED_HOSTING_RETENTION_DAYS": "90",
    "DEPLOYED_HOSTING_CONVERSATION_DAYS": "0",
    "DEPLOYED_STORAGE_SKU": "Standard_ZRS",
    "DEPLOYED_SEPARATE_HOST_ACCOUNT": "true",
    "DEPLOYED_VNET_ENABLED": "true",
}
SAME = {
    "HOSTING_API_KEYS": mint_key("contoso")[1].entry,
    "EASY_AUTH_CLIENT_ID": "an-id",
    "HOSTING_ISOLATION": "user",
    "HOSTING_RETENTION_DAYS": "90",
    "HOSTING_CONVERSATION_DAYS": "0",
    "STORAGE_SKU": "Standard_ZRS",
    "SEPARATE_HOST_ACCOUNT": "true",
    "VNET_ENABLED": "true",
}


def test_preprovision_is_content_with_the_values_that_are_deployed(run: Run) -> None:
    done = run("preprovision", **DEPLOYED, **SAME)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("lost", SAME)
def test_preprovision_refuses_to_take_back_what_is_hard_to_get_again(run: Run, lost: str) -> None:
    given = DEPLOYED | {name: value for name, value in SAME.items() if name != lost}
    done = run("preprovision", **given)
    assert done.returncode == 1
    assert lost in done.stderr
    assert re.search("PROVISION_ANYWAY='?true", done.stderr)
    assert run("preprovision", **given, PROVISION_ANYWAY="true").returncode == 0


@pytest.mark.parametrize(
    "given",
    [
        {"VNET_ENABLED": "true", "DEPLOYED_VNET_ENABLED": "false"},
        {"SEPARATE_HOST_ACCOUNT": "true", "DEPLOYED_SEPARATE_HOST_ACCOUNT": "false"},
        {"HOSTING_RETENTION_DAYS": "0", "DEPLOYED_HOSTING_RETENTION_DAYS": "30"},
        {"HOSTING_CONVERSATION_DAYS": "31", "DEPLOYED_HOSTING_CONVERSATION_DAYS": "30"},
        {"DEPLOYED_HOSTING_API_KEYS": "false", "DEPLOYED_EASY_AUTH_CLIENT_ID": "false"},
        {"DEPLOYED_HOSTING_API_KEYS": "false", "EASY_AUTH_CLIENT_ID": "an-id"},
    ],
    ids=str,
)
def test_preprovision_lets_through_what_takes_nothing_back(run: Run, given: dict[str, str]) -> None:
    done = run("preprovision", **given)
    assert (done.returncode, done.stderr) == (0, "")


def test_each_value_that_is_compared_is_an_output_and_the_parameter_has_its_name() -> None:
    compared = set(re.findall(r"DEPLOYED_(\w+)", (HOOKS / "preprovision.sh").read_text()))
    assert compared == {name.removeprefix("DEPLOYED_") for name in DEPLOYED}
    assert {name for name in MAIN.outputs if name.startswith("DEPLOYED_")} == set(DEPLOYED)
    assert compared <= set(INPUTS)


@pytest.fixture
def az(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A stand-in for the Azure CLI: what it does, as a line of a shell."""

    def put(does: str) -> None:
        path = tmp_path / "bin" / "az"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/asked\n{does}\n')
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")

    return put


def test_preprovision_refuses_an_environment_that_is_deployed_and_not_known_here(
    run: Run, az: Callable[[str], None], tmp_path: Path
) -> None:
    az('[ "$1" != functionapp ] || echo func-abc')
    given = {"AZURE_ENV_NAME": "prod", "AZURE_SUBSCRIPTION_ID": "a-subscription"}
    done = run("preprovision", **given)
    assert done.returncode == 1
    assert "rg-prod has an app" in done.stderr
    assert "-g rg-prod --subscription a-subscription" in (tmp_path / "asked").read_text()
    assert run("preprovision", **given, PROVISION_ANYWAY="true").returncode == 0
    assert run("preprovision", **given, SERVICE_API_URI="https://app.example").returncode == 0
    assert run("preprovision", **given, CI="true").returncode == 0


@pytest.mark.parametrize("does", ["exit 0", "echo 'ERROR: run az login' >&2; exit 1", "echo func-abc; exit 3"])
def test_preprovision_lets_a_first_deployment_through(run: Run, az: Callable[[str], None], does: str) -> None:
    az(does)
    done = run("preprovision", AZURE_ENV_NAME="new", AZURE_SUBSCRIPTION_ID="a-subscription")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("ends", "code"),
    [(("Failed",), 0), (("Failed", "Canceled"), 0), (("Failed", "Succeeded"), 1), ((), 1)],
    ids=str,
)
def test_preprovision_lets_a_first_deployment_that_failed_be_tried_again(
    run: Run, az: Callable[[str], None], ends: tuple[str, ...], code: int
) -> None:
    # One twin has az pick the ends of this environment, the other does it itself.
    lines = "\n".join(ends)
    every = [{"tags": {"azd-env-name": "prod"}, "properties": {"provisioningState": end}} for end in ends]
    others = [
        {"tags": {"azd-env-name": "other"}, "properties": {"provisioningState": "Succeeded"}},
        {"tags": None, "properties": {"provisioningState": "Succeeded"}},
    ]
    az(
        f"""case "$*" in
functionapp*) echo func-abc ;;
*"azd-env-name\\"=='prod'"*) echo '{lines}' ;;
*) echo '{json.dumps(every + others)}' ;;
esac"""
    )
    done = run("preprovision", AZURE_ENV_NAME="prod", AZURE_SUBSCRIPTION_ID="a-subscription")
    assert done.returncode == code, done.stderr


# ---- who is told


@pytest.mark.parametrize("name", ["ALERT_EMAIL", "ALERT_WEBHOOK"])
def test_preprovision_warns_of_a_test_that_tells_nobody(run: Run, name: str) -> None:
    done = run("preprovision", AVAILABILITY_TEST="true")
    assert done.returncode == 0
    assert "nobody is told" in done.stderr
    assert run("preprovision", AVAILABILITY_TEST="true", **{name: "https://ops.example"}).stderr == ""


def test_preprovision_refuses_a_webhook_that_is_no_address_and_does_not_show_it(run: Run) -> None:
    done = run("preprovision", ALERT_WEBHOOK="http://chat.example/secret")
    assert done.returncode == 1
    assert "ALERT_WEBHOOK takes an address" in done.stderr
    assert "chat.example" not in done.stdout + done.stderr


# ---- postdeploy


def test_postdeploy_says_how_to_make_a_key_when_there_is_none(run: Run) -> None:
    done = run("postdeploy", SERVICE_API_URI="https://app.example", AZURE_ENV_NAME="new")
    assert done.returncode == 0, done.stderr
    assert "base_url=https://app.example/v1" in done.stdout
    assert "hosting.keys new" in done.stdout
    # It replaces the whole list, which must not be that of the default environment.
    assert 'azd env set HOSTING_API_KEYS "ENTRY" -e new ' in done.stdout
    assert "azd provision -e new\n" in done.stdout


@pytest.mark.parametrize("name", ["DEPLOYED_HOSTING_API_KEYS", "DEPLOYED_EASY_AUTH_CLIENT_ID"])
def test_postdeploy_does_not_ask_for_a_first_key_where_somebody_may_call(run: Run, name: str) -> None:
    """Set from a machine without the list, it would replace all of it."""
    done = run("postdeploy", SERVICE_API_URI="https://app.example", **{name: "true"})
    assert done.returncode == 0, done.stderr
    assert "https://app.example" in done.stdout
    assert "hosting.keys" not in done.stdout


@pytest.mark.parametrize("name", ["HOSTING_API_KEYS", "EASY_AUTH_CLIENT_ID"])
def test_postdeploy_keeps_to_the_address_when_somebody_may_call(run: Run, name: str) -> None:
    done = run("postdeploy", SERVICE_API_URI="https://app.example", **{name: "something"})
    assert done.returncode == 0, done.stderr
    assert "https://app.example" in done.stdout
    assert "hosting.keys" not in done.stdout
    assert "something" not in done.stdout


def test_postdeploy_says_where_the_workbook_is_when_there_is_one(run: Run) -> None:
    address = "https://portal.example/#@a-tenant/resource/subscriptions/a/workbook"
    given = {"SERVICE_API_URI": "https://app.example", "AZURE_WORKBOOK_URL": address}
    assert f"The workbook:   {address}\n" in run("postdeploy", **given).stdout
    assert "workbook" not in run("postdeploy", **given | {"AZURE_WORKBOOK_URL": ""}).stdout


def test_postdeploy_says_that_most_alerts_need_telemetry(run: Run) -> None:
    given = {"SERVICE_API_URI": "https://app.example", "ALERT_EMAIL": "ops@example.com"}
    assert "OPEN_TELEMETRY is not" in run("postdeploy", **given).stdout
    webhook = {"SERVICE_API_URI": "https://app.example", "ALERT_WEBHOOK": "https://chat.example"}
    assert "OPEN_TELEMETRY is not" in run("postdeploy", **webhook).stdout
    assert "OPEN_TELEMETRY is not" not in run("postdeploy", **given, OPEN_TELEMETRY="true").stdout
    assert "OPEN_TELEMETRY is not" not in run("postdeploy", SERVICE_API_URI="https://app.example").stdout
