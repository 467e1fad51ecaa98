"""Imports point one way: functions -> server -> {responses, state, tasks, streaming} -> storage."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent / "hosting"

_BASE = {"errors", "ids", "keys", "read_budget", "settings", "telemetry"}
_ALLOWED = {
    "telemetry": set[str](),
    "storage": _BASE,
    "responses": _BASE,
    "tasks": _BASE | {"storage"},
    "streaming": _BASE | {"storage"},
    "state": _BASE | {"storage", "responses"},
    "server": _BASE | {"identity", "storage", "responses", "state", "tasks", "streaming"},
    "functions": _BASE | {"identity", "models", "storage", "responses", "state", "tasks", "streaming", "server"},
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
