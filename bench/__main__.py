"""Runs benchmarks and prints their tables. Figures are of this machine, in this run, and nothing else."""

import argparse
import importlib
import os
import platform
import time
from pathlib import Path

_NAMES = ("storage", "cold_start", "requests", "streams", "tasks", "responses", "helpers", "load", "memory")

_LONG = ("soak",)
"""Only when asked for by name."""


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"which ones: {', '.join(_NAMES)} (default: all), soak"
    )
    names = parser.parse_args().names or list(_NAMES)
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.system()}\n")
    for name in names:
        if not (Path(__file__).parent / f"{name}.py").exists():
            parser.error(f"there is no benchmark {name!r}: {', '.join(_NAMES)}")
        started = time.perf_counter()
        importlib.import_module(f"bench.{name}").main()
        print(f"({name}: {time.perf_counter() - started:.0f} s)\n")


main()
