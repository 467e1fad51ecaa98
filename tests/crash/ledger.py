"""What was promised, and whether the store keeps it, after whatever has happened."""

import asyncio
import itertools
import json
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hosting.storage import Entity, Store
from hosting.tasks._rows import INDEX_PARTITIONS, INDEX_RANGE, Key

__all__ = ["Ledger", "Promise"]


@dataclass(frozen=True, slots=True)
class Promise:
    """An input that was accepted: `start` returned."""

    name: str
    key: Key
    input_id: str
    seq: int
    n: int


@dataclass
class Ledger:
    """The accepted inputs of a run, and the checks that hold at its end."""

    store: Store
    promises: list[Promise] = field(default_factory=list)

    async def outcomes(self, key: Key) -> list[Entity]:
        return await self.store.query(key.partition, "task-outcome.", "task-outcome.~")

    async def wait(self, seconds: float) -> None:
        """Until every promise has an outcome."""
        deadline = time.monotonic() + seconds
        missing = list(self.promises)
        while missing:
            found = await asyncio.gather(*(self._ended(promise) for promise in missing))
            missing = [promise for promise, ended in zip(missing, found, strict=True) if not ended]
            if missing and time.monotonic() > deadline:
                states = [
                    (p.name, p.key.task_id, p.input_id, await self.store.get(p.key.partition, p.key.record_row))
                    for p in missing[:5]
                ]
                raise AssertionError(f"{len(missing)} of {len(self.promises)} inputs have no outcome, e.g. {states}")
            await asyncio.sleep(0.2)

    async def _ended(self, promise: Promise) -> bool:
        row = promise.key.outcome_row(promise.input_id, promise.seq)
        return await self.store.get(promise.key.partition, row, documents=()) is not None

    async def check_store(self) -> int:
        """Each accepted input has exactly one outcome, nothing else has one, and no task has anything left to do. Returns
        how many outcomes there are."""
        by_key: defaultdict[Key, list[Promise]] = defaultdict(list)
        for promise in self.promises:
            by_key[promise.key].append(promise)
        total = 0
        for key, promises in by_key.items():
            rows = await self.outcomes(key)
            assert sorted(int(str(r.fields["seq"])) for r in rows) == sorted(p.seq for p in promises), key
            record = await self.store.get(key.partition, key.record_row)
            assert record is not None
            assert record.fields["status"] in ("suspended", "completed"), (key, record.fields)
            assert await self.store.query(key.partition, "task-input.", "task-input.~") == []
            total += len(rows)
        return total

    async def check_index(self, seconds: float) -> None:
        """Nothing is left in the index, once the scan has removed what crashes have left."""
        deadline = time.monotonic() + seconds
        while True:
            rows = [r for p in INDEX_PARTITIONS for r in await self.store.query(p, *INDEX_RANGE)]
            if not rows:
                return
            assert time.monotonic() < deadline, f"{len(rows)} index rows are left, e.g. {rows[0].fields}"
            await asyncio.sleep(0.3)

    async def value(self, promise: Promise) -> Any:
        row = promise.key.outcome_row(promise.input_id, promise.seq)
        entity = await self.store.get(promise.key.partition, row)
        assert entity is not None
        return entity.fields["kind"], entity.documents.get("value")


@dataclass
class Journal:
    """What the handlers noted: every entry, and every way out that was not a kill."""

    path: Path

    def lines(self) -> list[dict[str, Any]]:
        text = self.path.read_bytes().decode() if self.path.exists() else ""
        return [json.loads(line) for line in text.splitlines() if line.endswith("}")]

    def entries(self) -> list[dict[str, Any]]:
        return [line for line in self.lines() if line["event"] == "enter"]

    def check_generations(self) -> None:
        """No generation was run twice. Within an input each new lease counts up either the retries or the recoveries."""
        seen: set[tuple[Any, ...]] = set()
        for line in self.entries():
            generation = (line["task"], line["input"], line["value"]["n"], line["recovery"], line["retry"])
            assert generation not in seen, f"entered twice: {line}"
            seen.add(generation)

    def overlaps(self, killed: dict[int, float]) -> int:
        """How many executions of one task overlapped in time. Those of a killed process end with it."""
        exits = {line["run"]: line["t"] for line in self.lines() if line["event"] == "exit"}
        spans: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        for line in self.entries():
            spans[line["task"]].append((line["t"], exits.get(line["run"], killed.get(line["pid"], float("inf")))))
        count = 0
        for times in spans.values():
            times.sort()
            count += sum(later[0] < earlier[1] for earlier, later in itertools.pairwise(times))
        return count
