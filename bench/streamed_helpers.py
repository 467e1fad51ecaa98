"""Renders a stream of text with one of two packages, and prints what it cost. Run by the interpreter that has the package.

python streamed_helpers.py ours|published     -> {"<deltas>": [CPU us per event, the same for the stream alone, events]}
"""

import asyncio
import json
import sys
import time

from agent_framework import AgentResponse, AgentResponseUpdate, Content, ResponseStream

if sys.argv[1] == "ours":
    from hosting.responses import responses_from_streaming_run
else:
    from agent_framework_hosting_responses import responses_from_streaming_run  # type: ignore

SIZES = (1_000, 16_000, 64_000)


def run_of(updates):
    async def source():
        for update in updates:
            yield update

    return ResponseStream(source(), finalizer=AgentResponse.from_updates)


async def rendered(updates) -> tuple[float, int]:
    stream, events = run_of(updates), 0
    started = time.process_time()
    async for _ in responses_from_streaming_run(stream, response_id="resp_bench"):
        events += 1
    return time.process_time() - started, events


async def alone(updates) -> float:
    """What agent-framework's own stream costs that nobody renders: it is part of the other figure."""
    stream = run_of(updates)
    started = time.process_time()
    async for _ in stream:
        pass
    await stream.get_final_response()
    return time.process_time() - started


async def main() -> None:
    figures = {}
    for size in (100, *SIZES):
        text = Content.from_text
        updates = [
            AgentResponseUpdate(contents=[text("word and ")], role="assistant", message_id="m") for _ in range(size)
        ]
        seconds, events = await rendered(updates)
        figures[size] = [seconds / events * 1e6, await alone(updates) / events * 1e6, events]
    del figures[100]  # the first one warms up
    print(json.dumps(figures))


asyncio.run(main())
