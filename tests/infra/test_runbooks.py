"""docs/runbooks.md: commands that can be run here do what the page says, and all of them name what the template has."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hosting.keys import mint_key, parse_keys
from tests.quality.documents import blocks, commands

from .bicep import ROOT, text
from .test_infra import MAIN

PATH = ROOT / "docs" / "runbooks.md"
PAGE = PATH.read_text()
COMMANDS = [command for block in blocks(PATH) if block.language == "sh" for command in commands(block)]
SECTIONS = [part for part in re.split(r"(?m)^## ", PAGE)[1:] if not part.startswith("When an alert fires")]


def test_a_list_of_keys_is_made_of_the_one_that_is_deployed() -> None:
    """What is set replaces the whole list: one that is typed locks out everybody else."""
    setting = "--query \"[?name=='HOSTING_API_KEYS'].value\" -o tsv"
    reads = [line for line in COMMANDS if setting in line]
    assert len(reads) == 2
    assert [line for line in reads if "az functionapp config appsettings list -g " not in line] == []
    sets = [line for line in COMMANDS if re.search(r"(azd env|gh secret) set HOSTING_API_KEYS", line)]
    assert len(sets) == 3
    assert [line for line in sets if "keys.new" not in line and setting not in line] == []
    # What refuses a list leaves an empty file, which as a list lets nobody in.
    given = [line for line in COMMANDS if re.search(r" set .*keys\.new", line)]
    assert len(given) == 3
    assert [line for line in given if not line.startswith("test -s keys.new && ")] == []


def test_the_list_of_keys_is_changed_as_the_page_says(tmp_path: Path) -> None:
    kept = [mint_key("contoso")[1], mint_key("fabrikam", "someone")[1]]
    (tmp_path / "keys").write_text(",".join(key.entry for key in kept) + "\n")

    def run(start: str, **words: str) -> str:
        (line,) = [line for line in COMMANDS if line.startswith(f".venv/bin/python -m hosting.keys {start}")]
        for word, value in words.items():
            line = line.replace(word, value)
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
        command = ["sh", "-ec", line.replace(".venv/bin/python", sys.executable)]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout

    assert all(key.key_id in run("list") for key in kept)
    run("add", TENANT="contoso")
    added = list(parse_keys((tmp_path / "keys.new").read_text()))
    assert added[:2] == [key.key_id for key in kept]
    assert len(added) == 3
    run("remove", KEY_ID=kept[0].key_id)
    assert list(parse_keys((tmp_path / "keys.new").read_text())) == [kept[1].key_id]


@pytest.mark.parametrize("section", SECTIONS, ids=[part.partition("\n")[0] for part in SECTIONS])
def test_a_runbook_begins_with_its_commands(section: str) -> None:
    assert "```sh\n" in section
    assert len(section.partition("```sh\n")[0]) < 600


def test_every_azd_command_names_its_environment() -> None:
    """azd would else take the default one, which may be production."""
    told = {
        line: (len(re.findall(r"\bazd (?!auth|config|env list|env select|env new)[a-z]", line)), line.count("-e $ENV"))
        for line in COMMANDS
    }
    assert sum(calls for calls, _ in told.values()) >= 10
    assert [line for line, (calls, named) in told.items() if calls != named] == []


def test_names_that_are_made_up_in_commands_are_those_of_the_template() -> None:
    assert text(MAIN.modules["alerts"].arguments["name"]) == "'alert-${environmentName}'"
    assert "-n alert-$ENV" in PAGE
    assert "name: 'rg-${environmentName}'" in MAIN.path.read_text()
    assert "-g rg-$ENV" in PAGE
    asked = set(re.findall(r"azd env get-value (\w+)", PAGE))
    assert asked - {"AZURE_SUBSCRIPTION_ID"} <= set(MAIN.outputs)


def test_timers_that_are_run_by_hand_are_the_apps() -> None:
    names = re.findall(r"for timer in (.+); do", PAGE)
    assert names == ["task_recovery retention"]
    source = "".join(path.read_text() for path in (ROOT / "hosting" / "functions").glob("*.py"))
    assert [name for name in names[0].split() if f'"{name}"' not in source] == []
