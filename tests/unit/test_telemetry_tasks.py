"""Attempts at tasks: their trace, in whichever process, and what is measured of them."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
from opentelemetry import context, trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, StatusCode, TraceFlags

from hosting.storage import Store, memory_store
from hosting.tasks import RetryPolicy, TaskContext, task
from hosting.tasks._rows import Key
from hosting.telemetry import request_span
from hosting.testing import TestEngine, VirtualClock, task_engine
from tests.telemetry_recorder import Recorder, recorder

__all__ = ["recorder"]


@task(name="telemetry.plain")
async def plain(ctx: TaskContext[str]) -> str:
    return ctx.input


@task(name="telemetry.failing")
async def failing(ctx: TaskContext[str]) -> None:
    raise ValueError("SECRET")


@task(name="telemetry.retried", retry=RetryPolicy(initial_delay=timedelta(seconds=1), max_attempts=3))
async def retried(ctx: TaskContext[str]) -> str:
    if ctx.retry_attempt == 0:
        raise ValueError("SECRET")
    return ctx.input


@task(name="telemetry.hanging")
async def hanging(ctx: TaskContext[str]) -> None:
    await asyncio.Event().wait()


@task(name="telemetry.recovering")
async def recovering(ctx: TaskContext[str]) -> str:
    if ctx.recovery_count == 0:
        await asyncio.Event().wait()
    return ctx.input


@pytest.fixture
async def engine() -> AsyncIterator[TestEngine]:
    async with task_engine() as made:
        yield made


def under(span: SpanContext) -> Any:
    return context.attach(trace.set_span_in_context(NonRecordingSpan(span)))


def attributes(span: Any) -> Mapping[str, Any]:
    return dict(span.attributes or {})


async def test_an_attempt_goes_on_with_the_trace_of_the_request_that_started_the_task(
    recorder: Recorder, engine: TestEngine
):
    with request_span("POST", "v1/responses", {}) as request:
        run = await plain.start(input="x")
        request.answered(200)
    await engine.settle()
    await run.result()
    parent = recorder.span("task telemetry.plain").parent
    assert parent is not None
    assert parent.is_remote
    assert parent.span_id == recorder.span("POST /v1/responses").context.span_id


async def test_an_attempt_in_another_process_after_a_crash_belongs_to_the_same_trace(recorder: Recorder):
    store, clock = memory_store(), VirtualClock()
    async with task_engine(store, clock=clock) as first:
        with request_span("POST", "v1/responses", {}) as request:
            await recovering.start(input="x", task_id="t-trace")
            request.answered(200)
        await first.settle()
        await first.kill()
    async with task_engine(store, clock=clock) as second:
        await second.advance(timedelta(minutes=2))
        await second.recover()
        await second.settle()
    completed = [
        span for span in recorder.named("task telemetry.recovering") if attributes(span)["hosting.task.recoveries"]
    ]
    request_trace = recorder.span("POST /v1/responses").context.trace_id
    assert [span.context.trace_id for span in completed] == [request_trace]
    assert attributes(completed[0])["hosting.task.result"] == "completed"
    assert recorder.point("hosting.task.recoveries", hosting__task__name="telemetry.recovering").value == 1
    assert recorder.point("hosting.task.redriven", hosting__task__name="telemetry.recovering").value == 1


def test_durable_functions_takes_the_trace_of_the_request_along(recorder: Recorder):
    from durabletask.internal import tracing  # what its client reads when it starts an orchestration

    with request_span("POST", "v1/responses", {}) as request:
        taken = tracing.get_current_trace_context()
        request.answered(200)
    span = recorder.span("POST /v1/responses").context
    assert taken is not None
    assert taken.traceParent.startswith(f"00-{span.trace_id:032x}-{span.span_id:016x}-")


async def test_the_invocation_that_calls_an_attempt_is_linked(recorder: Recorder):
    store, clock = memory_store(), VirtualClock()
    with request_span("POST", "v1/responses", {}) as request:
        async with task_engine(store, clock=clock) as first:
            await hanging.start(input="x", task_id="t-link")
            await first.kill()
        request.answered(200)
    host = SpanContext(0x1234, 0x5678, is_remote=True, trace_flags=TraceFlags(1))
    async with task_engine(store, clock=clock) as second:
        await second.advance(timedelta(minutes=2))
        token = under(host)
        await second.recover()
        await second.settle()
        context.detach(token)
        await second.stop()
    links = recorder.named("task telemetry.hanging")[-1].links
    assert [link.context.span_id for link in links] == [0x5678]


async def test_without_a_request_an_attempt_is_a_child_of_what_calls_it(recorder: Recorder, engine: TestEngine):
    run = await plain.start(input="x")
    await engine.settle()
    await run.result()
    assert recorder.span("task telemetry.plain").parent is None


async def test_a_task_stores_no_trace_when_nothing_is_traced():
    assert "traceparent" not in await stored_input_fields()


async def test_a_task_stores_the_four_numbers_of_its_trace_and_nothing_else(recorder: Recorder):
    headers = {"tracestate": "vendor=SECRET", "baggage": "user=SECRET"}
    with request_span("POST", "v1/responses", headers) as request:
        stored = await stored_input_fields()
        request.answered(200)
    span = recorder.span("POST /v1/responses").context
    assert stored["traceparent"] == f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"
    assert set(stored) == {"input_id", "accepted_at", "traceparent"}


async def stored_input_fields() -> Mapping[str, Any]:
    async with task_engine() as engine:
        run = await hanging.start(input="x", task_id="t-stored")
        key = Key("default", run.task_id)
        (row,) = await engine_rows(engine.engine.store, key)
        await engine.kill()
    return row


async def engine_rows(store: Store, key: Key) -> list[Mapping[str, Any]]:
    from hosting.tasks._caller import current_scope

    key = Key(current_scope(), key.task_id)
    row = await store.get(key.partition, key.input_row(1))
    return [] if row is None else [row.fields]


@pytest.mark.parametrize(
    ("declared", "result", "error"), [(plain, "completed", None), (failing, "failed", "ValueError")]
)
async def test_an_attempt_says_how_it_ended(
    recorder: Recorder, engine: TestEngine, declared: Any, result: str, error: str | None
):
    await declared.start(input="SECRET")
    await engine.settle()
    recorded = recorder.span(f"task {declared.name}")
    assert attributes(recorded)["hosting.task.result"] == result
    assert attributes(recorded).get("error.type") == error
    assert (recorded.status.status_code is StatusCode.ERROR) == (error is not None)
    assert recorder.point("hosting.task.attempt.duration", hosting__task__result=result).count == 1
    assert "SECRET" not in recorder.everything()


async def test_a_retry_is_an_attempt_of_its_own(
    recorder: Recorder, engine: TestEngine, caplog: pytest.LogCaptureFixture
):
    run = await retried.start(input="x")
    await engine.advance(timedelta(seconds=10))
    await run.result()
    assert [attributes(span)["hosting.task.result"] for span in recorder.named("task telemetry.retried")] == [
        "retry",
        "completed",
    ]
    assert not recorder.points("hosting.task.recoveries")
    assert "SECRET" not in recorder.everything() + caplog.text


async def test_a_lost_lease_is_counted_and_is_an_error(recorder: Recorder):
    store, clock = memory_store(), VirtualClock()
    async with task_engine(store, clock=clock) as slow, task_engine(store, clock=clock) as other:
        slow.install()
        await hanging.start(input="x", task_id="t-lost")
        await slow.settle()
        slow._line.cut = True  # it goes on, and does not reach storage
        await clock.advance(200)
        await other.recover()
        await clock.settle()
        await clock.advance(30)
        lost = [
            span
            for span in recorder.named("task telemetry.hanging")
            if attributes(span)["hosting.task.result"] == "lease_lost"
        ]
        assert [attributes(span)["hosting.task.generation"] for span in lost] == [1]
        assert lost[0].status.status_code is StatusCode.ERROR
        assert recorder.point("hosting.task.lease_losses", hosting__task__name="telemetry.hanging").value == 1
        await other.kill()


async def test_the_time_before_the_first_attempt_is_measured_once(recorder: Recorder, engine: TestEngine):
    run = await retried.start(input="x")
    await engine.advance(timedelta(seconds=10))
    await run.result()
    point = recorder.point("hosting.task.queue_time", hosting__task__name="telemetry.retried")
    assert point.count == 1
    assert point.sum < 1


async def test_heartbeats_and_polls_are_no_spans(recorder: Recorder, engine: TestEngine):
    with request_span("POST", "v1/responses", {}) as request:
        run = await hanging.start(input="x", task_id="t-beat")
        waiting = asyncio.create_task(run.result())
        await engine.settle()
        before = len(recorder.spans)
        await engine.advance(timedelta(minutes=5))
        request.answered(200)
    assert len(recorder.spans) == before + 1
    waiting.cancel()


async def test_running_attempts_are_counted_up_and_down(recorder: Recorder, engine: TestEngine):
    await hanging.start(input="x", task_id="t-active")
    await engine.settle()
    assert recorder.point("hosting.task.active", hosting__task__name="telemetry.hanging").value == 1
    await engine.stop()
    assert recorder.point("hosting.task.active", hosting__task__name="telemetry.hanging").value == 0


async def test_the_scan_tells_how_many_inputs_have_not_ended(recorder: Recorder, engine: TestEngine):
    for number in range(3):
        await hanging.start(input="x", task_id=f"t-backlog-{number}")
    await engine.settle()
    await engine.recover()
    assert recorder.point("hosting.task.backlog").value == 3


async def test_a_backlog_that_another_process_looks_after_now_is_not_told(
    recorder: Recorder, engine: TestEngine, monkeypatch: pytest.MonkeyPatch
):
    await engine.recover()
    monkeypatch.setattr("hosting.telemetry._instruments.Backlog.STALE", -1.0)
    assert not recorder.points("hosting.task.backlog")


async def test_log_records_of_a_task_are_about_it(engine: TestEngine, caplog: pytest.LogCaptureFixture):
    run = await hanging.start(input="x", task_id="t-logs")
    with caplog.at_level("WARNING"):

        async def broken(*_: Any) -> None:
            raise ConnectionError("nobody is there")

        engine.engine.driver.ensure = broken  # type: ignore[method-assign]
        await hanging.start(input="x", task_id="t-logs-2")
    (record,) = caplog.records
    assert vars(record)["task"] == "t-logs-2"
    assert vars(record)["tenant"]
    assert run.task_id == "t-logs"
