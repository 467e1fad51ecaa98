"""infra/ agrees with itself and with the app. What Azure makes of it, only a deployment shows (docs/deploy.md)."""

import json
import re
from pathlib import Path

import pytest

from hosting.models import model_arguments
from hosting.settings import Settings
from hosting.storage._settings import Identity, read_settings

from .bicep import ROOT, BicepFile, bicep_files, literal, load, members, text, used_names, walk

INFRA = ROOT / "infra"
MAIN = load(INFRA / "main.bicep")
APP = load(INFRA / "modules" / "app.bicep")
RBAC = load(INFRA / "modules" / "rbac.bicep")
STORAGE = load(INFRA / "modules" / "storage.bicep")
FILES = {path: load(path) for path in bicep_files()}

# Microsoft's list of built-in roles.
ROLES = {
    "b7e6dc6d-f1e8-4753-8033-0f276bb0955b": "Storage Blob Data Owner",
    "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1": "Storage Blob Data Reader",
    "974c5e8b-45b9-4653-ba55-5f855dd0fb88": "Storage Queue Data Contributor",
    "0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3": "Storage Table Data Contributor",
    "76199698-9eea-4c19-bc75-cec21354c6b6": "Storage Table Data Reader",
    "3913510d-42f4-4e42-8a64-420c390055eb": "Monitoring Metrics Publisher",
    "0ad04412-c4d5-4796-b79c-f76d14c8d402": "Durable Task Data Contributor",
    "5e0bd9bd-7b93-4f28-af87-19fc36ad61bd": "Cognitive Services OpenAI User",
}
GUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)

# Set by the platform on Flex Consumption, or without meaning there; some of them stop the app from starting.
NOT_ON_FLEX = {
    "AzureWebJobsStorage",
    "ENABLE_ORYX_BUILD",
    "FUNCTIONS_EXTENSION_VERSION",
    "FUNCTIONS_WORKER_PROCESS_COUNT",
    "FUNCTIONS_WORKER_RUNTIME",
    "SCM_DO_BUILD_DURING_DEPLOYMENT",
    "WEBSITE_CONTENTAZUREFILECONNECTIONSTRING",
    "WEBSITE_CONTENTSHARE",
    "WEBSITE_RUN_FROM_PACKAGE",
}


def app_settings(*groups: str) -> set[str]:
    """Names of the app settings in these variables of app.bicep; of all variables that hold settings by default."""
    config = text(APP.resources["appsettings"].body)
    names = groups or tuple(name for name in APP.variables if re.search(rf"\b{name}\b", config))
    return {key for name in names for key in members(APP.variables[name])}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_it_parses(path: Path) -> None:
    assert FILES[path].errors() == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_parameter_and_variable_is_used(path: Path) -> None:
    file = FILES[path]
    assert [name for name in [*file.params, *file.variables] if name not in used_names(file)] == []


CALLS = [(file, name) for file in FILES.values() for name in file.modules]


@pytest.mark.parametrize(("file", "name"), CALLS, ids=[f"{file.path.name}-{name}" for file, name in CALLS])
def test_a_module_gets_the_parameters_that_it_declares(file: BicepFile, name: str) -> None:
    module = file.modules[name]
    assert module.path.resolve() in FILES, f"{module.path} does not exist"
    declared = FILES[module.path.resolve()].params
    given = set(module.arguments)
    assert given <= set(declared)
    assert {name for name, param in declared.items() if param.required} <= given


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_outputs_that_are_read_exist(path: Path) -> None:
    file = FILES[path]
    for symbol, output in re.findall(r"\b(\w+)!?\.outputs\.(\w+)", path.read_text()):
        assert output in FILES[file.modules[symbol].path.resolve()].outputs, f"{symbol}.outputs.{output}"


def test_every_module_is_used() -> None:
    used = {module.path.resolve() for file in FILES.values() for module in file.modules.values()}
    assert set(FILES) - used == {INFRA / "main.bicep"}


# ---- the parameter file


def parameters() -> dict[str, tuple[str, str | None]]:
    """Parameter: (variable of azd's environment, default)."""
    content = json.loads((INFRA / "main.parameters.json").read_text())["parameters"]
    found: dict[str, tuple[str, str | None]] = {}
    for name, item in content.items():
        match = re.fullmatch(r"\$\{(\w+)(?:=(.*))?\}", item["value"])
        assert match, f"{name} reads no variable"
        found[name] = (match[1], match[2])
    return found


def test_the_parameter_file_and_main_have_the_same_parameters() -> None:
    assert list(parameters()) == list(MAIN.params)


@pytest.mark.parametrize("name", MAIN.params)
def test_a_parameter_has_the_same_default_in_both_files(name: str) -> None:
    variable, default = parameters()[name]
    if variable in ("AZURE_ENV_NAME", "AZURE_LOCATION"):  # azd always knows these two
        assert default is None
        assert MAIN.params[name].required
    else:
        assert default is not None, "azd would ask for it, and `azd up --no-prompt` would fail"
        assert default == MAIN.params[name].default
        assert not MAIN.params[name].allowed or default in MAIN.params[name].allowed


def test_no_output_comes_back_as_an_input() -> None:
    """azd keeps outputs as variables: one that a parameter reads would replace what the user set, or never set."""
    assert {variable for variable, _ in parameters().values()} & set(MAIN.outputs) == {"AZURE_LOCATION"}


def test_api_keys_are_secure_all_the_way() -> None:
    assert MAIN.params["apiKeys"].secure
    assert APP.params["apiKeys"].secure


# ---- app settings


@pytest.mark.parametrize("alias", [field.alias for field in Settings.model_fields.values()])
def test_a_setting_that_the_app_reads_is_set_or_has_a_default(alias: str) -> None:
    required = {field.alias for field in Settings.model_fields.values() if field.is_required()}
    assert alias in app_settings() or alias not in required


def test_each_setting_of_the_app_that_is_set_is_one_that_it_reads() -> None:
    read = {field.alias for field in Settings.model_fields.values()}
    set_here = {name for name in app_settings() if name.startswith("HOSTING_")}
    assert set_here
    assert set_here <= read


def test_defaults_that_are_repeated_here_are_the_apps_own() -> None:
    fields = {field.alias: field.default for field in Settings.model_fields.values()}
    assert literal(MAIN.variables["stateTable"]) == fields["HOSTING_TABLE"]
    assert literal(MAIN.variables["stateContainer"]) == fields["HOSTING_CONTAINER"]
    assert MAIN.params["isolation"].default == fields["HOSTING_ISOLATION"]


def test_the_storage_settings_are_ones_that_the_app_understands() -> None:
    values = {"accountName": "stabc", "credential": "managedidentity", "clientId": "an-id"}
    prefix = Settings.model_fields["storage_connection"].default + "__"
    given = {name: values[name.removeprefix(prefix)] for name in app_settings() if name.startswith(prefix)}
    credential = read_settings(given, prefix.removesuffix("__")).credential
    assert credential == Identity(managed=True, client_id="an-id")


def test_the_model_settings_are_ones_that_the_app_understands() -> None:
    given = dict.fromkeys(app_settings("modelSettings"), "https://model.example")
    assert model_arguments(given) == {"model": "https://model.example", "azure_endpoint": "https://model.example"}


def test_no_setting_is_set_that_flex_consumption_forbids() -> None:
    assert app_settings() & NOT_ON_FLEX == set()


def test_telemetry_is_sent_with_an_identity() -> None:
    assert {"APPLICATIONINSIGHTS_CONNECTION_STRING", "APPLICATIONINSIGHTS_AUTHENTICATION_STRING"} <= app_settings()


# ---- host.json and the durable backend

DURABLE = json.loads((ROOT / "host.json").read_text())["extensions"]["durableTask"]
OVERRIDE = "AzureFunctionsJobHost__extensions__durableTask__storageProvider__"


def test_the_task_hub_is_the_one_that_host_json_names() -> None:
    """Not by app setting: the scale controller reads the file."""
    assert text(MAIN.variables["host"]) == "loadJsonContent('../host.json')"
    assert text(MAIN.variables["taskHub"]) == "host.extensions.durableTask.hubName"
    # Letters and digits, 3 to 45: what both backends take. No %NAME%: it would have to be an app setting.
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9]{2,44}", DURABLE["hubName"])


@pytest.mark.parametrize("group", ["schedulerSettings", "storageBackendSettings"])
def test_each_backend_is_named_with_the_setting_that_connects_it(group: str) -> None:
    values = members(APP.variables[group])
    assert literal(values[OVERRIDE + "type"]) == {"schedulerSettings": "azureManaged"}.get(group, "AzureStorage")
    connection = literal(values[OVERRIDE + "connectionStringName"])
    assert connection in values or f"{connection}__accountName" in app_settings("settings")


def test_host_json_names_the_default_backend() -> None:
    """The scale controller reads the file, not the overriding settings."""
    default = members(APP.variables["schedulerSettings"])
    assert DURABLE["storageProvider"] == {
        "type": literal(default[OVERRIDE + "type"]),
        "connectionStringName": literal(default[OVERRIDE + "connectionStringName"]),
    }


# ---- permissions


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


# ---- lifecycle rules


def test_lifecycle_rules_reach_nothing_but_the_state_container() -> None:
    prefix = STORAGE.variables["statePrefix"]
    assert text(prefix) == "'${container}/'"
    given = MAIN.modules["storage"].arguments
    assert text(given["container"]) == text(MAIN.modules["app"].arguments["stateContainer"]) == "stateContainer"
    assert literal(MAIN.variables["stateContainer"]) != literal(MAIN.variables["packageContainer"])
    rules = [n for n in walk(STORAGE.resources["lifecycle"].body) if "definition" in members(n)]
    assert len(rules) == 2
    for rule in rules:
        filters = members(members(members(rule)["definition"])["filters"])
        assert [text(item) for item in filters["prefixMatch"].named_children] == ["statePrefix"]


def test_the_rule_that_deletes_by_last_access_has_the_tracking_it_needs() -> None:
    """Without tracking, the platform counts from the day the rule was made, and deletes what is in use."""
    rule = text(STORAGE.resources["lifecycle"].body)
    policy = members(members(members(STORAGE.resources["blobs"].body)["properties"])["lastAccessTimeTrackingPolicy"])
    assert "daysAfterLastAccessTimeGreaterThan: payloadIdleDays" in rule
    assert literal(policy["enable"]) == "true"
