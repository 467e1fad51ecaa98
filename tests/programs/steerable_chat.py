"""A chat whose user interrupts: the running turn comes to an early end, what was said last is answered in full."""

import asyncio

# was: from azure.ai.agentserver.core.tasks
from hosting.tasks import LastInputIdPreconditionFailed, TaskCancelled, TaskContext, multi_turn_task


@multi_turn_task(name="chat-program", steerable=True)
async def chat(ctx: TaskContext[dict]) -> dict:
    words = []
    for word in ctx.input["msg"].split():
        if ctx.cancel.is_set():
            return {"reply": " ".join(words), "interrupted": True, "waiting": ctx.pending_input_count}
        words.append(word.upper())
        await asyncio.sleep(ctx.input.get("pace", 0))
    return {"reply": " ".join(words), "interrupted": False, "mode": ctx.entry_mode, "steered": ctx.is_steered_turn}


async def main() -> dict:
    hello = await chat.run(task_id="conv-7", input={"msg": "hello there"}, input_id="one")
    long = await chat.start(
        task_id="conv-7", input={"msg": "a b c d e f g h i j", "pace": 1.0}, input_id="two", if_last_input_id="one"
    )
    await asyncio.sleep(1.5)
    queued = await chat.start(task_id="conv-7", input={"msg": "no"}, input_id="three")
    instead = await chat.start(task_id="conv-7", input={"msg": "what I meant"}, input_id="four")
    was_queued = instead.is_queued
    await queued.cancel()
    try:
        await queued.result()
        dropped = False
    except TaskCancelled:
        dropped = True
    try:
        await chat.run(task_id="conv-7", input={"msg": "late"}, input_id="five", if_last_input_id="two")
        actual = None
    except LastInputIdPreconditionFailed as refused:
        actual = refused.actual_last_input_id
    results = {
        "hello": hello,
        "long": await long.result(),
        "instead": await instead,
        "was_queued": was_queued,
        "dropped": dropped,
        "actual": actual,
    }
    await chat.delete("conv-7")
    results["again"] = await chat.run(task_id="conv-7", input={"msg": "anew"})
    return results
