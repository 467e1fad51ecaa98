"""Which files of an app make devhost load it again."""

from pathlib import Path

from watchfiles import Change, DefaultFilter

__all__ = ["SourceFilter"]

# Beside what watchfiles leaves out by itself: .git, node_modules, virtual environments, caches.
_FOREIGN = (".azurite", ".python_packages", "docs", "bench", "tests", "devhost", "infra")


class SourceFilter(DefaultFilter):
    """Python and JSON files of the app, but not of the tools beside it."""

    def __init__(self, app_dir: Path) -> None:
        super().__init__(ignore_paths=[str(app_dir / name) for name in _FOREIGN])

    def __call__(self, change: Change, path: str) -> bool:
        """Whether the change counts."""
        return path.endswith((".py", ".json")) and super().__call__(change, path)
