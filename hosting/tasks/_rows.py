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
from typing import Any, cast

from hosting.storage import Entity, keys
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
    "outcome_range",
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
        return f"task.{self._local}"

    def input_row(self, seq: int) -> str:
        return f"task-input.{self._local}.{seq:08x}"

    def outcome_row(self, input_id: str, seq: int) -> str:
        return f"task-outcome.{self._local}.{_digest(input_id)[:32]}.{seq:08x}"

    def metadata_row(self, epoch: int, name: str) -> str:
        return f"task-metadata.{self._local}.{epoch:08x}.{keys.encode_key(name)}"

    @property
    def index_partition(self) -> str:
        return INDEX_PARTITIONS[int(self.digest[:8], 16) % _SHARDS]

    def index_row(self, nonce: str) -> str:
        return f"{self.digest}.{nonce}"

    def instance_id(self, activation: int, generation: int) -> str:
        """The orchestration that drives an activation of the task, from a generation on: 60 ASCII characters at most."""
        return f"task-{self.digest}-{activation:x}-{generation:x}"

    def log_fields(self) -> dict[str, str]:
        """What a log record about this task carries."""
        return fields_of_log(task=self.task_id, tenant=self.scope)

    def to_payload(self) -> dict[str, str]:
        return {"scope": self.scope, "task_id": self.task_id}

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any]) -> "Key":
        return cls(str(payload["scope"]), str(payload["task_id"]))


def outcome_range(key: Key, input_id: str) -> tuple[str, str]:
    """The outcomes of all inputs that had this id."""
    prefix = key.outcome_row(input_id, 0)[:-8]
    return prefix, f"{prefix}~"


def task_rows_range(key: Key, kind: str) -> tuple[str, str]:
    """All rows of a kind: "task-outcome" or "task-metadata"."""
    prefix = f"{kind}.{key.record_row.removeprefix('task.')}."
    return prefix, f"{prefix}~"


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
    """The record in a row. Fields that a newer version added are ignored, those it does not have take their defaults."""
    known = {item.name for item in fields(Record)}
    values: dict[str, Any] = {name: value for name, value in entity.fields.items() if name in known}
    values["active"] = _slot(json.loads(values["active"])) if "active" in values else None
    values["queue"] = tuple(_slot(item) for item in json.loads(values.get("queue", "[]")))
    values["namespaces"] = tuple(json.loads(values.get("namespaces", "[]")))
    return Record(**values)


def _slot(values: dict[str, Any]) -> Slot:
    known = {item.name for item in fields(Slot)}
    return Slot(**{name: value for name, value in values.items() if name in known})


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
    values: Mapping[str, Any] = entity.fields
    key = Key(str(values["scope"]), str(values["task_id"]))
    return IndexEntry(key, str(values["nonce"]), float(values["created_at"]), entity.row, entity.etag)
