"""The row of a response: what is in it, final or still running.

A final response's items lie in the log; its row has everything else. A response that runs in the background has no place in
the log yet: its row holds its input and what it has produced so far (`INLINE`), and is replaced until it is final. One that
was cancelled from outside stays that way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from hosting.state.lineage import Lineage, Place, Segment, decode_lineage, encode_lineage
from hosting.storage import Entity, Json, Operation, Scalar

__all__ = [
    "INLINE",
    "RUNNING",
    "StoredResponse",
    "TaskRef",
    "TurnRecord",
    "conversation_of",
    "lineage_of",
    "response_columns",
    "running_columns",
    "stored_response",
]

INLINE = ""
"""In the place of a log: the items are in the response row itself."""

RUNNING = ("queued", "in_progress")
"""The statuses of a response that is not final."""

_NOTES = "_internal_metadata"
"""The key of `metadata` under which a response handler keeps notes to itself. They are stored while the response runs, for a
run that takes over, in a document of their own: so no reader of a response sees them."""

type Item = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """What a finished turn leaves behind."""

    response: dict[str, Any]
    """The response object, with its output."""
    input: Sequence[Item]
    messages: Sequence[Json] | None = None
    session: Json = None
    open_calls: Sequence[str] = ()
    continues: bool = True
    """Whether a later turn may build on it: false for a failed or cancelled one."""
    extra: Sequence[Operation] = ()
    """Rows of the same chain to write with the turn, whatever its end."""


@dataclass(frozen=True, slots=True)
class TaskRef:
    """The task that runs a background response, and the number of its input there."""

    task_id: str
    seq: int
    stream: bool
    """Whether its events are kept for followers."""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response as it was last stored, and where its items are."""

    response: dict[str, Any]
    place: Place
    before: Lineage
    etag: str
    input: list[Item] | None = None
    """Its own input items, when they are not in the log."""
    task: TaskRef | None = None
    notes: str | None = None
    """What its handler has noted for itself."""
    opening: dict[str, Any] | None = None
    """The response as it was announced, when the run has changed what was said then."""

    @property
    def snapshot(self) -> dict[str, Any]:
        """The response with the notes in it, as its handler made it."""
        if self.notes is None:
            return self.response
        return {**self.response, "metadata": {**self.response["metadata"], _NOTES: self.notes}}

    @property
    def running(self) -> bool:
        """Whether it is not final."""
        return self.response["status"] in RUNNING


def response_columns(
    record: TurnRecord,
    place: Place,
    lineage: Lineage,
    task: TaskRef | None = None,
    opening: dict[str, Any] | None = None,
) -> tuple[dict[str, Scalar], dict[str, Json]]:
    """Fields and documents of a final response whose items are in the log at `place`."""
    response = {key: value for key, value in record.response.items() if key != "output"}
    documents: dict[str, Json] = {
        "response": response,
        "lineage": cast("Json", encode_lineage(lineage)),
        "open_calls": list(record.open_calls),
    }
    if opening is not None:
        documents["opening"] = opening
    return _fields(response, place, task), documents


def running_columns(
    response: dict[str, Any],
    items: Sequence[Item],
    place: Place,
    lineage: Lineage,
    task: TaskRef,
    opening: dict[str, Any] | None = None,
) -> tuple[dict[str, Scalar], dict[str, Json]]:
    """Fields and documents of a response that holds its items itself. `lineage` is that of the turns before it."""
    kept = {key: value for key, value in response.items() if key != "output"}
    metadata = cast("dict[str, str]", kept.get("metadata") or {})
    if (notes := metadata.get(_NOTES)) is not None:
        kept["metadata"] = {key: value for key, value in metadata.items() if key != _NOTES}
    documents: dict[str, Json] = {
        "response": kept,
        "lineage": cast("Json", encode_lineage(lineage)),
        "input": list(items),
        "output": response["output"],
    }
    if notes is not None:
        documents["notes"] = notes
    if opening is not None:
        documents["opening"] = opening
    return _fields(response, Place(place.chain, INLINE, place.turn), task), documents


def _fields(response: dict[str, Any], place: Place, task: TaskRef | None) -> dict[str, Scalar]:
    fields: dict[str, Scalar] = {"log": place.log, "turn": place.turn, "status": str(response["status"])}
    if (conversation := conversation_of(response)) is not None:
        fields["conversation"] = conversation
    if task is not None:
        fields |= {"task": task.task_id, "seq": task.seq, "stream": task.stream}
    return fields


def stored_response(found: Entity, row: Entity | None, place: Place) -> StoredResponse | None:
    """From the response row and, for a final one, its row in the log; None when that one was deleted meanwhile."""
    inline = place.log == INLINE
    holder = found if inline else row
    if holder is None:
        return None
    response = cast("dict[str, Any]", found.documents["response"])
    response["output"] = holder.documents.get("output") or []
    fields = found.fields
    return StoredResponse(
        response,
        place,
        _before(lineage_of(found), place),
        found.etag,
        cast("list[Item]", found.documents.get("input") or []) if inline else None,
        TaskRef(str(fields["task"]), int(cast("int", fields["seq"])), bool(fields["stream"]))
        if "task" in fields
        else None,
        cast("str | None", found.documents.get("notes")),
        cast("dict[str, Any] | None", found.documents.get("opening")),
    )


def conversation_of(response: Mapping[str, Any]) -> str | None:
    """The id of the conversation that a response is a turn of."""
    conversation = response.get("conversation")
    return None if conversation is None else str(conversation["id"])


def lineage_of(response_row: Entity) -> Lineage:
    """The stored lineage: up to and including the turn itself, unless it failed or still runs."""
    return decode_lineage(cast("list[tuple[str, str, int, int]]", response_row.documents.get("lineage") or []))


def _before(lineage: Lineage, place: Place) -> Lineage:
    """A lineage without the turn at `place`, if that is its last."""
    if not lineage:
        return lineage
    tip, rest = lineage[-1], lineage[:-1]
    if (tip.chain, tip.log, tip.last) != (place.chain, place.log, place.turn):
        return lineage
    return rest if tip.first == tip.last else (*rest, Segment(tip.chain, tip.log, tip.first, tip.last - 1))
