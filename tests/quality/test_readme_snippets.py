"""The README's code does what it says: Python and curl run against the app, the rest names things that exist.

All Python blocks of the README are one program, run word for word but for the port, in the order in which they stand. One
that can't run by itself has `<!-- not run: why -->` in the line before its fence: then it only has to compile.
"""

import ast
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from devhost.azurite import Azurite
from devhost.testing import DevHost, start_devhost
from tests.conftest import ROOT
from tests.quality.documents import Block, blocks, commands, markdown_files

README = ROOT / "README.md"
_ADDRESS = "http://127.0.0.1:7071"
_SHELLS = ("sh", "bash", "shell", "console")


def of_language(path: Path, *languages: str) -> list[Block]:
    return [block for block in blocks(path) if block.language in languages]


def shell_commands() -> list[tuple[Block, str]]:
    found = [block for path in markdown_files() for block in of_language(path, *_SHELLS)]
    return [(block, command) for block in found for command in commands(block)]


@pytest.fixture(scope="module")
def host(azurite: Azurite) -> Iterator[DevHost]:
    with start_devhost(ROOT, storage=azurite.connection_string) as running:
        yield running


def is_run(block: Block) -> bool:
    before = block.path.read_text().splitlines()[: block.line - 2]
    return not (before and re.match(r"\s*<!-- not run: .+ -->", before[-1]))


def test_the_python_of_the_readme_runs(host: DevHost) -> None:
    snippets = [block for block in of_language(README, "python") if is_run(block)]
    assert snippets
    program = ""
    for block in snippets:  # every line keeps its number, so that a traceback points into the README
        program += "\n" * (block.line - 1 - program.count("\n")) + block.code
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "AzureWebJobsStorage": host.connection_string,
        "AZURE_FUNCTIONS_ENVIRONMENT": "Development",
    }
    run = "import sys; exec(compile(sys.stdin.read(), 'README.md', 'exec'), {'__name__': '__main__'})"
    done = subprocess.run(
        [sys.executable, "-c", run],
        input=program.replace(_ADDRESS, host.base_url),
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip(), "the snippets print what the agent says"


def test_curl_lines_answer(host: DevHost) -> None:
    hint = Block(ROOT / "scripts" / "hint.txt", 1, "sh", (ROOT / "scripts" / "hint.txt").read_text())
    lines = [command for block in (*of_language(README, *_SHELLS), hint) for command in commands(block)]
    calls = [line for line in lines if re.match(r"curl\s", line)]
    assert calls, "make run prints one"
    for line in calls:
        here = line.replace("{base_url}", host.base_url).replace(_ADDRESS, host.base_url)
        assert host.base_url in here, line
        done = subprocess.run(["bash", "-c", here], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        if "stream" not in line:
            assert "error" not in json.loads(done.stdout) or json.loads(done.stdout)["error"] is None, done.stdout


def test_python_of_every_document_compiles_and_imports_what_is_there() -> None:
    wrong: list[str] = []
    for block in [block for path in markdown_files() for block in of_language(path, "python", "py")]:
        try:
            tree = compile(
                block.code, str(block), "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True
            )
        except SyntaxError as error:
            wrong.append(f"{block}: {error}")
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                statement = ast.unparse(node)
                try:
                    exec(statement, {})
                except ImportError as error:
                    if not _is_the_reader_s_own(node):
                        wrong.append(f"{block}: {statement}: {error}")
    assert wrong == []


def _is_the_reader_s_own(node: ast.Import | ast.ImportFrom) -> bool:
    """A module of the reader's app, such as `my_agent`: neither ours nor installed."""
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    return all(importlib.util.find_spec(name.partition(".")[0]) is None for name in names if name)


def test_modules_that_commands_run_exist() -> None:
    missing: list[str] = []
    for block, command in shell_commands():
        match = re.search(r"python3?(?:\.\d+)?\s+-m\s+([\w.]+)", command)
        if match is not None and importlib.util.find_spec(match[1]) is None:
            missing.append(f"{block}: {command}")
    assert missing == []


def test_keys_are_minted_as_the_readme_says() -> None:
    calls = [command for block, command in shell_commands() if block.path == README and "hosting.keys new" in command]
    assert calls
    for call in calls:
        words = shlex.split(call)
        done = subprocess.run([sys.executable, *words[1:]], cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert "HOSTING_API_KEYS" in done.stdout


def test_files_that_commands_read_exist() -> None:
    missing: list[str] = []
    for block, command in shell_commands():
        for match in re.finditer(r"(?:\s-r|--file|--requirement)[\s=]+([\w./-]+)", command):
            if not (ROOT / match[1]).is_file():
                missing.append(f"{block}: {command}")
    assert missing == []


def test_azd_commands_are_of_this_project() -> None:
    """azd is not on this machine, so its verbs are compared with what azd has, and values with what infra/ reads."""
    verbs = {
        "auth",
        "config",
        "deploy",
        "down",
        "env",
        "init",
        "monitor",
        "package",
        "pipeline",
        "provision",
        "restore",
    }
    verbs |= {"show", "template", "up", "version"}
    assert "services" in yaml.safe_load((ROOT / "azure.yaml").read_text())
    parameters = (ROOT / "infra" / "main.parameters.json").read_text()
    settings = (ROOT / "hosting" / "settings.py").read_text()
    wrong: list[str] = []
    for block, command in shell_commands():
        if not command.startswith("azd "):
            continue
        words = command.split()
        name = words[3] if words[1:3] == ["env", "set"] and len(words) > 3 and words[3] != "--file" else None
        if words[1] not in verbs or (name and f"${{{name}" not in parameters and f'"{name}"' not in settings):
            wrong.append(f"{block}: {command}")
    assert wrong == []


def test_packages_that_npx_runs_are_in_package_json() -> None:
    package = json.loads((ROOT / "package.json").read_text())
    known = package.get("dependencies", {}) | package.get("devDependencies", {})
    called = {command.split()[1] for _, command in shell_commands() if command.startswith("npx ")}
    assert called <= set(known)
