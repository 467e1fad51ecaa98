"""Which span and measurements a turn has: what telemetry needs to know of it, from what the server knows."""

from typing import Literal

from hosting import telemetry
from hosting.server.answer import Answer, TurnInput
from hosting.server.handler_answer import chain_id
from hosting.server.options import CreateSpanHook
from hosting.state import Turn

__all__ = ["create_span", "turn_telemetry"]

_HANDLER = "hosting.response_handler"


def turn_telemetry(
    answer: Answer,
    given: TurnInput,
    mode: Literal["foreground", "background"],
    hook: CreateSpanHook | None = None,
) -> telemetry.Turn:
    """To be entered by the task that runs the turn."""
    agent = answer.agent
    return telemetry.turn(
        response_id=given.turn.response_id,
        agent=agent or given.model,
        mode=mode,
        provider=telemetry.AGENT_FRAMEWORK if agent is not None else _HANDLER,
        model=given.request.model,
        conversation=given.request.conversation_id or chain_id(given.turn),
        tenant=given.turns.scope,
        stream=given.request.stream,
        instrumented=agent is not None,
        hook=hook,
    )


def create_span(hook: CreateSpanHook | None, turn: Turn, model: str, conversation: str | None) -> telemetry.HookedSpan:
    """Around the acceptance of a background response, whose turn runs elsewhere. The agent is not made for it."""
    tags = telemetry.create_tags(
        response_id=turn.response_id,
        agent=model,
        provider=telemetry.AGENT_FRAMEWORK,
        model=model,
        conversation=conversation or chain_id(turn),
    )
    return telemetry.HookedSpan(hook, model, tags)
