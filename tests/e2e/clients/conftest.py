"""The app on two workers, one host for all clients: what is made at one worker is asked for at the other, as in Azure."""

import time
from collections.abc import Callable, Iterator

import openai
import pytest

from devhost.azurite import Azurite
from devhost.testing import DevHost, start_devhost
from tests.conftest import ROOT

type Connect = Callable[..., openai.AsyncOpenAI]


@pytest.fixture(scope="package")
def host(azurite: Azurite) -> Iterator[DevHost]:
    env = {"TASKS_CONTROL_SECONDS": "0.3"}
    with start_devhost(ROOT, workers=2, env=env, storage=azurite.connection_string) as running:
        yield running


# Of a module: making a client takes a while, and some modules have a host of their own.
@pytest.fixture(scope="module")
def client(host: DevHost) -> Iterator[openai.OpenAI]:
    """At whatever worker the host picks: the two take turns."""
    with openai.OpenAI(base_url=f"{host.base_url}/v1", api_key="any", max_retries=0, timeout=60) as opened:
        yield opened


@pytest.fixture(scope="module")
def a(host: DevHost) -> Iterator[openai.OpenAI]:
    with at_worker(host, 1) as opened:
        yield opened


@pytest.fixture(scope="module")
def b(host: DevHost) -> Iterator[openai.OpenAI]:
    with at_worker(host, 2) as opened:
        yield opened


@pytest.fixture
def connect(host: DevHost) -> Connect:
    """A new asynchronous client, for `async with`."""

    def opened(**options: object) -> openai.AsyncOpenAI:
        given = {"base_url": f"{host.base_url}/v1", "api_key": "any", "max_retries": 0, "timeout": 60} | options
        return openai.AsyncOpenAI(**given)  # type: ignore[arg-type]

    return opened


def at_worker(host: DevHost, worker: int) -> openai.OpenAI:
    """A new client whose requests all go to that worker."""
    return openai.OpenAI(
        base_url=f"{host.base_url}/v1",
        api_key="any",
        max_retries=0,
        timeout=60,
        default_headers={"x-devhost-worker": str(worker)},
    )


def ended(client: openai.OpenAI, identifier: str) -> openai.types.responses.Response:
    """Poll as the guide says: until the status is neither queued nor in_progress."""
    deadline = time.monotonic() + 30
    while True:
        found = client.responses.retrieve(identifier)
        if found.status not in ("queued", "in_progress"):
            return found
        assert time.monotonic() < deadline, "it did not end in time"
        time.sleep(0.05)
