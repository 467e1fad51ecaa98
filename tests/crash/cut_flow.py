"""What a flow is, and what flows have in common: a handler, and a conversation."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from hosting.responses import Event
from hosting.responses.builders import ResponseEventStream
from hosting.storage import StorageUnavailable
from tests.crash.cut_audit import items_of, texts_of
from tests.crash.cut_client import Client

__all__ = ["BIG", "STEERED", "Flow", "Story", "Talk", "a_conversation", "said"]

BIG = "x" * 150_000
"""A text that spills."""

type Story = Callable[[Client], Awaitable[None]]


class Talk:
    """Says `re: <input>`, makes a checkpoint, says `more`, and counts the turns of the conversation.

    A text that begins with "long" goes on until the signal.
    """

    async def __call__(self, request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        said = await context.get_input_text()
        metadata = context.conversation_chain_metadata
        metadata["turns"] = [*metadata.get("turns", []), said[:20]]
        if context.is_recovery and context.persisted_response is not None:
            stream = ResponseEventStream(response=context.persisted_response)
        else:
            stream = ResponseEventStream(response_id=context.response_id, request=request)
        yield stream.emit_created()
        yield stream.emit_in_progress()
        for text in [f"re: {said}", "more"][len(stream.response["output"]) :]:
            for event in stream.output_item_message(text):
                yield event
            if said.startswith("noted"):
                metadata("early")["said"] = text[:20]
                with suppress(StorageUnavailable):  # else it is the handler's own failure
                    await metadata("early").flush()
            if text != "more":
                yield stream.checkpoint()
        if said.startswith("long"):
            await signal.wait()
        yield stream.emit_completed()


@dataclass(frozen=True)
class Flow:
    """A story, what was there before it, and what must be said of its turns in the end."""

    story: Story
    setup: Story | None = None
    handler: Callable[[], Any] | None = Talk
    hosted: Callable[[], Any] | None = None
    invocations: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=lambda: {"resilient_background": True})


STEERED = {"resilient_background": True, "steerable_conversations": True}


async def a_conversation(client: Client) -> None:
    client.ids["conversation"] = await client.conversation("by hand")


async def said(client: Client) -> list[str]:
    return texts_of(await items_of(client, client.ids["conversation"]))
