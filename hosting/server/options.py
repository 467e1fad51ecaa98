"""ResponsesServerOptions: what an app decides about its Responses server, in code (the rest are app settings)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["CreateSpanHook", "ResponsesServerOptions"]


class CreateSpanHook(Protocol):
    """Observes the span of each create request."""

    def on_span_start(self, name: str, tags: Mapping[str, Any]) -> None:
        """A request was accepted. `tags` are the attributes of its span."""

    def on_span_end(self, name: str, tags: Mapping[str, Any], error: BaseException | None) -> None:
        """The request was answered, or failed with `error`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ResponsesServerOptions:
    """Options of the seed, with its defaults, and of the published package. ValueError for values that can't work."""

    resilient_background: bool = False
    """Run the handler again after a crash. Only for responses with `store` and `background`."""

    steerable_conversations: bool = False
    """Queue a turn behind the one that is running, instead of 409 `conversation_locked`."""

    default_fetch_history_count: int = 100
    """How many items `context.get_history()` gives at most, the newest ones; -1 is all of them."""

    sse_keep_alive_interval_seconds: float | None = None
    """Silence on a stream after which a comment is sent; None takes the app setting HOSTING_KEEP_ALIVE_SECONDS."""

    shutdown_grace_period_seconds: float = 10
    """How long a stopping process waits for the work that is going on. The platform may allow less."""

    default_model: str | None = None
    """The `model` of a response whose request names none; None takes the app setting HOSTING_DEFAULT_MODEL."""

    additional_server_version: str | None = None
    """Added to the header x-platform-server of every answer, such as "contoso-agents/1.4"."""

    create_span_hook: CreateSpanHook | None = None
    """Called at the beginning and at the end of each create request."""

    def __post_init__(self) -> None:
        # `not >` also refuses NaN.
        if self.sse_keep_alive_interval_seconds is not None and not self.sse_keep_alive_interval_seconds > 0:
            raise ValueError("sse_keep_alive_interval_seconds must be above 0, or None")
        if not self.shutdown_grace_period_seconds > 0:
            raise ValueError("shutdown_grace_period_seconds must be above 0")
        if self.default_fetch_history_count < -1:
            raise ValueError("default_fetch_history_count must be -1 (all) or more")
        if self.default_model is not None and not self.default_model.strip():
            raise ValueError("default_model must not be blank")
        if self.additional_server_version is not None and not _is_header_value(self.additional_server_version):
            raise ValueError("additional_server_version must be printable ASCII, and not blank")

    @property
    def history_limit(self) -> int | None:
        """default_fetch_history_count as a limit: None is none."""
        return None if self.default_fetch_history_count == -1 else self.default_fetch_history_count


def _is_header_value(value: str) -> bool:
    return bool(value.strip()) and value.isascii() and value.isprintable()
