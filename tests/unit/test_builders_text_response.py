"""TextResponse: a handler whose whole answer is one text."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hosting.responses.builders import TextResponse
from tests.unit.handler_runs import check_wire, run


async def chunks() -> AsyncIterator[str]:
    yield "Hel"
    yield "lo"


async def later() -> str:
    return "Hello"


async def later_chunks() -> AsyncIterator[str]:
    return chunks()


@pytest.mark.parametrize("text", ["Hello", lambda: "Hello", later, chunks(), chunks, later_chunks])
async def test_every_kind_of_text_becomes_one_message(text: Any) -> None:
    async def handler(request: Any, context: Any, signal: Any) -> TextResponse:
        return TextResponse(context, request, text=text)

    done = await run(handler)
    assert done.ending == "finished"
    assert done.response["status"] == "completed"
    assert [part["text"] for item in done.response["output"] for part in item["content"]] == ["Hello"]
    check_wire(done.wire)


async def test_configure_edits_the_response_before_it_is_announced() -> None:
    async def handler(request: Any, context: Any, signal: Any) -> TextResponse:
        return TextResponse(context, request, text="x", configure=lambda r: r["metadata"].update(topic="tests"))

    done = await run(handler)
    assert done.wire[0]["response"]["metadata"] == {"app": "tests", "topic": "tests"}
    assert done.response["metadata"]["topic"] == "tests"


async def test_a_text_that_fails_fails_the_response() -> None:
    def text() -> str:
        raise RuntimeError("secret")

    async def handler(request: Any, context: Any, signal: Any) -> TextResponse:
        return TextResponse(context, request, text=text)

    done = await run(handler)
    assert done.types == ["created", "in_progress", "failed"]
    assert "secret" not in repr(done.wire)


async def test_a_recovered_text_begins_again() -> None:
    async def handler(request: Any, context: Any, signal: Any) -> TextResponse:
        return TextResponse(context, request, text="Hello")

    persisted = (await run(handler)).transcript.snapshot | {"status": "in_progress"}
    done = await run(handler, persisted=persisted, base=persisted, first_sequence_number=9)
    assert done.types[0] == "in_progress"
    assert done.wire[0]["response"]["output"] == []
    assert len(done.response["output"]) == 1


async def test_the_source_of_a_text_is_closed_when_the_run_is_stopped() -> None:
    closed = []

    async def source() -> AsyncIterator[str]:
        try:
            yield "a"
            yield "b"
        finally:
            closed.append(True)

    class Context:
        response_id = "resp_x"

    events = aiter(TextResponse(Context(), {}, text=source()))
    async for event in events:
        if event["type"] == "response.output_text.delta":
            break
    await events.aclose()  # type: ignore[attr-defined]
    assert closed == [True]
