"""kill -9 at random moments: what was accepted ends, exactly once, whatever dies.

`TASKS_CRASH_SCALE=5` does five times as much. The seed is printed and can be given back as `TASKS_CRASH_SEED`.
"""

import asyncio
import contextlib
import os
import random
import secrets
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from devhost.azurite import Azurite
from devhost.testing import DevHost
from hosting.storage import StorageError
from hosting.tasks import TaskConflictError, TaskRun
from tests.contract.tasks_world import SETTINGS, World, devhost_world
from tests.crash.app.crash_tasks import TASKS
from tests.crash.ledger import Journal, Ledger, Promise

ROOT = Path(__file__).parent.parent.parent
APP = Path(__file__).parent / "app"
SCALE = float(os.environ.get("TASKS_CRASH_SCALE", "1"))
ONE_SHOTS, CHAINS, KILLS = round(130 * SCALE), round(12 * SCALE), round(6 * SCALE)
LEASE = float(SETTINGS["TASKS_LEASE_SECONDS"])


class Run:
    """One crash run: tasks that come in, workers that go down."""

    def __init__(self, host: DevHost, world: World, rng: random.Random) -> None:
        self.host, self.world, self.rng = host, world, rng
        self.ledger = Ledger(world.store)
        self.killed: dict[int, float] = {}
        self.handles: list[TaskRun[Any]] = []
        self.pace = 0.25

    def promise(self, name: str, run: TaskRun[Any], n: int) -> None:
        self.handles.append(run)
        self.ledger.promises.append(Promise(name, run._key, run.input_id, run._seq, n))

    async def one_shots(self) -> None:
        for n in range(ONE_SHOTS):
            name = self.rng.choice(["work", "work", "flaky"])
            given = {"n": n, "seconds": self.rng.choice([0, 0.05, 0.5, 1.5]), "failures": self.rng.choice([0, 1, 2])}
            self.promise(name, await TASKS[name].start(input=given), n)
            await asyncio.sleep(self.rng.random() * self.pace)

    async def chain(self, number: int) -> None:
        """Turns of a chain: of a steerable one at any time, of the other one after the other."""
        name = "chat" if number % 2 else "chain"
        task_id = f"{name}-{number}-{secrets.token_hex(3)}"
        for n in range(6):
            await asyncio.sleep(self.rng.random() * 4 * self.pace)
            given = {"n": n, "seconds": self.rng.choice([0.1, 0.5, 2.0])}
            while True:
                try:
                    run = await TASKS[name].start(task_id=task_id, input=given)
                    break
                except TaskConflictError:
                    await asyncio.sleep(0.3)
            self.promise(name, run, n)

    def kill_one(self) -> tuple[int, int]:
        """Kill a worker that lives; its number and process id."""
        while True:
            workers = sorted(self.host.status().items())
            living = [(n, w["pid"]) for n, w in workers if w["ready"] and w["pid"] not in self.killed]
            if living:
                worker, pid = self.rng.choice(living)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    self.killed[pid] = time.time()
                    return worker, pid
            time.sleep(0.1)

    async def kills(self) -> None:
        for number in range(KILLS):
            await asyncio.sleep(1.0 + 3.0 * self.rng.random())
            if number == KILLS // 2:
                await asyncio.to_thread(self.host.wipe_hub)
            worker, pid = await asyncio.to_thread(self.kill_one)
            # The other one goes on; now and then both are down.
            if self.rng.random() < 0.7:
                await asyncio.to_thread(self.host.wait_for_worker, worker, instead_of=pid)

    async def go(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.one_shots())
            for number in range(CHAINS):
                group.create_task(self.chain(number))
            group.create_task(self.kills())


@pytest.mark.timeout(120 + 240 * SCALE)
async def test_every_accepted_input_ends_exactly_once_whatever_is_killed(
    azurite: Azurite, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    seed = int(os.environ.get("TASKS_CRASH_SEED") or random.SystemRandom().randrange(10**6))
    journal, table = Journal(tmp_path / "journal"), f"crash{secrets.token_hex(4)}"
    env = {**SETTINGS, "CRASH_JOURNAL": str(journal.path), "TASKS_TABLE": table, "PYTHONPATH": str(ROOT)}
    began = time.monotonic()
    async with (
        DevHost(APP, workers=2, env=env, storage=azurite.connection_string) as host,
        devhost_world(host, table) as world,
    ):
        run = Run(host, world, random.Random(seed))
        await run.go()
        await run.ledger.wait(90 * max(1.0, SCALE))
        outcomes = await run.ledger.check_store()
        await run.ledger.check_index(40)
    journal.check_generations()
    entered = {(line["task"], line["input"]) for line in journal.entries()}
    for promise in run.ledger.promises:
        assert (promise.key.task_id, promise.input_id) in entered
    recovered = sum(line["recovery"] > 0 for line in journal.entries())
    with capfd.disabled():
        print(
            f"\ncrash run, seed {seed}: {len(run.ledger.promises)} inputs accepted, {outcomes} outcomes, "
            f"{len(journal.entries())} entries of handlers ({recovered} after a crash), {len(run.killed)} kills, "
            f"1 hub wiped, {journal.overlaps(run.killed)} overlaps, lease {LEASE:.0f} s, {time.monotonic() - began:.0f} s"
        )
    assert len(run.ledger.promises) >= 200 * min(1.0, SCALE)
    assert recovered > 0


@pytest.mark.timeout(180)
async def test_metadata_and_outputs_of_a_killed_chain_have_every_turn_once_and_in_order(
    azurite: Azurite, tmp_path: Path
):
    table = f"crash{secrets.token_hex(4)}"
    env = {**SETTINGS, "CRASH_JOURNAL": str(tmp_path / "j"), "TASKS_TABLE": table, "PYTHONPATH": str(ROOT)}
    async with (
        DevHost(APP, env=env, storage=azurite.connection_string) as host,
        devhost_world(host, table) as world,
    ):
        handles = [await TASKS["chat"].start(task_id="c", input={"n": n, "seconds": 0.8}) for n in range(6)]
        await asyncio.sleep(1.0)
        await host.kill_worker(1)
        values = [await world.end(handle.result()) for handle in handles]
        assert [value["turns"] for value in values] == [list(range(n + 1)) for n in range(6)]


@pytest.mark.timeout(180)
async def test_a_task_that_another_instance_runs_is_taken_over_without_the_task_hub(azurite: Azurite, tmp_path: Path):
    """On Flex Consumption: HTTP in one process, tasks in another. The hub is wiped and the process with the task killed."""
    table = f"crash{secrets.token_hex(4)}"
    journal = Journal(tmp_path / "j")
    env = {**SETTINGS, "CRASH_JOURNAL": str(journal.path), "TASKS_TABLE": table, "PYTHONPATH": str(ROOT)}
    async with (
        DevHost(APP, env=env, flex=True, storage=azurite.connection_string) as host,
        devhost_world(host, table) as world,
    ):
        run = await TASKS["work"].start(input={"n": 1, "seconds": 60, "again": 0.1})

        async def entered() -> bool:
            return len(journal.entries()) == 1

        await world.until(entered)
        await asyncio.to_thread(host.wipe_hub)
        background = next(n for n, w in host.status().items() if w["group"] == "background")
        await host.kill_worker(background)
        assert (await world.end(run.result()))["echo"] == 1
        assert [line["mode"] for line in journal.entries()] == ["fresh", "recovered"]


@pytest.mark.timeout(180)
async def test_a_graceful_stop_hands_deferring_work_to_the_next_process(azurite: Azurite, tmp_path: Path):
    table = f"crash{secrets.token_hex(4)}"
    journal = Journal(tmp_path / "j")
    env = {**SETTINGS, "CRASH_JOURNAL": str(journal.path), "TASKS_TABLE": table, "PYTHONPATH": str(ROOT)}
    async with DevHost(APP, env=env, storage=azurite.connection_string) as host, devhost_world(host, table) as world:
        # In the next process they take a while too: devhost starts one at once, and it is not to be done before we look.
        deferring = await TASKS["deferring"].start(input={"n": 1, "seconds": 60, "again": 3})
        stubborn = await TASKS["work"].start(input={"n": 2, "seconds": 60, "again": 3})

        async def entered() -> bool:
            return len(journal.entries()) == 2

        await world.until(entered)
        owners = {run.task_id: await owner(world, run) for run in (deferring, stubborn)}
        os.kill(host.workers[0], signal.SIGTERM)
        handed_over = time.time()
        assert await stop_and_look(world, [deferring, stubborn], owners) == {"in_progress"}
        exits = [line for line in journal.lines() if line["event"] == "exit"]
        assert {line["task"] for line in exits} == {deferring.task_id, stubborn.task_id}
        assert all(line["t"] - handed_over < 30 for line in exits)  # by themselves they would take a minute
    async with DevHost(APP, env=env, storage=azurite.connection_string) as host, devhost_world(host, table) as world:
        handles = [
            await TASKS[name].get_run(run.task_id) for name, run in (("deferring", deferring), ("work", stubborn))
        ]
        assert [(await world.end(handle.result()))["echo"] for handle in handles if handle] == [1, 2]
    # The one that devhost started in between may have begun, and was stopped in its turn.
    assert {(line["task"], line["mode"]) for line in journal.entries()[2:]} == {
        (run.task_id, "recovered") for run in (deferring, stubborn)
    }


async def owner(world: World, run: TaskRun[Any]) -> str | None:
    record = await world.engine.record(run._key)
    assert record is not None
    return record.lease_owner


async def stop_and_look(world: World, runs: list[TaskRun[Any]], owners: dict[str, str | None]) -> set[str]:
    """The statuses of the tasks when these owners have given their leases back; others may have taken them."""
    statuses: set[str] = set()
    for run in runs:

        async def released(run: TaskRun[Any] = run) -> bool:
            try:
                record = await world.engine.record(run._key)
            except StorageError:
                return False
            if record is not None and record.lease_owner != owners[run.task_id]:
                statuses.add(record.status)
                return True
            return False

        await world.until(released)
    return statuses
