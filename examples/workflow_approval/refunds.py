"""The refund desk of a shop, as a workflow: intake -> (a human approves what is expensive) -> payout.

Nothing of it knows about HTTP, tables or crashes. Where it asks, `ctx.request_info`, the run ends and the state is stored; the
answer may come in another process, days later.
"""

import asyncio
import os
import re
from dataclasses import dataclass
from pathlib import Path

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

ORDERS = {"A-1001": 19.90, "A-1002": 249.00, "A-1003": 1200.00}
"""What was paid for each order."""

LIMIT = 50.0
"""Refunds above it need a human."""


@dataclass
class Refund:
    """What is to be paid back."""

    order: str
    amount: float


class Intake(Executor):
    """Reads the request, and asks for an approval when the refund is expensive."""

    def __init__(self) -> None:
        super().__init__(id="intake")
        self._seen = 0

    @handler
    async def read(self, messages: list[Message], ctx: WorkflowContext[Refund, str]) -> None:
        self._seen += 1
        order = re.search(r"A-\d{4}", messages[-1].text)
        if order is None:
            await ctx.yield_output("Which order is it? Its number looks like A-1001.")
        elif order[0] not in ORDERS:
            await ctx.yield_output(f"There is no order {order[0]}.")
        else:
            await self._decide(Refund(order[0], ORDERS[order[0]]), ctx)

    async def _decide(self, refund: Refund, ctx: WorkflowContext[Refund, str]) -> None:
        if refund.amount <= LIMIT:
            await ctx.send_message(refund)
            return
        await ctx.yield_output(f"Order {refund.order}: {refund.amount:.2f} needs an approval (request {self._seen}).")
        identifier = f"refund-{refund.order}-{self._seen}"
        arguments = {"order": refund.order, "amount": refund.amount}
        call = Content.from_function_call(identifier, "pay_refund", arguments=arguments, id=identifier)
        await ctx.request_info(Content.from_function_approval_request(identifier, call), Content)

    @response_handler
    async def answered(self, asked: Content, answer: Content, ctx: WorkflowContext[Refund, str]) -> None:
        call = asked.function_call
        arguments = call.parse_arguments() if call is not None else None
        if not arguments:
            raise ValueError("the approval request has no arguments")
        if answer.approved:
            await ctx.send_message(Refund(str(arguments["order"]), float(str(arguments["amount"]))))
        else:
            await ctx.yield_output(f"The refund for order {arguments['order']} was declined.")

    # What an executor keeps between turns goes into the checkpoint.
    async def on_checkpoint_save(self) -> dict[str, int]:
        return {"seen": self._seen}

    async def on_checkpoint_restore(self, state: dict[str, int]) -> None:
        self._seen = state["seen"]


class Payout(Executor):
    """Pays."""

    def __init__(self) -> None:
        super().__init__(id="payout")

    @handler
    async def pay(self, refund: Refund, ctx: WorkflowContext[Refund, str]) -> None:
        # A turn whose process dies is run again, so a real payment needs an idempotency key: the order's number, say.
        await asyncio.to_thread(_note, refund)
        await ctx.yield_output(f"Paid back {refund.amount:.2f} for order {refund.order}.")


def _note(refund: Refund) -> None:
    """In the place of a payment: a line in a file."""
    if ledger := os.environ.get("REFUNDS_LEDGER"):
        with Path(ledger).open("a") as lines:
            lines.write(f"{refund.order} {refund.amount:.2f}\n")


def create_workflow() -> Workflow:
    """A new one for each request: executors keep state. The name is what its checkpoints are found under."""
    intake, payout = Intake(), Payout()
    return WorkflowBuilder(start_executor=intake, name="refunds").add_edge(intake, payout).build()
