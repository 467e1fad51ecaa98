"""The orchestration and what starts it, without Durable."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from hosting.functions import tasks as triggers
from hosting.functions.tasks import DurableDriver
from hosting.tasks._rows import Key

KEY = Key("0" * 32, "t")
WORK = {"key": KEY.to_payload(), "activation": 3}


class Context:
    """Notes what an orchestration asks for."""

    def __init__(self) -> None:
        self.continued: Any = None

    def call_activity(self, name: str, *, input: Any) -> Any:
        return ("activity", name, input)

    def create_timer(self, fire_at: timedelta) -> Any:
        return ("timer", fire_at)

    def continue_as_new(self, new_input: Any) -> None:
        self.continued = new_input


def run(context: Context, answers: list[Any]) -> list[Any]:
    """Feed answers to the orchestration; what it asked for."""
    orchestration = triggers._orchestrate(context, WORK)  # type: ignore[arg-type]
    asked: list[Any] = [next(orchestration)]
    for answer in answers:
        try:
            if isinstance(answer, Exception):
                asked.append(orchestration.throw(answer))
            else:
                asked.append(orchestration.send(answer))
        except StopIteration:
            break
    return asked


def test_it_ends_when_the_activity_says_done():
    context = Context()
    assert run(context, [{"next": "done", "seconds": 0}]) == [("activity", "task_attempt", WORK)]
    assert context.continued is None


def test_it_waits_on_a_timer_and_goes_again_with_the_same_work():
    context = Context()
    asked = run(context, [{"next": "again", "seconds": 7.5}, None])
    assert asked[1] == ("timer", timedelta(seconds=7.5))
    assert context.continued == WORK


def test_it_goes_again_at_once_without_a_timer():
    context = Context()
    assert len(run(context, [{"next": "again", "seconds": 0}])) == 1
    assert context.continued == WORK


def test_an_activity_that_died_is_called_again_after_a_pause():
    context = Context()
    asked = run(context, [RuntimeError("the worker process ended"), None])
    assert asked[1][0] == "timer"
    assert context.continued == WORK


class Client:
    """A Durable client that refuses to start anything."""

    def __init__(self, state: Any) -> None:
        self.state, self.started = state, list[Any]()

    async def schedule_new_orchestration(self, name: str, *, input: Any, instance_id: str) -> None:
        self.started.append((name, input, instance_id))
        raise RuntimeError("refused")

    async def get_orchestration_state(self, instance_id: str, *, fetch_payloads: bool) -> Any:
        return self.state


def driver(client: Client) -> DurableDriver:
    return DurableDriver(SimpleNamespace(get=lambda: client))  # type: ignore[arg-type]


def status(name: str) -> Any:
    return SimpleNamespace(runtime_status=SimpleNamespace(name=name))


@pytest.mark.parametrize("name", ["RUNNING", "PENDING"])
async def test_starting_what_runs_already_is_no_error(name: str):
    client = Client(status(name))
    await driver(client).ensure(KEY, 3, 4)
    ((function, work, instance),) = client.started
    assert (function, work) == ("task_orchestrator", WORK)
    assert instance == KEY.instance_id(3, 4)


@pytest.mark.parametrize("state", [None, status("FAILED")])
async def test_a_start_that_failed_is_an_error(state: Any):
    with pytest.raises(RuntimeError, match="refused"):
        await driver(Client(state)).ensure(KEY, 3, 4)


def test_another_activation_or_generation_is_another_instance():
    assert len({KEY.instance_id(a, g) for a in range(3) for g in range(3)}) == 9
    assert Key("1" * 32, "t").instance_id(1, 1) != KEY.instance_id(1, 1)
