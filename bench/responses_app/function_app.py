"""The app that bench/responses.py measures: a handler that writes words as fast, or as slowly, as its input says."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from hosting.functions import agent_app
from hosting.responses.builders import ResponseEventStream
from hosting.server import ResponseContext, ResponsesServerOptions

app = agent_app(options=ResponsesServerOptions(resilient_background=True))


@app.response_handler
async def answer(
    request: Mapping[str, Any], context: ResponseContext, signal: asyncio.Event
) -> AsyncIterator[Mapping[str, Any]]:
    """Input: {"words": how many, "pause": seconds after each}."""
    plan = json.loads(await context.get_input_text())
    stream = ResponseEventStream(response_id=context.response_id, model="bench")
    yield stream.emit_created()
    yield stream.emit_in_progress()
    message = stream.add_output_item_message()
    yield message.emit_added()
    text = message.add_text_content()
    yield text.emit_added()
    for _ in range(plan["words"]):
        yield text.emit_delta("word and ")
        await asyncio.sleep(plan["pause"])
    yield text.emit_text_done()
    yield text.emit_done()
    yield message.emit_done()
    yield stream.emit_completed()
