"""infra/ agrees with itself and with the app. What Azure makes of it, only a deployment shows (docs/deploy.md)."""

import inspect
import json
import re
from pathlib import Path

import pytest

from hosting.models import model_arguments
from hosting.server.background import _LONGEST as LONGEST_RUN  # pyright: ignore[reportPrivateUsage]
from hosting.settings import Settings
from hosting.state.retention_blobs import PREFIX as VALUES
from hosting.storage._settings import Identity, read_settings
from hosting.streaming._expiry import expire_streams

from .bicep import ROOT, BicepFile, bicep_files, literal, load, members, text, used_names, walk

INFRA = ROOT / "infra"
MAIN = load(INFRA / "main.bicep")
APP = load(INFRA / "modules" / "app.bicep")
RBAC = load(INFRA / "modules" / "rbac.bicep")
STORAGE = load(INFRA / "modules" / "storage.bicep")
ALERTS = load(INFRA / "modules" / "alerts.bicep")
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

STREAMS = inspect.signature(expire_streams).parameters["prefix"].default

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


OPTIONS = members(MAIN.variables["options"])


def default_text(value: object) -> str:
    """A default of the code as files here write it: 30, true, agents."""
    return str(value).lower().removesuffix(".0") if isinstance(value, bool | float) else str(value)


def app_settings(*groups: str) -> set[str]:
    """Names of the app settings in these variables of app.bicep; by default all, with those that main.bicep passes on."""
    config = text(APP.resources["appsettings"].body)
    names = groups or tuple(name for name in APP.variables if re.search(rf"\b{name}\b", config))
    found = {key for name in names for key in members(APP.variables[name])}
    return found if groups else found | set(OPTIONS)


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
    assert "options" in text(APP.resources["appsettings"].body)
    variables = {name: variable for name, (variable, _) in parameters().items()}
    used = {setting: set(re.findall(r"\w+", text(value))) & set(MAIN.params) for setting, value in OPTIONS.items()}
    assert len([setting for setting, names in used.items() if names]) >= 7
    for setting, names in used.items():
        for name in names:
            assert variables[name] == setting
            assert MAIN.params[name].default == default_text(fields[setting])


def test_an_instance_is_given_no_more_than_a_tenant_may_have() -> None:
    """Else the app would refuse one big tenant what the platform could add an instance for."""
    fields = {field.alias: field.default for field in Settings.model_fields.values()}
    (most,) = re.findall(r"@maxValue\((\d+)\)\n(?:@description.*\n)?param httpConcurrency", MAIN.path.read_text())
    assert int(most) <= min(fields["HOSTING_MAX_RUNS_PER_TENANT"], fields["HOSTING_MAX_STREAMS_PER_TENANT"])


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


@pytest.mark.parametrize(
    ("rules", "prefix", "under", "blobs"),
    [("streamRules", "streamPrefix", STREAMS, "appendBlob"), ("valueRules", "valuePrefix", VALUES, "blockBlob")],
)
def test_a_lifecycle_rule_reaches_one_kind_of_the_apps_blobs_and_no_others(
    rules: str, prefix: str, under: str, blobs: str
) -> None:
    """A rule without a prefix would delete the host's leases and the deployment package."""
    assert text(STORAGE.variables[prefix]) == f"'${{container}}/{under}'"
    (rule,) = STORAGE.variables[rules].named_children
    filters = members(members(members(rule)["definition"])["filters"])
    assert [text(item) for item in filters["prefixMatch"].named_children] == [prefix]
    assert [literal(item) for item in filters["blobTypes"].named_children] == [blobs]


def test_the_rules_are_about_the_apps_container() -> None:
    given = MAIN.modules["storage"].arguments
    assert text(given["container"]) == text(OPTIONS["HOSTING_CONTAINER"]) == "stateContainer"
    assert literal(MAIN.variables["stateContainer"]) != literal(MAIN.variables["packageContainer"])


def test_no_rule_deletes_spilled_values_unless_it_is_asked_for() -> None:
    """It can't know what a living conversation still refers to; the retention timer does."""
    assert MAIN.params["payloadIdleDays"].default == "0"
    rules = text(STORAGE.variables["rules"])
    assert rules == "concat(streamDays > 0 ? streamRules : [], payloadIdleDays > 0 ? valueRules : [])"


def test_the_rule_that_deletes_by_last_access_has_the_tracking_it_needs() -> None:
    """Without tracking, the platform counts from the day the rule was made, and deletes what is in use."""
    policy = members(members(members(STORAGE.resources["blobs"].body)["properties"])["lastAccessTimeTrackingPolicy"])
    assert "daysAfterLastAccessTimeGreaterThan: payloadIdleDays" in text(STORAGE.variables["valueRules"])
    assert text(policy["enable"]) == "payloadIdleDays > 0"


def test_the_rule_of_streams_waits_until_none_can_be_in_use() -> None:
    """A run takes days, and its first events are read until some hours after its end."""
    days = LONGEST_RUN.days + Settings.model_fields["stream_hours"].default / 24
    assert int(MAIN.params["streamDays"].default or 0) > days + 1


# ---- alerts


def alert_rules() -> list[dict[str, str]]:
    """What alerts.bicep says of each rule, as text."""
    groups = (ALERTS.variables["fromTheHost"], ALERTS.variables["fromTheApp"])
    rules = [members(rule) for group in groups for rule in group.named_children]
    return [{key: literal(value) or text(value) for key, value in rule.items()} for rule in rules]


def test_an_alert_asks_for_names_that_exist() -> None:
    code = "".join(path.read_text() for path in (ROOT / "hosting").rglob("*.py"))
    names = {
        name for rule in alert_rules() for name in re.findall(r'"([\w.]*\.[\w.]+|Storage\w+|task_\w+)"', rule["query"])
    }
    assert len(names) >= 8
    assert {name for name in names if f'"{name}"' not in code and f"class {name}(" not in code} == set()


@pytest.mark.parametrize("rule", alert_rules(), ids=lambda rule: rule["name"])
def test_an_alert_always_has_one_row_with_one_number(rule: dict[str, str]) -> None:
    """A rule over a column that is missing never fires."""
    last = rule["query"].strip("'\n").splitlines()[-1]
    assert re.match(r"\| (summarize|project) value = ", last)
    assert " by " not in last


def test_alerts_of_the_apps_own_measurements_need_its_telemetry() -> None:
    assert all("customMetrics" not in text(n) for n in ALERTS.variables["fromTheHost"].named_children)
    assert "concat(fromTheHost, openTelemetry ? fromTheApp : [])" in ALERTS.path.read_text()
