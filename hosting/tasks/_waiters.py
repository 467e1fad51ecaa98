"""Who waits in this process for which input to end."""

import asyncio
from collections import defaultdict

from hosting.tasks._outcome import Outcome
from hosting.tasks._rows import Key

__all__ = ["DEFERRED_HERE", "Waiters"]

type _Slot = tuple[Key, int]


class _DeferredHere:
    """The attempt in this process gave the work back."""


DEFERRED_HERE = _DeferredHere()


class Waiters:
    """Every wait has a future of its own: one that times out or is cancelled takes nothing away from the others."""

    def __init__(self) -> None:
        self._futures: defaultdict[_Slot, set[asyncio.Future[Outcome | _DeferredHere]]] = defaultdict(set)

    def add(self, key: Key, seq: int) -> "asyncio.Future[Outcome | _DeferredHere]":
        """A future of the caller's own: the outcome of the input, or DEFERRED_HERE. Give it back to `remove`."""
        future: asyncio.Future[Outcome | _DeferredHere] = asyncio.get_running_loop().create_future()
        self._futures[key, seq].add(future)
        return future

    def remove(self, key: Key, seq: int, future: "asyncio.Future[Outcome | _DeferredHere]") -> None:
        """The caller waits no longer."""
        waiting = self._futures[key, seq]
        waiting.discard(future)
        if not waiting:
            del self._futures[key, seq]

    def announce(self, key: Key, seq: int, outcome: Outcome) -> None:
        """The input has ended, and its outcome is stored."""
        self._resolve(key, seq, outcome)

    def defer(self, key: Key, seq: int) -> None:
        """The attempt in this process gave the input back: it goes on elsewhere."""
        self._resolve(key, seq, DEFERRED_HERE)

    def _resolve(self, key: Key, seq: int, result: "Outcome | _DeferredHere") -> None:
        for future in self._futures.get((key, seq), ()):
            if not future.done():
                future.set_result(result)
