"""One run of an agent: from a validated request to the record of a turn, whoever drives it and wherever its events go."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

from hosting.responses import (
    CreateRequest,
    InvalidRequest,
    ResponseRenderer,
    executable_tools,
    known_calls,
    known_calls_of_session,
    messages_from_items,
    options_from_request,
)
from hosting.responses.approvals import check_approvals, declined
from hosting.server.answer import Emit
from hosting.server.workflow_session import WorkflowSession
from hosting.state import (
    CurrentTurn,
    Turn,
    TurnRecord,
    Turns,
    accepts_options,
    current_turn,
    decode_session,
    encode_session,
)
from hosting.storage import Json

__all__ = ["AgentRun"]

_REMEMBERED = 8
"""Messages before this turn that are looked at for calls without a result: those of the last turn, with some to spare."""


class AgentRun:
    """The agent, its session and its history in one turn. Used once."""

    def __init__(
        self, target: Any, request: CreateRequest, items: Sequence[dict[str, Any]], turns: Turns, turn: Turn
    ) -> None:
        self._target, self._request, self._items = target, request, items
        self._turns, self._turn = turns, turn
        self._session: Any = None
        self._added: list[Json] = []

    def check(self) -> None:
        """Raises InvalidRequest for an answer to an approval that the agent does not wait for. For a server that can still
        refuse the request; `run` does it too.
        """
        if not hasattr(self._target, "default_options"):
            return  # no agent of agent-framework's own make: it keeps elsewhere what it waits for
        with suppress(ValueError):  # a session that can't be restored is no fault of the client's: `run` raises it
            self._session = self._session or self._open_session()
        if self._session is not None:
            check_approvals(self._items, self._session.state)

    async def run(self, renderer: ResponseRenderer, emit: Emit, *, stream: bool) -> None:
        """Run the agent to its end and finish the response. What `check` refuses makes it fail, with the reason.

        Raises what the agent raises, and ValueError for a stored session that can't be restored.
        """
        try:
            self.check()
        except InvalidRequest as refusal:
            await emit(renderer.fail(code="invalid_prompt", message=refusal.message))
            return
        self._session = self._session or self._open_session()
        renderer.add_server_tools(executable_tools(self._target))
        # What an approval or a pause has left to this run: where the agent keeps its messages, it remembers the calls.
        known = known_calls_of_session(self._session.state) | known_calls((self._turn.history or ())[-_REMEMBERED:])
        no = declined(self._items)
        renderer.remember(
            {name: call._replace(declined=call.approval_request_id in no) for name, call in known.items()}
        )
        current = CurrentTurn(self._turns, self._turn, self._session.session_id)
        self._added = current.added
        arguments: dict[str, Any] = {"session": self._session}
        if accepts_options(self._target):
            arguments["options"] = options_from_request(self._request)
        if _is_framework_agent(self._target):
            # Imports agent-framework, which the agent has done by now.
            from hosting.server.tool_exit import NoExit

            arguments["middleware"] = [NoExit()]
        messages = messages_from_items(self._items)
        with current_turn(current):
            if stream:
                await self._stream(messages, arguments, renderer, emit)
            else:
                result = await self._target.run(messages, **arguments)
                await emit(renderer.feed_result(result))
                await emit(renderer.finish(result))

    async def _stream(self, messages: Any, arguments: dict[str, Any], renderer: ResponseRenderer, emit: Emit) -> None:
        stream = self._target.run(messages, stream=True, **arguments)
        try:
            async for update in stream:
                await emit(renderer.feed(update))
            await emit(renderer.finish(await stream.get_final_response()))
        finally:
            # After a normal end this does nothing. On a failure or a disconnect it stops the model call: dropping the
            # iterator would leave it running.
            await stream.close()

    def record(self, renderer: ResponseRenderer) -> TurnRecord:
        """What to store of the turn. Raises TypeError for a session that can't be read back."""
        continues = renderer.response["status"] in ("completed", "incomplete")
        if renderer.response["incomplete_details"] == {"reason": "steered"}:
            self._remember_interrupted(renderer)
        return TurnRecord(
            response=renderer.response,
            input=self._items,
            messages=self._added if continues else None,
            session=encode_session(self._session) if continues and self._has_content() else None,
            open_calls=renderer.open_calls if continues else (),
            continues=continues,
        )

    def _remember_interrupted(self, renderer: ResponseRenderer) -> None:
        """An agent that is stopped keeps nothing of its turn. The next one must know what was asked and said so far."""
        said = [item for item in renderer.output_items if item["type"] == "message"]
        messages = messages_from_items([*self._items, *said])
        self._added = [cast("Json", message.to_dict()) for message in messages]

    def _open_session(self) -> Any:
        session = self._turn.session
        # A workflow that answered before leaves a document of its own here, which is of no use to an agent.
        if session is not None and WorkflowSession.read(session) is None:
            return decode_session(cast("dict[str, Any]", session))
        return self._target.create_session(session_id=self._turn.response_id)

    def _has_content(self) -> bool:
        if self._session is None:
            return False
        # Providers leave an empty dict each in the state; those are not worth a row.
        return any(self._session.state.values()) or self._session.service_session_id is not None


def _is_framework_agent(target: object) -> bool:
    """Whether it takes middleware at a run, as agent-framework's own Agent does."""
    return "middleware" in getattr(getattr(type(target), "run", None), "__annotations__", {})
