"""The events of a response that is final: what a client sees that asks again for a stream which has been sent before.

Each text comes in one delta. Items, ids and the terminal event are those of the stored response.
"""

from collections.abc import Iterator
from typing import Any

__all__ = ["replay_events"]

type Json = dict[str, Any]


def replay_events(response: Json) -> list[Json]:
    """All events of a final response, numbered from 0."""
    opened: Json = {
        **response,
        "status": "in_progress",
        "output": [],
        "usage": None,
        "error": None,
        "incomplete_details": None,
        "completed_at": None,
    }
    events: list[Json] = [{"type": f"response.{name}", "response": opened} for name in ("created", "in_progress")]
    for index, item in enumerate(response["output"]):
        events += _item_events(item, index)
    status = "failed" if response["status"] == "cancelled" else response["status"]
    events.append({"type": f"response.{status}", "response": response})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def _item_events(item: Json, index: int) -> Iterator[Json]:
    began = {**item, "status": "in_progress"} if "status" in item else dict(item)
    inner: Iterator[Json] = iter(())
    match item["type"]:
        case "message":
            began["content"], inner = [], _message(item)
        case "function_call":
            began["arguments"], inner = "", _arguments(item)
        case "reasoning":
            began["summary"], inner = [], _summary(item)
        case _:
            pass
    yield {"type": "response.output_item.added", "output_index": index, "item": began}
    for event in inner:
        yield {**event, "output_index": index, "item_id": item["id"]}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _message(item: Json) -> Iterator[Json]:
    for number, part in enumerate(item["content"]):
        kind, text = ("refusal", "refusal") if part["type"] == "refusal" else ("output_text", "text")
        at = {"content_index": number}
        extra: Json = {} if kind == "refusal" else {"logprobs": []}
        empty: Json = {**part, text: ""} | ({} if kind == "refusal" else {"annotations": []})
        yield {"type": "response.content_part.added", **at, "part": empty}
        yield {"type": f"response.{kind}.delta", **at, "delta": part[text], **extra}
        for position, annotation in enumerate(part.get("annotations") or []):
            name = "response.output_text.annotation.added"
            yield {"type": name, **at, "annotation_index": position, "annotation": annotation}
        yield {"type": f"response.{kind}.done", **at, text: part[text], **extra}
        yield {"type": "response.content_part.done", **at, "part": part}


def _arguments(item: Json) -> Iterator[Json]:
    yield {"type": "response.function_call_arguments.delta", "delta": item["arguments"]}
    yield {"type": "response.function_call_arguments.done", "arguments": item["arguments"], "name": item["name"]}


def _summary(item: Json) -> Iterator[Json]:
    for number, part in enumerate(item["summary"]):
        at = {"summary_index": number}
        yield {"type": "response.reasoning_summary_part.added", **at, "part": {**part, "text": ""}}
        yield {"type": "response.reasoning_summary_text.delta", **at, "delta": part["text"]}
        yield {"type": "response.reasoning_summary_text.done", **at, "text": part["text"]}
        yield {"type": "response.reasoning_summary_part.done", **at, "part": part}
