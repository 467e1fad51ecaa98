"""WorkflowState over real workflows; the rules of resolution are in test_state_targets.py."""

import asyncio
from typing import Any

import pytest
from agent_framework import Workflow, WorkflowBuilder, WorkflowContext, executor

from hosting.state import WorkflowState


@executor(id="shout")
async def shout(text: str, context: WorkflowContext[Any, str]) -> None:
    await asyncio.sleep(0)
    await context.yield_output(text.upper())


def builder() -> WorkflowBuilder:
    return WorkflowBuilder(name="shouting", start_executor=shout, output_from=[shout])


def test_a_workflow_is_the_target_at_once() -> None:
    workflow = builder().build()
    assert WorkflowState(workflow).target is workflow


async def test_a_builder_gives_one_workflow_when_cached() -> None:
    state = WorkflowState(builder())
    with pytest.raises(RuntimeError, match="get_target"):
        _ = state.target
    workflow = await state.get_target()
    assert isinstance(workflow, Workflow)
    assert state.target is workflow is await state.get_target()


async def test_factories_and_awaitables_give_workflows() -> None:
    async def later() -> Workflow:
        return builder().build()

    sources: list[Any] = [lambda: builder().build(), builder, later, later()]
    for source in sources:
        assert isinstance(await WorkflowState(source).get_target(), Workflow)


async def test_any_object_with_build_is_a_builder() -> None:
    workflow = builder().build()

    class Orchestration:
        def build(self) -> Workflow:
            return workflow

    assert await WorkflowState(Orchestration()).get_target() is workflow


async def test_without_cache_requests_run_at_the_same_time() -> None:
    state = WorkflowState(builder(), cache_target=False)

    async def request(text: str) -> list[Any]:
        return (await (await state.get_target()).run(text)).get_outputs()

    assert await asyncio.gather(*(request(text) for text in ("a", "b", "c"))) == [["A"], ["B"], ["C"]]


def test_an_awaitable_without_cache_is_refused() -> None:
    async def later() -> Workflow:
        return builder().build()

    with pytest.raises(ValueError, match="cache_target=False"):
        WorkflowState(later(), cache_target=False)
