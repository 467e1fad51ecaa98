"""Which files of an app make devhost load it again."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from watchfiles import Change, DefaultFilter, awatch

from devhost.errors import DevHostError

__all__ = ["source_changes"]

# Beside what watchfiles leaves out by itself: node_modules, virtual environments, caches.
_NOT_THE_APP = {*DefaultFilter.ignore_dirs, "tests"}


class _Source(DefaultFilter):
    """Python and JSON files."""

    def __call__(self, change: Change, path: str) -> bool:
        return path.endswith((".py", ".json")) and super().__call__(change, path)


async def source_changes(app_dir: Path, stop: asyncio.Event) -> AsyncIterator[set[Path]]:
    """Sets of changed files, until `stop`. A folder that is made later in the app's folder is not seen.

    Raises DevHostError when the system does not let folders be watched.
    Folders are chosen before they are watched: node_modules and .venv have more of them than a system may watch.
    """
    changed: asyncio.Queue[Path | Exception] = asyncio.Queue()

    async def watch(folders: list[Path], recursive: bool) -> None:
        options = {"watch_filter": _Source(), "stop_event": stop, "debounce": 200, "step": 50, "rust_timeout": 500}
        try:
            async for changes in awatch(*folders, recursive=recursive, **options):
                for _, path in changes:
                    changed.put_nowait(Path(path))
        except Exception as error:
            changed.put_nowait(error)

    inner = [d for d in app_dir.iterdir() if d.is_dir() and d.name not in _NOT_THE_APP and not d.name.startswith(".")]
    watchers = [asyncio.create_task(watch([app_dir], False))]
    if inner:
        watchers.append(asyncio.create_task(watch(inner, True)))
    try:
        while True:
            seen = [await changed.get()]
            while not changed.empty():
                seen.append(changed.get_nowait())
            if failure := next((item for item in seen if isinstance(item, Exception)), None):
                raise DevHostError(f"changes are not seen any more, start devhost again: {failure}")
            yield {item for item in seen if isinstance(item, Path)}
    finally:
        for watcher in watchers:
            watcher.cancel()
