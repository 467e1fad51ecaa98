"""The span and the measurement of a request."""

import pytest
from opentelemetry import context, trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, StatusCode, TraceFlags

from hosting.telemetry import request_span, traceparent
from tests.telemetry_recorder import Recorder, recorder

__all__ = ["recorder"]

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ROUTE = "v1/responses/{response_id}"


def test_a_request_goes_on_with_the_trace_of_its_caller(recorder: Recorder):
    with request_span("GET", ROUTE, {"traceparent": CALLER}) as span:
        inside = traceparent()
        span.answered(200)
    recorded = recorder.span(f"GET /{ROUTE}")
    assert recorded.parent is not None
    assert f"{recorded.parent.trace_id:032x}" == CALLER[3:35]
    assert f"{recorded.parent.span_id:016x}" == CALLER[36:52]
    assert recorded.kind is SpanKind.SERVER
    assert inside == f"00-{CALLER[3:35]}-{recorded.context.span_id:016x}-01"


def test_a_request_that_the_host_has_a_span_for_is_a_step_inside_that(recorder: Recorder):
    host = SpanContext(0x1234, 0x5678, is_remote=True, trace_flags=TraceFlags(1))
    token = context.attach(trace.set_span_in_context(NonRecordingSpan(host)))
    try:
        with request_span("GET", ROUTE, {"traceparent": CALLER}) as span:
            span.answered(200)
    finally:
        context.detach(token)
    recorded = recorder.span(f"GET /{ROUTE}")
    assert recorded.parent is not None
    assert (recorded.parent.trace_id, recorded.parent.span_id) == (0x1234, 0x5678)
    assert recorded.kind is SpanKind.INTERNAL


@pytest.mark.parametrize(
    "given", ["", "garbage", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "00-x" + CALLER, "é" * 4000]
)
def test_a_malformed_traceparent_begins_a_trace_of_its_own(recorder: Recorder, given: str):
    with request_span("GET", ROUTE, {"traceparent": given}) as span:
        span.answered(200)
    assert recorder.span(f"GET /{ROUTE}").parent is None


def test_a_path_without_a_route_is_not_recorded(recorder: Recorder):
    with request_span("GET", None, {}) as span:
        span.answered(404)
    assert "http.route" not in (recorder.span("GET").attributes or {})
    assert "http.route" not in dict(recorder.point("hosting.request.duration").attributes)


def test_an_invented_method_is_not_recorded(recorder: Recorder):
    with request_span("S3CRET", ROUTE, {}) as span:
        span.answered(405)
    assert "S3CRET" not in recorder.everything()
    assert recorder.point("hosting.request.duration", http__request__method="_OTHER").count == 1


@pytest.mark.parametrize(
    ("status", "code"), [(200, StatusCode.UNSET), (404, StatusCode.UNSET), (503, StatusCode.ERROR)]
)
def test_only_a_failure_of_ours_is_an_error(recorder: Recorder, status: int, code: StatusCode):
    with request_span("GET", ROUTE, {}) as span:
        span.answered(status, "req_1")
    recorded = recorder.span(f"GET /{ROUTE}")
    assert recorded.status.status_code is code
    assert dict(recorded.attributes or {})["http.response.status_code"] == status
    assert dict(recorded.attributes or {})["hosting.request_id"] == "req_1"


def test_whose_request_it_was_is_on_its_span_and_in_no_measurement(recorder: Recorder):
    with request_span("GET", ROUTE, {}) as span:
        span.asked_by("0123")
        span.answered(429)
    assert dict(recorder.span(f"GET /{ROUTE}").attributes or {})["hosting.tenant"] == "0123"
    assert "hosting.tenant" not in dict(recorder.point("hosting.request.duration").attributes or {})


def test_a_request_is_measured_by_route_and_status_and_never_by_id(recorder: Recorder):
    with request_span("GET", ROUTE, {"traceparent": CALLER}) as span:
        span.answered(200, "req_1")
    assert dict(recorder.point("hosting.request.duration").attributes) == {
        "http.request.method": "GET",
        "http.route": f"/{ROUTE}",
        "http.response.status_code": 200,
    }


def test_a_header_other_than_traceparent_is_not_recorded(recorder: Recorder):
    headers = {"authorization": "Bearer sk-SECRET", "tracestate": "vendor=SECRET", "baggage": "user=SECRET"}
    with request_span("GET", ROUTE, {"traceparent": CALLER, **headers}) as span:
        span.answered(200)
    assert "SECRET" not in recorder.everything()


def test_without_a_provider_nothing_is_current_inside_a_request():
    with request_span("GET", ROUTE, {"traceparent": CALLER}) as span:
        assert traceparent() is None
        span.answered(200)
