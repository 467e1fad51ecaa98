"""Commands that people type: make targets that documents name exist, and each program says how it is called."""

import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.quality.documents import blocks, commands, markdown_files, named

_MAKE = re.compile(r"(?:^|[\s;&(])make((?:\s+[\w.=\"-]+)*)")


def targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text()
    return {name for line in re.findall(r"^([\w./ -]+):(?!=)", makefile, re.MULTILINE) for name in line.split()}


def made() -> list[tuple[str, str]]:
    """Where a document tells its reader to make something, and what."""
    found: list[tuple[str, str]] = []
    for path in markdown_files():
        lines = [(str(name), name.text) for name in named(path)]
        for block in blocks(path):
            if block.language in ("sh", "bash", "shell", "console"):
                lines += [(f"{block}: {command}", command) for command in commands(block)]
        for where, text in lines:
            if (match := _MAKE.search(text)) is not None:
                found += [(where, word) for word in match[1].split() if re.fullmatch(r"[a-z][\w.-]*", word)]
    return found


def test_every_make_target_that_a_document_names_exists() -> None:
    assert {"run", "test"} <= {target for _, target in made()}
    known = targets()
    assert [where for where, target in made() if target not in known] == []


def test_every_phony_target_has_a_rule() -> None:
    phony = re.search(r"^\.PHONY:(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    assert set(phony[1].split()) <= targets()


def test_every_target_can_be_planned() -> None:
    """`make -n` reads the whole Makefile and finds the rule of everything that a target needs, and does nothing."""
    for target in ("run", "test", "check", "bench", "setup", "clean"):
        planned = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert planned.returncode == 0, planned.stderr


@pytest.mark.parametrize(
    ("arguments", "mentioned"),
    [
        (
            ["devhost"],
            ["APP_DIR", "--port", "--workers", "--flex", "--reload", "--memory", "--no-azurite", "--ready-file"],
        ),
        (["hosting.keys"], ["new", "add", "remove", "list", "examples:"]),
        (["hosting.keys", "new"], ["TENANT", "--user"]),
        (["hosting.keys", "add"], ["TENANT", "--user", "--first", "--from-env"]),
        (
            ["hosting.admin"],
            [
                "running",
                "suspend",
                "resume",
                "suspended",
                "scope",
                "list",
                "cancel",
                "erase",
                "AzureWebJobsStorage",
                "examples:",
            ],
        ),
        (["hosting.admin", "list"], ["--tenant", "--scope", "--user", "--running", "--conversations", "--json"]),
        (["hosting.admin", "running"], ["--limit", "--json", "--settings", "lapsed", "examples:"]),
        (["hosting.admin", "erase"], ["--tenant", "--scope", "--user", "--settings", "--yes"]),
        (["bench"], ["NAME", "storage", "cold_start"]),
    ],
    ids=" ".join,
)
def test_help_says_how_a_program_is_called(arguments: list[str], mentioned: list[str]) -> None:
    command = [sys.executable, "-m", *arguments, "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: python -m {' '.join(arguments)}")
    assert [word for word in mentioned if word not in done.stdout] == []


def test_options_that_documents_give_devhost_are_its_own() -> None:
    usage = subprocess.run(
        [sys.executable, "-m", "devhost", "--help"], cwd=ROOT, capture_output=True, text=True, timeout=60
    ).stdout
    known = set(re.findall(r"--[a-z-]+", usage))
    unknown: list[str] = []
    for path in markdown_files():
        texts = [name.text for name in named(path)]
        texts += [command for block in blocks(path) if block.language == "sh" for command in commands(block)]
        for text in texts:
            given = re.search(r"RUN_ARGS=(\"[^\"]*\"|\S+)|-m devhost(.*)", text)
            if given is not None:
                unknown += [f"{path.name}: {word}" for word in re.findall(r"--[a-z-]+", given[0]) if word not in known]
    assert unknown == []
