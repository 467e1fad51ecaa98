"""One trace from the request to the agent, here and in another process, and what it must not hold."""

from collections.abc import Mapping
from typing import Any

import pytest
from agent_framework import Agent, ChatOptions, observability
from opentelemetry.sdk.trace import ReadableSpan

from demo_agent import create_demo_chat_client
from hosting.responses.builders import TextResponse
from hosting.state import AgentState, TableHistoryProvider
from tests.server_world import serve, until
from tests.telemetry_recorder import Recorder, recorder

__all__ = ["recorder"]


def demo() -> Agent:
    return Agent(
        client=create_demo_chat_client(),
        name="helper",
        context_providers=[TableHistoryProvider()],
        default_options=ChatOptions(store=False),
    )


@pytest.fixture(autouse=True)
def agent_framework(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observability, "get_tracer", lambda: recorder.tracers.get_tracer("agent_framework"))


def path(recorder: Recorder, span: ReadableSpan) -> list[str]:
    """The names of the spans from the root down to this one."""
    spans = {one.context.span_id: one for one in recorder.spans}
    names = [span.name]
    while span.parent is not None:
        span = spans[span.parent.span_id]
        names.insert(0, span.name)
    return names


@pytest.mark.parametrize("stream", [False, True])
async def test_a_foreground_turn_is_one_trace_down_to_the_agent(recorder: Recorder, stream: bool):
    async with serve(hosted=AgentState(demo)) as world:
        if stream:
            await (await world.stream("hi")).ends()
        else:
            await world.create("hi")
    invoked = recorder.span("invoke_agent helper")
    assert path(recorder, invoked) == ["POST /v1/responses", "turn helper", "invoke_agent helper"]
    assert recorder.point("hosting.turn.duration", hosting__turn__status="completed").count == 1
    assert recorder.point("hosting.turn.time_to_first_event").count == 1


async def test_a_background_turn_is_one_trace_through_its_task(recorder: Recorder):
    async with serve(hosted=AgentState(demo)) as world:
        made = await world.create("hi", background=True)
        await world.ended(made["id"])
        await until(lambda: len(recorder.named("task hosting.response")) == 1)
    invoked = recorder.span("invoke_agent helper")
    names = ["POST /v1/responses", "task hosting.response", "turn helper", "invoke_agent helper"]
    assert path(recorder, invoked) == names
    assert (recorder.span("turn helper").attributes or {})["gen_ai.response.id"] == made["id"]


async def test_a_run_that_goes_on_in_another_process_stays_in_the_trace_of_its_request(recorder: Recorder):
    async with serve(hosted=AgentState(demo), resilient_background=True) as world:
        made = await world.create("[[slow 400 5]]", background=True)
        await world.engine.settle()
        await world.kill()
        await world.restart()
        await world.ended(made["id"])
        await until(
            lambda: len(recorder.named("task hosting.response")) == 2
        )  # a span ends after what it stored is seen
    attempts = recorder.named("task hosting.response")
    request = recorder.named("POST /v1/responses")[0]
    assert [(span.attributes or {})["hosting.task.recoveries"] for span in attempts] == [0, 1]
    assert {span.context.trace_id for span in attempts} == {request.context.trace_id}


async def test_storage_spans_lie_below_the_turn_or_the_request(recorder: Recorder):
    async with serve(hosted=AgentState(demo)) as world:
        await world.create("hi")
    roots = {path(recorder, span)[0] for span in recorder.spans}
    assert roots == {"POST /v1/responses"}
    assert len([span for span in recorder.spans if span.name.startswith("storage ")]) < 10


async def test_nothing_that_anybody_says_is_recorded(recorder: Recorder, caplog: pytest.LogCaptureFixture):
    async with serve(hosted=AgentState(demo)) as world:
        await world.create("my SECRET is [[raise]]")
        made = await world.create("my SECRET", background=True, metadata={"SECRET": "SECRET"})
        await world.ended(made["id"])
        await until(lambda: len(recorder.named("task hosting.response")) == 1)
    assert recorder.point("hosting.turn.duration", hosting__turn__status="failed").count == 1
    assert "SECRET" not in recorder.everything()
    assert "SECRET" not in caplog.text


async def test_the_turn_of_a_handler_is_an_invoke_agent_span_itself(recorder: Recorder):
    async def handler(request: Any, context: Any, cancellation_signal: Any) -> TextResponse:
        return TextResponse(context, request, text="hello")

    async with serve(handler) as world:
        await world.create("hi")
    (invoked,) = [span for span in recorder.spans if span.name.startswith("invoke_agent ")]
    assert path(recorder, invoked)[0] == "POST /v1/responses"


class Hook:
    def __init__(self) -> None:
        self.calls: list[tuple[str, str, BaseException | None]] = []

    def on_span_start(self, name: str, tags: Mapping[str, Any]) -> None:
        self.calls.append(("start", str(tags["gen_ai.response.id"]), None))

    def on_span_end(self, name: str, tags: Mapping[str, Any], error: BaseException | None) -> None:
        self.calls.append(("end", str(tags["gen_ai.response.id"]), error))


@pytest.mark.parametrize("background", [False, True])
async def test_the_hook_is_called_once_for_each_create_request(recorder: Recorder, background: bool):
    hook = Hook()
    async with serve(hosted=AgentState(demo), create_span_hook=hook) as world:
        made = await world.create("hi", background=background)
        if background:
            await world.ended(made["id"])
            await until(lambda: len(hook.calls) == 2)
    assert hook.calls == [("start", made["id"], None), ("end", made["id"], None)]
