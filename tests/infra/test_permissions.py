"""Who may do what: roles, by name and at one resource each, and no keys beside them."""

import re
from pathlib import Path

import pytest

from .bicep import literal, load, members, text, walk
from .test_infra import FILES, INFRA, MAIN

RBAC = load(INFRA / "modules" / "rbac.bicep")

# Microsoft's list of built-in roles.
ROLES = {
    "b7e6dc6d-f1e8-4753-8033-0f276bb0955b": "Storage Blob Data Owner",
    "ba92f5b4-2d11-453d-a403-e96b0029c9fe": "Storage Blob Data Contributor",
    "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1": "Storage Blob Data Reader",
    "974c5e8b-45b9-4653-ba55-5f855dd0fb88": "Storage Queue Data Contributor",
    "0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3": "Storage Table Data Contributor",
    "76199698-9eea-4c19-bc75-cec21354c6b6": "Storage Table Data Reader",
    "3913510d-42f4-4e42-8a64-420c390055eb": "Monitoring Metrics Publisher",
    "0ad04412-c4d5-4796-b79c-f76d14c8d402": "Durable Task Data Contributor",
    "5e0bd9bd-7b93-4f28-af87-19fc36ad61bd": "Cognitive Services OpenAI User",
}
GUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


@pytest.mark.parametrize("name", [name for name, value in RBAC.variables.items() if GUID.search(text(value))])
def test_a_role_id_is_the_role_that_its_name_says(name: str) -> None:
    role = ROLES[literal(RBAC.variables[name]) or ""]
    assert name.lower() == role.replace(" ", "").lower()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_roles_are_given_in_one_module_only(path: Path) -> None:
    file = FILES[path]
    assignments = [r for r in file.resources.values() if r.type == "Microsoft.Authorization/roleAssignments"]
    assert bool(assignments) == (path == RBAC.path)
    assert path == RBAC.path or not GUID.search(path.read_text())


ASSIGNMENTS = {n: r for n, r in RBAC.resources.items() if r.type == "Microsoft.Authorization/roleAssignments"}


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_a_role_is_given_to_one_principal_at_one_resource(name: str) -> None:
    body = members(ASSIGNMENTS[name].body)
    given = members(body["properties"])
    scope, principal = text(body["scope"]), text(given["principalId"])
    assert RBAC.resources[scope].existing, "at a resource, not at the group"
    assert principal == ("appPrincipalId" if name.startswith("app") else "deployerId")
    kind = given["principalType"]
    assert text(kind) == "deployerType" if principal == "deployerId" else literal(kind) == "ServicePrincipal"
    role = text(given["roleDefinitionId"]).rpartition(",")[2].strip(" )\n")
    # A name that leaves out one of the three makes two assignments collide.
    assert text(body["name"]) == f"guid({scope}.id, {principal}, {role})"


def test_who_deploys_reads_user_data_only_when_asked_for() -> None:
    assert MAIN.params["deployerAccess"].default == "false"
    assert text(MAIN.modules["rbac"].arguments["deployerId"]) == "deployerAccess ? principalId : ''"
    assert {text(n) for n in walk(RBAC.variables["deployerOnStorage"]) if n.type == "identifier"} == {
        "storageBlobDataReader",
        "storageTableDataReader",
    }


@pytest.mark.parametrize(
    ("module", "resource", "name", "value"),
    [
        ("storage", "account", "allowSharedKeyAccess", "false"),
        ("storage", "account", "allowBlobPublicAccess", "false"),
        ("monitoring", "insights", "DisableLocalAuth", "true"),
        ("openai", "account", "disableLocalAuth", "true"),
    ],
)
def test_keys_are_switched_off(module: str, resource: str, name: str, value: str) -> None:
    body = members(load(INFRA / "modules" / f"{module}.bicep").resources[resource].body)
    assert literal(members(body["properties"])[name]) == value


def test_who_may_write_the_state_may_not_change_the_code_then() -> None:
    """Owner, which the host needs, is given where the package is and nowhere else."""
    roles = {name: set(re.findall(r"\bstorage\w+", text(RBAC.variables[name]))) for name in ("appOnState", "appOnHost")}
    assert roles["appOnState"] == {"storageBlobDataContributor", "storageTableDataContributor"}
    assert roles["appOnHost"] == {"storageBlobDataOwner", "storageTableDataContributor"}
