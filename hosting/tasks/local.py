"""Drives tasks in this process, without Durable Functions: for `hosting.testing`, benches and tests."""

import asyncio
import logging

from hosting.storage import StorageError
from hosting.tasks._engine import Engine
from hosting.tasks._rows import Key

__all__ = ["LocalDriver"]

_log = logging.getLogger("hosting.tasks")
_AFTER_ERROR = 1.0


class LocalDriver:
    """The driver loop of the orchestration, as an asyncio task. If the process dies, the recovery scan finds the work."""

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._running: dict[tuple[Key, int, int], asyncio.Task[None]] = {}

    def bind(self, engine: Engine) -> None:
        """The engine whose attempts to drive; it needs the driver first, so this comes second."""
        self._engine = engine

    async def ensure(self, key: Key, activation: int, generation: int) -> None:
        name = (key, activation, generation)
        if name not in self._running:
            task = asyncio.create_task(self._drive(key, activation), name=f"drive {key.task_id}")
            self._running[name] = task
            task.add_done_callback(lambda _: self._running.pop(name, None))

    async def _drive(self, key: Key, activation: int) -> None:
        engine = self._engine
        if engine is None:
            raise RuntimeError("the driver has no engine: call bind() first")
        while not engine.shutdown.is_set():
            try:
                verdict = await engine.attempt(key, activation)
            except StorageError as error:
                _log.warning("task %s: attempt could not begin: %r", key.task_id, error)
                await engine.clock.sleep(_AFTER_ERROR)
                continue
            if verdict.next == "done":
                return
            if verdict.seconds > 0:
                await engine.clock.sleep(verdict.seconds)

    async def close(self) -> None:
        """Cancel what is being driven, as the end of a process does."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
