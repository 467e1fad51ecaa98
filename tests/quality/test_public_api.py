"""A change of the public surface is a decision: it shows here, and in the diff of public_api.txt."""

import difflib
import os
import subprocess
import sys

from tests.conftest import ROOT
from tests.quality.public_api import SNAPSHOT, describe

_COMMAND = "python -m tests.quality.public_api"


def test_the_public_surface_is_the_one_that_was_agreed_on() -> None:
    before, after = SNAPSHOT.read_text().splitlines(), describe().splitlines()
    changes = "\n".join(difflib.unified_diff(before, after, "public_api.txt", "the code", lineterm="", n=2))
    assert not changes, f"the public API has changed. If that is meant, run: {_COMMAND}\n{changes}"


def test_the_description_is_the_same_in_every_process() -> None:
    """Nothing in it depends on hash seeds, on addresses or on what was imported before."""
    run = "from tests.quality.public_api import describe; print(describe(), end='')"
    done = subprocess.run(
        [sys.executable, "-c", run],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == describe()


def test_the_description_has_no_addresses() -> None:
    assert " at 0x" not in describe()
