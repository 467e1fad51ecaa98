"""Imports point one way: functions -> server -> {responses, state, tasks, streaming} -> storage."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent / "hosting"

_BASE = {"errors", "gather", "ids", "keys", "read_budget", "revision", "settings", "telemetry"}
_ALLOWED = {
    "telemetry": set[str](),
    "storage": _BASE,
    "responses": _BASE,
    "tasks": _BASE | {"storage"},
    "streaming": _BASE | {"storage"},
    "state": _BASE | {"storage", "responses"},
    "server": _BASE | {"identity", "storage", "responses", "state", "tasks", "streaming"},
    "functions": _BASE | {"identity", "models", "storage", "responses", "state", "tasks", "streaming", "server"},
    "admin": _BASE | {"storage", "responses", "state", "tasks", "streaming", "server"},
}
"""Package to those that it may import, beside itself. `responses` is pure, so `state` may use its words."""


def imports(file: Path) -> set[str]:
    """The modules and packages of `hosting` that a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = (
                [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "hosting" else [node.module]
            )
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("hosting.")}
    return found


@pytest.mark.parametrize("package", sorted(_ALLOWED))
def test_a_package_imports_only_what_lies_below_it(package: str) -> None:
    for file in (ROOT / package).rglob("*.py"):
        beyond = imports(file) - _ALLOWED[package] - {package}
        assert not beyond, f"{file.relative_to(ROOT)} imports {sorted(beyond)}"


@pytest.mark.parametrize(
    "file", [f for f in ROOT.rglob("*.py") if "functions" not in f.parts], ids=lambda file: file.name
)
def test_only_the_triggers_import_azure_functions(file: Path) -> None:
    tree = ast.parse(file.read_text())
    modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert not {name for name in modules if name.startswith(("azure.functions", "azure.durable_functions"))}


_PRIVATE_BUT_USED = {("bench/streams.py", "hosting.storage._azure_append_blobs")}
"""File to private module of another package. The bench measures our calls beside the SDK's, over the same connection."""


def private_imports(text: str, file: Path) -> set[str]:
    """The private modules and names that the text of a file imports of packages in which it does not lie."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            above = file.relative_to(ROOT.parent).parts[: -node.level] if node.level else ()
            module = ".".join((*above, *([node.module] if node.module else [])))
            names = [f"{module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            private = next((n for n, part in enumerate(parts) if part.startswith("_")), None)
            if parts[0] != "hosting" or private is None:
                continue
            if not file.is_relative_to(ROOT.parent.joinpath(*parts[:private])):
                found.add(".".join(parts[: private + 1]))
    return found


def test_private_modules_are_imported_in_their_package_only() -> None:
    """What others need goes through a module without an underscore. Tests may look inside."""
    root = ROOT.parent
    files = [root / "function_app.py"]
    for folder in ("hosting", "devhost", "examples", "bench"):
        files += (root / folder).rglob("*.py")
    found = {
        (file.relative_to(root).as_posix(), name) for file in files for name in private_imports(file.read_text(), file)
    }
    assert found == _PRIVATE_BUT_USED


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from hosting.tasks._rows import Key", {"hosting.tasks._rows"}),
        ("from hosting.tasks import _rows, Task", {"hosting.tasks._rows"}),
        ("import hosting.tasks._rows", {"hosting.tasks._rows"}),
        ("from ..tasks._rows import Key", {"hosting.tasks._rows"}),
        ("from hosting.server.http import _words", {"hosting.server.http._words"}),
        ("def late():\n    from hosting.tasks._rows import Key", {"hosting.tasks._rows"}),
        ("from hosting.streaming._log import Log\nfrom ._log import Log", set[str]()),
        ("from __future__ import annotations\nfrom hosting.tasks import Task", set[str]()),
    ],
)
def test_private_imports_are_seen_in_every_form(text: str, found: set[str]) -> None:
    assert private_imports(text, ROOT / "streaming" / "file.py") == found
