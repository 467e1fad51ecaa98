"""Whatever a handler yields, the wire is a proper stream and only ResponseNotCreated comes out."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from hosting.server.handler import ResponseNotCreated
from tests.unit.handler_runs import Run, message
from tests.unit.responses_checks import check_response

VALUES = st.one_of(
    st.sampled_from([0, 1, -1, "0", "msg_1", "msg_2", None, True, 1.5, float("nan"), [], {}, "\ud83d"]),
    st.sampled_from([message("msg_1"), message("msg_1", "hi"), message("msg_2"), {"type": "output_text", "text": ""}]),
    st.sampled_from(
        [{"status": "queued"}, {"status": "completed"}, {"output": []}, {"output": [message("msg_1", "hi")]}]
    ),
    st.sampled_from(
        [{"error": {"code": "server_error", "message": 1}}, {"usage": {"input_tokens": "x"}}, {"metadata": 1}, object()]
    ),
)
NAMES = ("output_index", "item", "item_id", "content_index", "summary_index", "part", "delta", "text", "response")
KINDS = (
    *("created", "queued", "in_progress", "completed", "failed", "incomplete", "output_item.added", "output_item.done"),
    *(
        "content_part.added",
        "content_part.done",
        "output_text.delta",
        "output_text.done",
        "output_text.annotation.added",
    ),
    *("refusal.delta", "function_call_arguments.delta", "function_call_arguments.done", "audio.delta"),
    *("reasoning_summary_part.added", "reasoning_summary_text.delta"),
)
LIKELY = {
    "output_item.added": {"output_index": 0, "item": message("msg_1")},
    "content_part.added": {"output_index": 0, "content_index": 0, "part": {"type": "output_text", "text": ""}},
    "output_text.delta": {"output_index": 0, "content_index": 0, "delta": "hi"},
    "output_item.done": {"output_index": 0, "item": message("msg_1", "hi")},
}
EVENTS = st.one_of(
    st.builds(
        lambda kind, fields: {"type": f"response.{kind}", "response": {}} | LIKELY.get(kind, {}) | fields,
        st.sampled_from(KINDS),
        st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3) | st.just({}),
    ),
    st.sampled_from([{"type": "acme:x"}, {"type": "acme.delta"}, {"type": "hosting.checkpoint"}, {}, None, "x"]),
)
BEGINNING = [{"type": "response.created", "response": {}}]


@example([*BEGINNING, {"type": "response.queued", "response": {"text": ""}}], None)
@settings(max_examples=250, deadline=None)
@given(
    st.lists(EVENTS, max_size=8).map(lambda events: BEGINNING + events) | st.lists(EVENTS, max_size=4),
    st.sampled_from([None, [], [message("msg_1", "hi")]]),
)
def test_the_wire_is_a_proper_stream(events: list[Any], persisted: list[Any] | None) -> None:
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Any]:
        for event in events:
            yield event

    attempt = Run(handler)
    if persisted is not None:
        attempt = Run(handler, base=attempt.base, persisted=attempt.base | {"output": persisted})
    try:
        asyncio.run(attempt.go())
    except ResponseNotCreated:
        assert attempt.wire == []
        assert persisted is None
        return
    kinds = attempt.types
    assert [event["sequence_number"] for event in attempt.wire] == list(range(len(attempt.wire)))
    assert kinds[0] == ("created" if persisted is None else "in_progress")
    assert kinds.count("created") == (persisted is None)
    assert kinds.count("in_progress") == 1
    assert [kind for kind in kinds if kind in ("completed", "failed", "incomplete")] == kinds[-1:]
    done = [event["item"] for event in attempt.wire if event["type"] == "response.output_item.done"]
    assert [item for item in attempt.response["output"] if item in done] == attempt.response["output"][
        -len(done) or 9 :
    ]
    added = [event["output_index"] for event in attempt.wire if event["type"] == "response.output_item.added"]
    assert len(set(added)) == len(added) == len(done)
    check_response(attempt.response | {"output": []})
