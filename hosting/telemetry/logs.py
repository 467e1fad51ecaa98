"""From Python's logging to OpenTelemetry logs. Why not the handler of opentelemetry-instrumentation-logging: it exports the
messages and tracebacks of exceptions, which may quote a user."""

import logging
from typing import Any

from opentelemetry._logs import LoggerProvider, SeverityNumber

from hosting.telemetry._describe import content_allowed, describe, error_type
from hosting.telemetry._log_fields import current_fields

__all__ = ["LogHandler"]

_SEVERITY = (
    (logging.CRITICAL, SeverityNumber.FATAL, "FATAL"),
    (logging.ERROR, SeverityNumber.ERROR, "ERROR"),
    (logging.WARNING, SeverityNumber.WARN, "WARN"),
    (logging.INFO, SeverityNumber.INFO, "INFO"),
    (logging.NOTSET, SeverityNumber.DEBUG, "DEBUG"),
)
_OWN = {*vars(logging.LogRecord("", 0, "", 0, "", (), None)), "message", "asctime", "taskName"}
# What an export logs must not be exported: it would go round and round.
_EXPORTERS = ("opentelemetry", "azure.monitor", "azure.core", "azure.identity", "msal", "urllib3", "requests")


class LogHandler(logging.Handler):
    """Attach it to the root logger. A record becomes its message, what it is about, and `extra=` fields that are scalars."""

    def __init__(self, provider: LoggerProvider, level: int = logging.INFO) -> None:
        super().__init__(level)
        self._provider = provider

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith(_EXPORTERS):
            return
        try:
            number, text = next((number, text) for level, number, text in _SEVERITY if record.levelno >= level)
            self._provider.get_logger(record.name).emit(
                timestamp=int(record.created * 1e9),
                severity_number=number,
                severity_text=text,
                body=record.getMessage(),
                attributes=_attributes(record),
            )
        except Exception:
            self.handleError(record)


def _attributes(record: logging.LogRecord) -> dict[str, Any]:
    attributes: dict[str, Any] = dict(current_fields())
    attributes |= {
        name: value
        for name, value in vars(record).items()
        if name not in _OWN and isinstance(value, str | int | float | bool)
    }
    error = record.exc_info[1] if record.exc_info else None
    if error is not None:
        attributes["exception.type"] = error_type(error)
        attributes["exception.stacktrace"] = describe(error)
        if content_allowed():
            attributes["exception.message"] = str(error)
    return attributes
