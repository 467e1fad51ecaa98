"""How an input ended, as it is stored and handed to those who wait."""

import traceback
from dataclasses import dataclass
from typing import Any, cast, get_args

from hosting.storage import CorruptValue, Entity, Insert
from hosting.tasks._codec import Codec, JSONValue, json_size, plain
from hosting.tasks._events import OutcomeKind
from hosting.tasks._exceptions import TaskCancelled, TaskErrorDict, TaskExhaustedRetriesErrorDict, TaskFailed
from hosting.tasks._options import ERROR_CHARACTERS, INPUT_BYTES
from hosting.tasks._record import Slot
from hosting.tasks._rows import Key

__all__ = ["CANCELLED", "Outcome", "completed", "error_dict", "exhausted_dict", "failed"]

_KINDS = get_args(OutcomeKind.__value__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """completed with an output, failed with an error, or cancelled."""

    kind: OutcomeKind
    output: JSONValue = None
    error: dict[str, Any] | None = None

    def value(self, codec: Codec) -> Any:
        """The output, decoded into an object that nobody shares. Raises TaskFailed or TaskCancelled for the others."""
        if self.kind == "cancelled":
            raise TaskCancelled
        if self.kind == "failed":
            raise TaskFailed(error=dict(self.error or {}))
        copied = plain(self.output, "output")
        try:
            return codec.decode(copied, "output")
        except ValueError:  # stored by another version of the code, or never of the annotated type
            return copied

    def row(self, key: Key, slot: Slot, generation: int, now: float, retention: float) -> Insert:
        """Insert and nothing else: a second outcome for the same input is impossible."""
        fields = {
            "kind": self.kind,
            "input_id": slot.input_id,
            "seq": slot.seq,
            "nonce": slot.nonce,
            "generation": generation,
            "finished_at": now,
            "expires": now + retention,
        }
        document = self.error if self.kind == "failed" else self.output
        documents = {} if self.kind == "cancelled" else {"value": cast("JSONValue", document)}
        return Insert(key.outcome_row(slot.input_id, slot.seq), fields, cast("Any", documents))

    @classmethod
    def from_row(cls, entity: Entity) -> "Outcome":
        """The outcome in a row. Raises CorruptValue for what is none."""
        kind = cast("OutcomeKind", entity.fields.get("kind"))
        if kind not in _KINDS:
            raise CorruptValue(f"the outcome in row {entity.row!r} can't be read: it is of no known kind")
        value: Any = entity.documents.get("value")
        return cls(kind, error=value) if kind == "failed" else cls(kind, output=value)


CANCELLED = Outcome("cancelled")


def completed(value: object, codec: Codec) -> Outcome:
    """The outcome of a handler that returned `value`.

    A value that is not what the handler's annotation says is kept as plain JSON. One that is no JSON at all, or more than
    10 MiB of it, can't be kept: that is a failure of the handler, which names the path.
    """
    try:
        try:
            output = codec.encode(value, "output")
        except (TypeError, ValueError):
            output = plain(value, "output")
        if (size := json_size(output)) > INPUT_BYTES:
            raise ValueError(f"the output has {size:,} bytes of JSON, at most {INPUT_BYTES:,} can be kept")
    except (TypeError, ValueError) as error:
        return failed(error)
    return Outcome("completed", output=output)


def failed(error: BaseException) -> Outcome:
    return Outcome("failed", error=dict(error_dict(error)))


def error_dict(error: BaseException) -> TaskErrorDict:
    return {"type": type(error).__name__, "message": _clip(str(error)), "traceback": _traceback(error)}


def exhausted_dict(error: BaseException, attempts: int) -> TaskExhaustedRetriesErrorDict:
    return {
        "type": "exhausted_retries",
        "attempts": attempts,
        "last_error": _clip(str(error)),
        "last_error_type": type(error).__name__,
        "traceback": _traceback(error),
    }


def _clip(text: str) -> str:
    return text if len(text) <= ERROR_CHARACTERS else text[: ERROR_CHARACTERS - 1] + "…"


def _traceback(error: BaseException) -> str:
    """The end of it, which says where the error was raised."""
    return "".join(traceback.format_exception(error))[-ERROR_CHARACTERS:]
