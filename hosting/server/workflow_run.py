"""One run of a workflow: from a validated request to the record of a turn. The counterpart of AgentRun.

    read the checkpoint that the previous response names -> restore it, with the client's answers -> the new input
    -> what it says goes to the client as it comes, what it waits for at the end -> the record, with the new checkpoint

The checkpoint is written in the transaction of the turn. If the process dies before it, nothing of the turn exists, and
the turn can be run again from the same checkpoint as before, in any process.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakValueDictionary

from agent_framework import Message, Workflow, WorkflowExecutor
from agent_framework.exceptions import WorkflowCheckpointException

from hosting import telemetry
from hosting.responses import CreateRequest, ResponseRenderer, messages_from_items, options_from_request
from hosting.responses.errors import InvalidRequest
from hosting.responses.workflow_answers import decode_answer, split_answers
from hosting.responses.workflow_output import WorkflowOutput
from hosting.responses.workflow_requests import open_requests
from hosting.server.workflow_checkpoint import RunCheckpoint
from hosting.server.workflow_session import WorkflowSession
from hosting.state import Turn, TurnRecord, Turns
from hosting.state.checkpoint_declared import declared_types
from hosting.state.checkpoint_types import CheckpointTypeRefused
from hosting.state.checkpoints import TableCheckpointStorage
from hosting.storage import Json, Operation

if TYPE_CHECKING:
    from agent_framework import WorkflowCheckpoint

    from hosting.server.answer import Emit

__all__ = ["WorkflowRun"]

_log = logging.getLogger(__name__)

_GONE = "The workflow's state after the previous response can't be restored, so it can't be continued."
_CHANGED = "The workflow was changed while it waited for this answer, so it can't take it. Start again."
_REGISTER = "which is not allowed in a checkpoint: give its class to agent_framework.register_checkpoint_type"
_USED = (
    "an executor of this workflow has run in another turn, and its state would get into this one: host "
    "WorkflowState(create_workflow, cache_target=False) with a function that makes new executors each time"
)
_NOT_STORED = "The workflow waits for an answer, which it can only get when the response is stored: send store=true."

# Executors that have run: they keep state that no restore is sure to reset, and it must not get into another conversation.
_used: WeakValueDictionary[int, Any] = WeakValueDictionary()


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What to run a workflow with."""

    workflow: Workflow
    start: "WorkflowCheckpoint | None"
    """The checkpoint to restore."""
    answers: dict[str, Any]
    """What it waits for and is told, by request id."""
    messages: list[Message]


class WorkflowRun:
    """A workflow in one turn. Used once, and so is the workflow.

    The start executor takes `list[Message]`, as for agent-framework's WorkflowAgent: the new messages of the turn.
    """

    def __init__(
        self, target: Any, request: CreateRequest, items: Sequence[dict[str, Any]], turns: Turns, turn: Turn
    ) -> None:
        self._target, self._request, self._items = target, request, items
        self._turns, self._turn = turns, turn
        self._before = WorkflowSession.read(turn.session)
        self._prepared: _Prepared | None = None
        self._after: WorkflowSession | None = None
        self._rows: list[Operation] = []

    async def prepare(self) -> None:
        """Read the checkpoint and the client's answers to it. For a server that can still refuse the request; `run` does it
        otherwise.

        Raises InvalidRequest for answers that the workflow does not wait for or that have the wrong type, and for a workflow
        that can't be continued; TypeError for a workflow that can't be hosted; RuntimeError for one that has run before;
        StorageError.
        """
        if self._prepared is None:
            self._prepared = await self._prepare(_claim(self._target))

    async def run(self, renderer: ResponseRenderer, emit: "Emit", *, stream: bool) -> None:
        """Run the workflow until it is done or waits for an answer, and finish the response.

        What `prepare` refuses makes the response fail, with the reason; then the conversation stands where it was, and the
        workflow can be answered again. Raises what the workflow raises, what `prepare` raises else, and
        WorkflowCheckpointException when the new state can't be stored. `stream` makes no difference: agents stream in both
        cases, so that both have the same items.
        """
        try:
            await self.prepare()
        except InvalidRequest as refusal:
            _log.info("%s: its input was refused", self._turn.response_id)
            await emit(renderer.fail(code="invalid_prompt", message=refusal.message))
            return
        prepared = self._prepared
        assert prepared is not None
        held, start, superstep = RunCheckpoint(prepared.start), prepared.start, 0
        if start is not None:
            given = {"responses": prepared.answers} if prepared.answers else {}
            superstep = await self._drive(held, renderer, emit, checkpoint_id=start.checkpoint_id, **given)
        if prepared.messages or start is None:
            superstep = await self._drive(held, renderer, emit, message=prepared.messages)
        await self._pause_or_end(prepared, held.after(superstep), renderer, emit)

    def record(self, renderer: ResponseRenderer) -> TurnRecord:
        """What to store of the turn."""
        response = renderer.response
        if response["status"] not in ("completed", "incomplete"):
            return TurnRecord(response, self._items, continues=False)
        said = [item for item in renderer.output_items if item["type"] == "message"]
        asked = [item for item in self._items if item["type"] == "message"]
        messages = [cast("Json", message.to_dict()) for message in messages_from_items([*asked, *said])]
        if self._after is not None:
            return TurnRecord(
                response,
                self._items,
                messages=messages,
                session=self._after.to_document(),
                open_calls=renderer.open_calls,
                extra=self._rows,
            )
        # It was stopped: the workflow stands where it was, and so do its questions.
        stopped = self._before.with_unseen(messages) if self._before is not None else None
        return TurnRecord(
            response,
            self._items,
            messages=messages,
            session=stopped.to_document() if stopped is not None else None,
            open_calls=self._turn.open_calls,
        )

    async def _prepare(self, workflow: Workflow) -> _Prepared:
        before = self._before
        answers, others = split_answers(self._items, before.requests if before is not None else ())
        messages = messages_from_items(others)
        if before is None or before.graph != workflow.graph_signature_hash:
            if answers:
                raise InvalidRequest(_CHANGED, param="input")
            if before is not None:
                _log.warning("%s: the graph of the workflow was changed, it starts again", self._turn.response_id)
            # A workflow that has not been in this conversation is told what was said in it.
            messages = [*_messages(await self._turns.history(self._turn)), *messages]
            return _Prepared(workflow, None, {}, messages)
        try:
            start = await self._storage(workflow, before.bucket).load(before.checkpoint_id)
            waiting = {identifier: start.pending_request_info_events[identifier] for identifier in answers}
        except (WorkflowCheckpointException, KeyError) as error:
            _log.error("%s: the checkpoint can't be restored: %s", self._turn.response_id, telemetry.describe(error))
            raise InvalidRequest(_GONE, param="previous_response_id") from None
        decoded = {identifier: decode_answer(item, waiting[identifier]) for identifier, item in answers.items()}
        return _Prepared(workflow, start, decoded, [*_messages(before.unseen), *messages] if messages else [])

    async def _drive(self, held: RunCheckpoint, renderer: ResponseRenderer, emit: "Emit", **arguments: Any) -> int:
        """Run until the workflow is idle; the number of its last superstep."""
        if (tools := options_from_request(self._request).get("tools")) is not None:
            arguments["tools"] = tools  # an agent that calls one waits for the client's answer, as for any other
        output, superstep = WorkflowOutput(), 0
        stream = self._target.run(stream=True, checkpoint_storage=held, **arguments)
        try:
            async for event in stream:
                if event.type == "superstep_completed":
                    superstep = event.iteration or 0
                elif event.type == "error" and isinstance(event.data, BaseException):  # and the run goes on
                    _log.warning("%s: the workflow reports %s", self._turn.response_id, telemetry.describe(event.data))
                await _say(output.feed(event), renderer, emit)
            await _say(output.finish(), renderer, emit)
        finally:
            # Dropping the iterator would leave executors running.
            await stream.close()
        return superstep

    async def _pause_or_end(
        self, prepared: _Prepared, checkpoint: "WorkflowCheckpoint", renderer: ResponseRenderer, emit: "Emit"
    ) -> None:
        waiting = open_requests(checkpoint.pending_request_info_events.values())
        await _say([content for _, content in waiting], renderer, emit)
        if waiting and not self._request.store:
            await emit(renderer.fail(code="invalid_prompt", message=_NOT_STORED))
            return
        workflow = prepared.workflow
        if self._request.store:
            self._rows = self._encoded(workflow, checkpoint)
        self._after = WorkflowSession(
            workflow.name,
            workflow.graph_signature_hash,
            self._turn.response_id,
            checkpoint.checkpoint_id,
            [request for request, _ in waiting],
            self._before.unseen if self._before is not None and not prepared.messages else (),
        )
        await emit(renderer.finish())

    def _encoded(self, workflow: Workflow, checkpoint: "WorkflowCheckpoint") -> list[Operation]:
        try:
            return self._storage(workflow, self._turn.response_id).rows(checkpoint)
        except CheckpointTypeRefused as error:
            # The developer's to mend, so it is in the log also where messages of exceptions are not.
            _log.error("An executor keeps a %s, %s", error.type_name, _REGISTER)
            raise

    def _storage(self, workflow: Workflow, bucket: str) -> TableCheckpointStorage:
        return TableCheckpointStorage(
            self._turns.store,
            scope=self._turns.scope,
            session_id=bucket,
            allowed_types=declared_types(workflow),
            keep=None,
        )


def _claim(target: Any) -> Workflow:
    """The workflow, when nobody has run it, nor another one with an executor of it."""
    problem: Exception | None = None
    if not isinstance(target, Workflow):
        problem = TypeError(
            f"{type(target).__name__} can't be hosted: a workflow is what WorkflowBuilder().build() makes"
        )
    elif not _takes_messages(target):
        problem = TypeError(f"the start executor {target.start_executor_id!r} does not take list[Message]")
    elif any(_used.get(id(executor)) is executor for executor in _executors(target)):
        problem = RuntimeError(_USED)
    if problem is not None:
        # The developer's to mend, so it is in the log also where messages of exceptions are not.
        _log.error("The workflow can't be hosted: %s", problem)
        raise problem
    _used.update({id(executor): executor for executor in _executors(target)})
    return target


def _takes_messages(workflow: Workflow) -> bool:
    try:
        workflow.as_agent()  # checks just that
    except ValueError:
        return False
    return True


def _executors(workflow: Workflow) -> Iterator[Any]:
    for executor in workflow.executors.values():
        yield executor
        if isinstance(executor, WorkflowExecutor):
            yield from _executors(executor.workflow)


def _messages(stored: Sequence[Json]) -> list[Message]:
    return [Message.from_dict(cast("dict[str, Any]", message)) for message in stored]


async def _say(things: Sequence[object], renderer: ResponseRenderer, emit: "Emit") -> None:
    for thing in things:
        if events := renderer.feed(thing):
            await emit(events)
