"""A response handler: this app makes the events of its responses itself, in steps, and goes on where it was after a crash."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from typing import Any

from hosting.functions import agent_app
from hosting.responses.builders import ResponseEventStream
from hosting.server import ResponseContext, ResponsesServerOptions

SECTIONS = ("Goal", "Steps", "Costs", "Risks", "Schedule")
SECONDS = float(os.environ.get("HANDLER_SECONDS_PER_WORD", "0.1"))

app = agent_app(options=ResponsesServerOptions(resilient_background=True))


@app.response_handler
async def plan(
    request: Mapping[str, Any], context: ResponseContext, cancellation_signal: asyncio.Event
) -> AsyncIterator[dict[str, Any]]:
    """Write a plan, one message of the response for each section of it."""
    topic = await context.get_input_text()
    if context.is_recovery:
        # An earlier run was interrupted. What it had checkpointed is in here, and is not said again.
        stream = ResponseEventStream(response=context.persisted_response)
    else:
        stream = ResponseEventStream(response_id=context.response_id, request=request)
    yield stream.emit_created()
    yield stream.emit_in_progress()
    for section in SECTIONS[len(stream.response["output"]) :]:
        if cancellation_signal.is_set():
            if context.shutdown.is_set() and context.mode_flags.background:
                await context.exit_for_recovery()  # another process goes on, at once; this does not return
            yield stream.emit_incomplete(reason="interrupted")  # if the client has cancelled, nobody hears it
            return
        async for event in stream.output_item_message(write(section, topic)):
            yield event
        yield stream.checkpoint()  # from here on this section is done, whatever happens to the process
    yield stream.emit_completed()


async def write(section: str, topic: str) -> AsyncIterator[str]:
    """The text of a section, word by word. A real one would come from a model."""
    note(section)
    for word in f"{section} of {topic}: first this, then that, and in the end all of it.\n".split(" "):
        await asyncio.sleep(SECONDS)
        yield f"{word} "


def note(section: str) -> None:
    """For the test only: note that a section is being written, in a file that outlives the process."""
    if path := os.environ.get("HANDLER_LOG"):
        with open(path, "a") as log:
            log.write(f"{section}\n")
