"""The app itself on devhost and Azurite, one host for all tests that do not harm it."""

from collections.abc import Iterator

import openai
import pytest

from devhost.azurite import Azurite
from devhost.testing import DevHost, start_devhost
from tests.conftest import ROOT


@pytest.fixture(scope="session")
def host(azurite: Azurite) -> Iterator[DevHost]:
    with start_devhost(ROOT, storage=azurite.connection_string) as running:
        yield running


@pytest.fixture
def client(host: DevHost) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{host.base_url}/v1", api_key="any", max_retries=0, timeout=60) as opened:
        yield opened
