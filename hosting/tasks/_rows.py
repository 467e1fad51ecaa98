"""The rows of a task. All but the index lie in the partition of the chain that the task_id names.

    task.<task>                            the record: one small row, all control state
    task-input.<task>.<seq>                an input, from its acceptance to its outcome
    task-outcome.<task>.<input>.<seq>      how an input ended, until it expires
    task-metadata.<task>.<epoch>.<name>    a metadata namespace

    active-<shard> / <task>.<nonce>        the index: one row per input that is accepted and has no outcome yet

The index row is written BEFORE the input is accepted and removed AFTER its outcome is stored. So a crash in between leaves
a row too many, which the recovery scan removes, and never an accepted input that the scan can't find.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from types import UnionType
from typing import Any, Literal, TypeAliasType, cast, get_args, get_origin, get_type_hints

from hosting.storage import CorruptValue, Entity, keys
from hosting.tasks._record import Record, Slot
from hosting.telemetry import fields as fields_of_log

__all__ = [
    "INDEX_PARTITIONS",
    "INDEX_RANGE",
    "IndexEntry",
    "Key",
    "decode_index",
    "decode_record",
    "encode_index",
    "encode_record",
    "metadata_until",
    "outcome_range",
    "outcome_seq",
    "task_rows_range",
]

_SHARDS = 16
INDEX_PARTITIONS = tuple(f"active-{shard:02x}" for shard in range(_SHARDS))
"""Sixteen, so that accepting is not bound by the 2,000 operations a second that one partition takes."""
INDEX_RANGE = ("0", "g")


def _digest(*parts: str) -> str:
    return hashlib.sha256(f"hosting.tasks:{json.dumps(parts)}".encode()).hexdigest()


@lru_cache(maxsize=1024)
def _places(scope: str, task_id: str) -> tuple[str, str, str]:
    """Partition, digest inside it, digest over all scopes."""
    return keys.partition_key(scope, keys.chain_of(task_id)), _digest(task_id)[:32], _digest(scope, task_id)[:32]


@dataclass(frozen=True, slots=True)
class Key:
    """Which task: whose, and its id. Two scopes with the same task_id never meet."""

    scope: str
    task_id: str

    @property
    def partition(self) -> str:
        """Where all of its rows lie but those of the index. Raises ValueError when `scope` is no scope."""
        return _places(self.scope, self.task_id)[0]

    @property
    def digest(self) -> str:
        """Identifies the task everywhere; 32 hex digits."""
        return _places(self.scope, self.task_id)[2]

    @property
    def _local(self) -> str:
        return _places(self.scope, self.task_id)[1]

    @property
    def record_row(self) -> str:
        """The row of its record."""
        return f"task.{self._local}"

    def input_row(self, seq: int) -> str:
        """The row of an input, by the number that it has within the task."""
        return f"task-input.{self._local}.{seq:08x}"

    def outcome_row(self, input_id: str, seq: int) -> str:
        """The row of how an input has ended."""
        return f"task-outcome.{self._local}.{_digest(input_id)[:32]}.{seq:08x}"

    def metadata_row(self, epoch: int, name: str) -> str:
        """The row of a metadata namespace. `epoch`: the activation at which the task was last created anew."""
        return f"task-metadata.{self._local}.{epoch:08x}.{keys.encode_key(name)}"

    @property
    def index_partition(self) -> str:
        """The shard of the index that its rows lie in."""
        return INDEX_PARTITIONS[int(self.digest[:8], 16) % _SHARDS]

    def index_row(self, nonce: str) -> str:
        """The row of the index for one input; `nonce` is that of the call that brought it."""
        return f"{self.digest}.{nonce}"

    def instance_id(self, activation: int, generation: int) -> str:
        """The orchestration that drives an activation of the task, from a generation on: 60 ASCII characters at most."""
        return f"task-{self.digest}-{activation:x}-{generation:x}"

    def log_fields(self) -> dict[str, str]:
        """What a log record about this task carries."""
        return fields_of_log(task=self.task_id, tenant=self.scope)

    def to_payload(self) -> dict[str, str]:
        """What an orchestration carries: a key, never content."""
        return {"scope": self.scope, "task_id": self.task_id}

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any]) -> "Key":
        """The key of `to_payload`. Raises KeyError for what is none."""
        return cls(str(payload["scope"]), str(payload["task_id"]))


def outcome_range(key: Key, input_id: str) -> tuple[str, str]:
    """The outcomes of all inputs that had this id."""
    prefix = key.outcome_row(input_id, 0)[:-8]
    return prefix, f"{prefix}~"


def outcome_seq(row: str) -> int:
    """The number of the input whose outcome lies in this row."""
    return int(row.rpartition(".")[2], 16)


def task_rows_range(key: Key, kind: str) -> tuple[str, str]:
    """All rows of a kind: "task-outcome" or "task-metadata"."""
    prefix = f"{kind}.{key.record_row.removeprefix('task.')}."
    return prefix, f"{prefix}~"


def metadata_until(key: Key, epoch: int) -> tuple[str, str]:
    """The metadata of the task as it was created at this epoch, and at those before it."""
    first, _ = task_rows_range(key, "task-metadata")
    return first, f"{first}{epoch + 1:08x}"


_NESTED = {"active", "queue", "namespaces"}


def encode_record(record: Record) -> dict[str, str | int | float | bool]:
    """The record as fields of a row: scalars as they are, None left out, the rest as JSON text."""
    row: dict[str, str | int | float | bool] = {}
    for item in fields(record):
        value: Any = getattr(record, item.name)
        if item.name in _NESTED:
            value = json.dumps(_nested(value), separators=(",", ":")) if value else None
        if value is not None:
            row[item.name] = value
    return row


def _nested(value: Any) -> Any:
    if isinstance(value, Slot):
        return asdict(value)
    return [_nested(item) for item in cast("tuple[Any, ...]", value)] if isinstance(value, tuple) else value


def decode_record(entity: Entity) -> Record:
    """The record in a row. Fields that a newer version added are ignored, those it does not have take their defaults. Raises
    CorruptValue for what is no record, or one with a value that this version does not know."""
    stored: dict[str, Any] = dict(entity.fields)
    try:
        active = json.loads(stored["active"]) if "active" in stored else None
        stored["active"] = None if active is None else _made(Slot, active)
        stored["queue"] = tuple(_made(Slot, item) for item in json.loads(stored.get("queue", "[]")))
        stored["namespaces"] = tuple(_text(name) for name in json.loads(stored.get("namespaces", "[]")))
        return _made(Record, stored)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptValue(f"the record in row {entity.row!r} can't be read: {error}") from error


def _made[T: (Record, Slot)](cls: type[T], stored: dict[str, Any]) -> T:
    """Raises TypeError for a value of another type, for one that is missing, and for what is no object at all."""
    allowed = _allowed(cls)
    values = {name: value for name, value in stored.items() if name in allowed}
    for name, value in values.items():
        types, known = allowed[name]
        if type(value) not in types or (known and value not in known):
            raise TypeError(f"{name} has a value that is none")  # which may be somebody's text
    return cls(**values)


@lru_cache
def _allowed(cls: type) -> dict[str, tuple[set[Any], tuple[Any, ...]]]:
    """The fields of a class: the types that a value may have, and the values themselves if they are listed."""
    return {name: _of_hint(hint) for name, hint in get_type_hints(cls).items()}


def _of_hint(hint: Any) -> tuple[set[Any], tuple[Any, ...]]:
    if isinstance(hint, TypeAliasType):
        hint = hint.__value__
    if get_origin(hint) is Literal:
        return {str}, get_args(hint)
    types = {get_origin(one) or one for one in (get_args(hint) if isinstance(hint, UnionType) else (hint,))}
    return (types | {int} if float in types else types), ()


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A row of the index."""

    key: Key
    nonce: str
    created_at: float
    row: str = ""
    etag: str = ""


def encode_index(entry: IndexEntry) -> dict[str, str | float]:
    return {
        "scope": entry.key.scope,
        "task_id": entry.key.task_id,
        "nonce": entry.nonce,
        "created_at": entry.created_at,
    }


def decode_index(entity: Entity) -> IndexEntry:
    """The entry in a row of the index. Raises CorruptValue for what is none."""
    values: Mapping[str, Any] = entity.fields
    try:
        scope, task_id, nonce = (_text(values[name]) for name in ("scope", "task_id", "nonce"))
        key = Key(scope, task_id)
        _ = key.partition  # no scope, no partition
        return IndexEntry(key, nonce, float(values["created_at"]), entity.row, entity.etag)
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptValue(f"row {entity.row!r} of the index can't be read: {error!r}") from error


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a {type(value).__name__} is no text")
    return value
