"""The command line: help, and one clear line for everything that is in the way."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from devhost.console import Console
from devhost.errors import AppLoadError
from devhost.testing import DevHost, DevHostFailed, start_devhost
from devhost.worker_process import WorkerOptions, WorkerProcess
from tests.devhost.conftest import App, eventually

ROOT = Path(__file__).parent.parent.parent
ON_DISK = {"AzureWebJobsStorage": "UseDevelopmentStorage=true"}


def devhost(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "devhost", *words],
        cwd=ROOT,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def app(tmp_path: Path) -> App:
    return App("plain_app", tmp_path)


def test_help_names_every_option():
    told = devhost("--help")
    assert told.returncode == 0
    for option in ("--port", "--host", "--workers", "--flex", "--reload", "--memory", "--no-azurite", "--grace"):
        assert option in told.stdout


def test_busy_port(app: App):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        told = devhost(str(app.dir), "--port", str(port))
    assert told.returncode == 1
    assert told.stderr == f"devhost: port {port} is in use: stop what uses it, or choose another with --port\n"
    assert told.stdout == ""


def test_folder_that_is_no_app(tmp_path: Path):
    told = devhost(str(tmp_path), "--port", "0")
    assert told.returncode == 1
    assert told.stderr == f"devhost: {tmp_path} has no host.json: give the folder of a Functions app\n"


def test_bad_host_json(app: App):
    (app.dir / "host.json").write_text('{\n  "version": "2.0",\n}')
    told = devhost(str(app.dir), "--port", "0")
    assert told.returncode == 1
    assert told.stderr.startswith(f"devhost: {app.dir}/host.json:2: not valid JSON")
    assert told.stderr.count("\n") == 1


def test_missing_node(app: App, tmp_path: Path):
    told = devhost(
        *(str(app.dir), "--port", "0"), AzureWebJobsStorage="UseDevelopmentStorage=true", PATH=str(tmp_path / "nothing")
    )
    assert told.returncode == 1
    assert told.stderr.startswith("devhost: Node.js is not installed")
    assert told.stderr.count("\n") == 1


def test_app_that_does_not_load(app: App):
    (app.dir / "function_app.py").write_text("import azure.functions as func\nfrom helper import f\n")
    (app.dir / "helper.py").write_text("# A helper.\nf = 1 / 0\n")
    told = devhost(str(app.dir), "--port", "0")
    assert told.returncode == 1
    assert told.stderr.splitlines()[:3] == [
        "devhost: the app does not load: helper.py:2: ZeroDivisionError: division by zero",
        f'  File "{app.dir}/function_app.py", line 2, in <module>',
        "    from helper import f",
    ]
    # The app's own files and no others.
    assert told.stderr.count("  File ") == 2


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (
            "import azure.functions\nimport no_such\n",
            "function_app.py:2: ModuleNotFoundError: No module named 'no_such'",
        ),
        ("def broken(:\n    pass\n", "function_app.py:1: SyntaxError: invalid syntax (function_app.py, line 1)"),
        ("import azure.functions as func\napp = func.FunctionApp()\n", "function_app.py declares no functions"),
        ("import os\nos._exit(3)\n", "the app ended the worker with code 3 while it was loaded"),
    ],
)
async def test_load_error_says_what_and_where(app: App, source: str, says: str):
    (app.dir / "function_app.py").write_text(source)
    options = WorkerOptions(app.dir, "function_app.py", os.environ, "info", Console(), 1.0)
    with pytest.raises(AppLoadError) as failure:
        await WorkerProcess(1, "all", options).start()
    assert str(failure.value).startswith(says)
    assert [line for line in failure.value.details if "site-packages" in line or "<frozen" in line] == []


def test_broken_schedule(app: App):
    (app.dir / "function_app.py").write_text(
        "import azure.functions as func\napp = func.FunctionApp()\n"
        "@app.timer_trigger(arg_name='timer', schedule='often')\ndef f(timer: func.TimerRequest): ...\n"
    )
    told = devhost(str(app.dir), "--port", "0")
    assert told.returncode == 1
    assert "devhost: the schedule 'often' is neither" in told.stderr


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[App, DevHost]]:
    """An app that says what it can import, run with storage on disk and a hint."""
    folder = tmp_path_factory.mktemp("shown")
    app = App("plain_app", folder)
    hint = folder / "hint.txt"
    hint.write_text("curl {base_url}/api/greet\n")
    (app.dir / "config.py").write_text("NAME = 'the app'\n")
    with (app.dir / "function_app.py").open("a") as source:
        source.write(
            "\nimport importlib.util\nfrom config import NAME\nprint('config of', NAME, 'in', os.getcwd())\n"
            "print('sees', [m for m in ('tests', 'hosting', 'bench') if importlib.util.find_spec(m)])\n"
        )
    env = {**ON_DISK, "AzureWebJobs.text.Disabled": "true"}
    with start_devhost(app.dir, env=env, storage="disk", options=["--hint", str(hint)]) as host:
        yield app, host


def test_app_sees_its_own_folder_and_not_the_one_of_devhost(shown: tuple[App, DevHost]):
    app, host = shown
    host.wait_for_log(f"config of the app in {app.dir}")
    host.wait_for_log("sees []")


def test_ready_output_names_functions_and_the_hint(shown: tuple[App, DevHost]):
    _, host = shown
    assert f"greet: [GET,POST] {host.base_url}/api/greet/{{name?}}" in host.logs
    assert f"ready on {host.base_url}\ncurl {host.base_url}/api/greet\n" in host.logs


def test_disabled_function_is_not_there(shown: tuple[App, DevHost]):
    _, host = shown
    assert "/api/text" not in host.logs
    with pytest.raises(HTTPError, match="404"):
        urlopen(f"{host.base_url}/api/text", timeout=30)


def test_azurite_keeps_its_data_in_the_folder_of_the_app(shown: tuple[App, DevHost]):
    app, host = shown
    assert (app.dir / ".azurite" / "__azurite_db_table__.json").exists()
    assert "AccountName=devstoreaccount1" in host.connection_string


def test_second_azurite_on_the_same_data_is_refused(shown: tuple[App, DevHost]):
    app, _ = shown
    told = devhost(str(app.dir), "--port", "0", **ON_DISK)
    assert told.returncode == 1
    assert told.stderr.startswith(f"devhost: another Azurite uses {app.dir}/.azurite")
    assert told.stderr.count("\n") == 1


def test_start_that_fails_shows_what_devhost_printed(app: App):
    (app.dir / "function_app.py").write_text("1 / 0\n")
    with pytest.raises(DevHostFailed, match=r"function_app\.py:1: ZeroDivisionError"):
        DevHost(app.dir, storage="none").start()


def test_reload_keeps_the_last_version_that_loads(app: App):
    source = app.dir / "function_app.py"
    good = source.read_text()

    def answer(host: DevHost) -> str:
        with urlopen(f"{host.base_url}/api/text", timeout=30) as response:
            return response.read().decode()

    with start_devhost(app.dir, storage="none", options=["--reload"]) as host:
        assert answer(host) == "only text"
        (before,) = host.workers
        source.write_text(good.replace("only text", "other tex"))
        eventually(lambda: answer(host) == "other tex", "the change to be loaded")
        assert host.workers != [before]
        source.write_text(good.replace("only text", 'oops"'))
        host.wait_for_log("the app does not load: function_app.py:")
        assert answer(host) == "other tex"
        source.write_text(good.replace('route="fail"', 'route="fail/{id:colour}"'))
        host.wait_for_log("has the unknown constraint 'colour'")
        assert answer(host) == "other tex"
        source.write_text(good.replace('route="text"', 'route="moved"'))
        eventually(lambda: "loaded\n" in host.logs.rpartition("colour")[2], "the fix to be loaded")
        with urlopen(f"{host.base_url}/api/moved", timeout=30) as response:
            assert response.read() == b"only text"
        assert "ended with code" not in host.logs


@pytest.mark.parametrize("port", ["99999", "-1", "abc"])
def test_a_port_that_is_none_is_refused(port: str) -> None:
    done = devhost(".", "--port", port)
    assert done.returncode == 2
    assert "--port" in done.stderr
