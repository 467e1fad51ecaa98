"""The long-running demo is a program of its own, with an exit code: it is run as a user runs it."""

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.mark.timeout(300)
def test_the_research_demo_survives_what_it_does_to_itself() -> None:
    demo = [sys.executable, str(ROOT / "examples" / "research" / "demo.py")]
    env = {**os.environ, "RESEARCH_SECONDS_PER_SOURCE": "0.3"}
    done = subprocess.run(demo, env=env, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "begun again after a crash" in done.stdout
    assert done.stdout.count("    yes  ") == 10
    assert "    NO   " not in done.stdout
