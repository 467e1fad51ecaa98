"""azure.yaml, the devcontainer, .funcignore and docs/deploy.md agree with infra/ and with the app."""

import fnmatch
import json
import re
from typing import Any

import pytest
import yaml

from hosting.settings import Settings

from .bicep import ROOT, literal, load
from .test_infra import MAIN, default_text, parameters

AZURE_YAML: dict[str, Any] = yaml.safe_load((ROOT / "azure.yaml").read_text())
INPUTS = dict(parameters().values())
# azd sets these itself, locally and in a pipeline.
FROM_AZD = {"AZURE_ENV_NAME", "AZURE_LOCATION", "AZURE_PRINCIPAL_ID", "AZURE_PRINCIPAL_TYPE"}


# ---- azure.yaml


def test_the_service_is_the_one_that_the_site_is_tagged_with() -> None:
    (service,) = AZURE_YAML["services"]
    assert literal(MAIN.modules["app"].arguments["serviceName"]) == service
    assert "'azd-service-name': serviceName" in load(ROOT / "infra/modules/app.bicep").path.read_text()
    assert (ROOT / AZURE_YAML["services"][service]["project"] / "host.json").is_file()


def test_the_template_version_is_the_newest_of_the_changelog() -> None:
    version = AZURE_YAML["metadata"]["template"].partition("@")[2]
    assert re.findall(r"(?m)^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text())[0] == version
    assert f'version = "{version}"' in (ROOT / "pyproject.toml").read_text()


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
