"""Gives the process its OpenTelemetry providers, when there are settings that say where telemetry goes; else does nothing.

    APPLICATIONINSIGHTS_CONNECTION_STRING            to Application Insights
    OTEL_EXPORTER_OTLP_ENDPOINT                      to a collector
    OTEL_TRACES_EXPORTER and so on = console         to the terminal

The packages for it are in requirements-telemetry.txt, not in requirements.txt, and are imported only if such a setting is
there: an app that does not export pays nothing for it. docs/telemetry.md says how the host is told.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from opentelemetry import metrics, trace

from hosting.revision import revision
from hosting.telemetry import allow_content, describe

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.sampling import Sampler

__all__ = ["set_up_telemetry"]

_log = logging.getLogger(__name__)

_AZURE = "azure_monitor_opentelemetry_exporter"
_OTLP = ("otlp_proto_http", "otlp_proto_grpc")
_FLUSH_SECONDS = 5.0

type Flush = Callable[[], Awaitable[None]]


def set_up_telemetry(env: Mapping[str, str], *, development: bool) -> Flush:
    """Read the settings in `env` and set up what they ask for. Returns what to await before the process ends.

    `development`: this is a developer's machine, where logs may say what exceptions say; so they may with
    `ENABLE_SENSITIVE_DATA=true`, which also makes agent-framework export prompts and answers. Never raises: an app without
    telemetry is better than none.
    """
    allow_content(development or _true(env, "ENABLE_SENSITIVE_DATA"))
    providers: list[Any] = []

    async def flush() -> None:
        milliseconds = int(_FLUSH_SECONDS * 1000)
        async with asyncio.timeout(_FLUSH_SECONDS):
            await asyncio.gather(*(asyncio.to_thread(provider.force_flush, milliseconds) for provider in providers))

    azure = bool(env.get("APPLICATIONINSIGHTS_CONNECTION_STRING"))
    if azure and not _installed("azure.monitor.opentelemetry.exporter"):
        azure = False
        if _true(env, "PYTHON_ENABLE_OPENTELEMETRY"):  # then the host leaves the logs of this process to it
            _log.error("Application Insights gets nothing of this app: requirements-telemetry.txt is not installed")
    chosen = {signal: _exporters(env, signal, azure=azure) for signal in ("traces", "metrics", "logs")}
    if not any(chosen.values()) or _true(env, "OTEL_SDK_DISABLED"):
        return flush
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        _log.info("OpenTelemetry has been set up already, by the worker or by the app: it is left as it is")
        return flush
    try:
        _set_up(env, chosen, providers)
    except Exception as error:  # without its message, which may hold a connection string
        _log.error("Telemetry could not be set up: %s", describe(error))
    return flush


def _true(env: Mapping[str, str], name: str) -> bool:
    return env.get(name, "").strip().lower() in ("true", "1", "yes")


def _installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def _exporters(env: Mapping[str, str], signal: str, *, azure: bool) -> list[str]:
    """Names of the exporters of a signal, as packages declare them (entry points `opentelemetry_<signal>_exporter`)."""
    asked = [name.strip() for name in env.get(f"OTEL_{signal.upper()}_EXPORTER", "").split(",") if name.strip()]
    if "none" in asked:
        return []
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT")
    if not asked and any(env.get(name) for name in endpoints):
        asked = ["otlp"]
    protocol = env.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL") or env.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    otlp = _OTLP[protocol == "grpc"]
    names = [otlp if name == "otlp" else name for name in asked]
    # Unless it has been told that the worker speaks OpenTelemetry, the host sends the worker's log lines itself.
    twice = signal == "logs" and not _true(env, "PYTHON_ENABLE_OPENTELEMETRY")
    if azure and not twice:
        names.append(_AZURE)
    return names


def _load(signal: str, names: list[str]) -> list[Any]:
    from importlib.metadata import entry_points

    exporters: list[Any] = []
    for name in names:
        found = list(entry_points(group=f"opentelemetry_{signal}_exporter", name=name))
        if found:
            exporters.append(found[0].load()())
        else:
            # Of a name that is none of ours nothing is repeated: a connection string may have been pasted there.
            where = name if name in (*_OTLP, _AZURE, "console") else "what its setting names"
            _log.warning("No package exports %s to %s: install requirements-telemetry.txt", signal, where)
    return exporters


def _set_up(env: Mapping[str, str], chosen: Mapping[str, list[str]], providers: list[Any]) -> None:
    loaded = {signal: _load(signal, names) for signal, names in chosen.items()}
    if not any(loaded.values()):
        return
    from opentelemetry.sdk.resources import Resource

    resource = Resource.create(_attributes(env))
    if loaded["traces"]:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        tracers = TracerProvider(sampler=_sampler(env, azure=_AZURE in chosen["traces"]), resource=resource)
        for exporter in loaded["traces"]:
            tracers.add_span_processor(BatchSpanProcessor(exporter))
        trace.set_tracer_provider(tracers)
        providers.append(tracers)
    if loaded["metrics"]:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

        meters = MeterProvider([PeriodicExportingMetricReader(exporter) for exporter in loaded["metrics"]], resource)
        metrics.set_meter_provider(meters)
        providers.append(meters)
    if loaded["logs"]:
        from opentelemetry._logs import set_logger_provider
        from opentelemetry.sdk._logs import LoggerProvider
        from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

        from hosting.telemetry.logs import LogHandler

        loggers = LoggerProvider(resource=resource)
        for exporter in loaded["logs"]:
            loggers.add_log_record_processor(BatchLogRecordProcessor(exporter))
        set_logger_provider(loggers)
        logging.getLogger().addHandler(LogHandler(loggers))
        providers.append(loggers)


def _attributes(env: Mapping[str, str]) -> dict[str, str]:
    """Who this is: Application Insights shows them as role and role instance, the same as the host's."""
    attributes: dict[str, str] = {}
    if not env.get("OTEL_SERVICE_NAME"):
        attributes["service.name"] = env.get("WEBSITE_SITE_NAME") or "durable-agents"
    if instance := env.get("WEBSITE_INSTANCE_ID"):
        attributes["service.instance.id"] = instance
    if known := revision():
        attributes["service.version"] = known
    return attributes


_HOST_SAMPLERS = frozenset({"microsoft.fixed_percentage", "microsoft.rate_limited"})
"""Values of OTEL_TRACES_SAMPLER that are for the Functions host. The Python SDK does not know them."""


def _sampler(env: Mapping[str, str], *, azure: bool) -> "Sampler | None":
    """None is the SDK's choice, by OTEL_TRACES_SAMPLER.

    Not its default, which drops whatever its remote parent has not sampled: the Functions host in its own telemetry mode
    marks no request as sampled, and no caller shall decide whether we see what it does.
    """
    chosen = env.get("OTEL_TRACES_SAMPLER", "")
    if chosen and chosen not in _HOST_SAMPLERS:
        return None
    # The host's second sampler takes a rate for its argument, and ours a share.
    share = (chosen != "microsoft.rate_limited" and env.get("OTEL_TRACES_SAMPLER_ARG")) or "1"
    if azure:
        from importlib.metadata import entry_points

        # The exporter's own sampler also says of how many spans a kept one is one, so that counts come out right.
        (own,) = entry_points(group="opentelemetry_traces_sampler", name="azure_monitor_opentelemetry_sampler")
        return own.load()(share)
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

    root = TraceIdRatioBased(float(share))
    return ParentBased(root, remote_parent_not_sampled=root)
