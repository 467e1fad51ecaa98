"""Streams of events that outlive connections, and with a durable backing also processes.

from hosting.streaming import streams

streams.use_blob_replay(...)                     # once, at start-up; docs/streaming.md has the four backings
stream = await streams.get_or_create(response_id)
await stream.emit({"sequence_number": 0, ...})
async for event in stream.subscribe(after=last_seen):
    ...
await stream.close()
"""

from hosting.streaming._errors import (
    EventStreamClosedError,
    EventStreamError,
    EventStreamNotFoundError,
    StreamCorrupt,
    StreamCursorError,
    StreamFenced,
    StreamLagged,
    StreamUnavailable,
)
from hosting.streaming._options import Capabilities, StreamTuning
from hosting.streaming._registry import StreamRegistry
from hosting.streaming._stream import EventStream

__all__ = [
    "Capabilities",
    "EventStream",
    "EventStreamClosedError",
    "EventStreamError",
    "EventStreamNotFoundError",
    "StreamCorrupt",
    "StreamCursorError",
    "StreamFenced",
    "StreamLagged",
    "StreamRegistry",
    "StreamTuning",
    "StreamUnavailable",
    "streams",
]

streams = StreamRegistry()
"""The registry of this process. Its default backing is live; the app configures blob replay."""
