"""What can go wrong in a way that the person at the keyboard can fix."""

__all__ = ["AppLoadError", "DevHostError", "WorkerDied"]


class DevHostError(Exception):
    """Shown as one line, without a traceback; the message says what to do."""


class AppLoadError(DevHostError):
    """The app itself fails to load.

    `details` are lines of the app's own traceback: file, line and source, without the frames of devhost, of Python's
    import machinery and of installed packages.
    """

    def __init__(self, message: str, details: list[str] | None = None) -> None:
        super().__init__(message)
        self.details = details or []


class WorkerDied(Exception):
    """The worker process ended before it answered. Nobody knows how far the function got."""
