"""What a Response and its events must satisfy, judged by the openai package's own types and stream accumulator."""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, get_args

from openai._types import omit
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import Response, ResponseItem, ResponseStreamEvent
from pydantic import TypeAdapter

from hosting.responses import (
    ENVELOPE_KEYS,
    CreateRequest,
    ResponseRenderer,
    create_response_id,
    parse_create_request,
    stored_input_items,
)

type Json = dict[str, Any]

TERMINAL = {"response.completed", "response.incomplete", "response.failed"}


@cache
def _event_types() -> dict[str, TypeAdapter[Any]]:
    union = get_args(ResponseStreamEvent)[0]
    return {get_args(model.model_fields["type"].annotation)[0]: TypeAdapter(model) for model in get_args(union)}


@cache
def _item_type() -> TypeAdapter[Any]:
    return TypeAdapter(ResponseItem)


def make_request(**body: Any) -> CreateRequest:
    return parse_create_request({"input": "hi", **body})


def make_renderer(request: CreateRequest | None = None, **options: Any) -> ResponseRenderer:
    return ResponseRenderer(
        response_id=create_response_id(),
        request=request or make_request(),
        model="m",
        created_at=1_700_000_000,
        clock=lambda: 1_700_000_009.5,
        **options,
    )


def stream(updates: Iterable[Any], *, result: object = None, **options: Any) -> tuple[list[Json], Json]:
    """Render updates as a stream, check all events, and return them with the final response."""
    renderer = make_renderer(**options)
    events = renderer.start()
    for update in updates:
        events += renderer.feed(update)
    events += renderer.finish(result)
    events.append(renderer.terminal())
    check_stream(events)
    return events, renderer.response


def render(result: Any, **options: Any) -> Json:
    """Render a whole result, check its events too, and return the final response."""
    renderer = make_renderer(**options)
    events = [*renderer.start(), *renderer.feed_result(result), *renderer.finish(result), renderer.terminal()]
    check_stream(events)
    return renderer.response


def check_response(response: Json) -> None:
    """All keys are there and the openai package's strict type takes it."""
    assert response.keys() >= ENVELOPE_KEYS
    Response.model_validate(response, strict=True)


def check_input_items(items: Iterable[Json]) -> None:
    """Each item is one that `input_items` may list."""
    for item in items:
        _item_type().validate_python(item, strict=True)


def check_event(event: Json) -> Any:
    """The event as an object of the openai package; raises when a field is missing or has another type."""
    return _event_types()[event["type"]].validate_python(event, strict=True)


def check_stream(events: Sequence[Json], *, replaced: bool = False) -> None:
    """All rules of a complete stream. With `replaced`, `.done` texts may differ from the sum of their deltas."""
    state = ResponseStreamState(text_format=omit, input_tools=omit)
    for event in events:
        state.handle_event(check_event(event))
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    assert [i for i, event in enumerate(events) if event["type"] in TERMINAL] == [len(events) - 1]
    for event in events[:2]:
        assert event["response"]["output"] == []
        assert event["response"]["status"] == "in_progress"
    check_response(events[-1]["response"])
    _check_items(events, replaced=replaced)


def _check_items(events: Sequence[Json], *, replaced: bool) -> None:
    added: dict[int, Json] = {}
    done: dict[int, Json] = {}
    parts: dict[tuple[Any, ...], list[str]] = {}
    for event in events:
        kind, index = event["type"], event.get("output_index")
        if kind == "response.output_item.added":
            assert index == len(added)
            added[index] = event["item"]
            assert event["item"].get("content", []) == []
            assert event["item"].get("arguments", "") == "" or event["item"]["type"] == "mcp_approval_request"
        elif kind == "response.output_item.done":
            assert index not in done
            assert event["item"]["id"] == added[index]["id"]
            assert event["item"]["type"] == added[index]["type"]
            assert event["item"].get("status") != "in_progress"
            done[index] = event["item"]
        elif index is not None:
            assert index in added
            assert index not in done
            assert event["item_id"] == added[index]["id"]
            part = (index, event.get("content_index"), event.get("summary_index"), kind.rpartition(".")[0])
            if kind.endswith(".delta"):
                parts.setdefault(part, []).append(event["delta"])
            elif kind.endswith(".done") and "part" not in event:
                text = next(event[name] for name in ("text", "refusal", "arguments", "code") if name in event)
                if not replaced:
                    assert "".join(parts.get(part, [])) == text
    assert added.keys() == done.keys()
    assert events[-1]["response"]["output"] == [done[index] for index in sorted(done)]
    identifiers = [item["id"] for item in done.values()]
    assert len(identifiers) == len(set(identifiers))


def without_ids(items: Iterable[Json]) -> list[Json]:
    """Items with everything but what is random."""
    return [{key: value for key, value in item.items() if key not in ("id", "call_id")} for item in items]


def types(events: Iterable[Json]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def replay(response: Json) -> list[Json]:
    """The output of a response as a client sends it back with its next message, in stored form without that message."""
    body = {"input": [*response["output"], {"role": "user", "content": "next"}]}
    return stored_input_items(parse_create_request(body), create_response_id())[:-1]
