"""A protocol of your own beside the Responses API: a count-down that outlives connections and processes.

    POST /v1/invocations {"from": 10}           starts it and streams its events
    GET  /v1/invocations/{id}?after=4           goes on after event 4, from any instance, also after the end
    POST /v1/invocations/{id}/cancel            ends it early

The invocation id (header x-agent-invocation-id, the client's choice or ours) is the key of both the resilient task that does
the work and the stream that its events are in. A POST that is sent again with the same id starts nothing new.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from agent_framework import Agent

from hosting.functions import agent_app
from hosting.responses import ApiError
from hosting.server.invocations import InvocationRequest
from hosting.state import AgentState
from hosting.streaming import EventStreamClosedError, EventStreamNotFoundError, streams
from hosting.tasks import TaskConflictError, TaskContext, task

SECONDS = 0.2


def create_agent() -> Agent:
    """The agent behind the Responses routes, which are served too."""
    from demo_agent import create_demo_chat_client

    return Agent(client=create_demo_chat_client())


app = agent_app(AgentState(create_agent))


@task(name="countdown")
async def countdown(ctx: TaskContext[dict[str, Any]]) -> None:
    """Emit one event a step. After a crash another process comes here and goes on where the stored events end."""
    stream = await streams.take_over(ctx.task_id, generation=ctx.recovery_count)
    start = ctx.input["from"]
    last = await stream.last_cursor()
    with suppress(EventStreamClosedError):  # closed by an attempt that died before it could say so
        for number in range(0 if last is None else last + 1, start + 1):
            if ctx.cancel.is_set():
                await stream.emit({"sequence_number": number, "type": "cancelled"}, close=True)
                return
            if number == start:
                await stream.emit({"sequence_number": number, "type": "done"}, close=True)
                return
            await stream.emit({"sequence_number": number, "type": "tick", "left": start - number})
            await asyncio.sleep(SECONDS)


@app.invoke_handler
async def invoke(request: InvocationRequest) -> AsyncIterator[Any]:
    """Start, and follow from the beginning."""
    body = await request.json()
    start = body.get("from") if isinstance(body, dict) else None
    if type(start) is not int or not 0 < start <= 1000:
        raise ApiError.invalid_value("from", "Invalid 'from': expected an integer from 1 to 1000.")
    stream = await streams.get_or_create(request.invocation_id)
    if await countdown.get_run(request.invocation_id) is None:
        with suppress(TaskConflictError):  # another request with this id was a moment faster
            await countdown.start(task_id=request.invocation_id, input={"from": start})
    return stream.subscribe()


@app.get_invocation_handler
async def follow(request: InvocationRequest) -> AsyncIterator[Any]:
    """Follow from where the client is: `after`, or the Last-Event-ID of SSE."""
    after = last_seen(request)
    try:
        stream = await streams.get(request.invocation_id)
    except EventStreamNotFoundError:
        raise unknown() from None
    return stream.subscribe(after=after)


@app.cancel_invocation_handler
async def cancel(request: InvocationRequest) -> dict[str, Any]:
    """Tell it to end, if it has not: then this does nothing. Its stream says how it ended, and when."""
    run = await countdown.get_run(request.invocation_id)
    if run is None:
        raise unknown()
    await run.cancel()
    return {"id": request.invocation_id, "status": "cancelling"}


def last_seen(request: InvocationRequest) -> int | None:
    """The number of the last event that the client has; None for none. What a client sends has any length and any form."""
    after = (request.query.get("after") or [request.headers.get("last-event-id", "")])[-1]
    if not after:
        return None
    if not (after.isascii() and after.isdigit() and len(after) <= 9):
        raise ApiError.invalid_value("after", "Invalid 'after': expected an integer from 0 to 999999999.")
    return int(after)


def unknown() -> ApiError:
    """An id that this caller has no invocation for."""
    return ApiError("There is no such invocation.", status=404, type="invalid_request_error", code="not_found")
