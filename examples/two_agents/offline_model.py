"""A chat client without a model behind it: a function of the conversation says what is answered."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from agent_framework import (
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
)

__all__ = ["OfflineModel", "Say"]

type Say = Callable[[Sequence[Message]], str]


class OfflineModel(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """For `Agent(client=...)`. Streams word by word."""

    def __init__(self, say: Say) -> None:
        super().__init__()
        self._say = say

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Awaitable[ChatResponse] | ResponseStream[ChatResponseUpdate, ChatResponse]:
        updates = self._updates(messages)
        if stream:
            return self._build_response_stream(updates)

        async def answer() -> ChatResponse:
            return self._finalize_response_updates([update async for update in updates])

        return answer()

    async def _updates(self, messages: Sequence[Message]) -> AsyncIterator[ChatResponseUpdate]:
        for word in re.findall(r"\s*\S+", self._say(messages)):
            yield ChatResponseUpdate(role="assistant", contents=[Content.from_text(word)], model="offline")
