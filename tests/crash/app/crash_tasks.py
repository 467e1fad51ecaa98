"""Tasks for crash tests. Every entry into a handler and every way out of it is one line of the journal."""

import asyncio
import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from hosting.tasks import RetryPolicy, TaskContext, multi_turn_task, task


def note(**values: Any) -> None:
    """One write with O_APPEND: lines of several processes do not mix."""
    path = os.environ.get("CRASH_JOURNAL")
    if path:
        with open(path, "ab", buffering=0) as file:
            file.write(json.dumps({"t": time.time(), "pid": os.getpid(), **values}).encode() + b"\n")


@contextmanager
def journal(ctx: TaskContext[Any]) -> Generator[None]:
    who = {"task": ctx.task_id, "input": ctx.input_id, "run": f"{os.getpid()}-{id(ctx)}-{time.monotonic_ns()}"}
    note(
        event="enter",
        mode=ctx.entry_mode,
        retry=ctx.retry_attempt,
        recovery=ctx.recovery_count,
        steered=ctx.is_steered_turn,
        value=ctx.input,
        **who,
    )
    try:
        yield
    finally:
        note(event="exit", **who)


def seconds(ctx: TaskContext[dict[str, Any]]) -> float:
    """How long to take: `again` in an attempt after a crash or a stop, where the input says so."""
    return ctx.input.get("again", ctx.input["seconds"]) if ctx.recovery_count else ctx.input["seconds"]


@task(name="crash-work")
async def work(ctx: TaskContext[dict[str, Any]]) -> dict[str, Any]:
    with journal(ctx):
        await asyncio.sleep(seconds(ctx))
        return {"echo": ctx.input["n"], "pid": os.getpid()}


_POLICY = RetryPolicy(initial_delay=0.2, max_delay=0.5, max_attempts=4, jitter=False)


@task(name="crash-flaky", retry=_POLICY)
async def flaky(ctx: TaskContext[dict[str, Any]]) -> dict[str, Any]:
    with journal(ctx):
        await asyncio.sleep(ctx.input["seconds"])
        if ctx.retry_attempt < ctx.input["failures"]:
            raise ConnectionError(f"attempt {ctx.retry_attempt}")
        return {"echo": ctx.input["n"], "attempts": ctx.retry_attempt + 1}


@multi_turn_task(name="crash-chat", steerable=True)
async def chat(ctx: TaskContext[dict[str, Any]]) -> dict[str, Any]:
    with journal(ctx):
        ctx.metadata.append("turns", ctx.input["n"])
        try:
            async with asyncio.timeout(ctx.input["seconds"]):
                await ctx.cancel.wait()
        except TimeoutError:
            pass
        return {"echo": ctx.input["n"], "turns": ctx.metadata["turns"], "cause": ctx.cancel_cause}


@multi_turn_task(name="crash-chain")
async def chain(ctx: TaskContext[dict[str, Any]]) -> dict[str, Any]:
    with journal(ctx):
        await asyncio.sleep(ctx.input["seconds"])
        ctx.metadata.increment("turns")
        return {"echo": ctx.input["n"], "turns": ctx.metadata["turns"]}


@task(name="crash-deferring")
async def deferring(ctx: TaskContext[dict[str, Any]]) -> Any:
    with journal(ctx):
        done = asyncio.ensure_future(asyncio.sleep(seconds(ctx)))
        told = asyncio.ensure_future(ctx.shutdown.wait())
        await asyncio.wait({done, told}, return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            return await ctx.exit_for_recovery()
        return {"echo": ctx.input["n"], "pid": os.getpid()}


@task(name="crash-quick")
async def quick(ctx: TaskContext[dict[str, Any]]) -> float:
    return time.time()


@task(name="crash-short", timeout=timedelta(seconds=1))
async def short(ctx: TaskContext[dict[str, Any]]) -> Any:
    with journal(ctx):
        await ctx.cancel.wait()
        return {"cause": ctx.cancel_cause}


# Their names have a prefix: the test run imports other suites too, and a name declared twice is the last one's.
TASKS: dict[str, Any] = {t.name.removeprefix("crash-"): t for t in (work, flaky, chat, chain, deferring, quick, short)}
