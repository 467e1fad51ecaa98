"""azure.yaml, hooks, workflows and docs/deploy.md agree with infra/, and the sh hooks do what they say."""

import fnmatch
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from hosting.keys import mint_key
from hosting.settings import Settings

from .bicep import ROOT, literal, load
from .test_infra import MAIN, default_text, parameters

AZURE_YAML: dict[str, Any] = yaml.safe_load((ROOT / "azure.yaml").read_text())
HOOKS = ROOT / "infra" / "hooks"
INPUTS = dict(parameters().values())
# azd sets these itself, locally and in a pipeline.
FROM_AZD = {"AZURE_ENV_NAME", "AZURE_LOCATION", "AZURE_PRINCIPAL_ID", "AZURE_PRINCIPAL_TYPE"}


def workflow(name: str) -> dict[str, Any]:
    return yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())


# ---- azure.yaml


def test_the_service_is_the_one_that_the_site_is_tagged_with() -> None:
    (service,) = AZURE_YAML["services"]
    assert literal(MAIN.modules["app"].arguments["serviceName"]) == service
    assert "'azd-service-name': serviceName" in load(ROOT / "infra/modules/app.bicep").path.read_text()
    assert (ROOT / AZURE_YAML["services"][service]["project"] / "host.json").is_file()


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


def test_the_template_version_is_the_newest_of_the_changelog() -> None:
    version = AZURE_YAML["metadata"]["template"].partition("@")[2]
    assert re.findall(r"(?m)^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text())[0] == version
    assert f'version = "{version}"' in (ROOT / "pyproject.toml").read_text()


# ---- pipelines


def test_a_pipeline_gets_every_value_that_the_parameter_file_reads() -> None:
    pipeline = AZURE_YAML["pipeline"]
    assert pipeline["secrets"] == ["HOSTING_API_KEYS"]
    assert set(pipeline["variables"]) == set(INPUTS) - FROM_AZD - set(pipeline["secrets"])
    given = workflow("azure-dev.yml")["jobs"]["deploy"]["env"]
    for name in pipeline["variables"]:
        assert given[name] == f"${{{{ vars.{name} }}}}"
    assert given["HOSTING_API_KEYS"] == "${{ secrets.HOSTING_API_KEYS }}"
    assert given["AZURE_PRINCIPAL_TYPE"] in MAIN.params["principalType"].allowed


def test_the_deployment_skips_itself_while_any_variable_is_unset() -> None:
    job = workflow("azure-dev.yml")["jobs"]["deploy"]
    needed = {name for name in job["env"] if re.fullmatch(r"AZURE_(CLIENT|TENANT|SUBSCRIPTION)_ID", name)}
    for name in needed | {"AZURE_ENV_NAME", "AZURE_LOCATION"}:
        assert f"vars.{name} != ''" in job["if"]
    assert len(needed) == 3


@pytest.mark.parametrize("path", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda path: path.name)
def test_actions_are_pinned_by_commit(path: Path) -> None:
    uses = re.findall(r"uses: (\S+)(.*)", path.read_text())
    assert uses
    for action, comment in uses:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action)
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment)


def test_ci_runs_the_tests_and_the_real_compiler() -> None:
    steps = {name: [step.get("run", "") for step in job["steps"]] for name, job in workflow("ci.yml")["jobs"].items()}
    assert "make test" in steps["test"]
    assert any("az bicep build --file infra/main.bicep" in run for run in steps["bicep"])


def test_the_devcontainer_is_json_and_has_the_apps_python() -> None:
    content = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text())
    runtime = re.search(r"name: 'python'\s+version: '([\d.]+)'", (ROOT / "infra/modules/app.bicep").read_text())
    assert runtime
    assert content["image"].endswith(f":{runtime[1]}")


# ---- docs/deploy.md


def test_the_page_lists_every_parameter_with_its_default() -> None:
    page = (ROOT / "docs/deploy.md").read_text()
    section = page.partition("\n## Parameters\n")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"(?m)^\| `(\w+)` \| (?:`([^`]*)`)? ?\|", section))
    assert rows == {name: default for name, default in INPUTS.items() if default is not None}


def test_the_page_lists_every_setting_of_the_app_with_its_default() -> None:
    page = (ROOT / "docs/deploy.md").read_text()
    section = page.partition("\n## App settings\n")[2].partition("\n## ")[0]
    rows = re.findall(r"(?m)^\| `(\w+)` \| (?:`([^`]*)`)? ?\| (P?) ?\| (\S.*) \|$", section)
    fields = Settings.model_fields.values()
    assert {name: default for name, default, _, _ in rows} == {
        str(field.alias): default_text(field.default) for field in fields
    }
    with_parameter = {name for name, _, mark, _ in rows if mark}
    assert with_parameter == {str(field.alias) for field in fields} & set(INPUTS)


# ---- .funcignore

DEPLOYED = {
    "LICENSE",
    "constraints.txt",
    "demo_agent.py",
    "function_app.py",
    "host.json",
    "hosting",
    "requirements-model.txt",
    "requirements-telemetry.txt",
    "requirements.txt",
}
IGNORED = [line for line in (ROOT / ".funcignore").read_text().splitlines() if line and not line.startswith("#")]


def ignored(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in IGNORED)


def test_nothing_but_the_app_is_deployed() -> None:
    """What `requirements.txt` may include is deployed too: it is installed in Azure."""
    there = {path.name for path in ROOT.iterdir()}
    assert there >= DEPLOYED
    assert {name for name in there if not ignored(name)} == DEPLOYED


@pytest.mark.parametrize(
    "name",
    [".venv", ".env", "node_modules", "local.settings.json", ".azure", ".azurite", "tests", "bench", "devhost", "docs"]
    + ["examples", "infra", "__pycache__", ".git", "requirements-dev.txt"],
)
def test_what_a_laptop_has_is_left_out_even_if_it_is_not_here(name: str) -> None:
    assert ignored(name)


def test_nothing_of_the_apps_code_is_left_out_by_mistake() -> None:
    """A pattern without a slash counts in every folder."""
    inside = [path for path in (ROOT / "hosting").rglob("*") if "__pycache__" not in path.parts]
    assert [str(path) for path in inside if any(ignored(part) for part in path.relative_to(ROOT).parts)] == []


@pytest.mark.parametrize("name", ["docs/deploy.md", "SECURITY.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md"])
def test_links_into_the_repository_lead_somewhere(name: str) -> None:
    page = ROOT / name
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()) if "://" not in link]
    assert links or name == "CODE_OF_CONDUCT.md"
    assert [link for link in links if not (page.parent / link).exists()] == []


# ---- hooks


@pytest.mark.parametrize("name", AZURE_YAML["hooks"])
def test_a_hook_reads_only_what_azd_gives_it_and_the_same_in_both_shells(name: str) -> None:
    posix = set(re.findall(r"\$\{?([A-Z][A-Z0-9_]+)", (HOOKS / f"{name}.sh").read_text()))
    windows = set(re.findall(r"\$env:([A-Z][A-Z0-9_]+)", (HOOKS / f"{name}.ps1").read_text()))
    assert posix == windows
    assert posix <= set(INPUTS) | set(MAIN.outputs)


@pytest.mark.parametrize("name", AZURE_YAML["hooks"])
def test_a_hook_says_the_same_in_both_shells(name: str) -> None:
    """Failures in preprovision, lines in postdeploy: the pwsh ones cannot be run here."""
    pattern = r"""(?:fail|Fail|echo|Write-Output) ["']((?:entry|[A-Z]{4,}|The|OpenAI|Is it)[^"]*?)["'](?:$|\s|;)"""
    said = [
        [line.replace("env:", "").translate({ord(c): None for c in "{}"}) for line in re.findall(pattern, text, re.M)]
        for text in ((HOOKS / f"{name}.sh").read_text(), (HOOKS / f"{name}.ps1").read_text())
    ]
    said[0] = [line.replace(":?run azd provision first", "") for line in said[0]]
    assert len(said[0]) >= 3
    assert said[0] == said[1]


def run(name: str, directory: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(HOOKS / f"{name}.sh")],
        cwd=directory,
        env={"PATH": os.environ["PATH"], **env},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_preprovision_is_content_with_the_defaults() -> None:
    done = run("preprovision")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("separator", [",", " ", ", ", "\n"])
def test_preprovision_takes_the_entries_that_are_minted(separator: str) -> None:
    entries = [mint_key("contoso")[1].entry, mint_key("a.b_c-d@e", "user-1")[1].entry]
    assert run("preprovision", HOSTING_API_KEYS=separator.join(entries)).returncode == 0


def test_preprovision_refuses_a_key_and_does_not_show_it() -> None:
    key, kept = mint_key("contoso")
    done = run("preprovision", HOSTING_API_KEYS=f"{kept.entry},{key}")
    assert done.returncode == 1
    assert "entry 2 of HOSTING_API_KEYS is a key" in done.stderr
    assert key not in done.stdout + done.stderr


@pytest.mark.parametrize("damage", ["{0}x:y:z", "tenant", "{0}0", "/{0}", "*"])
def test_preprovision_refuses_what_would_keep_the_app_from_starting(damage: str) -> None:
    done = run("preprovision", HOSTING_API_KEYS=damage.format(mint_key("contoso")[1].entry))
    assert done.returncode == 1
    assert "entry 1 of HOSTING_API_KEYS is not" in done.stderr


def test_preprovision_refuses_an_endpoint_without_a_deployment() -> None:
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
def test_preprovision_wants_the_client_of_the_model_installed(tmp_path: Path, requirements: str, code: int) -> None:
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
def test_preprovision_refuses_lifecycle_rules_that_delete_what_the_app_keeps(given: dict[str, str], code: int) -> None:
    done = run("preprovision", ROOT, **given)
    assert done.returncode == code, done.stderr
    assert bool(done.stderr) == bool(code)


def test_postdeploy_says_how_to_make_a_key_when_there_is_none() -> None:
    done = run("postdeploy", SERVICE_API_URI="https://app.example")
    assert done.returncode == 0, done.stderr
    assert "base_url=https://app.example/v1" in done.stdout
    assert "hosting.keys new" in done.stdout
    assert 'azd env set HOSTING_API_KEYS "ENTRY"' in done.stdout


@pytest.mark.parametrize("name", ["HOSTING_API_KEYS", "EASY_AUTH_CLIENT_ID"])
def test_postdeploy_keeps_to_the_address_when_somebody_may_call(name: str) -> None:
    done = run("postdeploy", SERVICE_API_URI="https://app.example", **{name: "something"})
    assert done.returncode == 0, done.stderr
    assert "https://app.example" in done.stdout
    assert "hosting.keys" not in done.stdout
    assert "something" not in done.stdout
