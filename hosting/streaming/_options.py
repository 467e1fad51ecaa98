"""What a backing can do, and what can be tuned in one that is made of segments."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

__all__ = ["Capabilities", "CursorFn", "StreamTuning"]

type CursorFn = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What differs between backings. What is not here is the same for all of them (tests/contract)."""

    replay: bool
    """A late subscriber gets what was emitted before, and `after` works (given a `cursor_fn`)."""
    survives_restart: bool
    """Streams are there after a restart of the process."""
    across_processes: bool
    """Any process can subscribe, and taking a stream over fences a writer in any process; else in this one only."""
    emit_is_durable: bool
    """`emit` returns when the event is stored. Else it may return before; `flush` and `close` wait."""
    any_cursor: bool
    """Cursors are any comparable values in any order. Else they are integers from 0 to 2**53 - 1, each greater than the
    one before."""
    event_ttl: bool
    """Each event expires by itself, `ttl_seconds` after its emit. Else only whole streams do, after their close."""
    any_payload: bool
    """Payloads are any object that `copy.deepcopy` takes. Else what the serializer takes, which is JSON unless given."""


@dataclass(frozen=True, slots=True)
class StreamTuning:
    """Cost and latency of streams in blobs. The cost formula is in docs/streaming.md."""

    flush_interval: timedelta = timedelta(milliseconds=200)
    """Least time between the starts of two appends of a stream; events gather meanwhile. The first event after a pause
    goes at once, and so do `flush` and `close`. Appends are what costs: 60 s / interval of them per streamed minute.
    Shorter is smoother text for the reader, longer is cheaper."""

    poll_active: timedelta = timedelta(milliseconds=30)
    """How long a follower in another process first waits before it looks again. Shorter is less lag and more reads.
    After news it first waits out three quarters of `flush_interval`, because nothing can come sooner except by `flush`
    and `close`. Each look that finds nothing makes the next wait half as long again."""

    poll_idle: timedelta = timedelta(seconds=1)
    """Where that growth ends: the most that an event after a long silence is late for a follower in another process. A
    silent follower costs 60 s / this reads per minute."""

    poll_local: timedelta = timedelta(seconds=5)
    """The same while the writer is in this process, which wakes its followers in memory. Reads only serve to notice that
    another process has taken the stream over."""

    segment_bytes: int = 512 * 1024
    """A segment is left for a new one when it has this size; one append adds at most as much. A resume reads half a
    segment in vain on average; a new one costs one request, and a replay one read for each."""

    segment_appends: int = 10_000
    """Or when it has taken this many appends. A blob takes 50,000; small ones keep a resume's read small."""

    buffer_bytes: int = 8 * 1024 * 1024
    """What a writer holds that is not yet durable; beyond it, `emit` waits. Per stream."""

    window_bytes: int = 128 * 1024
    """The latest events that a process keeps in memory per stream in use, for subscribers that keep up. Those that don't
    read from the store."""

    give_up_after: timedelta = timedelta(seconds=60)
    """How long a writer or a subscriber tries while the storage does not answer, before it raises StreamUnavailable."""

    def __post_init__(self) -> None:
        waits = (self.poll_active, self.poll_idle, self.poll_local)
        if self.flush_interval < timedelta(0) or min(waits) <= timedelta(0) or self.give_up_after < timedelta(0):
            raise ValueError("StreamTuning: times must be positive (flush_interval and give_up_after may be zero)")
        if min(self.segment_bytes, self.buffer_bytes) < 1 or self.window_bytes < 0:
            raise ValueError("StreamTuning: sizes must be positive (window_bytes may be zero)")
        # A batch may be cut into several appends, and the claim of a writer comes on top.
        if not 1 <= self.segment_appends <= 40_000:
            raise ValueError(
                "StreamTuning: segment_appends must be from 1 to 40,000, an append blob takes 50,000 blocks"
            )
