"""The handlers of the contract suite. They tell what they see by what they return and by flushed metadata."""

import asyncio
import copy
import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from hosting.tasks import RetryPolicy, TaskContext, multi_turn_task, task


class Order(BaseModel):
    sku: str
    count: int = 1


@dataclass
class Receipt:
    sku: str
    total: float


def seen(ctx: TaskContext[Any]) -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "task_id": ctx.task_id,
        "input_id": ctx.input_id,
        "input": ctx.input,
        "mode": ctx.entry_mode,
        "retry": ctx.retry_attempt,
        "recovery": ctx.recovery_count,
        "steered": ctx.is_steered_turn,
        "pending": ctx.pending_input_count,
        "cancel": ctx.cancel.is_set(),
        "cause": ctx.cancel_cause,
        "cancel_requested": ctx.cancel_requested,
        "timeout_exceeded": ctx.timeout_exceeded,
    }


async def enter(ctx: TaskContext[Any]) -> None:
    """Tell that the handler is in this turn."""
    ctx.metadata["entered"] = ctx.input_id
    await ctx.metadata.flush()


@task(name="look")
async def look(ctx: TaskContext[Any]) -> dict[str, Any]:
    return seen(ctx)


@task(name="buy")
async def buy(ctx: TaskContext[Order]) -> Receipt:
    assert isinstance(ctx.input, Order)
    return Receipt(ctx.input.sku, ctx.input.count * 1.5)


QUICKLY = RetryPolicy(initial_delay=0.1, max_delay=0.2, max_attempts=3, jitter=False, retry_on=ConnectionError)


@task(name="flaky", retry=QUICKLY)
async def flaky(ctx: TaskContext[list[str]]) -> dict[str, Any]:
    """Raises the errors that the input names, one per attempt."""
    if ctx.retry_attempt < len(ctx.input):
        raise {"connection": ConnectionError, "value": ValueError}[ctx.input[ctx.retry_attempt]](
            "try " + str(ctx.retry_attempt)
        )
    return seen(ctx)


SLOWLY = RetryPolicy(initial_delay=30, max_delay=30, max_attempts=3, jitter=False)


@multi_turn_task(name="stubborn", steerable=True, retry=SLOWLY)
async def stubborn(ctx: TaskContext[str]) -> dict[str, Any]:
    if ctx.input == "fail":
        await enter(ctx)
        raise ConnectionError("again in half a minute")
    return seen(ctx)


@task(name="leaves")
async def leaves(ctx: TaskContext[str]) -> None:
    if ctx.input == "cancelled":
        raise asyncio.CancelledError
    raise ValueError("left")


@task(name="waits")
async def waits(ctx: TaskContext[Any]) -> dict[str, Any]:
    await enter(ctx)
    await ctx.cancel.wait()
    if ctx.input == "raise":
        raise ValueError("told to stop")
    return seen(ctx)


@task(name="short", timeout=timedelta(seconds=0.3))
async def short(ctx: TaskContext[Any]) -> dict[str, Any]:
    await ctx.cancel.wait()
    return seen(ctx)


@task(name="no_time", timeout=timedelta(0))
async def no_time(ctx: TaskContext[Any]) -> dict[str, Any]:
    return seen(ctx)


@multi_turn_task(name="chat", steerable=True)
async def chat(ctx: TaskContext[dict[str, Any]]) -> dict[str, Any]:
    """{"wait": true}: until told to stop; {"until": path}: until there is such a file, whatever it is told;
    {"seconds": n}: that long, whatever it is told; {"raise": true}."""
    ctx.metadata.append("turns", ctx.input.get("text"))
    await enter(ctx)
    at_entry = seen(ctx)
    if ctx.input.get("wait"):
        await ctx.cancel.wait()
    if gate := ctx.input.get("until"):
        for _ in range(3000):  # a minute, or more
            if Path(gate).exists():
                break
            await asyncio.sleep(0.02)
    await asyncio.sleep(ctx.input.get("seconds", 0))
    if ctx.input.get("raise"):
        raise ValueError("turn failed")
    return {**seen(ctx), "at_entry": at_entry, "turns": ctx.metadata["turns"]}


@multi_turn_task(name="strict")
async def strict(ctx: TaskContext[dict[str, Any]]) -> dict[str, Any]:
    ctx.metadata.increment("count")
    await enter(ctx)
    if ctx.input.get("wait"):
        await ctx.cancel.wait()
    return {**seen(ctx), "count": ctx.metadata["count"]}


@multi_turn_task(name="notes")
async def notes(ctx: TaskContext[dict[str, Any]]) -> dict[str, Any]:
    """Metadata as the input says: {"set": {namespace: {key: value}}, "bad": true, "big": true}."""
    before = {name: copy.deepcopy(ctx.metadata(name).to_dict()) for name in ("", "a:b", "_own", "other")}
    for name, values in ctx.input.get("set", {}).items():
        for key, value in values.items():
            ctx.metadata(name)[key] = value
    if "nested" in ctx.metadata:
        ctx.metadata["nested"].append(len(ctx.metadata["nested"]))
    if ctx.input.get("bad"):
        ctx.metadata["bad"] = {1, 2}
    if ctx.input.get("big"):
        ctx.metadata["big"] = "x" * 1_100_000
    return before


@task(name="unstorable")
async def unstorable(ctx: TaskContext[Any]) -> Any:
    return {"a": [object()]}


@task(name="size")
async def size(ctx: TaskContext[str]) -> int:
    return len(ctx.input)


@task(name="starts_another")
async def starts_another(ctx: TaskContext[str]) -> Any:
    return await look.run(task_id=f"{ctx.task_id}-child", input=ctx.input)
