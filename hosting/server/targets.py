"""What an app hosts: one agent or workflow, several by name, or a response handler; and which of them a request means."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from hosting.responses import ApiError, check_tool_names
from hosting.server.agent_run import AgentRun
from hosting.server.answer import Answer, TurnInput
from hosting.server.handler import ResponseHandler, check_handler
from hosting.server.handler_answer import HandlerAnswer
from hosting.server.options import ResponsesServerOptions
from hosting.server.rendered_answer import RenderedAnswer
from hosting.state import AgentState, WorkflowState

__all__ = ["Acceptor", "Hosted", "Targets"]

_log = logging.getLogger(__name__)

type Hosted = AgentState[Any] | WorkflowState[Any]
"""What can be hosted under a name."""

type Acceptor = Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any] | Awaitable[Mapping[str, Any]]]
"""Called with the request and the stored response of a turn that has to wait; gives the body of the answer. May be async."""


class Targets:
    """`hosted` is one of them, which answers whatever `model` a request names; several by name, of which the first is the
    default and others are unknown; or None for an app with a handler.

    Raises ValueError for a mapping that is empty or has other names than texts, and TypeError for what is no AgentState or
    WorkflowState: a bare agent, or the function that makes it.
    """

    def __init__(
        self, hosted: Hosted | Mapping[str, Hosted] | None, options: ResponsesServerOptions, model: str
    ) -> None:
        """`model` is the default name, of the option or the setting."""
        self._options = options
        self._hosted: dict[str, Hosted] = dict(hosted) if isinstance(hosted, Mapping) else {}
        self._only = None if isinstance(hosted, Mapping) else hosted
        if isinstance(hosted, Mapping):
            if not self._hosted or not all(isinstance(name, str) and name for name in hosted):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ValueError("name at least one agent: agent_app({'name': AgentState(...)})")
            if model not in self._hosted:
                model = next(iter(self._hosted))
        for state in self._hosted.values() if isinstance(hosted, Mapping) else (hosted,):
            if state is not None and not isinstance(state, AgentState | WorkflowState):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(
                    "agent_app takes AgentState(create_agent), WorkflowState(create_workflow), or several of them by name; "
                    f"not {type(state).__name__}"
                )
        self.default = model
        """The name that counts when a request names none."""
        self._handler: ResponseHandler | None = None
        self.acceptor: Acceptor | None = None

    @property
    def names(self) -> list[str]:
        """Names that can be listed; the default comes first."""
        return [self.default, *(name for name in self._hosted if name != self.default)]

    def register_handler(self, handler: ResponseHandler) -> None:
        """Have `handler` answer every turn. The last one counts. Raises TypeError for a wrong signature, and ValueError when
        the app hosts an agent."""
        check_handler(handler)
        if self._hosted or self._only is not None:
            raise ValueError(
                "this app hosts an agent: a response handler would never be called. Use agent_app() without one"
            )
        self._handler = handler

    def model(self, asked: str | None) -> str:
        """The model that a response names. Raises ApiError for a name that is none of several."""
        if asked is None:
            return self.default
        if self._hosted and asked not in self._hosted:
            raise ApiError.model_not_found(asked)
        return asked

    async def reads_history(self, model: str) -> bool:
        """Whether the stored messages of earlier turns are needed to begin. Raises what the agent's factory raises."""
        state = self._state(model)
        if not isinstance(state, AgentState):
            return False
        target = await state.get_target()
        from hosting.state import uses_table_history  # imports agent-framework, which the agent has done by now

        return uses_table_history(target)

    async def answer(self, given: TurnInput) -> Answer:
        """What answers this turn. Raises what the agent's factory raises; ApiError when it
        can't take the request: a tool has the name of one of its own, or the agent or workflow waits for something else."""
        if self._handler is not None:
            return HandlerAnswer(given, self._handler, self._options)
        state = self._state(given.model)
        if state is None:
            _log.error("The app hosts nothing: give agent_app an AgentState, or register a response handler")
            return RenderedAnswer(given, None)
        target = await state.get_target()
        if isinstance(state, AgentState):
            run = AgentRun(target, given.request, given.items, given.turns, given.turn)
            if not given.attempt.announced:
                check_tool_names(given.request, target)
                run.check()
            return RenderedAnswer(given, run, str(getattr(target, "name", None) or given.model))
        # Imports agent-framework, which the workflow has done by now.
        from hosting.server.workflow_run import WorkflowRun

        workflow = WorkflowRun(target, given.request, given.items, given.turns, given.turn)
        if not given.attempt.announced:
            await workflow.prepare()  # what it can't take is still an error of the request then
        return RenderedAnswer(given, workflow, str(getattr(target, "name", None) or given.model))

    def _state(self, model: str) -> Hosted | None:
        return self._only if self._only is not None else self._hosted.get(model)
