"""host.json and local.settings.json, as the Functions host and Core Tools read them."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from devhost.errors import DevHostError

__all__ = ["DEVELOPMENT_STORAGE", "AppConfig", "HostJson", "load_config"]

# What a connection setting says for "the storage emulator on this machine".
DEVELOPMENT_STORAGE = "UseDevelopmentStorage=true"


# A setting `AzureFunctionsJobHost__extensions__http__routePrefix` overrides that value of host.json.
_OVERRIDE = "AzureFunctionsJobHost__"


@dataclass(frozen=True, slots=True)
class HostJson:
    """The parts of host.json that devhost acts on; defaults are the Functions host's own."""

    route_prefix: str = "api"
    hub_name: str = "TestHubName"
    # Per worker process. Azure's default is 10 for each core of the instance.
    max_activities: int = 10
    max_orchestrators: int = 10
    max_entities: int = 10
    # Whether a new orchestration may take the id of one that still runs ("AnyState") or only of a finished one.
    overridable_states: str = "NonRunningStates"
    max_grpc_message_bytes: int = 4_194_304
    # Read so that it can be shown; devhost lets a function run as long as it likes.
    function_timeout: str | None = None


@dataclass(frozen=True, slots=True)
class AppConfig:
    """An app folder with its configuration."""

    app_dir: Path
    host_json: HostJson
    # local.settings.json `Values` under the process environment, which wins, as with Core Tools.
    settings: Mapping[str, str]
    # local.settings.json `Host.LocalHttpPort`.
    local_port: int | None

    @property
    def script_file(self) -> str:
        """The file that holds the app object."""
        return self.settings.get("PYTHON_SCRIPT_FILE_NAME", "function_app.py")

    def resolve(self, value: str) -> str:
        """`value` with every %SETTING% replaced, as the host does in bindings.

        Raises DevHostError for a setting that does not exist.
        """

        def one(match: re.Match[str]) -> str:
            try:
                return self.settings[match[1]]
            except KeyError:
                raise DevHostError(f"the setting %{match[1]}% is not in local.settings.json, nor set") from None

        return re.sub(r"%([^%\s]+)%", one, value)

    def is_disabled(self, function: str) -> bool:
        """Whether `AzureWebJobs.<function>.Disabled` is set; `__` may stand for the dots."""
        names = (f"AzureWebJobs.{function}.Disabled", f"AzureWebJobs__{function}__Disabled")
        return any(self.settings.get(name, "").strip().lower() in {"1", "true"} for name in names)


def load_config(app_dir: Path, environ: Mapping[str, str] | None = None) -> AppConfig:
    """Read the configuration of the app in `app_dir`.

    Raises DevHostError when a file is missing, is not valid JSON or holds a value of a wrong type.
    """
    environ = os.environ if environ is None else environ
    if not app_dir.is_dir():
        raise DevHostError(f"{app_dir} is not a folder: give the folder that holds host.json and function_app.py")
    if not (app_dir / "host.json").is_file():
        raise DevHostError(f"{app_dir} has no host.json: give the folder of a Functions app")
    values, local_port = _local_settings(app_dir / "local.settings.json")
    settings = {**values, **environ}
    config = AppConfig(app_dir, HostJson(), settings, local_port)
    config = replace(config, host_json=_host_json(app_dir / "host.json", config))
    if not (app_dir / config.script_file).is_file():
        raise DevHostError(
            f"{app_dir} has no {config.script_file}: devhost runs apps of the Python v2 programming model only"
        )
    return config


def _object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8-sig") or "{}")
    except json.JSONDecodeError as error:
        raise DevHostError(f"{path}:{error.lineno}: not valid JSON: {error.msg}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DevHostError(f"{path} can't be read: {error}") from None
    if not isinstance(value, dict):
        raise DevHostError(f"{path}: must be a JSON object")
    return value


def _local_settings(path: Path) -> tuple[dict[str, str], int | None]:
    if not path.is_file():
        return {}, None
    content = _object(path)
    if content.get("IsEncrypted"):
        raise DevHostError(f"{path}: is encrypted; run `func settings decrypt` or set IsEncrypted to false")
    values: dict[str, str] = {}
    for name, value in _section(content, "Values", path).items():
        if not isinstance(value, str):
            raise DevHostError(f"{path}: Values.{name} must be a string, in quotes, as app settings are in Azure")
        values[name] = value
    port = _section(content, "Host", path).get("LocalHttpPort")
    if port is not None and (not isinstance(port, int) or isinstance(port, bool)):
        raise DevHostError(f"{path}: Host.LocalHttpPort must be a number")
    return values, port


def _section(content: dict[str, Any], name: str, path: Path) -> dict[str, Any]:
    """An object inside `content`, found without regard to case as .NET configuration does; {} when absent."""
    for key, value in content.items():
        if key.lower() == name.lower() and value is not None:
            if not isinstance(value, dict):
                raise DevHostError(f"{path}: {name} must be an object")
            return value
    return {}


def _override(content: dict[str, Any], names: list[str], value: str) -> None:
    """Put a value into nested objects. Names keep their case, but find existing ones whatever theirs is."""
    name = next((key for key in content if key.lower() == names[0].lower()), names[0])
    if len(names) == 1:
        content[name] = int(value) if value.isdecimal() else value
        return
    if not isinstance(content.get(name), dict):
        content[name] = {}
    _override(content[name], names[1:], value)


def _host_json(path: Path, config: AppConfig) -> HostJson:
    content = _object(path)
    if content.get("version") != "2.0":
        raise DevHostError(f'{path}: must say "version": "2.0"')
    for name, value in config.settings.items():
        if name.startswith(_OVERRIDE):
            _override(content, name.removeprefix(_OVERRIDE).split("__"), value)
    extensions = _section(content, "extensions", path)
    http = {key.lower(): value for key, value in _section(extensions, "http", path).items()}
    durable = {key.lower(): value for key, value in _section(extensions, "durableTask", path).items()}

    def number(name: str, default: int) -> int:
        value = durable.get(name.lower(), default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise DevHostError(f"{path}: extensions.durableTask.{name} must be a number over 0")
        return value

    def text(source: dict[str, Any], where: str, default: str) -> str:
        value = source.get(where.rpartition(".")[2].lower(), default)
        if not isinstance(value, str):
            raise DevHostError(f"{path}: {where} must be a string")
        return config.resolve(value)

    defaults = HostJson()
    return HostJson(
        route_prefix=text(http, "extensions.http.routePrefix", defaults.route_prefix).strip("/"),
        hub_name=text(durable, "extensions.durableTask.hubName", defaults.hub_name),
        max_activities=number("maxConcurrentActivityFunctions", defaults.max_activities),
        max_orchestrators=number("maxConcurrentOrchestratorFunctions", defaults.max_orchestrators),
        max_entities=number("maxConcurrentEntityFunctions", defaults.max_entities),
        overridable_states=text(
            durable, "extensions.durableTask.overridableExistingInstanceStates", defaults.overridable_states
        ),
        max_grpc_message_bytes=number("maxGrpcMessageSizeInBytes", defaults.max_grpc_message_bytes),
        function_timeout=content.get("functionTimeout"),
    )
