"""The span and the measurements of a turn, and how agent-framework's own fit below it."""

import asyncio
from typing import Any

import pytest
from agent_framework import Agent, ChatOptions, observability
from opentelemetry.trace import StatusCode

from demo_agent import create_demo_chat_client
from hosting.telemetry import Turn, request_span, turn
from hosting.telemetry._log_fields import current_fields
from tests.telemetry_recorder import Recorder, recorder

__all__ = ["recorder"]

USAGE = {"input_tokens": 7, "output_tokens": 11, "total_tokens": 18}


def new_turn(**changes: Any) -> Turn:
    given: dict[str, Any] = {
        "response_id": "resp_1",
        "agent": "helper",
        "mode": "foreground",
        "model": "gpt-of-the-caller",
        "conversation": "conv_1",
        "tenant": "0123abcd",
    }
    return turn(**{**given, **changes})


async def test_a_turn_is_a_child_of_the_request_that_it_was_made_in_though_it_runs_in_another_task(recorder: Recorder):
    with request_span("POST", "v1/responses", {}) as request:
        made = new_turn()
        request.answered(200)

    async def run() -> None:
        with made as running:
            running.ended("completed")

    await asyncio.create_task(run())
    parent = recorder.span("turn helper").parent
    assert parent is not None
    assert parent.span_id == recorder.span("POST /v1/responses").context.span_id


def test_a_turn_carries_the_genai_attributes(recorder: Recorder):
    with new_turn() as running:
        running.ended("completed", USAGE)
    attributes = dict(recorder.span("turn helper").attributes or {})
    assert attributes == {
        "gen_ai.provider.name": "microsoft.agent_framework",
        "gen_ai.agent.name": "helper",
        "gen_ai.request.model": "gpt-of-the-caller",
        "gen_ai.response.id": "resp_1",
        "gen_ai.conversation.id": "conv_1",
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 11,
        "hosting.tenant": "0123abcd",
        "hosting.turn.mode": "foreground",
        "hosting.turn.stream": False,
        "hosting.turn.status": "completed",
    }


def test_the_turn_of_a_handler_that_measures_nothing_is_the_invoke_agent_span(recorder: Recorder):
    with new_turn(instrumented=False, provider="contoso") as running:
        running.ended("completed", USAGE)
    attributes = dict(recorder.span("invoke_agent helper").attributes or {})
    assert attributes["gen_ai.operation.name"] == "invoke_agent"
    agent = {"gen_ai__operation__name": "invoke_agent", "gen_ai__provider__name": "contoso"}
    assert recorder.point("gen_ai.client.operation.duration", **agent).count == 1
    assert recorder.point("gen_ai.client.token.usage", gen_ai__token__type="input", **agent).sum == 7
    assert recorder.point("gen_ai.client.token.usage", gen_ai__token__type="output", **agent).sum == 11


def test_a_turn_around_an_instrumented_agent_leaves_the_genai_measurements_to_it(recorder: Recorder):
    with new_turn() as running:
        running.ended("completed", USAGE)
    assert not recorder.points("gen_ai.client.operation.duration")
    assert not recorder.points("gen_ai.client.token.usage")


async def test_agent_framework_makes_the_one_invoke_agent_span_below_the_turn_and_says_nothing_of_content(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(observability, "get_tracer", lambda: recorder.tracers.get_tracer("agent_framework"))
    agent = Agent(client=create_demo_chat_client(), name="helper", default_options=ChatOptions(store=False))
    with new_turn() as running:
        async for _ in agent.run("my SECRET", stream=True):
            running.first_event()
        running.ended("completed")
    invoked = recorder.span("invoke_agent helper")
    assert invoked.parent is not None
    assert invoked.parent.span_id == recorder.span("turn helper").context.span_id
    spoken = [span for span in recorder.spans if (span.attributes or {}).get("gen_ai.operation.name") == "invoke_agent"]
    assert spoken == [invoked]
    assert "SECRET" not in recorder.everything()


def test_only_the_first_event_is_measured(recorder: Recorder):
    with new_turn() as running:
        running.first_event()
        running.first_event()
        running.ended("completed")
    assert recorder.point("hosting.turn.time_to_first_event", hosting__turn__mode="foreground").count == 1
    assert "hosting.turn.time_to_first_event" in (recorder.span("turn helper").attributes or {})


def test_a_failed_turn_says_which_error_and_not_what_it_says(recorder: Recorder):
    with new_turn() as running:
        running.ended("failed", error=ValueError("SECRET"))
    recorded = recorder.span("turn helper")
    assert recorded.status.status_code is StatusCode.ERROR
    assert recorded.status.description is None
    assert not recorded.events
    assert (recorded.attributes or {})["error.type"] == "ValueError"
    assert recorder.point("hosting.turn.duration", error__type="ValueError", hosting__turn__status="failed").count == 1
    assert "SECRET" not in recorder.everything()


@pytest.mark.parametrize(
    ("error", "status"), [(asyncio.CancelledError(), "cancelled"), (ValueError("SECRET"), "failed"), (None, "left")]
)
def test_a_turn_that_does_not_say_how_it_ended(recorder: Recorder, error: BaseException | None, status: str):
    try:
        with new_turn():
            if error is not None:
                raise error
    except (ValueError, asyncio.CancelledError) as raised:
        assert raised is error
    assert recorder.point("hosting.turn.duration", hosting__turn__status=status).count == 1
    assert "SECRET" not in recorder.everything()


def test_what_was_said_last_of_an_end_counts(recorder: Recorder):
    with new_turn() as running:
        running.ended("completed", USAGE)
        running.ended("failed")  # the commit was refused
    assert recorder.point("hosting.turn.duration", hosting__turn__status="failed", error__type="_OTHER").count == 1


def test_an_error_that_was_told_before_the_end_is_kept(recorder: Recorder):
    with new_turn() as running:
        running.ended("failed", error=ValueError("SECRET"))
        running.ended("failed", USAGE)  # what is stored
    assert recorder.point("hosting.turn.duration", error__type="ValueError").count == 1


def test_the_first_event_is_the_first_that_is_not_an_announcement(recorder: Recorder):
    with new_turn() as running:
        running.emitted([{"type": "response.created"}, {"type": "response.in_progress"}])
        assert not recorder.points("hosting.turn.time_to_first_event")
        running.emitted([{"type": "response.output_item.added"}])
        running.emitted([{"type": "response.output_text.delta"}])
        running.ended("completed")
    assert recorder.point("hosting.turn.time_to_first_event").count == 1


def test_running_turns_are_counted_up_and_down(recorder: Recorder):
    with new_turn():
        assert recorder.point("hosting.turn.active").value == 1
    assert recorder.point("hosting.turn.active").value == 0


def test_no_measurement_carries_an_id_a_tenant_or_a_model_that_a_caller_chose(recorder: Recorder):
    with new_turn(instrumented=False) as running:
        running.first_event()
        running.ended("completed", USAGE)
    measured = "".join(
        str(dict(point.attributes)) for name in recorder.instruments() for point in recorder.points(name)
    )
    for unbounded in ("resp_1", "conv_1", "0123abcd", "gpt-of-the-caller"):
        assert unbounded not in measured


def test_a_caller_s_model_is_cut_short(recorder: Recorder):
    with new_turn(model="m" * 100_000) as running:
        running.ended("completed")
    assert len(str((recorder.span("turn helper").attributes or {})["gen_ai.request.model"])) == 128


def test_log_records_inside_a_turn_are_about_it(recorder: Recorder):
    with new_turn():
        assert dict(current_fields()) == {
            "response_id": "resp_1",
            "conversation": "conv_1",
            "tenant": "0123abcd",
            "agent": "helper",
        }
    assert not current_fields()


def test_without_a_provider_a_turn_works_all_the_same():
    with new_turn() as running:
        running.first_event()
        running.ended("completed", USAGE)
