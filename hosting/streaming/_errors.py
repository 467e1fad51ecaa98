"""What streams raise. The first three are the seed's; the others say more, and are all an EventStreamError."""

__all__ = [
    "EventStreamClosedError",
    "EventStreamError",
    "EventStreamNotFoundError",
    "StreamCorrupt",
    "StreamCursorError",
    "StreamFenced",
    "StreamLagged",
    "StreamUnavailable",
]


class EventStreamError(Exception):
    """Base of everything that streams raise by themselves."""


class EventStreamClosedError(EventStreamError):
    """An emit after close."""


class EventStreamNotFoundError(EventStreamError):
    """The id names no stream: never created, deleted, or expired."""


class StreamFenced(EventStreamError):
    """Another writer has taken the stream over. Nothing that this one has not made durable will be stored; stop."""


class StreamCursorError(EventStreamError):
    """The cursor can't be stored: it is not greater than the last one, or not of a kind that the backing takes."""


class StreamUnavailable(EventStreamError):
    """The storage did not answer for so long that this writer or subscriber gives up. The StorageError is the cause.

    What a writer had not made durable may or may not be stored: take the stream over and look at `last_cursor`.
    """


class StreamLagged(EventStreamError):
    """A subscriber of an in-memory stream was so far behind that events it had not read were dropped."""


class StreamCorrupt(EventStreamError):
    """Events that were stored can't be read: damaged, or their segment is gone.

    All events before the damage have been delivered. `subscribe(after=error.resume_after)` goes on behind it.
    """

    def __init__(self, what: str, resume_after: int) -> None:
        super().__init__(f"{what}; what follows has cursors greater than {resume_after}")
        self.resume_after = resume_after
