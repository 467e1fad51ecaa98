"""`python -m hosting.keys add`, `remove` and `list`: the list of everybody's entries, of which none may get lost."""

import io
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from hosting import keys
from tests.conftest import ROOT

OLD = [keys.mint_key(tenant, user)[1] for tenant, user in (("contoso", None), ("contoso", "ada@x"), ("fabrikam", None))]
ENTRIES = [kept.entry for kept in OLD]
SETTING = ",".join(ENTRIES)
KEY = re.compile(r"sk-[0-9a-f]{12}-\S{43}")


class Done(NamedTuple):
    code: int
    out: str
    err: str


class Shell:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, *words: str, given: str = "") -> Done:
        self._monkeypatch.setattr(sys, "stdin", io.StringIO(given))
        try:
            code = keys.main(list(words))
        except SystemExit as ended:
            code = int(ended.code or 0)
        return Done(code, *self._capsys.readouterr())


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.delenv("HOSTING_API_KEYS", raising=False)
    return Shell(monkeypatch, capsys)


def test_add_keeps_every_entry_as_it_was_and_puts_one_behind_them(shell: Shell) -> None:
    done = shell("add", "northwind", "--user", "bo", given=SETTING)
    *others, added = done.out.rstrip("\n").split(",")
    assert (done.code, others) == (0, ENTRIES)
    assert re.fullmatch(r"northwind:[0-9a-f:]+:bo", added)


def test_the_key_of_add_is_apart_from_the_list_and_opens_the_new_entry(shell: Shell) -> None:
    done = shell("add", "contoso", given=SETTING)
    [key] = KEY.findall(done.err)
    assert "sk-" not in done.out
    found = keys.check_key(keys.parse_keys(done.out), key)
    assert found is not None
    assert found.entry == done.out.rstrip("\n").split(",")[-1]


@pytest.mark.parametrize("separator", [",", "\n", ",\r\n", "  ", ",,"])
def test_a_list_is_read_in_whatever_way_the_app_would_read_it(shell: Shell, separator: str) -> None:
    done = shell("add", "northwind", given=f"\ufeff{separator.join(ENTRIES)}\n")
    assert done.out.split(",")[:-1] == ENTRIES


def test_remove_takes_one_entry_out_and_keeps_the_others_as_they_were(shell: Shell) -> None:
    done = shell("remove", OLD[1].key_id, given=SETTING)
    assert done.out == f"{ENTRIES[0]},{ENTRIES[2]}\n"
    assert (done.code, "2 left" in done.err) == (0, True)


def test_list_names_tenant_user_and_key_id_and_shows_no_hash(shell: Shell) -> None:
    done = shell("list", given=SETTING)
    assert [line.split() for line in done.out.splitlines()] == [
        ["TENANT", "USER", "KEY", "ID"],
        *([kept.tenant, kept.user or "-", kept.key_id] for kept in OLD),
    ]
    assert not any(kept.digest in done.out or kept.salt in done.out for kept in OLD)


@pytest.mark.parametrize("words", [("add", "northwind"), ("remove", OLD[0].key_id), ("list",)])
def test_the_environment_is_read_when_it_is_asked_for(
    shell: Shell, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOSTING_API_KEYS", SETTING)
    done = shell(*words, "--from-env", given="not read")
    assert (done.code, OLD[2].key_id in done.out) == (0, True)


@pytest.mark.parametrize("words", [("add", "northwind"), ("remove", OLD[0].key_id), ("list",)])
@pytest.mark.parametrize(
    "given",
    [
        "",
        " \n",
        "ERROR: key 'HOSTING_API_KEYS' not found in the environment values",
        f'HOSTING_API_KEYS="{SETTING}"',
        f"{SETTING},{ENTRIES[0]}",
        f"{SETTING},{ENTRIES[0][:-1]}",
        keys.mint_key("contoso")[0],
    ],
    ids=["nothing", "blank", "an error", "env file", "twice", "cut off", "a key"],
)
def test_what_is_no_list_is_refused_and_nothing_is_printed_for_a_file(
    shell: Shell, words: tuple[str, ...], given: str
) -> None:
    done = shell(*words, given=given)
    assert (done.code, done.out) == (2, "")
    assert "error: " in done.err
    assert not KEY.search(done.err)
    assert not any(kept.digest in done.err for kept in OLD)


def test_a_missing_variable_is_no_empty_list(shell: Shell) -> None:
    done = shell("add", "contoso", "--first", "--from-env")
    assert (done.code, done.out) == (2, "")
    assert "not in the environment" in done.err


def test_the_first_key_of_all_has_to_be_called_so(shell: Shell) -> None:
    done = shell("add", "contoso", "--first")
    assert (done.code, len(keys.parse_keys(done.out))) == (0, 1)


def test_a_list_that_is_there_is_not_called_the_first(shell: Shell) -> None:
    done = shell("add", "contoso", "--first", given=SETTING)
    assert (done.code, done.out) == (2, "")


@pytest.mark.parametrize("tenant", ["a:b", "a b", "", "x" * 65])
def test_a_tenant_that_the_format_can_not_hold_is_refused(shell: Shell, tenant: str) -> None:
    done = shell("add", tenant, given=SETTING)
    assert (done.code, done.out) == (2, "")
    assert "tenant takes" in done.err


def test_an_unknown_key_id_is_named(shell: Shell) -> None:
    done = shell("remove", "0" * 12, given=SETTING)
    assert (done.code, done.out) == (2, "")
    assert "0" * 12 in done.err


def test_a_whole_key_in_place_of_its_id_is_refused_and_not_repeated(shell: Shell) -> None:
    key, _ = keys.mint_key("contoso")
    done = shell("remove", key, given=SETTING)
    assert (done.code, done.out) == (2, "")
    assert key not in done.err


def test_the_last_entry_is_not_taken_out(shell: Shell) -> None:
    done = shell("remove", OLD[0].key_id, given=ENTRIES[0])
    assert (done.code, done.out) == (2, "")
    assert "the last entry" in done.err


def test_a_key_id_that_is_taken_already_is_never_given_again(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys.secrets, "token_hex", lambda size: OLD[0].key_id if size == 6 else "0" * 2 * size)
    done = shell("add", "contoso", given=SETTING)
    assert (done.code, done.out) == (2, "")


def test_as_a_program_it_reads_a_pipe_and_ends_with_2_for_bytes_that_are_no_text() -> None:
    command = [sys.executable, "-X", "utf8", "-m", "hosting.keys", "list"]
    env = {"PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run(command, cwd=ROOT, input=b"\xff\xfec\x00", capture_output=True, timeout=60, env=env)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("words", [["new", "contoso"], ["add", "contoso"], ["list"]])
def test_output_that_can_not_be_written_is_an_error_and_shows_no_key(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "hosting.keys", *words]
        done = subprocess.run(
            command, cwd=ROOT, input=SETTING.encode(), stdout=full, stderr=subprocess.PIPE, timeout=60
        )
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: the output could not be written")
    assert b"sk-" not in done.stderr
