"""Tasks: latency, operations, throughput and recovery; beside the published package where it can do the same.

The published package is not a dependency: set BENCH_AGENTSERVER_PYTHON to an interpreter that has azure-ai-agentserver-core.
"""

import asyncio
import contextlib
import json
import os
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from bench.table import show
from devhost.azurite import Azurite, run_azurite
from devhost.testing import DevHost
from hosting.storage import connect, memory_store
from hosting.tasks import TaskContext, multi_turn_task, task
from hosting.tasks.host import Engine, TaskOptions, set_engine
from hosting.tasks.local import LocalDriver
from tests.contract.tasks_world import SETTINGS, devhost_world
from tests.crash.app import crash_tasks
from tests.crash.ledger import Journal

ROOT = Path(__file__).parent.parent
TASKS, AT_ONCE, SINGLE = 300, 16, 40
_PYTHON = "BENCH_AGENTSERVER_PYTHON"
# A process that waits for nobody looks no more often than in production.
LEASE = 2
BENCH = {**{n: v for n, v in SETTINGS.items() if n != "TASKS_POLL_LAST_SECONDS"}, "TASKS_LEASE_SECONDS": str(LEASE)}


@task(name="bench_noop")
async def noop(ctx: TaskContext[dict[str, Any]]) -> float:
    return time.time()


@multi_turn_task(name="bench_turn")
async def turn(ctx: TaskContext[dict[str, Any]]) -> float:
    ctx.metadata.increment("turns")
    return time.time()


def main() -> None:
    """Print the tables."""
    asyncio.run(_main())


async def _main() -> None:
    await _operations()
    async with run_azurite(ROOT) as azurite:
        rows = [await _in_process(azurite), await _devhost(azurite, 1), await _devhost(azurite, 2)]
        recovery = [await _recovery(azurite)]
    if python := os.environ.get(_PYTHON):
        rows.append(await asyncio.to_thread(_published, python))
        recovery.append(await asyncio.to_thread(_published_recovery, python))
    show(
        f"No-op one-shots: {SINGLE} one by one, then {TASKS} with {AT_ONCE} at once",
        ["", "start to handler, ms (p50 / p95)", "start to result, ms (p50 / p95)", "tasks/s", "state kept in"],
        rows,
    )
    show("kill -9 to handler entered again", ["", "s", "how"], recovery)
    if not os.environ.get(_PYTHON):
        print(
            f"The published package was not measured: set {_PYTHON} to an interpreter that has azure-ai-agentserver-core"
        )


async def _operations() -> None:
    """What a task costs in storage operations, nothing waiting for it (a waiter adds one point read per look)."""
    store, driver = memory_store(), LocalDriver()
    engine = Engine(store, driver)
    driver.bind(engine)
    set_engine(engine)

    async def cost(start: Callable[[], Awaitable[Any]]) -> tuple[str, str]:
        before = store.meter.copy()
        await start()
        await asyncio.sleep(0.05)
        spent = store.meter.copy() - before
        return str(spent.table_reads), str(spent.table_writes)

    rows = [
        ["one-shot, new id", *await cost(lambda: noop.start(input={}))],
        ["one-shot, given id", *await cost(lambda: noop.start(task_id="given", input={}))],
        ["chain, first turn, metadata", *await cost(lambda: turn.start(task_id="chain", input={}))],
        ["chain, further turn, metadata", *await cost(lambda: turn.start(task_id="chain", input={}))],
    ]
    show("Storage operations from start() to the stored outcome", ["", "reads", "writes"], rows)
    set_engine(None)
    await driver.close()
    await store.close()


async def _in_process(azurite: Azurite) -> Sequence[str]:
    """The engine alone: handlers run in the process that starts them, state in Azurite."""
    table = f"bench{secrets.token_hex(4)}"
    store = connect({"AzureWebJobsStorage": azurite.connection_string}, table=table)
    driver = LocalDriver()
    engine = Engine(store, driver, options=TaskOptions.from_environment(BENCH))
    driver.bind(engine)
    set_engine(engine)
    try:
        return ["ours, engine alone, 1 process", *await _measure(noop.run), "Azurite tables"]
    finally:
        set_engine(None)
        await driver.close()
        await store.close()


async def _devhost(azurite: Azurite, workers: int) -> Sequence[str]:
    """Everything: started here, driven by an orchestration, run in a worker, the result read from the table here."""
    table = f"bench{secrets.token_hex(4)}"
    env = {**BENCH, "TASKS_TABLE": table, "PYTHONPATH": str(ROOT), "TASKS_RECOVERY_SCHEDULE": "0 * * * * *"}
    async with (
        DevHost(
            ROOT / "tests" / "crash" / "app",
            workers=workers,
            env=env,
            storage=azurite.connection_string,
            options=["--log-level", "warning"],
        ) as host,
        devhost_world(host, table),
    ):
        name = f"ours, devhost, {workers} worker{'s' if workers > 1 else ''}"
        return [name, *await _measure(crash_tasks.quick.run), "Azurite tables + Durable in memory"]


async def _measure(run: Callable[..., Awaitable[float]]) -> Sequence[str]:
    await run(input={})  # connections, tables
    entered: list[float] = []
    ended: list[float] = []
    for _ in range(SINGLE):
        began = time.time()
        entered.append(await run(input={}) - began)
        ended.append(time.time() - began)
    free = asyncio.Semaphore(AT_ONCE)

    async def one() -> None:
        async with free:
            await run(input={})

    began = time.time()
    await asyncio.gather(*(one() for _ in range(TASKS)))
    return [_spread(entered), _spread(ended), f"{TASKS / (time.time() - began):.0f}"]


def _spread(seconds: Sequence[float]) -> str:
    cuts = statistics.quantiles(seconds, n=20)
    return f"{statistics.median(seconds) * 1000:.0f} / {cuts[-1] * 1000:.0f}"


async def _recovery(azurite: Azurite) -> Sequence[str]:
    """Two workers; the one that runs the task is killed, the other one goes on when the lease has lapsed."""
    table = f"bench{secrets.token_hex(4)}"
    times: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder) / "journal")
        env = {**BENCH, "TASKS_TABLE": table, "PYTHONPATH": str(ROOT), "CRASH_JOURNAL": str(journal.path)}
        async with (
            DevHost(ROOT / "tests" / "crash" / "app", workers=2, env=env, storage=azurite.connection_string) as host,
            devhost_world(host, table),
        ):
            for number in range(3):
                run = await crash_tasks.work.start(input={"n": number, "seconds": 60})
                first = await _entry(journal, run.task_id, 1)
                worker = next(n for n, state in host.status().items() if state["pid"] == first["pid"])
                killed = time.time()
                os.kill(first["pid"], signal.SIGKILL)
                times.append((await _entry(journal, run.task_id, 2))["t"] - killed)
                await asyncio.to_thread(host.wait_for_worker, worker, instead_of=first["pid"])
    how = f"lease {LEASE} s + skew 0.2 s + idle 1 s, scan every 1 s, another process takes over (default lease: 60 s)"
    return ["ours, devhost, 2 workers", " / ".join(f"{seconds:.1f}" for seconds in times), how]


async def _entry(journal: Journal, task_id: str, number: int) -> dict[str, Any]:
    while True:
        lines = [line for line in journal.entries() if line["task"] == task_id]
        if len(lines) >= number:
            return lines[number - 1]
        await asyncio.sleep(0.05)


def _published(python: str) -> Sequence[str]:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [python, str(Path(__file__).with_name("published_tasks.py")), "measure"],
            env={**os.environ, "AGENTSERVER_STATE_ROOT": folder},
            capture_output=True,
            text=True,
            check=True,
        )
    found = json.loads(done.stdout.splitlines()[-1])
    return [
        "published package, 1 process",
        _spread(found["entered"]),
        _spread(found["ended"]),
        f"{found['rate']:.0f}",
        "local files, not atomic; results in memory only",
    ]


def _published_recovery(python: str) -> Sequence[str]:
    script = str(Path(__file__).with_name("published_tasks.py"))
    times: list[float] = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            env = {**os.environ, "AGENTSERVER_STATE_ROOT": folder}
            notes = Path(folder) / "notes"
            first = subprocess.Popen([python, script, "hang", str(notes)], env=env)
            _lines(notes, 1)
            first.kill()
            killed = time.time()
            first.wait()
            second = subprocess.Popen([python, script, "wake", str(notes)], env=env)
            try:
                times.append(_lines(notes, 2)[1] - killed)
            finally:
                second.kill()
                second.wait()
    how = (
        "a new process of the same name is started at once; the lease is ignored. Another live process never takes over"
    )
    return ["published package", " / ".join(f"{seconds:.1f}" for seconds in times), how]


def _lines(path: Path, count: int) -> list[float]:
    deadline = time.time() + 60
    while time.time() < deadline:
        with contextlib.suppress(FileNotFoundError):
            lines = [float(line) for line in path.read_text().splitlines()]
            if len(lines) >= count:
                return lines
        time.sleep(0.02)
    raise TimeoutError("the published package did not enter its handler")


if __name__ == "__main__":
    sys.exit(main())
