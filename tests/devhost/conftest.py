"""Apps to run devhost with, copied to a folder of the test so that it may change them."""

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devhost.testing import DevHost, start_devhost

HERE = Path(__file__).parent


class App:
    """A copy of one of the apps here, and the journal it writes."""

    def __init__(self, name: str, folder: Path) -> None:
        self.dir = folder / name
        shutil.copytree(HERE / name, self.dir, ignore=shutil.ignore_patterns("__pycache__"))
        sample = self.dir / "local.settings.sample.json"
        if sample.exists():
            sample.rename(self.dir / "local.settings.json")
        self.journal = folder / f"{name}-journal"
        self.journal.mkdir()
        self.env = {"JOURNAL": str(self.journal)}

    def lines(self, name: str) -> list[str]:
        """What the app has written to one file of its journal."""
        file = self.journal / name
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture(scope="session")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> App:
    return App("foreign_app", tmp_path_factory.mktemp("foreign"))


@pytest.fixture(scope="session")
def host(foreign: App) -> Iterator[DevHost]:
    """devhost with the foreign app and one worker, shared by many tests; no timer but the one at its start."""
    disabled = {f"AzureWebJobs.{name}.Disabled": "true" for name in ("tick", "slow_tick")}
    with start_devhost(foreign.dir, env={**foreign.env, **disabled}, storage="none") as running:
        yield running


def eventually[T](condition: Callable[[], T], what: str, seconds: float = 45.0) -> T:
    """The first true value of `condition`, asked again until the deadline."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)
    return value


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended but was not waited for does not."""
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return bool(found.stdout.strip()) and not found.stdout.strip().startswith("Z")
