"""A workflow for tests: one executor that does what the newest message says.

ask          asks a typed question (Ticket -> bool)
name         asks for a text
approve N    asks for N approvals
fail         raises
wait         waits until `gate` is set
forget       yields nothing
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agent_framework import (
    Content,
    Executor,
    Message,
    Workflow,
    WorkflowBuilder,
    WorkflowContext,
    handler,
    response_handler,
)

from hosting.state import WorkflowState

SECRET = "what only the log may say"


@dataclass
class Ticket:
    number: int


class Desk(Executor):
    """Counts its turns, and says what it has been told."""

    gate: asyncio.Event | None = None

    def __init__(self, state: Callable[[], Any] | None = None) -> None:
        super().__init__(id="desk")
        self.count = 0
        self._state = state

    @handler
    async def read(self, messages: list[Message], ctx: WorkflowContext[str, str]) -> None:
        self.count += 1
        words = messages[-1].text.split() or [""]
        said = " | ".join(message.text for message in messages)
        await ctx.yield_output(f"{self.count}: {said}")
        if words[0] == "ask":
            await ctx.request_info(Ticket(self.count), bool)
        elif words[0] == "name":
            await ctx.request_info("your name?", str)
        elif words[0] == "approve":
            for n in range(int(words[1])):
                await ctx.request_info(approval(f"{self.count}-{n}"), Content)
        elif words[0] == "fail":
            raise ValueError(SECRET)
        elif words[0] == "wait" and self.gate is not None:
            await self.gate.wait()

    @response_handler
    async def decided(self, ticket: Ticket, yes: bool, ctx: WorkflowContext[str, str]) -> None:
        await ctx.yield_output(f"ticket {ticket.number}: {'yes' if yes else 'no'}")

    @response_handler
    async def named(self, question: str, name: str, ctx: WorkflowContext[str, str]) -> None:
        if name == "fail":
            raise ValueError(SECRET)
        await ctx.yield_output(f"hello {name}")
        if name == "again":
            await ctx.request_info("your name?", str)

    @response_handler
    async def approved(self, asked: Content, answer: Content, ctx: WorkflowContext[str, str]) -> None:
        await ctx.yield_output(f"{asked.id}: {'approved' if answer.approved else 'declined'}")

    async def on_checkpoint_save(self) -> dict[str, Any]:
        more = {} if self._state is None else {"more": self._state()}
        return {"count": self.count, **more}

    async def on_checkpoint_restore(self, state: dict[str, Any]) -> None:
        self.count = state["count"]


def approval(identifier: str) -> Content:
    """An approval request of an executor's own."""
    call = Content.from_function_call(identifier, "pay", arguments={"n": identifier}, id=identifier)
    return Content.from_function_approval_request(identifier, call)


def desk(state: Callable[[], Any] | None = None, **options: Any) -> Workflow:
    """A new one."""
    return WorkflowBuilder(start_executor=Desk(state), **{"name": "desk", **options}).build()


def hosted(state: Callable[[], Any] | None = None) -> WorkflowState[Workflow]:
    """A new one for each request."""
    return WorkflowState(lambda: desk(state), cache_target=False)


def output(response: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """The output items of a type."""
    return [item for item in response["output"] if item["type"] == kind]


def answer(response: dict[str, Any], text: str) -> list[dict[str, Any]]:
    """The answer to the one question of a response."""
    (call,) = output(response, "function_call")
    return [{"type": "function_call_output", "call_id": call["call_id"], "output": text}]


def decide(identifier: str, approve: bool = True) -> dict[str, Any]:
    """The answer to an approval."""
    return {"type": "mcp_approval_response", "approval_request_id": identifier, "approve": approve}


def user(text: str) -> dict[str, Any]:
    """A message."""
    return {"role": "user", "content": text}
