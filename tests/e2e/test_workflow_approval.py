"""The workflow example as it is deployed: real clients, real workers, and kill -9 between the pause and the answer."""

import importlib.util
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from devhost.azurite import Azurite
from devhost.testing import DevHost, start_devhost
from tests.conftest import ROOT

EXAMPLE = ROOT / "examples" / "workflow_approval"


def load_demo() -> Any:
    spec = importlib.util.spec_from_file_location("workflow_approval_demo", EXAMPLE / "demo.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("refunds") / "ledger"
    path.touch()
    return path


@pytest.fixture(scope="module")
def host(azurite: Azurite, ledger: Path) -> Iterator[DevHost]:
    """Two workers, for all tests of this file."""
    env = {"PYTHONPATH": str(ROOT), "REFUNDS_LEDGER": str(ledger)}
    with start_devhost(EXAMPLE, workers=2, env=env, storage=azurite.connection_string) as running:
        yield running


@pytest.fixture
def client(host: DevHost) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{host.base_url}/v1", api_key="any", max_retries=0, timeout=60) as opened:
        yield opened


def test_the_demo_shows_what_it_says(host: DevHost, ledger: Path) -> None:
    """It kills both workers while the workflow waits for the human."""
    ledger.write_text("")
    checks = load_demo().show(host, ledger)
    assert len(checks) == 8
    assert [text for text, holds in checks.items() if not holds] == []


def test_a_pause_on_a_stream_is_answered_at_a_worker_that_was_born_after_it(
    host: DevHost, client: openai.OpenAI
) -> None:
    with client.responses.stream(model="refunds", input="Please refund A-1003.") as stream:
        events = list(stream)
        paused = stream.get_final_response()
    assert [event.type for event in events][-1] == "response.completed"
    (asked,) = [item for item in paused.output if item.type == "mcp_approval_request"]
    assert asked.name == "pay_refund"
    host.kill_worker_now(1)
    host.kill_worker_now(2)
    answer: Any = [{"type": "mcp_approval_response", "approval_request_id": asked.id, "approve": True}]
    with client.responses.stream(model="refunds", input=answer, previous_response_id=paused.id) as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
    assert text == "Paid back 1200.00 for order A-1003."


def test_a_pause_in_the_background_is_answered_in_the_background(client: openai.OpenAI) -> None:
    paused = client.responses.create(model="refunds", input="Please refund A-1002.", background=True)
    paused = ended(client, paused.id)
    (asked,) = [item for item in paused.output if item.type == "mcp_approval_request"]
    answer: Any = [{"type": "mcp_approval_response", "approval_request_id": asked.id, "approve": False}]
    done = client.responses.create(model="refunds", input=answer, previous_response_id=paused.id, background=True)
    assert ended(client, done.id).output_text == "The refund for order A-1002 was declined."


def ended(client: openai.OpenAI, identifier: str) -> Any:
    """The response, when it is final."""
    for _ in range(200):
        response = client.responses.retrieve(identifier)
        if response.status not in ("queued", "in_progress"):
            return response
        time.sleep(0.1)
    raise AssertionError("it did not end in time")
