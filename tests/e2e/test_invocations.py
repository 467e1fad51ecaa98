"""The invocations example on two workers: its events are the same for everybody, whoever is killed."""

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx2 as httpx
import pytest

from devhost.azurite import Azurite
from devhost.testing import DevHost, start_devhost
from tests.conftest import ROOT

TICKS = 12


@pytest.fixture(scope="module")
def pair(azurite: Azurite) -> Iterator[DevHost]:
    env = {
        "PYTHONPATH": str(ROOT),
        "TASKS_LEASE_SECONDS": "3",
        "TASKS_SKEW_SECONDS": "0.2",
        "TASKS_CONTROL_SECONDS": "0.3",
    }
    app = ROOT / "examples" / "invocations"
    with start_devhost(app, workers=2, env=env, storage=azurite.connection_string) as running:
        yield running


@pytest.fixture
def client(pair: DevHost) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=pair.base_url, timeout=60) as opened:
        yield opened


def on(worker: int, **headers: str) -> dict[str, str]:
    return {"x-devhost-worker": str(worker), **headers}


def events(text: str) -> list[Any]:
    frames = [frame for frame in text.split("\n\n") if frame and not frame.startswith(":")]
    return [json.loads(frame.split("data: ", 1)[1]) for frame in frames]


def whole(start: int) -> list[Any]:
    ticks = [{"sequence_number": n, "type": "tick", "left": start - n} for n in range(start)]
    return [*ticks, {"sequence_number": start, "type": "done"}]


def test_an_invocation_streams_and_is_replayed_by_the_other_worker(client: httpx.Client) -> None:
    made = client.post("/v1/invocations", json={"from": 3}, headers=on(1))
    assert made.status_code == 200
    assert made.headers["content-type"].startswith("text/event-stream")
    assert events(made.text) == whole(3)
    identifier = made.headers["x-agent-invocation-id"]
    again = client.get(f"/v1/invocations/{identifier}", headers=on(2))
    assert again.text == made.text
    assert events(client.get(f"/v1/invocations/{identifier}?after=1", headers=on(2)).text) == whole(3)[2:]
    resumed = client.get(f"/v1/invocations/{identifier}", headers=on(1, **{"last-event-id": "2"}))
    assert events(resumed.text) == whole(3)[3:]


def test_the_same_id_again_starts_nothing_new(client: httpx.Client) -> None:
    headers = on(1, **{"x-agent-invocation-id": f"again-{time.time_ns()}"})
    first = client.post("/v1/invocations", json={"from": 2}, headers=headers)
    assert client.post("/v1/invocations", json={"from": 2}, headers={**headers, **on(2)}).text == first.text


def test_cancel_from_the_other_worker_ends_the_stream(client: httpx.Client) -> None:
    with client.stream("POST", "/v1/invocations", json={"from": 500}, headers=on(1)) as response:
        lines = response.iter_lines()
        while not next(lines).startswith("data: "):
            pass
        identifier = response.headers["x-agent-invocation-id"]
        answer = client.post(f"/v1/invocations/{identifier}/cancel", headers=on(2)).json()
        assert answer == {"id": identifier, "status": "cancelling"}
        last = [line for line in lines if line.startswith("data: ")][-1]
    assert json.loads(last.removeprefix("data: "))["type"] == "cancelled"


def test_a_killed_worker_is_survived(pair: DevHost, client: httpx.Client) -> None:
    identifier = f"crash-{time.time_ns()}"
    got: list[Any] = []
    with client.stream(
        "POST", "/v1/invocations", json={"from": TICKS}, headers=on(1, **{"x-agent-invocation-id": identifier})
    ) as response:
        for line in response.iter_lines():
            if line.startswith("data: "):
                got.append(json.loads(line.removeprefix("data: ")))
            if len(got) == 4:
                break
    for number in (1, 2):
        pair.kill_worker_now(number)
    rest = client.get(f"/v1/invocations/{identifier}?after={got[-1]['sequence_number']}", headers=on(2))
    assert got + events(rest.text) == whole(TICKS)


def test_an_unknown_invocation_is_404_and_a_wrong_body_400(client: httpx.Client) -> None:
    for answer in (client.get("/v1/invocations/nobody"), client.post("/v1/invocations/nobody/cancel")):
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
    assert client.post("/v1/invocations", json={"from": 0}).json()["error"]["param"] == "from"


@pytest.mark.parametrize("after", ["9" * 5_000, "-1", "x", "٣"], ids=["5,000 digits", "-1", "x", "another script"])
def test_a_wrong_position_is_a_400_that_names_it(client: httpx.Client, after: str) -> None:
    answer = client.get("/v1/invocations/nobody", params={"after": after})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "after")
