"""Spans and measurements of storage calls, over both twins."""

import secrets
from collections.abc import AsyncIterator

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from hosting.storage import Insert, Replace, RowChanged, RowExists
from hosting.telemetry import sources
from tests.contract.storage_twins import TWINS, Twin, fresh, open_twin
from tests.telemetry_recorder import Recorder, recorder

__all__ = ["recorder"]

LONG = "SECRET" + secrets.token_hex(400_000)  # does not compress, so it spills


@pytest.fixture(params=TWINS)
async def twin(request: pytest.FixtureRequest) -> AsyncIterator[Twin]:
    async with open_twin(request.param, request) as opened:
        await opened.store.commit(fresh(), [Insert("warm-up", {}, {})])
        yield opened


def around(recorder: Recorder) -> trace.Span:
    return recorder.tracers.get_tracer("test").start_span("around")


async def test_a_call_below_a_span_is_a_client_span_inside_it(recorder: Recorder, twin: Twin):
    partition = fresh()
    with trace.use_span(around(recorder), end_on_exit=True):
        await twin.store.commit(partition, [Insert("r", {"a": 1}, {"d": "x"})])
        await twin.store.get(partition, "r")
        await twin.store.query(partition, "a", "z")
    outer = recorder.span("around").context.span_id
    inner = {span.name: span for span in recorder.spans if span.name != "around"}
    assert set(inner) == {"storage table.transact", "storage table.get", "storage table.query"}
    assert all(span.parent and span.parent.span_id == outer and span.kind is SpanKind.CLIENT for span in inner.values())


async def test_spilled_values_have_spans_too(recorder: Recorder, twin: Twin):
    partition = fresh()
    with trace.use_span(around(recorder), end_on_exit=True):
        await twin.store.commit(partition, [Insert("r", {}, {"d": LONG})])
        await twin.store.get(partition, "r")
        await twin.store.delete_range(partition, "a", "z")
    names = {span.name for span in recorder.spans}
    assert {"storage blob.put", "storage blob.get", "storage blob.delete"} <= names


async def test_a_call_that_belongs_to_nothing_is_measured_and_makes_no_span(recorder: Recorder, twin: Twin):
    await twin.store.get(fresh(), "r")
    assert not recorder.spans
    assert recorder.point("hosting.storage.duration", hosting__storage__operation="table.get").count == 1


async def test_a_conflict_is_an_answer_and_no_failure(recorder: Recorder, twin: Twin):
    partition = fresh()
    await twin.store.commit(partition, [Insert("r", {}, {})])
    with trace.use_span(around(recorder), end_on_exit=True):
        with pytest.raises(RowExists):
            await twin.store.commit(partition, [Insert("r", {}, {})])
        with pytest.raises(RowChanged):
            await twin.store.commit(
                partition, [Replace("r", {}, {}, "W/\"datetime'2020-01-01T00%3A00%3A00.0000000Z'\"")]
            )
    writes = recorder.named("storage table.transact")
    assert [(span.attributes or {})["error.type"] for span in writes] == ["RowExists", "RowChanged"]
    assert all(span.status.status_code is StatusCode.UNSET for span in writes)
    point = recorder.point("hosting.storage.duration", error__type="RowExists")
    assert point.count == 1


async def test_a_failure_is_one(recorder: Recorder, twin: Twin):
    with trace.use_span(around(recorder), end_on_exit=True):
        with pytest.raises(ValueError):
            await twin.tables.get("a/b", "r")
    recorded = recorder.span("storage table.get")
    assert recorded.status.status_code is StatusCode.ERROR
    assert not recorded.events
    assert (recorded.attributes or {})["error.type"] == "ValueError"


async def test_neither_keys_nor_values_are_recorded(recorder: Recorder, twin: Twin):
    partition = fresh("hidden")
    with trace.use_span(around(recorder), end_on_exit=True):
        await twin.store.commit(partition, [Insert("hiddenrow", {"f": "SECRET"}, {"d": LONG})])
        await twin.store.get(partition, "hiddenrow")
        await twin.store.query(partition, "hidden", "hiddenz")
        with pytest.raises(RowExists):
            await twin.store.commit(partition, [Insert("hiddenrow", {}, {})])
    said = recorder.everything()
    assert "hidden" not in said
    assert "SECRET" not in said


async def test_operations_are_counted_as_the_meter_counts_them(
    recorder: Recorder, twin: Twin, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sources, "_counts", [twin.store.meter.counts])
    await twin.store.commit(fresh(), [Insert("r", {"a": 1}, {"d": LONG})])
    meter = twin.store.meter
    for kind in ("table_reads", "table_writes", "blob_writes"):
        assert recorder.point("hosting.storage.operations", hosting__storage__kind=kind).value == getattr(meter, kind)
    assert recorder.point("hosting.storage.io", hosting__storage__direction="out").value == meter.bytes_out
