"""What a handler has said of its response, checked: the events for the wire, and the snapshot to store.

Same shape as ResponseRenderer (accept for feed; fail, cancel, terminal, response, open_calls), so that the life of a turn
is one, whoever makes its events. The rules are those of reference 7.3; what breaks one is a HandlerFault, and the response
fails in every mode alike.

Numbers and indexes: events are numbered without gaps from where the wire stands. On recovery `created` is kept back and
takes no number, and the first thing on the wire is `response.in_progress` with the snapshot that the run goes on from, at
which clients that know of it start over. For the others see EarlierEvents.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, cast

from hosting.responses import Event, Item, open_calls
from hosting.responses.builders import CHECKPOINT, public_response
from hosting.responses.envelope import AGENT_FAILED, failure
from hosting.server.earlier_events import EarlierEvents
from hosting.server.event_checks import (
    TERMINAL,
    HandlerFault,
    Json,
    checked_index,
    checked_item,
    checked_response,
    event_type,
    plain_event,
)
from hosting.server.open_items import OpenItem
from hosting.server.stamp import Stamp
from hosting.server.transcript_items import TranscriptItems

__all__ = ["INTERRUPTED", "HandlerFault", "Transcript"]

INTERRUPTED = "Server interrupted before completing this response"
"""What a response that is not run again after a crash fails with (the published server's words)."""


class Transcript:
    """One run of a handler. Events and items that were handed out never change. Not for several tasks at once.

    `base` is the envelope that the server made of the request; its id and what it says of the request's place are not the
    handler's to change. `announced`: `response.created` is on the wire already. `persisted`: this is a recovery, from that
    snapshot (implies `announced`); with `earlier` no output index is used again and no item stays open. Numbers go on from
    `first_sequence_number`, or else after `earlier`.
    """

    def __init__(
        self,
        base: Mapping[str, Any],
        *,
        first_sequence_number: int | None = None,
        announced: bool = False,
        persisted: Mapping[str, Any] | None = None,
        earlier: EarlierEvents | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._stamp = Stamp(base, persisted)
        self._clock = clock
        self._events: list[Event] = []
        self._earlier = earlier if earlier is not None else EarlierEvents()
        self.next_sequence_number = (
            self._earlier.next_sequence_number if first_sequence_number is None else first_sequence_number
        )
        """The number of the next event."""
        self.announced = announced or persisted is not None
        """Whether the client knows of the response: `created` went out, in this run or before it."""
        self.silent = True
        """Nothing has come of the handler yet."""
        self.ended = False
        """The response is final."""
        self._known = self.announced
        """... before this run, so that its beginning is not for the wire."""
        self._recovery = persisted is not None
        self._created = False
        self._started = False
        self._items = TranscriptItems(None if persisted is None else persisted.get("output") or (), self._earlier)

    # The run

    def accept(self, event: object) -> list[Event]:
        """Take in an event of the handler; what goes over the wire for it, without a terminal event (see `terminal`).

        Nothing comes of events after the end. Raises HandlerFault for an event that breaks the rules.
        """
        kind = event_type(event)
        if self.ended:
            return []
        given = cast("Mapping[str, Any]", event)
        if kind == "response.created":
            self._accept_created(given)
        elif not (self._created or self._recovery):
            raise HandlerFault(f"the first event must be response.created, not {kind}")
        elif kind in ("response.queued", "response.in_progress"):
            self._accept_announcement(kind, given)
        elif kind == CHECKPOINT:
            self._merge(checked_response(given))
        elif kind in TERMINAL:
            self._accept_terminal(TERMINAL[kind], given)
        elif "output_index" in given:
            self._accept_item_event(kind, given)
        elif kind.startswith("response.output_item."):
            raise HandlerFault(f"{kind} without an output_index")
        else:
            self._start()
            self._pass_on(plain_event(given))
        self.silent = False
        return self._take()

    def complete_silently(self) -> list[Event]:
        """End the run of a handler that yielded nothing: a completed response without output (reference 7.3)."""
        return self._finish("completed")

    def fail(self, *, code: str = "server_error", message: str | None = None) -> list[Event]:
        """End the run as failed; `message` is public. Also after another end, when the response could not be stored."""
        return self._finish("failed", error=failure(code, message or AGENT_FAILED))

    def cancel(self) -> list[Event]:
        """End the run as cancelled. What was said until then stays in the output; open items become incomplete."""
        return self._finish("cancelled")

    def interrupt(self, reason: str) -> list[Event]:
        """End the run as incomplete, because something else goes before it. What was said until then counts."""
        return self._finish("incomplete", incomplete_details={"reason": reason})

    def terminal(self) -> Event:
        """The last event, for when the response is stored. Cancelled ends with `response.failed`: the API has no event of
        its own for it."""
        status = self._stamp.fields["status"]
        self._emit(f"response.{'failed' if status == 'cancelled' else status}", response=self.response)
        return self._take()[-1]

    # The snapshot

    @property
    def snapshot(self) -> Json:
        """The Response object as it is to be stored, with the items that are done; internal metadata included."""
        return self._stamp.fields | {"output": self.output_items}

    @property
    def response(self) -> Json:
        """The Response object as a client sees it."""
        return public_response(self.snapshot)

    @property
    def output_items(self) -> list[Item]:
        """The items that are done so far, in the order of their indexes."""
        return self._items.done

    @property
    def open_calls(self) -> list[str]:
        """call_ids that the client has to answer in its next turn."""
        return open_calls(self.output_items)

    # Lifecycle events

    def _accept_created(self, event: Mapping[str, Any]) -> None:
        if self._created or not self.silent:
            raise HandlerFault("response.created came twice, or after other events")
        response = checked_response(event)
        status = response.get("status") or "in_progress"
        if status not in ("in_progress", "queued"):
            raise HandlerFault(f"response.created with the status {status}")
        # From here on it is a beginning: a fault is a failed response, no error of the server.
        self._created = True
        self._announce(status)
        self._merge(response)
        if self._events:  # announced just now, before the handler's fields were known
            self._events[-1]["response"] = self._shown(status)

    def _accept_announcement(self, kind: str, event: Mapping[str, Any]) -> None:
        self._merge(checked_response(event))
        if kind == "response.in_progress":
            self._start()  # a second one would make clients start over: it does not go out
        elif self._started:
            raise HandlerFault("response.queued came after the run began")
        elif not self._known:
            self._emit(kind, response=self._shown("queued"))

    def _accept_terminal(self, status: str, event: Mapping[str, Any]) -> None:
        response = checked_response(event)
        self._merge(response)
        self._stamp.take_usage(response)
        fields: Json = {}
        if status == "failed":
            fields["error"] = self._stamp.error_of(response)
        elif status == "incomplete":
            details = response.get("incomplete_details")
            fields["incomplete_details"] = details if isinstance(details, dict) else None
        elif isinstance(at := response.get("completed_at"), (int, float)):
            fields["completed_at"] = at
        self._end(status, fields)

    def _merge(self, response: Json) -> None:
        """Take over what the handler says of the response; its output has to be what the item events made it."""
        self._stamp.check_id(response)
        output = response.get("output")
        self._items.begin(seeded=bool(output))
        if output is not None and output != self.output_items:
            raise HandlerFault("the output of the response was changed without item events")
        self._stamp.merge(response)

    def _announce(self, status: str) -> None:
        if not self.announced:
            self.announced = True
            self._emit("response.created", response=self._shown(status))

    def _start(self) -> None:
        """The run is in progress: said once, before anything else about it, whether or not the handler says so."""
        if self._started:
            return
        self._started = True
        self._items.begin(seeded=True)  # a recovered run that has said nothing of it: what was persisted stands
        for index, item in self._earlier.left_open():
            self._emit("response.output_item.done", output_index=index, item=item)
        self._emit("response.in_progress", response=self._shown("in_progress"))

    def _finish(self, status: str, **fields: Any) -> list[Event]:
        self._announce("in_progress")
        self._end(status, fields)
        return self._take()

    def _end(self, status: str, fields: Json) -> None:
        self._start()
        for index, item in self._items.left_open():
            self._item_done(index, item)
        self.ended = True
        completed_at = int(self._clock()) if status == "completed" else None
        ends: Json = {"error": None, "incomplete_details": None, "completed_at": completed_at}
        self._stamp.fields |= ends | fields | {"status": status}

    # Item events

    def _accept_item_event(self, kind: str, event: Mapping[str, Any]) -> None:
        index = checked_index(event)
        self._items.begin_at(index)
        if kind == "response.output_item.added":
            item = checked_item(event)
            self._items.add(kind, index, item)
            self._emit_item(kind, index, item)
            return
        current = self._items.open_at(kind, index)
        if kind == "response.output_item.done":
            item = checked_item(event)
            if OpenItem(item).identity != current.identity:
                raise HandlerFault(f"{kind}: another item than the one that was added at {index}")
            self._item_done(index, item)
            return
        plain = plain_event(event)
        if plain.get("item_id", current.item["id"]) != current.item["id"]:
            raise HandlerFault(f"{kind}: item_id is not that of the item at {index}")
        if wrong := current.observe(plain):
            raise HandlerFault(f"{kind}: {wrong}")
        self._start()
        plain["output_index"] = self._items.shown_index(index)
        self._pass_on(plain)

    def _item_done(self, index: int, item: Item) -> None:
        self._items.finish(index, item)
        self._emit_item("response.output_item.done", index, item)

    def _emit_item(self, kind: str, index: int, item: Item) -> None:
        self._start()
        self._emit(kind, output_index=self._items.shown_index(index), item=item)

    # The wire

    def _shown(self, status: str) -> Json:
        self._stamp.fields["status"] = status
        return self.response

    def _emit(self, kind: str, **fields: Any) -> None:
        self._events.append({"type": kind, "sequence_number": self.next_sequence_number, **fields})
        self.next_sequence_number += 1

    def _pass_on(self, event: Json) -> None:
        event["sequence_number"] = self.next_sequence_number
        self._events.append(event)
        self.next_sequence_number += 1

    def _take(self) -> list[Event]:
        events, self._events = self._events, []
        return events
