"""Traces, measurements and log fields. Everything in the house may import it; it imports nothing of the house.

It needs opentelemetry-api only, which does nothing until the process has providers: `hosting/functions/telemetry.py` sets
them when there are settings for it, and an app may set its own. docs/telemetry.md lists all names.
"""

from hosting.telemetry._attempt import AttemptSpan
from hosting.telemetry._context import detached, traceparent
from hosting.telemetry._describe import allow_content, content_allowed, describe, error_type
from hosting.telemetry._hook import HookedSpan, SpanHook, create_tags
from hosting.telemetry._log_fields import fields, log_about
from hosting.telemetry._request import RequestSpan, request_span
from hosting.telemetry._source import backlog, instruments, sources, swap_providers
from hosting.telemetry._storage import observed
from hosting.telemetry._turn import AGENT_FRAMEWORK, Turn, turn

__all__ = [
    "AGENT_FRAMEWORK",
    "AttemptSpan",
    "HookedSpan",
    "RequestSpan",
    "SpanHook",
    "Turn",
    "allow_content",
    "backlog",
    "content_allowed",
    "create_tags",
    "describe",
    "detached",
    "error_type",
    "fields",
    "instruments",
    "log_about",
    "observed",
    "request_span",
    "sources",
    "swap_providers",
    "traceparent",
    "turn",
]
