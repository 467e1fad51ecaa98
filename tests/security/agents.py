"""The agent that is attacked. Offline, and steered by what the user says:

wait              never ends
call NAME         calls a function that the request declares
use NAME          calls a tool of the agent's own: `open_tool` at once, `guarded` after an approval
fail, leak        raises, with what the user said in the message; the tool does, which models see and clients don't
anything else     is repeated
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatOptions,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationContext,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
    tool,
)

from hosting.state import AgentState, TableHistoryProvider

__all__ = ["TOOL_CALLS", "ModelDown", "hosted"]

TOOL_CALLS: list[tuple[str, dict[str, Any], dict[str, Any]]] = []
"""Each run of a tool: its name, what the model gave it, and what the app did. Tests empty it first."""


class ModelDown(Exception):
    """What a model's client raises; its text quotes the request."""


@tool(name="open_tool", approval_mode="never_require")
async def _open(topic: str, context: FunctionInvocationContext) -> str:
    """Look something up."""
    TOOL_CALLS.append(("open_tool", {"topic": topic}, dict(context.kwargs)))
    return f"looked up {topic}"


@tool(name="guarded", approval_mode="always_require")
async def _guarded(topic: str, context: FunctionInvocationContext) -> str:
    """Do something that a person has to allow."""
    TOOL_CALLS.append(("guarded", {"topic": topic}, dict(context.kwargs)))
    return f"done with {topic}"


@tool(name="broken", approval_mode="never_require")
async def _broken(topic: str) -> str:
    """Fail."""
    raise ModelDown(f"a secret of the tool, about {topic}")


def hosted() -> AgentState[Agent]:
    """The agent, new in each world."""

    def make() -> Agent:
        return Agent(
            client=_Client(),
            name="attacked",
            instructions="Be helpful.",
            tools=[_open, _guarded, _broken],
            context_providers=[TableHistoryProvider()],
            default_options=ChatOptions(store=False),
        )

    return AgentState(make)


class _Client(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Awaitable[ChatResponse] | ResponseStream[ChatResponseUpdate, ChatResponse]:
        updates = _play(messages)
        if stream:
            return self._build_response_stream(updates, response_format=options.get("response_format"))

        async def answer() -> ChatResponse:
            return self._finalize_response_updates(
                [update async for update in updates], response_format=options.get("response_format")
            )

        return answer()


async def _play(messages: Sequence[Message]) -> AsyncIterator[ChatResponseUpdate]:
    newest = messages[-1].contents[-1] if messages and messages[-1].contents else None
    text = messages[-1].text if messages else ""
    if newest is not None and newest.type == "function_result":
        yield _say(f"result: {newest.result}")
        return
    verb, _, rest = text.partition(" ")
    name, _, topic = rest.partition(" ")
    if verb == "wait":
        yield _say("...")
        await asyncio.Event().wait()
    elif verb == "fail":
        raise ModelDown(f"the model refuses: {text}")
    elif verb in ("call", "use"):
        arguments = {"topic": topic or "nothing"}
        content = Content.from_function_call(f"call_{len(messages)}_{abs(hash(text))}", name, arguments=arguments)
        yield ChatResponseUpdate(role="assistant", contents=[content], finish_reason="tool_calls")
    else:
        yield _say(text or "nothing")


def _say(text: str) -> ChatResponseUpdate:
    return ChatResponseUpdate(role="assistant", contents=[Content.from_text(text)])
