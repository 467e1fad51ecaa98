"""The published package (azure-ai-agentserver-responses) serving what bench/responses_app serves. Run by ITS interpreter.

python published_responses.py PORT     -> serves until it is killed; its state is in AGENTSERVER_STATE_ROOT
"""

import asyncio
import json
import sys

from azure.ai.agentserver.core import tasks  # type: ignore
from azure.ai.agentserver.responses import (  # type: ignore
    ResponseEventStream,
    ResponsesAgentServerHost,
    ResponsesServerOptions,
)

tasks.set_resilient_tasks_enabled(True)  # off by default since 2.3, and then nothing is recovered
app = ResponsesAgentServerHost(options=ResponsesServerOptions(resilient_background=True))


@app.response_handler
async def answer(request, context, signal):
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


app.run(host="127.0.0.1", port=int(sys.argv[1]))
