"""The workflows: what CI lets through, what is deployed after it, and with which values and rights."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from hosting.keys import mint_key

from .bicep import ROOT
from .test_azd import AZURE_YAML, FROM_AZD, INPUTS
from .test_infra import MAIN, parameters


def workflow(name: str) -> dict[str, Any]:
    return yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())


def test_a_pipeline_gets_every_value_that_the_parameter_file_reads() -> None:
    pipeline = AZURE_YAML["pipeline"]
    assert set(pipeline["secrets"]) == {parameters()[name][0] for name, param in MAIN.params.items() if param.secure}
    assert set(pipeline["variables"]) == set(INPUTS) - FROM_AZD - set(pipeline["secrets"])
    given = workflow("deploy.yml")["jobs"]["deploy"]["env"]
    runbooks = given.pop("RUNBOOKS_URL")
    assert runbooks.startswith("${{ vars.RUNBOOKS_URL || format('{0}/{1}/blob/main/docs/runbooks.md', ")
    for name in set(pipeline["variables"]) - {"RUNBOOKS_URL"}:
        assert given[name] == f"${{{{ vars.{name} }}}}"
    for name in pipeline["secrets"]:
        assert given[name] == f"${{{{ secrets.{name} }}}}"
    assert given["AZURE_PRINCIPAL_TYPE"] in MAIN.params["principalType"].allowed


def test_the_deployment_skips_itself_while_any_variable_is_unset() -> None:
    jobs = workflow("azure-dev.yml")["jobs"]
    given = workflow("deploy.yml")["jobs"]["deploy"]["env"]
    needed = {name for name in given if re.fullmatch(r"AZURE_(CLIENT|TENANT|SUBSCRIPTION)_ID", name)}
    for name in needed | {"AZURE_ENV_NAME", "AZURE_LOCATION"}:
        assert f"vars.{name} != ''" in jobs["commit"]["if"]
    assert len(needed) == 3
    # A job whose `needs` was skipped is skipped.
    assert all("commit" in job["needs"] for name, job in jobs.items() if name != "commit")


def test_only_what_ci_passed_on_main_is_deployed() -> None:
    """YAML 1.1 reads the key `on` as true."""
    deploy: dict[Any, Any] = workflow("azure-dev.yml")
    assert set(deploy[True]) == {"workflow_run", "workflow_dispatch"}
    assert deploy[True]["workflow_run"] == {
        "workflows": [workflow("ci.yml")["name"]],
        "types": ["completed"],
        "branches": ["main"],
    }
    condition = deploy["jobs"]["commit"]["if"]
    assert "github.event.workflow_run.conclusion == 'success' && github.event.workflow_run.event == 'push'" in condition
    assert "github.event_name == 'workflow_dispatch' && github.ref == 'refs/heads/main'" in condition
    checkout = workflow("deploy.yml")["jobs"]["deploy"]["steps"][0]
    assert checkout["with"]["ref"] == "${{ inputs.commit }}"


def test_production_comes_after_staging_has_been_tested() -> None:
    jobs = workflow("azure-dev.yml")["jobs"]
    assert "staging" in jobs["production"]["needs"]
    for name in ("staging", "production"):
        assert jobs[name]["uses"] == "./.github/workflows/deploy.yml"
        assert jobs[name]["with"]["environment"] == name
        assert jobs[name]["with"]["commit"] == "${{ needs.commit.outputs.id }}"
    assert jobs["staging"]["with"]["suffix"], "else both would be one environment of azd"
    deploy = workflow("deploy.yml")["jobs"]["deploy"]
    assert deploy["environment"] == "${{ inputs.environment }}"
    assert deploy["env"]["AZURE_ENV_NAME"] == "${{ vars.AZURE_ENV_NAME }}${{ inputs.suffix }}"
    names = [step.get("name") for step in deploy["steps"]]
    assert names[2:] == [
        "Somebody may call",
        "Sign in",
        "Learn what is deployed",
        "Provision",
        "Say which version it is",
        "Deploy",
        "Smoke test",
    ]


@pytest.mark.parametrize(
    ("given", "code"),
    [({}, 1), ({"HOSTING_API_KEYS": "an entry"}, 0), ({"EASY_AUTH_CLIENT_ID": "an-id"}, 0)],
    ids=["nobody", "keys", "easy-auth"],
)
def test_a_pipeline_that_would_lock_everybody_out_stops(tmp_path: Path, given: dict[str, str], code: int) -> None:
    done = somebody_may_call(tmp_path, **given)
    assert done.returncode == code, done.stderr
    assert ("lock everybody out" in done.stdout) == bool(code)


def test_what_is_deployed_is_known_before_it_is_provisioned() -> None:
    """Else the hook preprovision, which compares the two, has nothing to compare with."""
    runs = [str(step.get("run", "")) for step in workflow("deploy.yml")["jobs"]["deploy"]["steps"]]
    refresh, provision = (
        next(n for n, run in enumerate(runs) if run.startswith(f"azd {x}")) for x in ("env refresh", "provision")
    )
    assert refresh < provision


def somebody_may_call(directory: Path, **given: str) -> subprocess.CompletedProcess[str]:
    """The step, with its outputs in `directory`/out."""
    steps = workflow("deploy.yml")["jobs"]["deploy"]["steps"]
    (script,) = [step["run"] for step in steps if step.get("name") == "Somebody may call"]
    env = {"PATH": os.environ["PATH"], "HOSTING_API_KEYS": "", "EASY_AUTH_CLIENT_ID": "", "OTHER_KEY_IDS": ""}
    env |= {"GITHUB_OUTPUT": str(directory / "out")} | given
    return subprocess.run(
        ["bash", "-e", "-c", script], env=env, capture_output=True, text=True, timeout=30, check=False
    )


@pytest.mark.parametrize("separator", [",", "\n", ", "])
def test_production_refuses_keys_that_staging_takes(tmp_path: Path, separator: str) -> None:
    """A secret that the environment staging lacks is the repository's, which is production's list."""
    smoke, contoso, staging = (mint_key(tenant)[1] for tenant in ("smoke", "contoso", "staging"))
    done = somebody_may_call(tmp_path, HOSTING_API_KEYS=separator.join([staging.entry, smoke.entry]))
    assert done.returncode == 0, done.stderr
    (line,) = (tmp_path / "out").read_text().splitlines()
    name, _, ids = line.partition("=")
    assert name == "key-ids"
    assert ids.split() == [staging.key_id, smoke.key_id]
    production = separator.join([contoso.entry, smoke.entry])
    done = somebody_may_call(tmp_path, HOSTING_API_KEYS=production, OTHER_KEY_IDS=ids)
    assert done.returncode == 1
    assert f"Staging takes the key {smoke.key_id} of this environment" in done.stdout
    assert somebody_may_call(tmp_path, HOSTING_API_KEYS=contoso.entry, OTHER_KEY_IDS=ids).returncode == 0


def test_a_key_that_stands_where_an_entry_belongs_does_not_get_into_an_output(tmp_path: Path) -> None:
    key, kept = mint_key("contoso")
    somebody_may_call(tmp_path, HOSTING_API_KEYS=f"{key},{kept.entry}")
    assert (tmp_path / "out").read_text() == f"key-ids={kept.key_id}\n"


def test_production_is_told_which_keys_staging_takes() -> None:
    production = workflow("azure-dev.yml")["jobs"]["production"]
    assert production["with"]["other-key-ids"] == "${{ needs.staging.outputs.key-ids }}"
    deploy: dict[Any, Any] = workflow("deploy.yml")
    assert deploy[True]["workflow_call"]["outputs"]["key-ids"]["value"] == "${{ jobs.deploy.outputs.key-ids }}"
    assert deploy["jobs"]["deploy"]["outputs"] == {"key-ids": "${{ steps.callers.outputs.key-ids }}"}
    (step,) = [step for step in deploy["jobs"]["deploy"]["steps"] if step.get("id") == "callers"]
    assert step["env"] == {"OTHER_KEY_IDS": "${{ inputs.other-key-ids }}"}


@pytest.mark.parametrize("name", ["azure-dev.yml", "deploy.yml"])
def test_each_job_of_a_deployment_says_what_it_may(name: str) -> None:
    content = workflow(name)
    assert content["permissions"] == {}
    assert all(set(job["permissions"].values()) <= {"read", "write"} for job in content["jobs"].values())
    writes = {
        (job, what)
        for job, body in content["jobs"].items()
        for what, may in body["permissions"].items()
        if may == "write"
    }
    assert {what for _, what in writes} == {"id-token"}
    assert "commit" not in {job for job, _ in writes}


@pytest.mark.parametrize("path", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda path: path.name)
def test_actions_are_pinned_by_commit(path: Path) -> None:
    uses = re.findall(r"uses: ([^.\s]\S+)(.*)", path.read_text())
    assert uses or "uses: ./.github/workflows/" in path.read_text()
    for action, comment in uses:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action)
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment)


def test_ci_runs_the_tests_and_the_real_compiler() -> None:
    steps = {name: [step.get("run", "") for step in job["steps"]] for name, job in workflow("ci.yml")["jobs"].items()}
    assert "make test" in steps["test"]
    assert any("az bicep build --file infra/main.bicep" in run for run in steps["bicep"])


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("", 0),
        ("Bicep CLI version 0.40.2 (c1d2e3f4)", 0),
        ("WARNING: /main.bicep(3,5) : Warning BCP037: The property is not allowed", 1),
    ],
)
def test_a_warning_of_the_compiler_fails_ci(tmp_path: Path, said: str, code: int) -> None:
    (script,) = [step["run"] for step in workflow("ci.yml")["jobs"]["bicep"]["steps"] if step.get("name") == "Compile"]
    az = tmp_path / "az"
    az.write_text(f"#!/bin/sh\necho {said!r} >&2\necho template\n")
    az.chmod(0o755)
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script],  # what `shell: bash` means there
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "RUNNER_TEMP": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == code
    assert (tmp_path / "main.json").read_text() == "template\n"
