"""What Durable Functions is given, and keeps in its history for anybody who may read that: which work, and nothing of it."""

import json
import re
from typing import Any

from hosting.functions.tasks import DurableDriver, _attempt
from hosting.tasks.engine import Key
from tests.security.world import Secured, secured

type Json = dict[str, Any]


class _Recorder:
    """In the place of the Durable client, and of the driver that runs the work here."""

    def __init__(self, local: Any) -> None:
        self.started: list[Json] = []
        self._local, self._durable = local, DurableDriver(self)  # type: ignore[arg-type]

    def get(self) -> Any:
        return self

    async def schedule_new_orchestration(self, name: str, *, input: Any, instance_id: str) -> None:
        self.started.append({"name": name, "input": input, "instance_id": instance_id})

    async def ensure(self, key: Key, activation: int, generation: int) -> None:
        await self._durable.ensure(key, activation, generation)
        await self._local.ensure(key, activation, generation)


async def _furnished(world: Secured) -> _Recorder:
    engine = world.world.engine.engine
    recorder = _Recorder(engine.driver)
    engine.driver = recorder
    await world.victim.furnished()
    failing = await world.victim.create(f"fail {world.victim.canary}", background=True)
    assert (await world.ended(world.victim, failing["id"]))["status"] == "failed"
    return recorder


async def test_an_orchestration_is_told_a_key_and_a_number() -> None:
    async with secured() as world:
        recorder = await _furnished(world)
        assert len(recorder.started) >= 4
        for started in recorder.started:
            assert set(started["input"]) == {"key", "activation"}
            assert set(started["input"]["key"]) == {"scope", "task_id"}
            assert re.fullmatch(r"[0-9a-f]{32}", started["input"]["key"]["scope"])
            assert re.fullmatch(r"(resp|chain)_[0-9a-f]{50}", started["input"]["key"]["task_id"])
            assert type(started["input"]["activation"]) is int


async def test_nothing_of_it_is_what_a_user_said_or_who_that_is() -> None:
    async with secured() as world:
        recorder = await _furnished(world)
        told = json.dumps(recorder.started)
        for word in (world.victim.canary, "contoso", "Bearer", world.victim.headers["authorization"][-20:]):
            assert word not in told


async def test_instance_ids_are_digests_that_fit_every_backend() -> None:
    async with secured() as world:
        recorder = await _furnished(world)
        names = [started["instance_id"] for started in recorder.started]
        assert len(set(names)) == len(names)
        assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,100}", name) for name in names)


async def test_an_activity_answers_with_what_to_do_next_and_with_no_result() -> None:
    async with secured() as world:
        recorder = await _furnished(world)
        answered = 0
        for started in recorder.started:
            record = await world.world.engine.engine.record(Key.from_payload(started["input"]["key"]))
            if record is not None and record.status == "in_progress":
                continue  # its attempt would wait for the one that is at it
            assert await _attempt(started["input"]) == {"next": "done", "seconds": 0}
            answered += 1
        assert answered >= 3
