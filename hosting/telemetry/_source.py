"""Which tracer and which instruments are in use: those of the process's OpenTelemetry providers, which may come later."""

from collections.abc import Callable

from opentelemetry import metrics, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Tracer, TracerProvider

from hosting.telemetry._instruments import Backlog, Instruments, Sources

__all__ = ["backlog", "instruments", "sources", "swap_providers", "tracer", "tracing"]

_SCOPE = "hosting"

sources, backlog = Sources(), Backlog()
# Both are proxies: they find the global provider once somebody has set one, before or after this import.
_tracer = trace.get_tracer(_SCOPE)
_instruments = Instruments(metrics.get_meter(_SCOPE), sources, backlog)
_swapped: bool = False


def tracer() -> Tracer:
    return _tracer


def instruments() -> Instruments:
    return _instruments


def tracing() -> bool:
    """Whether somebody has set a tracer provider: without one, building attributes is not worth it."""
    return _swapped or not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def swap_providers(traces: TracerProvider, measurements: MeterProvider) -> Callable[[], None]:
    """Use these in the place of the global ones, which can be set only once a process; call what is returned to undo it.
    For tests."""
    global _tracer, _instruments, _swapped
    before = _tracer, _instruments, _swapped

    def undo() -> None:
        global _tracer, _instruments, _swapped
        _tracer, _instruments, _swapped = before

    _tracer, _swapped = traces.get_tracer(_SCOPE), True
    _instruments = Instruments(measurements.get_meter(_SCOPE), sources, backlog)
    return undo
