"""The handler of examples/handler, with the real client: its worker is killed in mid-run, and the client gets all of it."""

import os
import signal
from pathlib import Path
from typing import Any

import httpx2 as httpx
import openai
import pytest

from devhost.azurite import Azurite
from devhost.testing import start_devhost
from tests.conftest import ROOT

SECTIONS = ["Goal", "Steps", "Costs", "Risks", "Schedule"]


@pytest.mark.timeout(120)
def test_a_handler_whose_worker_is_killed_goes_on_at_its_checkpoint(azurite: Azurite, tmp_path: Path) -> None:
    log = tmp_path / "sections"
    env = {
        "PYTHONPATH": str(ROOT),
        "HANDLER_LOG": str(log),
        "HANDLER_SECONDS_PER_WORD": "0.03",
        "HOSTING_TABLE": "handlerexample",
        "TASKS_LEASE_SECONDS": "2",
        "TASKS_SKEW_SECONDS": "0.2",
        "TASKS_CONTROL_SECONDS": "0.3",
    }
    with start_devhost(ROOT / "examples" / "handler", env=env, storage=azurite.connection_string) as host:
        with openai.OpenAI(base_url=f"{host.base_url}/v1", api_key="any", max_retries=0, timeout=60) as client:
            events: list[Any] = []
            killed = host.workers[0]
            with pytest.raises((openai.APIConnectionError, httpx.TransportError)):
                for event in client.responses.create(model="plan", input="a garden", background=True, stream=True):
                    events.append(event)
                    if _in_the_third_section(events):
                        os.kill(killed, signal.SIGKILL)
            host.wait_for_worker(1, instead_of=killed)
            identifier, last = events[0].response.id, events[-1].sequence_number
            events += client.responses.retrieve(identifier, stream=True, starting_after=last)
            stored = client.responses.retrieve(identifier)

    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert stored.status == "completed"
    assert [item.content[0].text.split()[0] for item in stored.output] == SECTIONS
    assert events[-1].response == stored
    markers = [event for event in events if event.type == "response.in_progress"]
    assert [len(marker.response.output) for marker in markers] == [0, 2]
    written = log.read_text().split()
    assert written == ["Goal", "Steps", "Costs", "Costs", "Risks", "Schedule"]  # the checkpointed ones once


def _in_the_third_section(events: list[Any]) -> bool:
    done = sum(event.type == "response.output_item.done" for event in events)
    return done == 2 and events[-1].type == "response.output_text.delta" and events[-2].type != events[-1].type
