"""Fixtures of the task contract: the two twins. Import them where they are used."""

import secrets
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from devhost.azurite import Azurite
from devhost.testing import DevHost, start_devhost
from tests.contract.tasks_world import SETTINGS, World, devhost_world, memory_world

__all__ = ["new", "tasks_host", "world"]

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="session")
def tasks_host(azurite: Azurite) -> Generator[tuple[DevHost, str]]:
    table = f"tasks{secrets.token_hex(4)}"
    env = {**SETTINGS, "TASKS_TABLE": table, "PYTHONPATH": str(ROOT)}
    folder = Path(__file__).parent / "tasks_app"
    with start_devhost(folder, env=env, storage=azurite.connection_string) as host:
        yield host, table


@pytest.fixture(params=["memory", "devhost"])
async def world(request: pytest.FixtureRequest) -> AsyncGenerator[World]:
    if request.param == "memory":
        async with memory_world() as made:
            yield made
    else:
        host, table = request.getfixturevalue("tasks_host")
        async with devhost_world(host, table) as made:
            yield made


def new(name: str = "t") -> str:
    """An id that nobody has used."""
    return f"{name}-{secrets.token_hex(6)}"
