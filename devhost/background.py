"""Tasks that nobody awaits."""

import asyncio
import traceback
from collections.abc import Coroutine
from typing import Any

from devhost.console import Console

__all__ = ["Background"]


class Background:
    """Keeps tasks alive until they are done, and shows the error of one that fails, which is a defect of devhost."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task."""
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self._console.error("defect in devhost:\n" + "".join(traceback.format_exception(error)))

    def cancel(self) -> None:
        """Cancel all."""
        for task in self._tasks:
            task.cancel()

    async def wait(self) -> None:
        """Wait until all are done."""
        if self._tasks:
            await asyncio.wait(self._tasks)
