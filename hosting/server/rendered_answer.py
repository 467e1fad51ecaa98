"""The answer of an agent or a workflow: what it produces, rendered to events."""

from typing import Any, Protocol

from hosting.responses import Event, ResponseRenderer
from hosting.server.answer import FIRST_STORED_EVENT, Emit, StopCause, TurnInput
from hosting.state import TurnRecord

__all__ = ["RenderedAnswer", "Runner"]


class Runner(Protocol):
    """Runs an agent or a workflow once; see AgentRun."""

    async def run(self, renderer: ResponseRenderer, emit: Emit, *, stream: bool) -> None:
        """To its end, and finish the response."""
        ...

    def record(self, renderer: ResponseRenderer) -> TurnRecord:
        """What to store of the turn."""
        ...


class RenderedAnswer:
    """See Answer. A run is ended by cancelling its task: an agent knows no other signal."""

    def __init__(self, given: TurnInput, runner: Runner | None, agent: str | None = None) -> None:
        """`runner` is None for a response that is not run again: it can only fail."""
        self._given, self._runner, self.agent = given, runner, agent
        earlier = given.attempt.earlier
        announced = given.attempt.announced
        number = max(earlier.next_sequence_number, FIRST_STORED_EVENT) if announced else 0
        # A reader that does not start over at the second `response.in_progress` needs every item closed.
        self._closing: list[Event] = [
            {"type": "response.output_item.done", "sequence_number": number + n, "output_index": index, "item": item}
            for n, (index, item) in enumerate(earlier.left_open())
        ]
        self._renderer = ResponseRenderer(
            response_id=given.turn.response_id,
            request=given.request,
            model=given.model,
            created_at=given.created_at,
            first_sequence_number=number + len(self._closing) - (FIRST_STORED_EVENT if announced else 0),
            first_output_index=earlier.used_indexes,
        )
        if announced:
            self._renderer.enqueue()  # these two are announced already, or stand for the ones before a crash

    async def run(self, emit: Emit) -> bool:
        if self._runner is None:
            raise RuntimeError(f"nothing answers the model {self._given.model!r}")
        await emit([*self._take_closing(), *self._renderer.start()])
        await self._runner.run(self._renderer, emit, stream=self._given.stream)
        return True

    def stop(self, cause: StopCause) -> float:
        return float("inf") if cause == "shutdown" else 0.0

    def fail(self, *, message: str | None = None) -> list[Event]:
        events = [*self._take_closing(), *self._renderer.fail(message=message)]
        persisted = self._given.attempt.persisted
        if self._runner is None and persisted is not None:
            self._renderer.response["output"] = list(persisted["output"])  # what had been stored of it stays
        return events

    def cancel(self) -> list[Event]:
        return [*self._take_closing(), *self._renderer.cancel()]

    def interrupt(self, reason: str) -> list[Event]:
        return [*self._take_closing(), *self._renderer.interrupt(reason)]

    def terminal(self) -> Event:
        return self._renderer.terminal()

    @property
    def response(self) -> dict[str, Any]:
        return self._renderer.response

    def record(self) -> TurnRecord:
        if self._runner is None:
            return TurnRecord(self.response, self._given.items, continues=False)
        return self._runner.record(self._renderer)

    def _take_closing(self) -> list[Event]:
        closing, self._closing = self._closing, []
        return closing
