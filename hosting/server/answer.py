"""The seam between the life of a turn and what answers it: an agent, a workflow, or a handler of the app's own.

    run -> (fail | cancel | interrupt) -> record, stored by the server -> terminal

An answer makes the events and the final response of one turn. It knows nothing of HTTP, tasks or rows: the foreground and the
background drive every kind of answer the same way.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from hosting.responses import CreateRequest, Event, Item
from hosting.server.caller import RequestFacts
from hosting.server.earlier_events import EarlierEvents
from hosting.state import Turn, TurnRecord, Turns

__all__ = ["FIRST_STORED_EVENT", "Answer", "Attempt", "Checkpoint", "Emit", "StopCause", "TurnInput"]

type Json = dict[str, Any]

FIRST_STORED_EVENT = 2
"""Number of the first event of a background response after `response.created` and `response.queued`, which announce it."""

type Emit = Callable[[Sequence[Event]], Awaitable[None]]
"""Puts events on the wire. What it raises ends the run and comes out of it."""

type Checkpoint = Callable[[Json], Awaitable[None]]
"""Stores a snapshot of the response."""

type StopCause = Literal["cancel_requested", "newer_input", "timeout", "shutdown"]
"""Why a run is asked to end: its client cancelled it or is gone, a newer turn waits, its time is up, or this process stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What is particular about this run of the turn. The defaults are those of a foreground turn, which has one run."""

    announced: bool = False
    """Whether the client knows of the response already."""
    earlier: EarlierEvents = field(default_factory=EarlierEvents)
    """What runs before this one put on the wire; numbers and output indexes go on after it."""
    persisted: Json | None = None
    """The response as it was last stored, when an earlier run began and did not finish."""
    recoverable: bool = False
    """Whether another process runs the turn again when this one leaves it."""
    steered: bool = False
    """Whether the turn waited behind another one."""
    pending: Callable[[], int] = lambda: 0
    """How many newer turns wait behind it."""
    shutdown: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when this process is stopping."""
    checkpoint: Checkpoint | None = None
    """Stores progress; None where nothing would read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnInput:
    """All that an answer is made from."""

    request: CreateRequest
    items: list[Item]
    """The input in its stored form, with ids."""
    turns: Turns
    turn: Turn
    model: str
    created_at: int
    stream: bool
    """Whether somebody sees the events as they come."""
    facts: RequestFacts = field(default_factory=RequestFacts)
    attempt: Attempt = field(default_factory=Attempt)


class Answer(Protocol):
    """One run. Used once, and by one task."""

    @property
    def agent(self) -> str | None:
        """The name of the agent or workflow, which makes OpenTelemetry spans of its own; None for a handler."""
        ...

    async def run(self, emit: Emit) -> bool:
        """Make the answer; its events but the terminal one go to `emit`. False: it is not finished, another process goes on.

        Raises what goes wrong, after which the server calls `fail`; and ResponseNotCreated, when there is no response to
        speak of. When the task is cancelled, the server calls `cancel`, `interrupt` or `fail`, or leaves it to another
        process.
        """
        ...

    def stop(self, cause: StopCause) -> float:
        """Ask the run to end. How many seconds it has for that before its task is cancelled: 0 for at once, inf for ever."""
        ...

    def fail(self, *, message: str | None = None) -> list[Event]:
        """End as failed; `message` is public. Also after another end, when the response could not be stored."""
        ...

    def cancel(self) -> list[Event]:
        """End as cancelled. What was said until then stays."""
        ...

    def interrupt(self, reason: str) -> list[Event]:
        """End as incomplete for `reason`. What was said until then counts."""
        ...

    def terminal(self) -> Event:
        """The last event, for when the response is stored."""
        ...

    @property
    def response(self) -> Json:
        """The Response object as a client sees it; final after the end."""
        ...

    def record(self) -> TurnRecord:
        """What to store. Raises TypeError for a session that can't be read back."""
        ...
