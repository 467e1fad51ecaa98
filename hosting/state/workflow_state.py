"""The workflow that routes run, kept where they can share it (surface of the second seed)."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol, cast

from hosting.state._targets import Target, TargetSource

if TYPE_CHECKING:
    from agent_framework import Workflow

__all__ = ["SupportsBuild", "WorkflowState"]


class SupportsBuild[WorkflowT](Protocol):
    """A builder: WorkflowBuilder and the orchestration builders of agent-framework are."""

    def build(self) -> WorkflowT:
        """A new workflow."""
        ...


class WorkflowState[WorkflowT: Workflow]:
    """Resolves one workflow for many requests. It owns no checkpoint storage and no cursor: the app passes those to `run`.

    A workflow instance runs one request at a time and keeps state between runs, so an app that serves requests at the
    same time passes a factory or a builder with `cache_target=False` and gets a new workflow on each `get_target()`.
    """

    def __init__(
        self,
        target: WorkflowT
        | SupportsBuild[WorkflowT]
        | Awaitable[WorkflowT | SupportsBuild[WorkflowT]]
        | Callable[[], WorkflowT | SupportsBuild[WorkflowT] | Awaitable[WorkflowT | SupportsBuild[WorkflowT]]],
        *,
        cache_target: bool = True,
    ) -> None:
        """`target`: a Workflow, an object with `build()`, a factory (sync or async) of either, or an awaitable of either.

        Raises ValueError for `cache_target=False` with an awaitable, and TypeError for None.
        """
        source = cast("TargetSource[WorkflowT]", target)  # a builder anywhere in it is built away by Target
        self._target = Target(source, cache_target=cache_target, builders=True)

    async def get_target(self) -> WorkflowT:
        """The workflow, resolved (and built) first where needed. Raises whatever the factory or builder raises."""
        return await self._target.get()

    @property
    def target(self) -> WorkflowT:
        """The workflow, if it is there without waiting. Raises RuntimeError otherwise: `await get_target()` first."""
        return self._target.available
