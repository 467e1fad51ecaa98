"""What a stream is to the code that uses it, and what a backing is to the registry."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Protocol, runtime_checkable

from hosting.streaming._options import Capabilities

__all__ = ["Backing", "EventStream", "one_by_one"]


@runtime_checkable
class EventStream(Protocol):
    """Events in order, from one writer to any number of subscribers. `emit`, `close`, `subscribe` and `last_cursor` are
    the seed's; `flush` and `batches` are ours.

    On a stream that was deleted or has expired, everything but `close` raises EventStreamNotFoundError.
    """

    async def emit(self, payload: Any, *, close: bool = False) -> None:
        """Add an event, and with `close` end the stream with it, in one step.

        The payload is copied or encoded before this returns. When something about it is wrong (`cursor_fn` raises, it
        can't be serialized: TypeError or ValueError, StreamCursorError), nothing is stored and the stream goes on.
        Raises EventStreamClosedError, StreamFenced, StreamUnavailable.

        Backings whose `emit_is_durable` is False take the event and return; it is stored and visible within the flush
        interval. If it could not be stored, the next call of this stream raises.
        """
        ...

    async def flush(self) -> None:
        """Return when all that was emitted through this object is stored. Raises as `emit`."""
        ...

    async def close(self) -> None:
        """End the stream; subscribers end after its last event. Waits until that is stored. Again: does nothing."""
        ...

    def subscribe(self, *, after: Any = None) -> AsyncGenerator[Any]:
        """The payloads with a cursor greater than `after` (all, without `after` or `cursor_fn`), then the coming ones.

        It attaches when iteration starts. Each subscriber gets objects of its own. It ends when the stream is closed or
        deleted. Raises StreamLagged, StreamCorrupt, StreamUnavailable.
        """
        ...

    def batches(self, *, after: Any = None) -> AsyncGenerator[list[Any]]:
        """As `subscribe`, with all that is there at once in one list: one write to a socket instead of many."""
        ...

    async def last_cursor(self) -> Any:
        """The greatest cursor stored; None without events or `cursor_fn`. Flushes what this object has emitted."""
        ...


class Backing(Protocol):
    """A way to keep streams. `id` is any text but ""."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        ...

    def holds(self, id: str) -> bool:
        """Whether this process has the stream in hand."""
        ...

    def __len__(self) -> int:
        """How many streams this process has in hand."""
        ...

    async def get(self, id: str) -> EventStream:
        """An existing stream. Raises EventStreamNotFoundError."""
        ...

    async def get_or_create(self, id: str) -> EventStream:
        """The stream, new if there is none."""
        ...

    async def take_over(self, id: str, generation: int | None = None) -> EventStream:
        """The stream with a new writer; the writer before is fenced. Raises StreamFenced when that one is newer."""
        ...

    async def delete(self, id: str) -> None:
        """Remove a stream and all it stored, if there is one."""
        ...

    async def shutdown(self) -> None:
        """Flush writers and release connections; no stream is closed by it."""
        ...


async def one_by_one(batches: AsyncGenerator[list[Any]]) -> AsyncGenerator[Any]:
    """The elements of the lists."""
    # Closed with this one: else what the inner one holds would wait for the garbage collector.
    async with aclosing(batches):
        async for batch in batches:
            for payload in batch:
                yield payload
