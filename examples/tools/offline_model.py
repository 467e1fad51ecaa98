"""A chat client without a model behind it: it picks tools by the words of the newest message, and repeats what they return.

Everything around it is real: the tools are called, and approvals asked for, by agent-framework's own tool loop.
"""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from agent_framework import (
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
)


class OfflineModel(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """For `Agent(client=...)`."""

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Awaitable[ChatResponse] | ResponseStream[ChatResponseUpdate, ChatResponse]:
        updates = _updates(messages)
        if stream:
            return self._build_response_stream(updates)

        async def answer() -> ChatResponse:
            return self._finalize_response_updates([update async for update in updates])

        return answer()


async def _updates(messages: Sequence[Message]) -> AsyncIterator[ChatResponseUpdate]:
    for content in _contents(messages):
        yield ChatResponseUpdate(role="assistant", contents=[content], model="offline")


def _contents(messages: Sequence[Message]) -> list[Content]:
    results: list[str] = []
    for message in reversed(messages):
        if message.role == "user":
            break
        results = [str(content.result) for content in message.contents if content.type == "function_result"] + results
    if results:
        return _words(" ".join(f"{result.rstrip('.')}." for result in results))
    text = next((message.text for message in reversed(messages) if message.role == "user"), "")
    tool = "restart_machine" if re.search(r"\brestart\b", text, re.IGNORECASE) else "machine_status"
    machines = re.findall(r"\b(?:web|db)-\d\b", text)
    if not machines:
        return _words("I can look at a machine, or restart it. Which one?")
    return [
        Content.from_function_call(f"call_{uuid4().hex[:24]}", tool, arguments=json.dumps({"machine": machine}))
        for machine in machines
    ]


def _words(text: str) -> list[Content]:
    return [Content.from_text(word) for word in re.findall(r"\s*\S+", text)]
