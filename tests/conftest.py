"""Fixtures that more than one folder of tests needs."""

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from devhost.azurite import Azurite, run_azurite

ROOT = Path(__file__).parent.parent

# What a developer has set for the app must not decide what the tests see.
for name in [name for name in os.environ if name.startswith(("OPENAI_", "AZURE_", "HOSTING_", "AzureWebJobs"))]:
    del os.environ[name]

# How long an example takes says how busy this machine is. The rest is Hypothesis's own choice: the same examples each
# time where CI is set, new ones elsewhere.
settings.register_profile("tests", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")


@pytest.fixture(scope="session")
def azurite() -> Iterator[Azurite]:
    """One Azurite for the whole run, in memory; tests keep apart by names of their own, not by emptying it."""
    ready: list[Azurite] = []
    failed: list[BaseException] = []
    started, stop = threading.Event(), threading.Event()

    async def serve() -> None:
        async with run_azurite(ROOT) as running:
            ready.append(running)
            started.set()
            await asyncio.to_thread(stop.wait)

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            failed.append(error)
        finally:
            started.set()

    thread = threading.Thread(target=run, name="azurite")
    thread.start()
    started.wait()
    if failed:
        raise failed[0]
    try:
        yield ready[0]
    finally:
        stop.set()
        thread.join()
