"""A writer and a critic. They share nothing but the conversation, which both read from storage."""

from collections.abc import Sequence

from agent_framework import Agent, Message
from offline_model import OfflineModel, Say

from hosting.state import TableHistoryProvider

ENOUGH = 8
"""Words that the critic is content with."""


def create_writer() -> Agent:
    """Called once a process, at the first request for it, and so is the other one."""
    return _create("writer", "You write, and write again when the critic has found something.", _write)


def create_critic() -> Agent:
    """Reads what was said last, whoever said it."""
    return _create("critic", "You say what is wrong with a text.", _criticise)


def _create(name: str, instructions: str, say: Say) -> Agent:
    return Agent(
        client=OfflineModel(say),  # a real model: hosting.models.create_chat_client()
        name=name,
        instructions=instructions,
        context_providers=[TableHistoryProvider()],
        default_options={"store": False},
    )


def _write(messages: Sequence[Message]) -> str:
    topic = next(message.text for message in messages if message.role == "user")
    drafts = [text for text in _said(messages) if text.startswith("Draft")]
    # Each draft is longer than the one before it.
    return f"Draft {len(drafts) + 1}: {topic}" + ", and more about it" * len(drafts) + "."


def _criticise(messages: Sequence[Message]) -> str:
    said = _said(messages)
    if not said:
        return "There is nothing to read yet."
    words = len(said[-1].split())
    return f"{words} words, that will do." if words >= ENOUGH else f"Too short: {words} words."


def _said(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages if message.role == "assistant" and message.text]
