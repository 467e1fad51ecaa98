"""Records what the app would export: spans, measurements and logs, in memory."""

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hosting.telemetry import swap_providers

__all__ = ["Recorder", "recorder"]


class Recorder:
    """Providers of its own. The measurements are totals since it was made."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self._reader = InMemoryMetricReader()
        self.meters = MeterProvider([self._reader])

    @property
    def spans(self) -> list[ReadableSpan]:
        """Those that have ended, in that order."""
        return list(self._spans.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def span(self, name: str) -> ReadableSpan:
        """The only one with this name."""
        (found,) = self.named(name)
        return found

    def points(self, name: str) -> list[Any]:
        """The data points of an instrument."""
        data = self._reader.get_metrics_data()
        if data is None:
            return []
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics]
        metrics = [metric for scope in scopes for metric in scope.metrics if metric.name == name]
        return [point for metric in metrics for point in metric.data.data_points]

    def point(self, name: str, **attributes: str) -> Any:
        """The only data point with these attributes; two underscores stand for a dot."""
        wanted = {key.replace("__", "."): value for key, value in attributes.items()}
        (found,) = [point for point in self.points(name) if wanted.items() <= dict(point.attributes).items()]
        return found

    def instruments(self) -> set[str]:
        """All that have measured something."""
        data = self._reader.get_metrics_data()
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics] if data else []
        return {metric.name for scope in scopes for metric in scope.metrics}

    def everything(self) -> str:
        """All that was recorded, as text: to look for what must not be in it."""
        data = self._reader.get_metrics_data()
        return "\n".join(span.to_json() for span in self.spans) + (data.to_json() if data else "")

    def shutdown(self) -> None:
        self.tracers.shutdown()
        self.meters.shutdown()


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    made = Recorder()
    undo = swap_providers(made.tracers, made.meters)
    yield made
    undo()
    made.shutdown()
