"""A key whose response was deleted: it is neither "in use" nor free for a second run."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hosting.responses import Event
from hosting.responses.builders import ResponseEventStream
from hosting.server import idempotency
from tests.server_world import World, parsed, serve

KEY = {"idempotency-key": "once"}


class Counting:
    """Answers, or fails, and counts how often it was asked."""

    def __init__(self) -> None:
        self.runs = 0

    async def __call__(self, request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        self.runs += 1
        stream = ResponseEventStream(response_id=context.response_id, request=request)
        yield stream.emit_created()
        yield stream.emit_in_progress()
        if "fail" in str(request["input"]):
            raise RuntimeError
        for event in stream.output_item_message("done"):
            yield event
        yield stream.emit_completed()


async def deleted(world: World, text: str, *, background: bool) -> str:
    made = await world.create(text, background=background, headers=KEY)
    ended = await world.ended(made["id"]) if background else made
    await world.delete(ended["id"])
    return ended["status"]


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize(("text", "status"), [("hi", "completed"), ("fail", "failed")])
async def test_a_repeat_after_the_delete_says_so_and_is_not_to_be_retried(
    text: str, status: str, background: bool
) -> None:
    handler = Counting()
    async with serve(handler) as world:
        assert await deleted(world, text, background=background) == status
        again = await world.post(text, background=background, headers=KEY)
        assert parsed(again, 409)["error"]["code"] == "idempotency_response_deleted"
        assert again.headers["x-should-retry"] == "false"
        assert handler.runs == 1


async def test_the_agent_does_not_run_again_when_the_claim_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = Counting()
    async with serve(handler) as world:
        await deleted(world, "hi", background=False)
        monkeypatch.setattr(idempotency, "ABANDONED", idempotency.ABANDONED * 0)
        again = await world.create(background=False, headers=KEY, status=409)
        assert again["error"]["code"] == "idempotency_response_deleted"
        assert handler.runs == 1
