"""host.json and local.settings.json, without any process."""

import json
from pathlib import Path
from typing import Any

import pytest

from devhost.config import AppConfig, load_config
from devhost.errors import DevHostError


def app(folder: Path, host: Any = None, settings: Any = None) -> Path:
    """An app folder; a str is written as it is."""
    (folder / "function_app.py").write_text("")

    def write(name: str, content: Any) -> None:
        (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))

    write("host.json", {"version": "2.0"} if host is None else host)
    if settings is not None:
        write("local.settings.json", settings)
    return folder


def load(folder: Path, **environ: str) -> AppConfig:
    return load_config(folder, environ)


def test_defaults_are_those_of_the_functions_host(tmp_path: Path):
    host_json = load(app(tmp_path)).host_json
    assert (host_json.route_prefix, host_json.hub_name, host_json.max_activities) == ("api", "TestHubName", 10)


def test_settings_of_host_json_are_found_in_any_case(tmp_path: Path):
    host = {
        "version": "2.0",
        "functionTimeout": "-1",
        "extensions": {
            "http": {"routeprefix": ""},
            "DurableTask": {"HubName": "Mine", "maxConcurrentActivityFunctions": 3},
        },
    }
    host_json = load(app(tmp_path, host)).host_json
    assert (host_json.route_prefix, host_json.hub_name, host_json.max_activities) == ("", "Mine", 3)
    assert host_json.function_timeout == "-1"


def test_environment_wins_over_local_settings(tmp_path: Path):
    folder = app(tmp_path, settings={"Values": {"A": "file", "B": "file"}, "Host": {"LocalHttpPort": 7072}})
    config = load(folder, A="environment")
    assert (config.settings["A"], config.settings["B"], config.local_port) == ("environment", "file", 7072)


def test_names_between_percent_signs_are_settings(tmp_path: Path):
    folder = app(tmp_path, {"version": "2.0", "extensions": {"durableTask": {"hubName": "hub%N%"}}})
    assert load(folder, N="7").host_json.hub_name == "hub7"


def test_unknown_setting_between_percent_signs_is_named(tmp_path: Path):
    folder = app(tmp_path, {"version": "2.0", "extensions": {"durableTask": {"hubName": "%NOPE%"}}})
    with pytest.raises(DevHostError, match="NOPE"):
        load(folder)


def test_setting_overrides_host_json(tmp_path: Path):
    folder = app(tmp_path, {"version": "2.0", "extensions": {"http": {"routePrefix": "a"}}})
    config = load(
        folder,
        AzureFunctionsJobHost__extensions__http__routePrefix="b",
        AzureFunctionsJobHost__extensions__durableTask__maxConcurrentActivityFunctions="4",
    )
    assert (config.host_json.route_prefix, config.host_json.max_activities) == ("b", 4)


def test_function_can_be_disabled(tmp_path: Path):
    config = load(app(tmp_path, settings={"Values": {"AzureWebJobs.one.Disabled": "true"}}))
    assert config.is_disabled("one")
    assert not config.is_disabled("two")


@pytest.mark.parametrize(
    ("host", "settings", "says"),
    [
        ("{", None, r"host\.json:1: not valid JSON"),
        ({"version": "1.0"}, None, r'"version": "2\.0"'),
        ([], None, "must be a JSON object"),
        ({"version": "2.0", "extensions": {"durableTask": {"maxConcurrentActivityFunctions": 0}}}, None, "over 0"),
        ({"version": "2.0", "extensions": []}, None, "extensions must be an object"),
        (None, '{"Values": {"A": 1}}', r"Values\.A must be a string"),
        (None, '{"IsEncrypted": true}', "encrypted"),
        (None, '{"Values": {},}', r"local\.settings\.json:1: not valid JSON"),
        (None, '{"Host": {"LocalHttpPort": "7072"}}', "LocalHttpPort must be a number"),
    ],
)
def test_bad_file_is_named_with_what_is_wrong(tmp_path: Path, host: Any, settings: Any, says: str):
    with pytest.raises(DevHostError, match=says):
        load(app(tmp_path, host, settings))


def test_missing_files_are_named(tmp_path: Path):
    with pytest.raises(DevHostError, match="not a folder"):
        load(tmp_path / "nowhere")
    with pytest.raises(DevHostError, match=r"no host\.json"):
        load(tmp_path)
    (tmp_path / "host.json").write_text('{"version": "2.0"}')
    with pytest.raises(DevHostError, match=r"no function_app\.py"):
        load(tmp_path)
