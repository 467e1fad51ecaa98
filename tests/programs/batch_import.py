"""Long work that gives itself back when its process is stopped, and goes on where it was in the next one."""

import asyncio

from hosting.tasks import TaskContext, task  # was: from azure.ai.agentserver.core.tasks

seen: list[tuple[str, int]] = []


@task(name="batch-import")
async def batch_import(ctx: TaskContext[list]) -> dict:
    begin = ctx.metadata.get("done", 0)
    seen.append((ctx.entry_mode, begin))
    for number in range(begin, len(ctx.input)):
        if ctx.shutdown.is_set():
            await ctx.metadata.flush()
            return await ctx.exit_for_recovery()
        await asyncio.sleep(0.05)
        ctx.metadata.set("done", number + 1)
        ctx.metadata.increment("bytes", len(ctx.input[number]))
    return {"items": ctx.metadata["done"], "bytes": ctx.metadata["bytes"], "recoveries": ctx.recovery_count}


async def main() -> None:
    await batch_import.start(task_id="import-1", input=["row"] * 40)
