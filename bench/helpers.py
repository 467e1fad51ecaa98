"""The helpers beside the published ones: CPU for each event of a stream, and CPU to import them.

Set BENCH_HELPERS_PYTHON to an interpreter that has agent-framework-hosting-responses (a pre-release) and the same
agent-framework-core. Fresh processes, taken in turn so that a busy moment of the machine hits both.
"""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from bench.table import show

_PYTHON = "BENCH_HELPERS_PYTHON"
_ROUNDS = 5
_SIZES = (1_000, 16_000, 64_000)

_PACKAGES = {"ours": "hosting.responses", "published": "agent_framework_hosting_responses"}
_NOTHING = "pass"
_CORE = "import agent_framework; agent_framework.Agent"
_IMPORT = "import {package}"
_FIRST_REQUEST = "from {package} import responses_to_run; responses_to_run({{'input': 'hi'}})"


def main() -> None:
    """Both tables."""
    pythons = {"ours": sys.executable}
    if published := os.environ.get(_PYTHON):
        pythons["published"] = published
    else:
        print(f"(published package: not installed, {_PYTHON} is not set)\n")
    _streams(pythons)
    _imports(pythons)


def _streams(pythons: dict[str, str]) -> None:
    measured: dict[str, dict[str, list[list[float]]]] = {name: {} for name in pythons}
    script = str(Path(__file__).with_name("streamed_helpers.py"))
    for _ in range(_ROUNDS):
        for name, python in pythons.items():
            done = subprocess.run(
                [python, script, name], env=_environment(), check=True, capture_output=True, text=True
            )
            for size, figures in json.loads(done.stdout).items():
                measured[name].setdefault(size, []).append(figures)
    rows: list[list[str]] = []
    for size in map(str, _SIZES):
        # The quietest round of each: what other processes of the machine add is not the package's.
        total = {name: min(figures[0] for figures in sizes[size]) for name, sizes in measured.items()}
        own = {name: total[name] - min(figures[1] for figures in sizes[size]) for name, sizes in measured.items()}
        rows.append(
            [
                f"{int(size):,}",
                *(f"{total[name]:.1f}" for name in pythons),
                _times(total),
                *(f"{own[name]:.1f}" for name in pythons),
                _times(own),
            ]
        )
    show(
        f"CPU microseconds per event of responses_from_streaming_run, best of {_ROUNDS} rounds",
        ["deltas", *pythons, "times", *(f"{name}, without the framework's stream" for name in pythons), "times"],
        rows,
    )


def _imports(pythons: dict[str, str]) -> None:
    codes = {
        "Python itself": _NOTHING,
        "agent_framework.Agent": _CORE,
        "import the helpers": _IMPORT,
        "import them and parse a request": _FIRST_REQUEST,
    }
    spent: dict[tuple[str, str], list[float]] = {}
    for number in range(_ROUNDS + 1):
        for name, python in pythons.items():
            for code in codes.values():
                seconds = _cpu_seconds(python, code.format(package=_PACKAGES[name]))
                if number:  # the first round warms the disk's cache and writes byte code
                    spent.setdefault((name, code), []).append(seconds)
    rows: list[list[str]] = []
    for what, code in codes.items():
        median = {name: statistics.median(spent[name, code]) for name in pythons}
        rows.append([what, *(f"{median[name]:.2f}" for name in pythons), _times(median)])
    show(f"CPU seconds of a fresh process, median of {_ROUNDS}", ["what", *pythons, "times"], rows)


def _times(figures: dict[str, float]) -> str:
    return f"{figures['published'] / figures['ours']:.1f}" if "published" in figures else ""


def _cpu_seconds(python: str, code: str) -> float:
    before = os.times()
    subprocess.run([python, "-c", code], env=_environment(), check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPATH": str(Path.cwd())}
