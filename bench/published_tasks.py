"""The published package (azure-ai-agentserver-core) doing what bench/tasks.py measures. Run by ITS interpreter, not by ours.

python published_tasks.py measure     -> one JSON line
python published_tasks.py hang FILE   -> starts a task that never ends; notes in FILE when its handler is entered
python published_tasks.py wake FILE   -> what a restart does: recovers it; notes in FILE
"""

import asyncio
import json
import logging
import sys
import time
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

from azure.ai.agentserver.core import tasks  # type: ignore  # noqa: E402
from azure.ai.agentserver.core._config import AgentConfig  # type: ignore  # noqa: E402
from azure.ai.agentserver.core.tasks._manager import TaskManager, set_task_manager  # type: ignore  # noqa: E402

TASKS, AT_ONCE, SINGLE = 300, 16, 40


@tasks.task(name="noop")
async def noop(ctx: tasks.TaskContext[dict]) -> float:
    return time.time()


@tasks.task(name="hangs")
async def hangs(ctx: tasks.TaskContext[str]) -> None:
    with open(ctx.input, "a") as file:  # noqa: ASYNC230
        file.write(f"{time.time()}\n")
    await asyncio.Event().wait()


async def measure() -> None:
    entered, ended = [], []
    for _ in range(SINGLE):
        began = time.time()
        entered.append(await noop.run(input={}) - began)
        ended.append(time.time() - began)
    free = asyncio.Semaphore(AT_ONCE)

    async def one() -> None:
        async with free:
            await noop.run(input={})

    began = time.time()
    await asyncio.gather(*(one() for _ in range(TASKS)))
    print(json.dumps({"entered": entered, "ended": ended, "rate": TASKS / (time.time() - began)}))


async def main(what: str, *rest: str) -> None:
    tasks.set_resilient_tasks_enabled(True)
    manager = TaskManager(AgentConfig.from_env())
    set_task_manager(manager)
    await manager.startup()
    if what == "measure":
        await measure()
        await manager.shutdown()
    else:
        if what == "hang":
            await hangs.start(task_id="hangs", input=rest[0])
        await asyncio.Event().wait()


asyncio.run(main(*sys.argv[1:]))
