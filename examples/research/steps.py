"""The work of the research, a step at a time, each a resilient task: what is done is never done again.

A response that is run again after a crash starts at the top of the agent's code, so whatever is slow or expensive there
belongs into a task of its own:

- `once` gives a step an id that follows from the conversation. Asked for a second time, by the run after the crash, a
  finished step is answered from its stored outcome, and one that still runs (here or on another machine) is waited for.
- inside a step, `ctx.metadata` + `flush()` keep the sources that are read, so that a crash in the middle of a step costs
  the one source that was being read.

Nothing here is special to agents; docs/tasks.md has the rest.
"""

import asyncio
import os
import time
from typing import Any

from hosting.tasks import Task, TaskConflictError, TaskContext, task

SECONDS = float(os.environ.get("RESEARCH_SECONDS_PER_SOURCE", "0.6"))
"""How long a source takes to read. A real one would be a search, a page, or a call of a model."""


@task(name="research-step")
async def research_step(ctx: TaskContext[dict[str, Any]]) -> str:
    """Read the sources of a step and sum them up. Input: `step`, `topic`, `focus`, `sources`."""
    given = ctx.input
    for source in given["sources"]:
        if source in ctx.metadata:
            continue  # read by the attempt before this one
        await asyncio.sleep(SECONDS)
        _count(given["step"], source)
        ctx.metadata[source] = f"{source} on {given['topic']}"
        await ctx.metadata.flush()  # from here on it is read, whatever happens to this process
    found = "; ".join(str(ctx.metadata[source]) for source in given["sources"])
    focus = f" with regard to {given['focus']}" if given["focus"] else ""
    return f"{given['step'].capitalize()}{focus}: {found}."


async def once[Given, Result](work: Task[Given, Result], task_id: str, given: Given) -> Result:
    """The result of this piece of work, which is done once, however often and wherever this is called."""
    while True:
        run = await work.get_run(task_id)
        if run is None:
            try:
                run = await work.start(task_id=task_id, input=given)
            except TaskConflictError:  # somebody else has just started it
                continue
        return await run.result()


def _count(step: str, source: str) -> None:
    """For the demo only: note that a source was read, in a file that outlives the process."""
    if path := os.environ.get("RESEARCH_LOG"):
        with open(path, "a") as log:
            log.write(f"{step}\t{source}\t{os.getpid()}\t{time.time():.2f}\n")
