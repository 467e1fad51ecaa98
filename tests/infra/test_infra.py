"""infra/ agrees with itself and with the app. What Azure makes of it, only a deployment shows (docs/deploy.md)."""

import json
import re
from pathlib import Path

import pytest

from hosting.models import model_arguments
from hosting.settings import Settings
from hosting.storage._settings import Identity, read_settings

from .bicep import ROOT, BicepFile, bicep_files, literal, load, members, text, used_names

INFRA = ROOT / "infra"
MAIN = load(INFRA / "main.bicep")
APP = load(INFRA / "modules" / "app.bicep")
FILES = {path: load(path) for path in bicep_files()}

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


def test_secrets_are_secure_all_the_way() -> None:
    assert {name for name, param in MAIN.params.items() if param.secure} == {"apiKeys", "alertWebhook"}
    assert APP.params["apiKeys"].secure
    assert load(INFRA / "modules" / "alerts.bicep").params["webhook"].secure
    assert text(MAIN.modules["alerts"].arguments["webhook"]) == "alertWebhook"


def test_the_apps_own_identity_reads_the_secrets_that_settings_refer_to() -> None:
    """Else a system-assigned one would, and there is none."""
    properties = members(members(APP.resources["site"].body)["properties"])
    assert text(properties["keyVaultReferenceIdentity"]) == "identity.id"


def test_private_endpoints_are_made_one_after_the_other() -> None:
    """Several of one storage account at a time are refused: it is busy with the first."""
    source = (INFRA / "modules" / "network.bicep").read_text()
    assert "@batchSize(1)\nmodule endpoints './private-endpoint.bicep' = [" in source


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_resource_that_may_be_off_has_a_name_all_the_same(path: Path) -> None:
    """Azure checks names before conditions, and an empty one is none."""
    optional = re.findall(r" existing = if \(!empty\((\w+)\)\) \{(.*?)\n\}", path.read_text(), re.S)
    assert [name for name, body in optional if f"name: empty({name}) ? " not in body] == []
    assert len(optional) == {"rbac.bicep": 3, "audit.bicep": 1}.get(path.name, 0)


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


@pytest.mark.parametrize(
    ("group", "name"),
    [
        ("settings", Settings.model_fields["storage_connection"].default),
        ("stateSettings", literal(members(APP.variables["stateSettings"])["HOSTING_STORAGE_CONNECTION"])),
    ],
)
def test_the_storage_settings_are_ones_that_the_app_understands(group: str, name: str) -> None:
    values = {"accountName": "stabc", "credential": "managedidentity", "clientId": "an-id"}
    prefix = f"{name}__"
    given = {key: values[key.removeprefix(prefix)] for key in app_settings(group) if key.startswith(prefix)}
    credential = read_settings(given, name).credential
    assert credential == Identity(managed=True, client_id="an-id")


def test_the_model_settings_are_ones_that_the_app_understands() -> None:
    given = dict.fromkeys(app_settings("modelSettings"), "https://model.example")
    assert model_arguments(given) == {"model": "https://model.example", "azure_endpoint": "https://model.example"}


def test_no_setting_is_set_that_flex_consumption_forbids() -> None:
    assert app_settings() & NOT_ON_FLEX == set()


def test_what_the_template_sets_wins_over_extra_settings() -> None:
    """They come with the options, and of two values of one name the later one stays."""
    assert text(MAIN.modules["app"].arguments["options"]) == "union(extra, options)"
    (call,) = re.findall(r"properties: union\((.*?)\n  \)", text(APP.resources["appsettings"].body), re.S)
    assert re.findall(r"(?m)^    (\w+),$", call) == ["options", "settings"]
    assert len(call.strip().splitlines()) == 6


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


HOSTS = [path for folder in (".", "examples/*", "bench/*", "tests/*/*") for path in ROOT.glob(f"{folder}/host.json")]
WITH_BUNDLE = [path for path in HOSTS if "extensionBundle" in path.read_text()]


@pytest.mark.parametrize("path", WITH_BUNDLE, ids=lambda path: str(path.relative_to(ROOT).parent))
def test_every_app_here_takes_the_same_extension_bundle(path: Path) -> None:
    """Not the preview of it. docs/unproven.md says since when it can serve this azure-functions-durable."""
    assert json.loads(path.read_text())["extensionBundle"] == {
        "id": "Microsoft.Azure.Functions.ExtensionBundle",
        "version": "[4.*, 5.0.0)",
    }


# ---- options that can be taken back


def test_easy_auth_is_deployed_always_so_that_it_can_be_switched_off() -> None:
    assert "module easyAuth './modules/easyauth.bicep' = {" in MAIN.path.read_text()
    auth = load(INFRA / "modules" / "easyauth.bicep")
    properties = members(members(auth.resources["auth"].body)["properties"])
    assert text(auth.variables["on"]) == "!empty(clientId)"
    assert text(members(properties["platform"])["enabled"]) == "on"
    assert text(properties["identityProviders"]) == "on ? entra : {}"
    assert text(auth.variables["passes"]) == "!on || keysToo"


def test_only_named_applications_get_through_easy_auth_when_some_are_named() -> None:
    auth = load(INFRA / "modules" / "easyauth.bicep")
    policy = members(members(auth.variables["onlyFrom"])["defaultAuthorizationPolicy"])
    assert text(policy["allowedApplications"]) == "allowedApplications"
    assert "empty(allowedApplications) ? {} : onlyFrom" in text(auth.variables["entra"])


def test_the_deployment_endpoint_opens_again_when_its_addresses_are_cleared() -> None:
    config = members(members(members(APP.resources["site"].body)["properties"])["siteConfig"])
    assert text(config["scmIpSecurityRestrictionsDefaultAction"]) == "empty(deployAddresses) ? 'Allow' : 'Deny'"


def test_no_date_is_computed_from_today() -> None:
    """Azure refuses to change the start of a budget: with utcNow() the first deployment of each month would fail."""
    assert [path.name for path in FILES if "utcNow(" in path.read_text()] == []


def test_telemetry_is_kept_as_long_as_the_parameter_says() -> None:
    """Tables of Application Insights keep 90 days until each is told otherwise."""
    monitoring = load(INFRA / "modules" / "monitoring.bicep")
    tables = {literal(item) for item in monitoring.variables["tables"].named_children}
    assert tables >= {"AppRequests", "AppDependencies", "AppTraces", "AppExceptions", "AppMetrics"}
    assert "for table in tables" in monitoring.path.read_text()
    kept = members(members(monitoring.resources["retention"].body)["properties"])
    assert {text(value) for value in kept.values()} == {"retentionDays"}
    assert set(kept) == {"retentionInDays", "totalRetentionInDays"}


# ---- an account of its own for the host


def test_the_state_stays_where_it_is_when_the_host_gets_its_own_account() -> None:
    assert MAIN.params["separateHostAccount"].default == "false"
    state, host = MAIN.modules["storage"].arguments, MAIN.modules["hostStorage"].arguments
    assert text(state["containers"]) == "separateHostAccount ? [stateContainer] : [stateContainer, packageContainer]"
    assert [text(item) for item in host["containers"].named_children] == ["packageContainer"]
    app = MAIN.modules["app"].arguments
    assert text(app["storageName"]) == "separateHostAccount ? hostStorage!.outputs.name : storage.outputs.name"
    assert text(app["stateStorageName"]) == "separateHostAccount ? storage.outputs.name : ''"
